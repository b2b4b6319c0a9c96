#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/layout/device_graphs.h"
#include "ramet/transform/step_graph.h"

namespace ramet::tests {

using Tensors = std::map<std::string, HostTensor>;
/// Data and scalar inputs of a micro-batch, by name.
using FeedOf = std::function<const Tensors&(int64_t micro)>;

/// Runs training steps straight from a StepGraph, node by node, on one device: what every layout must agree with.
class PlainMachine {
 public:
  PlainMachine(const StepGraph& step, Tensors weights);
  void run_step(int64_t number, const FeedOf& feed, const Tensors& scalars);
  void derive();
  const Tensors& states() const { return states_; }
  const Tensors& results() const { return results_; }

 private:
  const StepGraph& step_;
  Tensors states_, results_;
};

/// Runs partitioned steps on all devices at once, a node at a time, with collectives done in plain loops: neither
/// compiler nor runtime, so that partitioning is tested alone.
class LockstepMachine {
 public:
  LockstepMachine(const DeviceGraphs& graphs, const Tensors& weights);
  void run_step(int64_t number, const FeedOf& feed, const Tensors& scalars);
  void prepare();
  /// Every logical state, put together from its pieces; accumulators and derived states are left out. Replicas that
  /// hold the same piece must agree.
  Tensors states() const;
  const Tensors& results() const { return results_; }

 private:
  struct Device {
    Mesh::Position position;
    Tensors states, boundaries;
  };
  /// A piece on its way on all devices of a stage.
  struct Run {
    const Piece* piece;
    std::vector<size_t> devices;
    std::vector<std::vector<HostTensor>> values;  // by device, by value
    NodeId next = 0;
  };
  void run_piece(const Piece& piece, int stage, const std::function<Tensors(const Device&)>& feeds);
  Run begin(const Piece& piece, int stage, const std::function<Tensors(const Device&)>& feeds) const;
  /// Goes on to the end (true), or to a collective among stages (false).
  bool advance(Run& run);
  void run_node(Run& run, NodeId id);
  void finish(Run& run);
  /// All stages' updates, which meet in collectives among stages.
  void run_updates(const Tensors& scalars);
  void exchange_stages(std::vector<Run>& runs);
  std::vector<HostTensor> exchange(const NodeSignature& node, const std::vector<size_t>& members,
                                   const std::vector<HostTensor>& inputs) const;
  const Piece* find(int stage, PieceKind kind, int part) const;

  const DeviceGraphs& graphs_;
  std::vector<Device> devices_;
  Tensors results_;
};

}  // namespace ramet::tests
