#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "ramet/data/arrays.h"
#include "ramet/model/model.h"

namespace ramet::model {

/// The arrays of a file (.npy, .npz, .safetensors) or of a folder of .npy files, each named as its file. They are
/// mapped, not read, except compressed ones. Throws Error, naming the file, when it is none of these or damaged.
std::vector<ArrayColumn> open_arrays(const std::filesystem::path& path);

/// The types in which arrays are to be delivered so that they fit a model's inputs: for ArrayOptions::types.
std::map<std::string, DType> types_of(const std::vector<ArrayColumn>& columns, const std::vector<InputSpec>& inputs);

/// A source checked against the inputs that a model declares: names, types and shapes at once, ranges as samples are
/// made (data/checked.h). `samples`: of a micro-batch, which the inputs' types are of.
std::shared_ptr<const Source> check_inputs(std::shared_ptr<const Source> source, const std::vector<InputSpec>& inputs,
                                           int64_t samples);

}  // namespace ramet::model
