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
  int part = 0;
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

/// The work of one device in a step, before nodes have an order and buffers an address. All devices of a stage do the
/// same.
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
  /// With phases: for each piece, the pieces of kind kPrepare that compute the derived states which it reads
  /// (split_prepare).
  std::vector<std::vector<int32_t>> prepared_by;
};

/// The one stage of a step that is not partitioned. Graphs in which nothing happens are left out.
Stage single_stage(StepGraph step);
/// The stages of a partitioned step.
std::vector<Stage> stages_of(const DeviceGraphs& graphs);
/// For phases: takes pieces that derive states apart into one for each piece that reads them, which makes no more than
/// that one needs; fills `prepared_by`.
void split_prepare(Stage& stage);

/// A stretch of the timeline. Its segments run one at a time, in any order. So values inside one segment share memory
/// with values inside another, and a value that goes from one segment to another lives for the whole region.
struct Region {
  std::vector<int32_t> segments;    ///< once each, in the order in which they stand on the timeline
  int32_t program = 0;              ///< index in Executable::programs
  int32_t first_run = 0, runs = 0;  ///< in Timeline::runs
  int32_t first = 0, last = 0;      ///< instants; at `last` all segments have ended and lanes are combined
};

/// Segments, the regions that they are in, and the order in which they run.
struct Timeline {
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

/// Without phases, training is one region; then come a region for each update piece, one for the pieces that derive
/// states, one for each program that reads data, and one for each piece of a program that reads none. With phases, each
/// run of equal pieces in the row is a region (or of pieces that take turns, as those of the last phase may), together
/// with the pieces that derive their states; and each piece of a program is a region.
Timeline make_timeline(const Stage& stage);

}  // namespace ramet::program
