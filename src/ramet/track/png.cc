#include "ramet/track/png.h"

#include <zlib.h>

#include <cstring>
#include <vector>

#include "ramet/base/error.h"

namespace ramet::track {
namespace {

constexpr int64_t kMostSide = 1 << 16;

void put_big(std::string& to, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(value >> shift & 0xff);
}

void add_chunk(std::string& to, const char* kind, std::string_view data) {
  put_big(to, static_cast<uint32_t>(data.size()));
  const size_t begin = to.size();
  to += kind;
  to += data;
  put_big(to, static_cast<uint32_t>(
                  ::crc32(0, reinterpret_cast<const Bytef*>(to.data() + begin), static_cast<uInt>(to.size() - begin))));
}

}  // namespace

std::string encode_png(int64_t width, int64_t height, int64_t channels, std::span<const uint8_t> pixels) {
  if (width < 1 || height < 1 || width > kMostSide || height > kMostSide || channels < 1 || channels > 4 ||
      pixels.size() != static_cast<size_t>(width * height * channels))
    throw Error({.what = "these are not the pixels of an image",
                 .where = "image",
                 .found = std::to_string(pixels.size()) + " bytes for " + std::to_string(width) + " x " +
                          std::to_string(height) + " pixels of " + std::to_string(channels) + " channels",
                 .expected = "width x height x channels bytes; 1 to 4 channels; sides of 1 to 65536"});
  const auto row = static_cast<size_t>(width * channels);
  // Filter "up" (2): each byte less the one above, which photographs and plots compress well with.
  std::string plain;
  plain.reserve((row + 1) * static_cast<size_t>(height));
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    plain += y == 0 ? '\0' : '\2';
    const uint8_t* const line = pixels.data() + y * row;
    for (size_t x = 0; x < row; ++x) plain += static_cast<char>(y == 0 ? line[x] : line[x] - line[x - row]);
  }
  uLongf size = ::compressBound(plain.size());
  std::string packed(size, '\0');
  if (::compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(plain.data()),
                  plain.size(), 6) != Z_OK)
    internal_error("encode_png", "zlib failed");
  packed.resize(size);
  static constexpr char kColours[] = {0, 0, 4, 2, 6};
  std::string header;
  put_big(header, static_cast<uint32_t>(width));
  put_big(header, static_cast<uint32_t>(height));
  header += '\x08';
  header += kColours[channels];
  header.append(3, '\0');
  std::string file = "\x89PNG\r\n\x1a\n";
  add_chunk(file, "IHDR", header);
  add_chunk(file, "IDAT", packed);
  add_chunk(file, "IEND", "");
  return file;
}

}  // namespace ramet::track
