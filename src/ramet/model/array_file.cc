#include "ramet/model/array_file.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/data/checked.h"
#include "ramet/weights/safetensors.h"

namespace ramet::model {
namespace {

namespace fs = std::filesystem;

std::vector<ArrayColumn> open_safetensors(const fs::path& path) {
  const auto reader = std::make_shared<const SafetensorsReader>(path);
  std::vector<ArrayColumn> columns;
  for (const SafetensorsEntry& entry : reader->tensors())
    columns.push_back({.name = entry.name,
                       .stored = std::string(name_of(entry.type.dtype)),
                       .shape = entry.type.shape,
                       .data = reader->bytes(entry).data(),
                       .keeper = reader,
                       .where = path.string()});
  return columns;
}

std::vector<ArrayColumn> open_folder(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".npy") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  if (files.empty())
    throw Error({.what = "the folder has no .npy file", .where = folder.string(), .expected = "one for each input"});
  std::vector<ArrayColumn> columns;
  for (const fs::path& file : files)
    for (ArrayColumn& column : open_npy(file)) columns.push_back(std::move(column));
  return columns;
}

}  // namespace

std::vector<ArrayColumn> open_arrays(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return open_folder(path);
  const std::string ending = path.extension().string();
  if (ending == ".npy") return open_npy(path);
  if (ending == ".npz") return open_npz(path);
  if (ending == ".safetensors") return open_safetensors(path);
  throw Error({.what = "a file of arrays of a kind that is not known",
               .where = path.string(),
               .expected = ".npy, .npz or .safetensors, or a folder of .npy files"});
}

std::map<std::string, DType> types_of(const std::vector<ArrayColumn>& columns, const std::vector<InputSpec>& inputs) {
  std::map<std::string, DType> types;
  for (const ArrayColumn& column : columns)
    for (const InputSpec& input : inputs)
      if (input.name == column.name) types[column.name] = input.type.dtype;
  return types;
}

std::shared_ptr<const Source> check_inputs(std::shared_ptr<const Source> source, const std::vector<InputSpec>& inputs,
                                           int64_t samples) {
  std::vector<ExpectedTensor> expected;
  for (const InputSpec& input : inputs) expected.push_back({input.name, input.type, input.low, input.high});
  return make_checked(std::move(source), std::move(expected), samples);
}

}  // namespace ramet::model
