#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ramet/runtime/cluster.h"
#include "ramet/train/checkpoint.h"
#include "ramet/train/compile.h"
#include "ramet/train/feeds.h"
#include "ramet/train/loss_scale.h"
#include "ramet/train/numerics.h"
#include "ramet/train/row_window.h"
#include "ramet/train/state_loader.h"
#include "ramet/train/step_scalars.h"
#include "ramet/train/workload.h"

namespace ramet::train {

/// A workload compiled for a layout and in memory, ready to train, to evaluate, to save and to go on. Under MPI every
/// rank has one, and all make the same calls in the same order. Results are equal on all ranks, except times.
class Training {
 public:
  /// Checks that the sources fit the model's inputs, compiles, and takes all memory. Weights are not set yet. Throws
  /// Error when the layout does not fit, or the inputs are not those of the model.
  Training(Workload workload, TrainOptions options, const Layout& layout, const Where& where);
  ~Training();

  /// Random weights (or those of Workload::init_from), optimizer states of zero; step 0.
  void initialize();
  /// Goes to where a checkpoint stands. Throws Error when it is of another recipe, another model or other data; returns
  /// warnings (another kernel class or version), one a line.
  std::string restore(const Checkpoint& checkpoint);
  /// One training step on the next samples. Numbers: the model's metrics, grad_norm, learning_rate, step_seconds,
  /// UNITS_per_second, where inputs tell of padding real_UNITS_per_second, data_seconds (waited for data), and with
  /// several stages bubble (share of their time in which they waited for each other). When a guarded number is not
  /// finite, throws Error (kFailure) naming the first node that made one; the weights stay those before the step where
  /// that is possible (`whole`).
  /// With an automatic loss scale (train/loss_scale.h) there are loss_scale, skipped_steps and grad_underflow too, and
  /// a step whose gradients overflow is no error: it changes nothing but the scale, and counts as a step done. `given`:
  /// rates of this step instead of the schedule's (train/step_scalars.h).
  Numbers step(const StepScalars& given = {});
  /// What the workload's evaluator says, or `evaluate_held_out`.
  Numbers evaluate();
  /// The model's metrics over the held-out batches that the options ask for, means by the items they count. Empty when
  /// nothing is held out.
  Numbers evaluate_held_out();
  /// Runs the next step without changing anything, and looks at the exponents of weights, optimizer states, gradients
  /// and activations. Costs a step and reads every tensor once more.
  NumericsReport check_numerics();
  /// Saves a checkpoint; returns its path. With several ranks the leading one writes; the others send their states to
  /// it in pieces. `keep` checkpoints stay in the folder; 0: as many as the options say.
  std::filesystem::path save(const std::filesystem::path& folder, int64_t keep = 0) const;
  /// Weights with Hugging Face's names, as one file.
  void export_weights(const std::filesystem::path& path) const;

  int64_t steps_done() const { return steps_done_; }
  const LossScale& loss_scale() const { return loss_scale_; }  ///< of the next step, where it is automatic
  bool whole() const { return whole_; }  ///< false once a step failed after it had begun to change states
  /// The guarded number that was not finite and ended the last step; "": none.
  const std::string& not_finite() const { return not_finite_; }
  const Workload& workload() const { return workload_; }
  const Model& model() const { return workload_.model; }
  const TrainOptions& options() const { return options_; }
  const Layout& layout() const { return layout_; }  ///< with its head settled
  const Layout& asked_layout() const { return asked_layout_; }
  /// What could be better, about the workload and the layout.
  const std::vector<std::string>& remarks() const { return workload_.remarks; }
  Cluster& cluster() { return *cluster_; }
  const Cluster& cluster() const { return *cluster_; }
  const CompiledWorkload& compiled() const { return compiled_; }
  const std::string& kernel_class() const { return cluster_->stages()[0].kernel_class; }
  int threads() const { return threads_; }  ///< of all devices of this process
  bool profiled() const { return profiled_; }
  /// Memory that all devices take, with streaming memory in RAM.
  int64_t planned_bytes() const { return planned_bytes_; }
  /// Memory that this process takes beside it, for data and results.
  const HostBytes& host_memory() const { return host_; }
  /// What feeds training; null before the first step.
  const Feeder* feeder() const { return feeder_.get(); }
  int64_t samples_per_step() const { return options_.micro_batch * options_.accumulation; }
  int64_t units_per_step() const { return samples_per_step() * workload_.units.per_sample; }
  /// Bytes of a whole weight or optimizer state, by its logical name.
  void read_state(const std::string& name, std::span<std::byte> to) const;
  /// The f32 numbers of a weight, however it is held; on ranks that do not lead `to` is left as it is.
  void read_weight(const std::string& name, std::span<std::byte> to) const;
  /// Other numbers for some weights: what `weights` calls its argument with, each with all f32 numbers of a weight. All
  /// ranks bring the same.
  using SetWeight = std::function<void(const std::string& name, std::span<const float> values)>;
  void set_weights(const std::function<void(const SetWeight& set)>& weights);
  /// States that a checkpoint holds, by logical name; halves of split weights belong to their weight.
  std::vector<const StateTensor*> saved_states() const;
  /// Other numbers for a state of `saved_states`: f32 numbers of a weight, bytes of another as it is held. All ranks
  /// bring the same. After the last one `states_written` is due.
  void write_state(const StateTensor& state, std::span<const std::byte> bytes);
  void states_written();
  /// The next step is number `steps`, counted from 0.
  void set_steps_done(int64_t steps);
  /// The result of the last step, before metrics were computed from it; null before the first step. Valid until the
  /// next call that runs a program.
  const ClusterResults* results() const { return results_; }
  /// On the leading rank; others give an empty text.
  std::string weights_hash() const;
  /// Logical OR over all ranks.
  bool any(bool yes) const { return cluster_->any(yes); }

 private:
  void check_inputs();
  /// The work before the cluster is made: checks the workload, and compiles it.
  void compile(const Layout& layout, const Where& where);
  /// Gives the devices the rows of the next step, where tables live in streaming memory.
  void bring_rows();
  /// The samples of the next step, from its first micro-batch on.
  const ClusterFeed& feed_of_step();
  std::vector<ScalarValue> scalars_of(int64_t step, const StepScalars& given = {}) const;
  bool has_automatic_loss_scale() const { return options_.loss_scale.automatic; }
  void follow_loss_scale(const ClusterResults& results, bool overflows, Numbers& numbers);
  ReadState reader() const;
  [[noreturn]] void fail_not_finite(const std::string& result, const std::vector<ScalarValue>& scalars);

  Workload workload_;
  TrainOptions options_;
  Layout layout_, asked_layout_;
  std::vector<InputSpec> inputs_;  ///< what the graphs read
  std::string identity_;           ///< of the model
  std::optional<RowWindow> rows_;  ///< of tables in streaming memory; without its model
  int threads_ = 0;
  bool profiled_ = false;
  int64_t planned_bytes_ = 0;
  CompiledWorkload compiled_;  ///< without its stages, which the cluster has
  std::unique_ptr<Cluster> cluster_;
  std::optional<StateLoader> loader_;
  HostBytes host_;
  std::unique_ptr<Feeder> feeder_;  ///< of training; from the first step on
  const ClusterResults* results_ = nullptr;
  int64_t steps_done_ = 0;
  LossScale loss_scale_;
  bool fresh_ = true;  ///< no state was written yet
  bool whole_ = true;
  std::string not_finite_;
};

}  // namespace ramet::train
