#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/shape.h"

namespace ramet::weights {

/// Where a tensor of a PyTorch file lies: elements of a storage, by strides.
struct PickledTensor {
  std::string name;     ///< its key; keys of nested tables joined with '.'
  std::string storage;  ///< name of the record, "0"
  std::string dtype;    ///< "f32", ...; one of those of `torch_dtype_size`
  int64_t storage_elements = 0;
  int64_t offset = 0;  ///< elements
  Shape shape;
  std::vector<int64_t> strides;  ///< elements, none negative
};

/// Size of an element of a storage by the names that PickledTensor uses; 0 for a name that there is not.
int64_t torch_dtype_size(std::string_view dtype);

/// Reads the table of tensors that torch.save writes (data.pkl of its zip file). A pickle is a program; this runs none:
/// it knows the opcodes that build numbers, texts, lists and tables, and of all functions in the world those by which
/// PyTorch says "a tensor is so much of that storage". Anything else is refused, by its name, before anything is read.
/// What in the table is no tensor (steps, options) is passed over; a table inside under "state_dict", "model" or
/// "model_state_dict" is taken for the table. `source` names the file in errors.
std::vector<PickledTensor> read_torch_pickle(std::string_view pickle, const std::string& source);

}  // namespace ramet::weights
