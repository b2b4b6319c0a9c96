#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ramet/model/model.h"
#include "ramet/text/batches.h"

namespace ramet::tests::soak {

/// A model as soak tests draw it: sizes by name and, for each layer, the blocks that follow one another in it. As text:
/// "batch=2 sequence=8 ... layers=attention,mlp/mixer". What is not said is at its default.
struct DrawnModel {
  std::map<std::string, std::string> words;      ///< "input", "head", "batch", ...
  std::vector<std::vector<std::string>> layers;  ///< names of blocks

  static DrawnModel parse(const std::string& text);
  std::string text() const;
  int64_t number(const std::string& name) const;
  const std::string& word(const std::string& name) const;
  bool has_block(const std::string& name) const;
};

/// Every key of a model and its default.
const std::map<std::string, std::string>& model_defaults();
/// Names of the blocks that a layer may hold, of the kinds of input and of the heads.
std::vector<std::string> block_names();
std::vector<std::string> input_names();
std::vector<std::string> head_names();

/// The model: parts "layer N", weights with logical axes where a user would give them and without where
/// not. Throws Error when a size does not fit.
Model build(const DrawnModel& drawn);
/// Samples for it, each a function of its number.
std::shared_ptr<const Source> make_batches(const DrawnModel& drawn, uint64_t seed);

}  // namespace ramet::tests::soak
