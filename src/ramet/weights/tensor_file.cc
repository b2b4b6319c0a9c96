#include "ramet/weights/tensor_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/weights/safetensors.h"
#include "ramet/weights/torch_zip.h"

namespace ramet::weights {
namespace {

namespace fs = std::filesystem;

/// Published names of weights, in the order in which they are looked for.
constexpr std::array kNames = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                               "pytorch_model.bin.index.json"};

/// One or several files of tensors as one: each tensor is in one of them.
class Joined final : public TensorFile {
 public:
  Joined(const fs::path& path, std::vector<std::unique_ptr<TensorFile>> files)
      : TensorFile(path), files_(std::move(files)) {
    for (size_t f = 0; f < files_.size(); ++f)
      for (StoredTensor tensor : files_[f]->tensors()) {
        tensor.file = f;
        tensors_.push_back(std::move(tensor));
      }
  }
  void read(const StoredTensor& tensor, std::span<float> to) const override {
    const TensorFile& file = *files_[tensor.file];
    file.read(*file.find(tensor.name), to);
  }

 private:
  std::vector<std::unique_ptr<TensorFile>> files_;
};

class SafetensorsFile final : public TensorFile {
 public:
  explicit SafetensorsFile(const fs::path& path) : TensorFile(path), reader_(path) {
    for (const auto& entry : reader_.tensors())
      tensors_.push_back(
          {entry.name, entry.type.shape, std::string(name_of(entry.type.dtype)), is_floating(entry.type.dtype)});
  }
  void read(const StoredTensor& tensor, std::span<float> to) const override {
    const SafetensorsEntry& entry = reader_.get(tensor.name);
    const std::byte* bytes = reader_.bytes(entry).data();
    for (size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<float>(load_element(bytes, entry.type.dtype, static_cast<int64_t>(i)));
  }

 private:
  SafetensorsReader reader_;
};

/// The index of a model in several files: {"weight_map": {tensor: file}}.
std::map<std::string, std::set<std::string>> tensors_of_files(const fs::path& path) {
  const auto refuse = [&](const std::string& what, const std::string& found) {
    throw Error({.what = what,
                 .where = path.string(),
                 .found = found,
                 .expected = R"({"weight_map": {"NAME OF A TENSOR": "FILE BESIDE THIS ONE", ...}})"});
  };
  const auto json = nlohmann::json::parse(read_file(path), nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    refuse("not an index of weights", json.is_discarded() ? "no JSON" : "no table 'weight_map'");
  std::map<std::string, std::set<std::string>> files;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || fs::path(name).filename() != name || name == ".." || name == ".")
      refuse("a file of the index is not beside it", file.dump().substr(0, 100));
    files[name].insert(tensor);
  }
  return files;
}

std::unique_ptr<TensorFile> open_file(const fs::path& path);

std::unique_ptr<TensorFile> open_index(const fs::path& path) {
  std::vector<std::unique_ptr<TensorFile>> files;
  for (const auto& [name, tensors] : tensors_of_files(path)) {
    if (name.ends_with(".json")) throw Error({.what = "an index that names an index", .where = path.string(), .found = name});
    auto file = open_file(path.parent_path() / name);
    std::string missing, extra;
    for (const auto& tensor : tensors)
      if (!file->find(tensor)) missing = tensor;
    for (const auto& tensor : file->tensors())
      if (!tensors.count(tensor.name)) extra = tensor.name;
    if (!missing.empty() || !extra.empty())
      throw Error({.what = "the index and the file do not agree",
                   .where = path.string(),
                   .found = missing.empty() ? "'" + extra + "' in " + name + " is not in the index"
                                            : "'" + missing + "' is not in " + name});
    files.push_back(std::move(file));
  }
  return std::make_unique<Joined>(path, std::move(files));
}

/// By what the file begins with: names say little.
std::unique_ptr<TensorFile> open_file(const fs::path& path) {
  std::string head;
  {
    const MappedFile map(path);
    head = std::string(map.view().substr(0, 16));
  }
  if (path.filename().string().ends_with(".json")) return open_index(path);
  if (head.starts_with("PK")) return open_torch_zip(path);
  if (!head.empty() && head[0] == '\x80')
    throw Error({.what = "a bare pickle, as PyTorch before 1.6 wrote it; it is not read",
                 .where = path.string(),
                 .expected = "safetensors, or the zip file of torch.save",
                 .remedy = "Load it with a PyTorch that you trust it to, and save it again"});
  return std::make_unique<SafetensorsFile>(path);
}

fs::path weights_in(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : kNames)
    if (fs::exists(folder / name, ignored)) return folder / name;
  return {};
}

}  // namespace

const StoredTensor* TensorFile::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const StoredTensor& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

bool has_weights(const fs::path& folder) { return !weights_in(folder).empty(); }

std::unique_ptr<TensorFile> open_tensor_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return open_file(path);
  const fs::path weights = weights_in(path);
  if (weights.empty())
    throw Error({.what = "no weights in this folder",
                 .where = path.string(),
                 .expected = "model.safetensors or pytorch_model.bin, or an index of several such files"});
  return open_file(weights);
}

}  // namespace ramet::weights
