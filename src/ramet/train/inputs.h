#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ramet/data/batches.h"
#include "ramet/model/model.h"

namespace ramet {

/// Throws one Error that names all in which a source's tensors are not what the model's inputs want: names that are
/// missing, types and shapes that differ. Tensors that the model does not read are no fault. `source` is "the training
/// data" or the like.
void check_signature(const std::vector<InputSpec>& inputs,
                     const std::vector<std::pair<std::string, TensorType>>& given, const std::string& source);

/// Throws Error when a tensor of a batch has another type than its input, or an element outside the input's limits:
/// which input, which sample, which value. A batch without tensors is not here, and is not checked.
void check_values(const std::vector<InputSpec>& inputs, const Batch& batch, const std::string& source);

/// Elements of a tensor that are not 0, whatever its type is.
int64_t count_nonzero(const NamedTensor& tensor);

}  // namespace ramet
