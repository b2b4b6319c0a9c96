#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::model {

/// What config.json of a published model says of its sizes, in a recipe's words (recipe/recipe.h, [model]).
struct PublishedConfig {
  std::string kind;  ///< "bert", "roberta", "distilbert", "gpt2"
  int64_t layers = 0, hidden = 0, heads = 0, intermediate = 0;
  int64_t vocabulary = 0;
  int64_t positions = 0;  ///< longest sequence (RoBERTa's table has two rows more)
  int64_t types = 0;
  double dropout = 0.1, attention_dropout = 0.1, epsilon = 1e-12;
  std::string activation = "gelu";
  std::vector<std::string> labels;  ///< id2label, where the model has a task
};

/// Reads FOLDER/config.json; nothing when there is none. Throws Error naming file and key for sizes that cannot be and
/// for kinds of models, positions and activations that Ramet does not build.
std::optional<PublishedConfig> read_published_config(const std::filesystem::path& folder);

/// The text of config.json for `transformers`. `architecture` is its class ("BertForSequenceClassification");
/// `regression`: the one label is a number.
std::string print_published_config(const PublishedConfig& config, const std::string& architecture,
                                   bool regression = false);

}  // namespace ramet::model
