// The form of MNIST's files: two zero bytes, the type of the elements (8: bytes), the number of dimensions, each extent
// in four bytes (big-endian), the elements.
#include <zlib.h>

#include <memory>

#include "ramet/base/error.h"
#include "ramet/data/images.h"

namespace ramet::data {
namespace {

namespace fs = std::filesystem;

constexpr int kBytes = 8;  // the type of elements that are bytes
constexpr int64_t kMostBytes = int64_t{1} << 36;

/// The contents of a file, decompressed where it is compressed.
std::string read_compressed(const fs::path& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw Error({.what = "the file cannot be opened", .where = path.string()}, ErrorKind::kFailure);
  std::string bytes, piece(size_t{1} << 20, '\0');
  for (;;) {
    const int count = gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()));
    if (count < 0 || static_cast<int64_t>(bytes.size()) + count > kMostBytes)
      throw Error({.what = count < 0 ? "the compressed file is damaged" : "the file is too large",
                   .where = path.string(),
                   .remedy = "Get the file anew"});
    if (count == 0) break;
    bytes.append(piece, 0, static_cast<size_t>(count));
  }
  // A file that ends too early gives all that it has, and tells only here.
  int code = Z_OK;
  gzerror(file.get(), &code);
  if (code != Z_OK && code != Z_STREAM_END)
    throw Error({.what = "the compressed file is damaged", .where = path.string(), .remedy = "Get the file anew"});
  return bytes;
}

fs::path find_part(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  for (const char* ending : {"", ".gz"})
    if (fs::is_regular_file(folder / (name + ending), ignored)) return folder / (name + ending);
  throw Error({.what = "the folder lacks a file of the data set",
               .where = folder.string(),
               .expected = name + " or " + name + ".gz",
               .remedy = "Set data.folder; Debian's package dataset-fashion-mnist has Fashion-MNIST"});
}

}  // namespace

ArrayColumn parse_idx(std::string bytes, const std::string& name, const std::string& source) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const auto refuse = [&](const std::string& found, const std::string& expected) {
    throw Error({.what = "not a file of bytes in the form of MNIST (idx)",
                 .where = source,
                 .found = found,
                 .expected = expected});
  };
  if (bytes.size() < 4 || at(0) != 0 || at(1) != 0) refuse("another beginning", "two zero bytes, a type, a rank");
  if (at(2) != kBytes) refuse("elements of type " + std::to_string(at(2)), "8, which is bytes");
  const size_t rank = at(3);
  if (rank < 1 || rank > 4) refuse(std::to_string(rank) + " dimensions", "1 to 4");
  const size_t head = 4 + 4 * rank;
  if (bytes.size() < head) refuse("the end of the file in its header", std::to_string(head) + " bytes");
  std::vector<int64_t> dims;
  int64_t elements = 1;
  for (size_t dim = 0; dim < rank; ++dim) {
    int64_t extent = 0;
    for (size_t i = 0; i < 4; ++i) extent = extent << 8 | at(4 + 4 * dim + i);
    dims.push_back(extent);
    if (extent > kMostBytes / std::max<int64_t>(elements, 1)) refuse("extents that no file has", "fewer elements");
    elements *= extent;
  }
  if (static_cast<int64_t>(bytes.size() - head) != elements)
    refuse(std::to_string(bytes.size() - head) + " elements", std::to_string(elements) + ", as its header says");
  const auto keeper = std::make_shared<const std::string>(std::move(bytes));
  return {.name = name,
          .stored = "u8",
          .shape = Shape(std::move(dims)),
          .data = reinterpret_cast<const std::byte*>(keeper->data()) + head,
          .keeper = keeper,
          .where = source,
          .host_bytes = static_cast<int64_t>(keeper->size())};
}

ArrayColumn open_idx(const fs::path& path, const std::string& name) {
  return parse_idx(read_compressed(path), name, path.string());
}

std::shared_ptr<const ImageSet> open_mnist(const fs::path& folder, const std::string& part) {
  return image_arrays({open_idx(find_part(folder, part + "-images-idx3-ubyte"), "images"),
                       open_idx(find_part(folder, part + "-labels-idx1-ubyte"), "labels")},
                      ChannelAxis::kAuto, folder.string());
}

}  // namespace ramet::data
