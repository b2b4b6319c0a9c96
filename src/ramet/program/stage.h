#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ramet/layout/piece_kind.h"
#include "ramet/transform/step_graph.h"

namespace ramet {

/// A piece of the step as the compiler works on it: it becomes one segment of the program, or one in each region that runs it.
struct StagePiece {
  Graph graph;
  PieceKind kind = PieceKind::kForward;
  int chunk = 0;
};

/// One piece for one micro-batch.
struct StageRun {
  PieceKind kind = PieceKind::kForward;
  int chunk = 0;
  int64_t micro = 0;
};

/// What one device does in a step, before anything has an order or an address. All devices of a stage do the same.
struct Stage {
  std::vector<StateTensor> states;
  std::vector<StagePiece> pieces;
  std::vector<StageRun> row;  ///< of training: which piece runs for which micro-batch, in order
  int64_t lanes = 1, micro_batches_per_lane = 1;
};

/// The one stage of a step that is not partitioned. Graphs in which nothing happens are left out.
Stage single_stage(StepGraph step);

/// A part of the timeline: segments in it run in any order of time, one at a time, so that what lives inside one shares memory
/// with what lives inside another, and what goes from one to another lives for the whole region.
struct Region {
  struct Run {
    int32_t segment = 0, micro = -1;
  };
  std::vector<int32_t> segments;  ///< once each, in the order in which they stand on the timeline
  std::vector<Run> runs;          ///< in order of time
  bool evaluation = false;        ///< of the program `evaluate`
  int32_t first = 0, last = 0;    ///< instants; at `last` all segments have ended and lanes are combined
};

/// Which segments there are, and where.
struct RegionPlan {
  struct Source {
    int32_t piece = 0, region = 0;
  };
  std::vector<Source> segments;
  std::vector<Region> regions;  ///< those of training in order, then those of evaluation
};

/// Training is one region, then each update piece is one, then comes what derives states; then evaluation.
RegionPlan plan_regions(const Stage& stage);

}  // namespace ramet
