#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ramet/data/arrays.h"
#include "ramet/layout/layout.h"
#include "ramet/model/model.h"
#include "ramet/recipe/recipe.h"
#include "ramet/train/feeder.h"
#include "ramet/train/predictor.h"

namespace ramet::recipe {

/// What the model of a file gives for arrays: the results of its evaluation or of one of its programs on request, in
/// the recipe's precision, with the bits that training has on any layout. Under MPI every rank has one, and all make
/// the same calls in the same order.
class ArrayPredictor {
 public:
  /// `complete`: of a recipe of a model file. `program` "": "predict", where the model has such a program, else
  /// "evaluate". Results that need inputs which `arrays` lack are left out. Throws Error when none is left, when there
  /// is no such program, and for arrays that are not what the model reads. `source` names the arrays in messages.
  ArrayPredictor(const Recipe& complete, std::string program, std::vector<ArrayColumn> arrays,
                 const std::string& source, const Layout& layout, const Where& where);

  Predictor& predictor() { return *predictor_; }  ///< for its weights
  int64_t samples() const { return samples_; }
  const std::vector<std::string>& left_out() const { return left_out_; }  ///< results
  /// All results, in the order of the graph, on all ranks. One with a row for each sample of a micro-batch has a row
  /// for each sample of the arrays; any other has an entry for each whole micro-batch. `progress` hears of how many
  /// samples the computation has begun.
  std::vector<NamedTensor> predict(const RequestProgress& progress = {});

 private:
  std::vector<std::string> left_out_;
  std::shared_ptr<const Source> source_;  ///< null for a program without data
  int64_t samples_ = 0;
  std::unique_ptr<Predictor> predictor_;
};

}  // namespace ramet::recipe
