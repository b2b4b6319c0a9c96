#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ramet/data/source.h"
#include "ramet/runtime/cluster.h"
#include "ramet/train/compile.h"
#include "ramet/train/sample_program.h"
#include "ramet/train/state_loader.h"

namespace ramet::train {

/// How long calls took, and what they did.
struct PredictionTimes {
  int64_t calls = 0, samples = 0;  ///< without padding
  double seconds = 0;              ///< of all calls together
  std::vector<double> latencies;   ///< seconds of the last calls, at most kLatencies of them, in no order
  static constexpr size_t kLatencies = 1 << 16;

  void add(int64_t call_samples, double call_seconds);
  double samples_per_second() const { return seconds > 0 ? static_cast<double>(samples) / seconds : 0; }
  /// The latency that a share of the calls does not exceed: 0.5, 0.9, 0.99. 0 when there were none.
  double latency(double share) const;
};

/// A model for use: its evaluation, and programs on request, compiled for a layout without a training step. What it
/// answers has the bits that the same program gives beside training, whatever the layout of either. Under MPI every
/// rank has one, and all make the same calls in the same order.
class Predictor {
 public:
  /// `programs`: those that are compiled, "evaluate" or names of Model::programs; empty: all. The layout fits the model
  /// (what it says of optimizers, gradients and schedules does not matter here), and replicas share the samples.
  /// Weights are not set yet. Throws Error for a program that the model lacks, and a layout that does not fit.
  Predictor(Model model, const TrainOptions& options, const Layout& layout, const Where& where,
            std::vector<std::string> programs = {});
  ~Predictor();
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  /// The weights that a training with the options' seed begins with: drawn, or from `file` (StateLoader).
  void initialize(const std::string& file = "");
  /// Weights and what else the programs read, from a checkpoint of any layout.
  void load(const Checkpoint& checkpoint);
  /// Weights from a file or a folder with published names (model/hugging_face.h); the file must have all of them.
  void import_weights(const std::filesystem::path& path);
  /// What a user names: a checkpoint, the newest one in a folder of them, or weights to import. These lack other
  /// states, so that Error is thrown when the programs read some.
  void load(const std::filesystem::path& path);
  /// One f32 weight; after the last, `ready`. Weights that no program reads are passed over.
  void write_weight(const StateTensor& weight, std::span<const std::byte> bytes);
  void ready();

  /// Runs a program on any number of samples, as SampleProgram::run says; results come on all ranks.
  std::vector<NamedTensor> run(const std::string& program, std::span<const NamedTensor> inputs,
                               std::vector<std::string> wanted = {});
  /// The same on `batches` whole batches that a feed gives, results as the devices give them.
  std::vector<ResultTensors> run(const std::string& program, int64_t batches, int64_t samples, const ClusterFeed& feed,
                                 const Wanted& wanted = {.names = {}, .everywhere = true});
  /// What a program takes and gives. Throws Error for one that was not compiled.
  const SampleProgram& program(const std::string& name) const;

  /// Hash of what the programs read of that which the model has learned: that of a checkpoint, where they read all of
  /// it.
  std::string weights_hash();

  const Model& model() const { return model_; }
  const std::vector<std::string>& programs() const { return programs_; }
  const TrainOptions& options() const { return options_; }
  Cluster& cluster() { return *cluster_; }
  int threads() const { return threads_; }  ///< of all devices of this process
  double compile_seconds() const { return compile_seconds_; }
  /// Memory that all devices of this process take.
  int64_t planned_bytes() const { return cluster_->local_planned_bytes(); }
  const PredictionTimes& times() const { return times_; }

 private:
  Model model_;
  TrainOptions options_;
  std::vector<std::string> programs_;
  std::vector<SampleProgram> calls_;  ///< of each program
  std::vector<StateTensor> states_;   ///< that the programs read or write
  int threads_ = 0;
  double compile_seconds_ = 0;
  std::unique_ptr<Cluster> cluster_;
  std::optional<StateLoader> loader_;
  PredictionTimes times_;
};

}  // namespace ramet::train
