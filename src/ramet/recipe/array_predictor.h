#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ramet/data/arrays.h"
#include "ramet/model/model.h"
#include "ramet/recipe/recipe.h"
#include "ramet/runtime/engine.h"
#include "ramet/train/checkpoint.h"

namespace ramet::recipe {

/// What the model of a file gives for arrays, on one device of this process: the results of its evaluation or of one of
/// its programs on request, in the recipe's precision, with the bits that training has on any layout.
class ArrayPredictor {
 public:
  /// `complete`: of a recipe of a model file. Results that need inputs which `arrays` lack are left out. Throws Error
  /// when none is left, when there is no such program, and for arrays that are not what the model reads. `source`
  /// names the arrays in messages. `threads` 0: all available processors.
  ArrayPredictor(const Recipe& complete, const std::string& program, std::vector<ArrayColumn> arrays,
                 const std::string& source, int threads);
  ~ArrayPredictor();

  /// States as a checkpoint has them; or the model's own first values, with the weights of a file (model.init_from)
  /// where one is given.
  void load(const Checkpoint& checkpoint);
  void begin(const std::string& weights = "");

  int64_t samples() const { return samples_; }
  const std::vector<std::string>& left_out() const { return left_out_; }  ///< results
  /// All results, in the order of the graph. One with a row for each sample of a micro-batch has a row for each sample
  /// of the arrays; any other has an entry for each whole micro-batch. `progress` hears the samples done.
  std::vector<NamedTensor> predict(const std::function<void(int64_t done, int64_t total)>& progress = {});

 private:
  void put_weight(const StateTensor& weight, std::span<const float> values);
  void begin_states(const std::vector<StateKind>& kinds);

  const Recipe recipe_;
  Model model_;
  StepGraph step_;  ///< the program alone
  std::shared_ptr<const Source> source_;
  int64_t batch_ = 0, samples_ = 0;
  std::vector<std::string> left_out_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace ramet::recipe
