#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/thread_team.h"
#include "ramet/model/model.h"
#include "ramet/runtime/cluster.h"
#include "ramet/train/checkpoint.h"
#include "ramet/train/train_options.h"

namespace ramet::train {

/// Sets the states of a cluster, weights in the form in which the options hold them. Under MPI all ranks make the same
/// calls. After the last of them the cluster's `run_derive` is due.
class StateLoader {
 public:
  /// Gets the work in progress, and how many of how many bytes are done.
  using Progress = std::function<void(std::string_view what, int64_t done, int64_t total)>;

  /// `threads` draw random numbers. The cluster and the options outlive it.
  StateLoader(Cluster& cluster, const TrainOptions& options, int threads, Progress progress);

  /// Announces that `what` begins, for those of `states` that this process holds a part of.
  void begin(std::string what, const std::vector<StateTensor>& states);
  /// A whole f32 weight.
  void write_weight(const StateTensor& weight, std::span<const std::byte> bytes);
  /// A weight, or a running statistic, whole, as f32.
  void write_whole(const StateTensor& state, std::span<const std::byte> bytes);
  /// The first values of any state but a low half, which comes with its weight.
  void write_first(const StateTensor& state);
  /// Writes what to begin from, of Model::published: that of a file, a published folder, a checkpoint or a run; heads
  /// of tasks and running statistics that it lacks begin as a new model's. "": all do. Sparse weights begin as the model
  /// says.
  void write_first_weights(const Model& model, const std::string& file);
  /// The same from a file with published names (model/hugging_face.h); returns the names of those that it lacks.
  std::vector<std::string> import(const std::filesystem::path& file, const std::vector<StateTensor>& weights);
  /// What this process holds of `states` from a checkpoint: states as they are held, or f32 weights.
  void load(const Checkpoint& checkpoint, const std::vector<StateTensor>& states, bool as_held);

 private:
  /// Elements from `first` on.
  void write_values(const StateTensor& weight, std::span<const float> values, int64_t first);
  void add(int64_t bytes);

  Cluster& cluster_;
  const TrainOptions& options_;
  const int threads_;
  Progress progress_;
  std::string doing_;
  int64_t done_ = 0, all_ = 0;
};

}  // namespace ramet::train
