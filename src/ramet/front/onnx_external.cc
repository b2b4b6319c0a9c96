#include "ramet/front/onnx_external.h"

#include <charconv>
#include <cstring>
#include <optional>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"

namespace ramet::front {
namespace {

namespace fs = std::filesystem;

class ExternalFile {
 public:
  ExternalFile(const OnnxTensor& tensor, const fs::path& folder, const std::string& where)
      : folder_(folder), where_(where) {
    for (const auto& [key, value] : tensor.location) {
      if (key == "location")
        location_ = value;
      else if (key == "offset")
        offset_ = number(key, value);
      else if (key == "length")
        length_ = number(key, value);
      else if (key != "checksum")
        refuse("unknown key of external data", "'" + key.substr(0, 80) + "'", "location, offset, length or checksum");
    }
  }

  const std::string& location() const {
    check_location();
    return location_;
  }
  uint64_t offset() const { return offset_; }

  HostTensor read(const TensorType& type) const {
    const fs::path path = checked_path();
    const MappedFile file(path);
    const auto size = static_cast<uint64_t>(type.bytes());
    if (offset_ > file.size())
      refuse("external data begin behind the end of their file", std::to_string(offset_),
             std::to_string(file.size()) + " at most");
    const uint64_t rest = file.size() - offset_;
    const uint64_t length = length_.value_or(std::min(size, rest));
    if (length > rest)
      refuse("external data end behind the end of their file", std::to_string(length) + " bytes",
             std::to_string(rest) + " at most");
    if (length != size)
      refuse("external data have another length than their tensor", std::to_string(length) + " bytes",
             std::to_string(size) + ", for " + type.text());
    HostTensor made(type);
    if (size > 0) std::memcpy(made.data.data(), file.data() + offset_, size);
    return made;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& found = "",
                           const std::string& expected = "") const {
    throw FormatError({.what = what, .where = where_, .found = found, .expected = expected});
  }
  uint64_t number(const std::string& key, const std::string& value) const {
    uint64_t made = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), made);
    if (error != std::errc() || end != value.data() + value.size() || made > INT64_MAX)
      refuse("the " + key + " of external data is no number of bytes", "'" + value.substr(0, 80) + "'");
    return made;
  }

  /// Whether `path` lies beneath `folder`, both of them canonical.
  static bool beneath(const fs::path& path, const fs::path& folder) {
    const auto [a, b] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
    return a == folder.end() && b != path.end();
  }

  void check_location() const {
    const fs::path location(location_);
    const std::string expected = kExpected;
    if (location_.empty() || location_.find('\0') != std::string::npos || location_.size() > 4096)
      refuse("external data without a location", "", expected);
    if (location.is_absolute()) refuse("the location of external data is not relative", location_, expected);
    for (const fs::path& part : location)
      if (part == "..") refuse("the location of external data leaves the model's folder", location_, expected);
  }

  fs::path checked_path() const {
    check_location();
    if (folder_.empty()) refuse("external data of a model that is no file");
    const fs::path location(location_);
    const std::string expected = kExpected;
    std::error_code error;
    const fs::path here = fs::canonical(folder_, error);
    if (error) refuse("the folder of a model cannot be opened", folder_.string());
    const fs::path path = fs::canonical(here / location, error);
    if (error || !fs::is_regular_file(path, error)) refuse("the file of external data cannot be opened", location_);
    if (beneath(path, here)) return path;
    // A snapshot of the cache of Hugging Face: SNAPSHOTS/REVISION/FILE is a link to BLOBS/HASH of the same repository.
    for (fs::path folder = here; folder.has_relative_path(); folder = folder.parent_path())
      if (folder.parent_path().filename() == "snapshots" && beneath(path, folder.parent_path().parent_path() / "blobs"))
        return path;
    refuse("a link leads external data out of the model's folder", location_, expected);
  }

  static constexpr const char* kExpected = "a path beneath the model's folder";

  const fs::path& folder_;
  const std::string& where_;
  std::string location_{};
  uint64_t offset_ = 0;
  std::optional<uint64_t> length_{};
};

}  // namespace

HostTensor read_external(const OnnxTensor& tensor, const TensorType& type, const std::filesystem::path& folder,
                         const std::string& where) {
  return ExternalFile(tensor, folder, where).read(type);
}

std::string external_location(const OnnxTensor& tensor, const std::string& where) {
  const fs::path none;
  return ExternalFile(tensor, none, where).location();
}

uint64_t external_offset(const OnnxTensor& tensor, const std::string& where) {
  const fs::path none;
  return ExternalFile(tensor, none, where).offset();
}

}  // namespace ramet::front
