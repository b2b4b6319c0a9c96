#pragma once

#include <map>
#include <string>
#include <vector>

#include "ramet/ops/build.h"
#include "ramet/train/train_options.h"
#include "ramet/transform/step_graph.h"

namespace ramet::train {

class WeightUpdate;

/// A state that an optimizer keeps of a weight W: "optimizer.NAME.W".
struct OptimizerState {
  enum class Form {
    kWhole,   ///< one number an element
    kRows,    ///< one number a row of a matrix
    kColumns  ///< one number a column
  };
  std::string name;
  std::string doc;
  Form form = Form::kWhole;
  bool narrow = true;  ///< held in the type `OptimizerOptions::state`; otherwise in f32
  /// Whether a weight has it; null: each one.
  bool (*kept)(const OptimizerOptions& options, const StateTensor& weight) = nullptr;
  /// The value that it begins with; null: 0.
  double (*first)(const OptimizerOptions& options) = nullptr;
};

/// A number that the update takes at each step, beside the learning rate.
struct OptimizerScalar {
  std::string name;
  /// By the number of updates that were made before.
  double (*value)(const OptimizerOptions& options, int64_t updates);
};

/// All that training knows of an optimizer. A new one is a file in train/optimizers/ with its entry, and its line in
/// optimizers().
struct OptimizerDef {
  std::string name;
  std::string doc;
  std::vector<OptimizerState> states;
  std::vector<OptimizerScalar> scalars{};
  /// The optimizer works on f32 copies, one weight's at a time, of a weight and states that are held in fewer bits.
  /// Otherwise its op reads and writes them as they are held.
  bool works_in_f32 = false;
  /// Whether the size of a gradient matters, so that it must be that of the model without unit scaling.
  bool wants_true_size = false;
  /// Whether u-muP's learning rates are made for it.
  bool fits_u_mup = false;
  /// Whether its rates follow the root of the global batch, where nothing else is asked for.
  bool root_of_batch = false;
  /// Whether its update can correct the moments of each element by the element's own number of steps.
  bool own_steps = false;
  /// Whether steps are in proportion to the weight's norm, so that no scaling of a weight needs a rate of its own;
  /// null: they are not.
  bool (*proportional)(const OptimizerOptions& options) = nullptr;
  /// Whether an element whose gradient is 0, and that does not decay, stays as it is with its states, so that its
  /// update may be left out; null: it does not.
  bool (*keeps_untouched)(const OptimizerOptions& options) = nullptr;
  /// The most that the learning rate of step `step` may be; null: no limit.
  double (*most_rate)(const OptimizerOptions& options, int64_t step) = nullptr;
  /// Graph code of one weight's update.
  void (*build)(WeightUpdate& update) = nullptr;
};

/// All optimizers, in the order in which they are listed.
const std::vector<OptimizerDef>& optimizers();
/// The one of that name; throws Error that lists all when there is none.
const OptimizerDef& find_optimizer(const std::string& name);
std::vector<std::string> optimizer_names();

/// The scalar input f32[] of that name, added on first use.
Tensor scalar_input(GraphBuilder& build, const std::string& name);

/// One weight's update while its graph is built: inputs of the optimizer's entry, and the places of its outputs.
class WeightUpdate {
 public:
  struct Inputs {
    const StateTensor& weight;
    Tensor gradient;
    Tensor rate;        ///< f32[]
    Tensor grad_scale;  ///< f32[], that the gradient is to be multiplied with; not finite: nothing may change
    double weight_decay = 0;
    std::string suffix{};  ///< of the names of the group's scalars
    Tensor births{};       ///< f32 of the weight's shape: when its elements were new; not valid: all began together
  };
  /// `train` says how weights and states are held; `options` are those of the weight's group. The states that the
  /// optimizer keeps of the weight are added to `states`; nodes to the update that `build` makes.
  WeightUpdate(const OptimizerDef& optimizer, const TrainOptions& train, const OptimizerOptions& options, Inputs inputs,
               GraphBuilder& build, std::vector<StateTensor>& states);

  const OptimizerOptions& options() const { return options_; }
  const StateTensor& weight() const { return inputs_.weight; }
  Tensor gradient() const { return inputs_.gradient; }
  Tensor rate() const { return inputs_.rate; }
  Tensor grad_scale() const { return inputs_.grad_scale; }
  double weight_decay() const { return inputs_.weight_decay; }
  Tensor births() const { return inputs_.births; }
  /// The number of updates made before, f32[].
  Tensor updates() { return scalar_input(build_, "updates"); }
  /// Whether the weight decays by the model's rule (as matrices do), whatever its group says.
  bool is_of_decay() const { return inputs_.weight.group == "decay"; }

  /// One of the optimizer's scalars, f32[].
  Tensor scalar(const std::string& name);
  /// One of its states, as it is held, or in f32 for an optimizer that works in f32; not valid when the weight has
  /// none.
  Tensor state(const std::string& name);
  /// The weight, likewise.
  Tensor value();
  /// For ops that read and write the held form: low halves and draws.
  StateForm form();

  /// `next` where the gradient's scale is finite, else `before`: for updates made of element-wise ops. Ops of
  /// optimizers see to it themselves.
  Tensor unless_overflow(Tensor next, Tensor before) const;
  /// The gradient times its scale, and with the decay of the weight added to it.
  Tensor decayed_gradient();

  /// The weight after the step, its low half where form() had one, and the states; those that are not valid are left
  /// out.
  void write(Tensor weight, const std::map<std::string, Tensor>& states, Tensor low = {});

 private:
  /// What f16 holds is kHalfStateScale times the moment (ops/rounding.h).
  static double moment_scale(DType held);
  const OptimizerState& definition(const std::string& name) const;
  std::string name_of(const OptimizerState& state) const { return "optimizer." + state.name + "." + weight().name; }
  TensorType type_of(const OptimizerState& state) const;
  void write_weight(Tensor next, Tensor low);

  const OptimizerDef& optimizer_;
  const TrainOptions& train_;
  const OptimizerOptions& options_;
  const Inputs inputs_;
  GraphBuilder& build_;
};

}  // namespace ramet::train
