#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ramet/machine/machine.h"
#include "ramet/plan/search.h"
#include "ramet/train/compile.h"
#include "ramet/train/feeds.h"

namespace ramet::train {

/// The model of a workload for options with another micro-batch.
using BuildModel = std::function<Model(const TrainOptions& options)>;

/// Whether a layout's text asks for one to be found: "auto", or "auto" among keys.
bool is_automatic_layout(const std::string& layout);

/// Finds the layout of a workload on a machine: what `ramet plan` and `ramet train` do with `--layout auto`.
class WorkloadPlanner {
 public:
  /// `machine`: absent, the one at hand. `layout`: "auto", and keys that stay fixed, as "auto p=4 t=1". `source`: gives
  /// the samples for rehearsals of candidates on this machine; may be null. `other_batches`: whether micro-batches
  /// other than that of the options are tried, too (this decides bits; the samples of a step do not change). Throws
  /// Error when the text is no layout.
  WorkloadPlanner(BuildModel build, std::shared_ptr<const Source> source, TrainOptions options,
                  std::optional<Machine> machine, const std::string& layout, const Where& where, bool other_batches);
  ~WorkloadPlanner();
  WorkloadPlanner(WorkloadPlanner&&) noexcept;

  const SearchSpace& space() const { return space_; }
  const Machine& machine() const { return machine_; }
  const Model& model() const;                               ///< of the options' own micro-batch
  const TrainOptions& options() const { return options_; }  ///< with the own micro-batch
  int64_t device_memory() const { return device_memory_; }  ///< bytes that each device has; 0: as the system has

  SearchResult search(const SearchOptions& options, const std::function<void(const SearchProgress&)>& progress = {},
                      const std::function<bool()>& stop = {});
  /// Compiles one layout for the machine and simulates a step of it: the seam between search and truth.
  Outcome evaluate(const Candidate& candidate);
  /// The options with a candidate's micro-batch.
  const TrainOptions& options_of(const Candidate& candidate) const;

 private:
  struct Steps;
  /// Samples to rehearse a candidate with.
  std::span<const TensorView> real_batch_of(const Candidate& candidate);
  void find_batches(bool others);
  CompileOptions compiling(const Layout& layout) const;
  Outcome outcome_of(const Candidate& candidate, const std::vector<Executable>& stages);
  std::string too_much(const Candidate& candidate, const Outcome& outcome, std::span<const Executable> stages) const;

  std::shared_ptr<const Source> source_;
  std::map<int64_t, RealBatch> real_batches_;  ///< by samples of a micro-batch
  TrainOptions options_;
  Where where_;
  Machine machine_;
  bool local_ = false;
  int64_t device_memory_ = 0;
  SearchSpace space_;
  std::shared_ptr<const KernelLibrary> library_;  ///< null: the processor's
  std::unique_ptr<Steps> steps_;
};

}  // namespace ramet::train
