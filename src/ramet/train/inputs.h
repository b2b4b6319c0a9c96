#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ramet/data/source.h"
#include "ramet/model/model.h"

namespace ramet::train {

/// Throws one Error that names all differences between a source's tensors and the model's inputs: missing names, other
/// types and shapes. Tensors that the model does not read are no fault. `source` is "the training data" or the like.
void check_signature(const std::vector<InputSpec>& inputs, const std::vector<std::pair<std::string, TensorType>>& given,
                     const std::string& source);

/// Elements that are not 0, whatever their type is.
int64_t count_nonzero(const TensorType& type, const std::byte* data);

}  // namespace ramet::train
