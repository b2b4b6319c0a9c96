#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ramet/layout/layout.h"
#include "ramet/layout/piece_kind.h"
#include "ramet/layout/schedule_table.h"
#include "ramet/layout/sharding.h"
#include "ramet/transform/step_graph.h"

namespace ramet::layout {

/// Where a state is at home. One that lives in streaming memory is brought into device memory for the regions that use
/// it.
enum class HomeMemory : uint8_t { kDevice, kStreaming };

/// A state as one stage holds it: `tensor` has the logical name and the local type.
struct LocalState {
  StateTensor tensor;
  Sharding sharding;
  HomeMemory home = HomeMemory::kDevice;
};

PieceKind piece_of(Pass pass);
/// The inverse; nothing for a kind that is no pass of training.
std::optional<Pass> pass_of(PieceKind kind);

/// A part of the step that runs in one go on one device.
struct Piece {
  Graph graph;
  PieceKind kind = PieceKind::kForward;
  int part = 0;      ///< of the model; kUpdate: its place in the order of updates
  int program = -1;  ///< kProgram: index in DeviceGraphs::programs
  int place = 0;     ///< kProgram: in the order in which a micro-batch meets the pieces of the program
  std::map<std::string, Sharding> results{};  ///< how results lie that a device holds a part of only
  std::map<std::string, Sharding> feeds{};    ///< the same of data inputs
};

/// A named program beside training, cut over the devices.
struct DeviceProgram {
  std::string name;
  When when;
  /// Micro-batches of a replica that are in one run of the program's list of steps; runs follow one another without a
  /// pause. What changes states does one at a time.
  int64_t width = 1;
  bool writes_states = false;  ///< then all replicas do every micro-batch, each by itself
  bool prepares = false;       ///< writes states that derived ones may come from
  bool reads_data = false;
};

/// A value that goes from one piece to others, by its name: an output of role kBoundary in one graph, inputs of role
/// kBoundary in others, with one type. Each micro-batch has its own, except those that update pieces make, which exist
/// once a step. A reader on another stage gets it from the writer's device with the same
/// coordinates in r, t1 and t2.
struct Boundary {
  std::string name;
  TensorType type;
  int stage = 0;             ///< of the writer
  std::vector<int> readers;  ///< stages, ascending, once each; the writer's own among them where it reads it too
  HomeMemory home = HomeMemory::kDevice;  ///< where the value waits between its writer and its readers on a stage
};

/// The graphs that all devices of one stage run (SPMD over r, t1 and t2).
struct StageGraphs {
  std::vector<LocalState> states;
  std::vector<Piece> pieces;  ///< each (kind, part, program, place) at most once; without nodes where there is nothing
                              ///< to do
};

/// A step partitioned over a mesh: collectives and transfers are explicit, and every shape depends on the layout
/// alone. A training step on a device of stage s is:
///  - prepare: every piece of kind kPrepare (derived states from weights; once at the start, and after each update)
///  - the entries of `table[s]` in order, each one piece for one micro-batch. Accumulators are as in StepGraph, over
///    this replica's lanes. In each part's backward (or weight-gradient) pass, micro-batches come in order, so each
///    part keeps its own count of lanes.
///  - combine lanes, then the update pieces in order
/// A program of `programs` runs its pieces in the order of their places, each for all micro-batches at hand.
/// With phases (layout.phases > 1) the table is phase by phase: each run of entries of one pass and part is a region.
/// Derived states and accumulators of a part live in its regions only; they are prepared and zeroed at the start of a
/// region.
struct DeviceGraphs {
  Layout layout;
  Mesh mesh;
  int64_t lanes = 1, micro_batches_per_lane = 1;  ///< of one replica
  int parts = 1;                                  ///< of the model, over all stages
  std::vector<int> stage_of_part;
  std::vector<int> part_of_layer;  ///< of the model; empty where there is one part
  std::vector<DeviceProgram> programs;
  std::vector<std::string> guards;  ///< StepGraph::guards
  std::vector<StageGraphs> stages;
  std::vector<Boundary> boundaries;
  ScheduleTable table;  ///< training, one row a stage
  PassTimes times;      ///< of its passes, in forward passes of an average stage, by their work; may be left out
};

/// Verifies graphs, states and boundaries: names and types agree, every boundary has one writer and is written before
/// it is read in every stage's order, and collectives of the same group stand in the same order on all its members.
void verify(const DeviceGraphs& graphs, const std::string& after);
std::string print(const DeviceGraphs& graphs);

}  // namespace ramet::layout
