#pragma once

#include <filesystem>
#include <memory>

#include "ramet/weights/tensor_file.h"

namespace ramet::weights {

/// Opens a zip file as torch.save writes it (PyTorch 1.6 and newer). Its pickle is read, not run (weights/pickle.h).
/// Throws Error for other files, and for damaged or incomplete ones.
std::unique_ptr<TensorFile> open_torch_zip(const std::filesystem::path& path);

}  // namespace ramet::weights
