#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "ramet/recipe/recipe.h"
#include "ramet/text/tokenizer.h"
#include "ramet/transform/step_graph.h"

namespace ramet::recipe {

/// The class of `transformers` that has the weights of a complete recipe's model: "BertForSequenceClassification".
std::string published_class(const Recipe& complete);

/// Writes the model of a complete recipe as a published folder, which `transformers` opens and which model.init_from
/// takes: model.safetensors, config.json, and the tokenizer's files where there is one. `read` fills a buffer with a
/// weight's f32 bytes. Files of these names in the folder are replaced, each atomically or, of the weights, last.
void publish_model(const std::filesystem::path& folder, const Recipe& complete,
                   const std::vector<StateTensor>& weights, const Tokenizer* tokenizer,
                   const std::function<void(const std::string& name, std::span<std::byte> bytes)>& read);

}  // namespace ramet::recipe
