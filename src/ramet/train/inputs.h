#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ramet/data/arrays.h"
#include "ramet/data/source.h"
#include "ramet/model/model.h"

namespace ramet::train {

/// Throws one Error that names all differences between a source's tensors and the model's inputs: missing names, other
/// types and shapes. Tensors that the model does not read are no fault. `source` is "the training data" or the like.
void check_signature(const std::vector<InputSpec>& inputs, const std::vector<std::pair<std::string, TensorType>>& given,
                     const std::string& source);

/// Samples of a model's inputs from arrays; arrays that the model does not read are passed over. `samples`: of a
/// micro-batch, which the inputs' types are of. Throws Error as check_signature and make_array_source do.
std::shared_ptr<const Source> open_inputs(std::vector<ArrayColumn> arrays, const std::vector<InputSpec>& inputs,
                                          ArrayOptions options, int64_t samples, const std::string& source);

/// Elements that are not 0, whatever their type is.
int64_t count_nonzero(const TensorType& type, const std::byte* data);

}  // namespace ramet::train
