#pragma once

#include <zlib.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

/// Fashion-MNIST as Debian's package dataset-fashion-mnist has it: images of 28 x 28 grey pixels, in ten classes.
struct Fashion {
  static constexpr const char* kFolder = "/usr/share/datasets/fashion-mnist";
  static constexpr int64_t kPixels = 28 * 28, kClasses = 10;
  std::vector<float> pixels;    ///< 0 to 1
  std::vector<int32_t> labels;  ///< one for each kPixels pixels

  /// `part`: "train" or "t10k".
  Fashion(const std::string& folder, const std::string& part) {
    for (const uint8_t pixel : idx(folder + "/" + part + "-images-idx3-ubyte.gz", 3))
      pixels.push_back(static_cast<float>(pixel) / 255);
    for (const uint8_t label : idx(folder + "/" + part + "-labels-idx1-ubyte.gz", 1)) labels.push_back(label);
    if (pixels.size() != labels.size() * kPixels) throw std::runtime_error(folder + ": images and labels disagree");
  }

 private:
  /// The bytes of an idx file: after two zeros and the type (8: bytes) come the number of dimensions, and their extents
  /// of four bytes, the greatest first.
  static std::vector<uint8_t> idx(const std::string& path, int dimensions) {
    const gzFile file = gzopen(path.c_str(), "rb");  // files that are not compressed are read as they are
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
    if (!good) throw std::runtime_error(path + " is no whole idx file of bytes");
    return bytes;
  }
};
