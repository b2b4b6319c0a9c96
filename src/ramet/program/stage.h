#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ramet/layout/device_graphs.h"

namespace ramet::program {

/// One piece for one micro-batch.
struct StageRun {
  PieceKind kind = PieceKind::kForward;
  int chunk = 0;
  int64_t micro = 0;
};

/// A boundary as one stage sees it.
struct StageBoundary {
  Boundary boundary;
  int32_t tag = 0;  ///< the same on all stages
  /// Made and read by the table's runs, by micro-batch, so that no stage waits for another's memory. Of one that comes
  /// from another stage: the run (index in Stage::row) before which there must be room for it, the first that begins
  /// after it was made. Of one that goes to others: the last run that begins before it has left. Empty elsewhere.
  std::vector<int32_t> arrives, leaves;
};

/// What one device does in a step, before anything has an order or an address. All devices of a stage do the same.
struct Stage {
  Mesh mesh;
  int index = 0;  ///< which stage
  bool phased =
      false;  ///< every run of equal pieces in `row` is a region of its own, and derived states live in regions only
  bool ahead = true;  ///< states that stream come while the region before runs, and leave while the one after does
  int64_t lanes = 1, micro_batches_per_lane = 1;
  std::vector<LocalState> states;
  std::vector<Piece> pieces;
  std::vector<StageBoundary> boundaries;  ///< those that it writes or reads
  std::vector<StageRun> row;              ///< of training: which piece runs for which micro-batch, in order
  std::vector<DeviceProgram> programs;    ///< beside training
  std::vector<std::string> guards;        ///< StepGraph::guards
  /// With phases: for each piece, the pieces of kind kPrepare that derive what it reads (split_prepare).
  std::vector<std::vector<int32_t>> prepared_by;
};

/// The one stage of a step that is not partitioned. Graphs in which nothing happens are left out.
Stage single_stage(StepGraph step);
/// The stages of a partitioned step.
std::vector<Stage> stages_of(const DeviceGraphs& graphs);
/// For phases: takes pieces that derive states apart into one for each piece that reads them, which makes no more than
/// that one needs; fills `prepared_by`.
void split_prepare(Stage& stage);

/// A part of the timeline: segments in it run in any order of time, one at a time, so that what lives inside one shares
/// memory with what lives inside another, and what goes from one to another lives for the whole region.
struct Region {
  std::vector<int32_t> segments;    ///< once each, in the order in which they stand on the timeline
  int32_t program = 0;              ///< index in Executable::programs
  int32_t first_run = 0, runs = 0;  ///< in RegionPlan::runs
  int32_t first = 0, last = 0;      ///< instants; at `last` all segments have ended and lanes are combined
};

/// Which segments there are, where, and in which order they run.
struct RegionPlan {
  struct Source {
    int32_t piece = 0, region = 0;
  };
  struct Run {
    int32_t segment = 0, micro = -1, region = 0;
  };
  std::vector<Source> segments;
  std::vector<Region> regions;  ///< those of training in order, then program by program those of the others
  std::vector<Run> runs;        ///< region by region, in order of time
  int32_t train_runs = 0;       ///< how many of them are training

  /// Regions [first, second) of a program.
  std::pair<int32_t, int32_t> regions_of(int32_t program) const;
  /// Runs [first, second) of a program.
  std::pair<int32_t, int32_t> runs_of(int32_t program) const;
};

/// Without phases, training is one region, then each update piece is one, then comes what derives states; then each
/// program that reads data is one, and each piece of one that reads none. With phases, each run of equal pieces in the
/// row is one (or of pieces that take turns, as those of the last phase may), with what derives their states before
/// them, and so is each piece of a program.
RegionPlan plan_regions(const Stage& stage);

}  // namespace ramet::program
