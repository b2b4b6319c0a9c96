#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/shape.h"

namespace ramet::weights {

/// A tensor of a file. Numbers are read as f32 whatever their type in the file.
struct StoredTensor {
  std::string name;
  Shape shape;
  std::string dtype;     ///< "f32", "f16", "bf16", "f64", "i64", ...
  bool floating = true;  ///< of a floating type
  size_t file = 0;       ///< of several, which one
  std::string text() const { return dtype + shape.text(); }
};

/// Tensors by name, however they are stored: safetensors (one file, or several with their index), or what PyTorch
/// saves.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const std::filesystem::path& path() const { return path_; }
  /// The tensor of that name, or null.
  const StoredTensor* find(std::string_view name) const;
  /// All numbers of a tensor, row-major, into its number of elements. Throws Error where the file is damaged.
  virtual void read(const StoredTensor& tensor, std::span<float> to) const = 0;

 protected:
  TensorFile(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
  std::vector<StoredTensor> tensors_;
};

/// Opens `path`: a file of safetensors, an index of several (model.safetensors.index.json), a zip file of PyTorch
/// (pytorch_model.bin, *.pt), recognised by their contents; or a folder with one of these under its published name.
/// Throws Error that names the files of the folder.
std::unique_ptr<TensorFile> open_tensor_file(const std::filesystem::path& path);

/// Whether a folder holds weights under one of the published names.
bool has_weights(const std::filesystem::path& folder);

}  // namespace ramet::weights
