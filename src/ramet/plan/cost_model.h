#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ramet/machine/machine.h"
#include "ramet/machine/network.h"
#include "ramet/plan/profile.h"
#include "ramet/plan/search_space.h"

namespace ramet::plan {

/// Lower bounds on the cost of a layout, whatever the compiler makes of it.
struct LowerBound {
  double seconds = 0;  ///< of a step
  double bytes = 0;    ///< of device memory, on the fullest device
  StateBytes held{};   ///< what they are
  /// "weights 1.2 GiB, optimizer 2.4 GiB"
  std::string holds() const;
};

/// The estimated cost of a layout.
struct CostEstimate {
  double seconds = 0, bytes = 0;
};

/// What bounds of time are multiplied by: 1 on a machine of datasheet figures. On a machine whose tasks were measured,
/// or whose devices share processors, 0.7: the peak rate is there that of the fastest product that was timed, and
/// another one may be faster. 0.7 is a margin that we chose. What it rules out is slower beyond doubt by that margin;
/// it is no proof.
double bound_margin(const Machine& machine);

/// Times and sizes of layouts without compiling them.
///
/// Bounds hold for every compiled and simulated program, those of time on measured machines by a margin (bound_margin):
/// - memory: some stage has 1/p of all states and as many layers as any even cut gives its fullest part, and holds at
///   once its shard of every state that is not streamed;
/// - time: some stage does 1/p of all matrix products, at the device's peak rate at best; and in a pipeline either the
///   last stage or the others are the busiest, while the last stage waits for the first micro-batch and the others for
///   the last gradient.
/// Estimates take seconds of nodes at the machine's rates, cut evenly by t; collectives on an idle network; streaming
/// beside the work; a bubble as of equal micro-batches; and the memory of what the layout keeps.
class CostModel {
 public:
  /// One profile a batch split of the space.
  CostModel(const SearchSpace& space, std::vector<ModelProfile> profiles, const Machine& machine);

  LowerBound bound(const Candidate& candidate);
  CostEstimate estimate(const Candidate& candidate);
  /// The candidate with one layer moved from a pipeline stage that is short of memory to the stage with the least work;
  /// nothing when layers cannot be moved or the stage has none to give.
  std::optional<Candidate> relieved(const Candidate& candidate, int stage);
  /// No candidate of this mesh has a lower estimate of time.
  double least_estimate(const Candidate& mesh);

 private:
  /// What only depends on micro-batch, t1, t2 and r.
  struct MeshCost {
    std::vector<StateBytes> states;
    StateBytes total{}, layer{};                         ///< of all parts; the least of any layer
    double forward_exchange = 0, backward_exchange = 0;  ///< seconds of collectives over shards, of one layer
  };
  /// The model over stages: sums over the parts that each holds.
  struct Cut {
    struct Stage {
      StateBytes states{}, largest_part{};
      double forward = 0, backward = 0, cheap = 0, kept = 0, kept_cheap = 0, entering = 0, layers = 0;
      double largest_kept = 0;  ///< of one of its layers
      double largest_node = 0;  ///< bytes of it
    };
    std::vector<Stage> stages;
  };
  const MeshCost& mesh_of(const Candidate& candidate);
  std::vector<int> cut_layers(int batch, const Layout& layout);
  const Cut& cut_of(const Candidate& candidate);
  double collective_seconds(Exchange exchange, double bytes, const Layout& layout, MeshAxis axis, int parts);
  double stage_bytes(const Candidate& candidate, const Cut& cut, size_t stage) const;
  double pipeline_seconds(const Candidate& candidate, const Cut& cut) const;
  double streaming_seconds(const Candidate& candidate, const Cut::Stage& stage, double beside) const;
  double update_seconds(const Candidate& candidate, const Cut& cut);
  double open_sums(const Candidate& candidate) const;
  int64_t micro_batches(const Candidate& candidate) const;
  double speed(const Layout& layout) const;

  const SearchSpace& space_;
  std::vector<ModelProfile> profiles_;
  const Machine& machine_;
  Network network_;
  std::map<std::tuple<int, int, int, int, int, bool>, MeshCost> meshes_;
  std::map<std::tuple<int, int, int, bool>, std::vector<int>> parts_;
  std::map<std::string, double> collectives_;
  std::string last_name_;
  std::vector<Cut> last_cut_;  ///< that of last_name_, or none
};

}  // namespace ramet::plan
