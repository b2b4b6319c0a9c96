#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ramet/layout/mesh.h"
#include "ramet/layout/pipeline_parts.h"
#include "ramet/machine/machine.h"
#include "ramet/transform/step_graph.h"

namespace ramet::plan {

/// The cost of a part of a model (a layer, or all nodes before or behind the layers) for one device and one
/// micro-batch.
struct PartWork {
  double forward = 0, backward = 0;  ///< seconds
  double cheap = 0;                  ///< of `forward`: what recompute=cheap repeats
  double products = 0;               ///< seconds of all its matrix products at their types' peak rates
  double kept = 0;                   ///< bytes that the backward pass reads of the forward pass
  double kept_cheap = 0;             ///< the same without what recompute=cheap repeats
  double entering = 0;               ///< bytes that come from the part before
  double largest_node = 0;           ///< bytes that one node reads and writes beside states
};

/// Bytes of the states of a part on one device, by StateKind.
using StateBytes = std::array<double, kStateKindCount>;

/// The planner's knowledge of a training step on a machine before it compiles one: the work and the states of its
/// layers. Parts are the layers in order, then the nodes before them, then the nodes behind.
class ModelProfile {
 public:
  /// `decided`: after all passes that decide bits.
  ModelProfile(const StepGraph& decided, const Machine& machine);

  int layers() const { return static_cast<int>(costs_.layers.size()); }
  size_t before() const { return costs_.layers.size(); }
  size_t behind() const { return costs_.layers.size() + 1; }
  const std::vector<PartWork>& parts() const { return parts_; }
  const PartWork& part(size_t index) const { return parts_[index]; }
  const LayerCosts& costs() const { return costs_; }  ///< as the partitioner cuts by
  double update_seconds() const { return update_seconds_; }
  double products() const;  ///< of all parts together
  /// States of all parts, with tensor shards cutting what can be cut. Replicas share nothing here.
  std::vector<StateBytes> states(const Mesh& mesh) const;

 private:
  struct State {
    StateTensor tensor;
    StateKind kind;      ///< whose place in a layout it takes
    std::string weight;  ///< that it belongs to
    size_t part = 0;
  };
  void place_nodes(const Graph& micro);
  void measure(const Graph& micro, const Machine& machine);
  void find_kept(const Graph& micro);
  void place_states(const StepGraph& step);

  LayerOrder model_parts_;
  TensorAxes axes_;
  LayerCosts costs_;
  std::vector<PartWork> parts_;
  std::vector<size_t> part_of_node_;  ///< of the micro graph
  std::vector<State> states_;
  std::vector<bool> late_;  ///< nodes of the micro graph behind the forward pass
  double update_seconds_ = 0;
};

}  // namespace ramet::plan
