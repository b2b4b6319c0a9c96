#pragma once

#include "ramet/base/house.h"

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "ramet/api/samples.h"
#include "ramet/layout/layout.h"
#include "ramet/predict.h"
#include "ramet/train.h"
#include "ramet/train/compile.h"
#include "ramet/train/sample_program.h"
#include "ramet/train/train_options.h"

namespace ramet::api {

/// The engine's words for what a user asks for.
train::TrainOptions engine_options(const v0::TrainOptions& options, const v0::Model::Contents& model);
train::Where engine_where(int threads, int64_t device_memory, const std::string& device);
Layout engine_layout(const std::string& text);
std::string precision_name(v0::Precision precision);
v0::Metrics metrics_of(const NamedNumbers& numbers);

/// The memory that a program takes; its text is left empty.
v0::MemoryPlan memory_of(std::span<const program::Executable> stages, const layout::Layout& layout);

/// Samples of the caller's, as a program on request takes them. Nothing is copied.
class SampleViews {
 public:
  /// Throws Error naming all in which the samples are not what the program reads; `where` says who asks. Samples for
  /// inputs of the `model` that the program does not read are ignored.
  SampleViews(const train::SampleProgram& program, const model::Model& model, const v0::NamedViews& samples,
              const std::string& where);
  std::span<const TensorView> views() const { return views_; }
  int64_t count() const { return count_; }
  /// Throws Error unless the samples fill micro-batches.
  void check_whole(const train::SampleProgram& program, const std::string& where) const;

 private:
  std::deque<TensorType> types_;
  std::vector<TensorView> views_;
  int64_t count_ = 0;
};

/// Runs a program on request of a model on samples of the caller's, each once, and gives its results as arrays. `pads`:
/// whether the last micro-batch may be filled up; else Error for samples that are no whole micro-batches.
v0::Arrays run_request(const train::SampleProgram& program, const model::Model& model, const v0::NamedViews& samples,
                       bool pads, const train::SampleProgram::Run& run);

}  // namespace ramet::api
