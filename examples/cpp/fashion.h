#pragma once

#include <zlib.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

/// Fashion-MNIST from Debian's package dataset-fashion-mnist: images of 28 x 28 grey pixels, in ten classes.
struct Fashion {
  static constexpr const char* kFolder = "/usr/share/datasets/fashion-mnist";
  static constexpr int64_t kPixels = 28 * 28, kClasses = 10;
  std::vector<float> pixels;    ///< from 0 to 1, kPixels for each image
  std::vector<int32_t> labels;  ///< one for each image

  /// Reads the files of `part`, "train" or "t10k".
  Fashion(const std::string& folder, const std::string& part) {
    for (const uint8_t pixel : idx(folder + "/" + part + "-images-idx3-ubyte.gz", 3))
      pixels.push_back(static_cast<float>(pixel) / 255);
    for (const uint8_t label : idx(folder + "/" + part + "-labels-idx1-ubyte.gz", 1)) labels.push_back(label);
    if (pixels.size() != labels.size() * kPixels) throw std::runtime_error(folder + ": images and labels disagree");
  }

 private:
  /// The elements of an idx file of bytes. Its header is two zero bytes, the element type (8: bytes), the number of
  /// dimensions, and the extent of each dimension in four bytes, big-endian.
  static std::vector<uint8_t> idx(const std::string& path, int dimensions) {
    const gzFile file = gzopen(path.c_str(), "rb");  // reads uncompressed files too
    if (!file) throw std::runtime_error(path + " cannot be opened (Debian's package dataset-fashion-mnist has it)");
    uint8_t head[16] = {};
    const int head_bytes = 4 + 4 * dimensions;
    size_t size = 1;
    bool good = gzread(file, head, head_bytes) == head_bytes && head[2] == 8 && head[3] == dimensions;
    for (int d = 0; good && d < dimensions; ++d) {
      size_t extent = 0;
      for (int i = 0; i < 4; ++i) extent = extent << 8 | head[4 + 4 * d + i];
      good = extent <= (1u << 20) && (size *= extent) <= (size_t{1} << 30);
    }
    std::vector<uint8_t> bytes(good ? size : 0);
    good = good && gzread(file, bytes.data(), static_cast<unsigned>(size)) == static_cast<int>(size);
    gzclose(file);
    if (!good) throw std::runtime_error(path + " is not a complete idx file of bytes");
    return bytes;
  }
};
