#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "ramet/model/model.h"

namespace ramet::model {

inline constexpr int64_t kModelTextVersion = 1;

/// A model and its units as text, a declaration a line and the graphs as ir/text.h prints them (docs/model-files.md).
/// Of large tensors it has the hash alone. `parse_model_text` is the inverse, for models without functions as first
/// values.
std::string print_model(const Model& model, const Units& units = {});

/// Throws Error with SOURCE:LINE:COLUMN when the text does not parse, and Error naming the model when declarations
/// contradict its graphs. `tensor_of_hash` gives the large tensors, or null.
std::pair<Model, Units> parse_model_text(std::string_view text, const std::string& source,
                                         std::function<const TensorData*(const std::string&)> tensor_of_hash);

/// Whether a text has the elements of a tensor itself, and not its hash.
bool is_printed_whole(const TensorData& data);

}  // namespace ramet::model
