#include "ramet/weights/zip_file.h"

#include <zip.h>

#include <algorithm>
#include <optional>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"

namespace ramet::weights {
namespace {

struct CloseZip {
  void operator()(zip_t* zip) const { zip_discard(zip); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

constexpr const char* kCutShort = "The file may be cut short: compare its size with where it came from";

}  // namespace

struct ZipFile::Open {
  std::optional<MappedFile> map{};
  std::unique_ptr<zip_t, CloseZip> zip{};
};

ZipFile::ZipFile(const std::filesystem::path& path, std::string expected)
    : source_(path.string()), expected_(std::move(expected)), open_(std::make_unique<Open>()) {
  open_->map.emplace(path);
  open(open_->map->data(), open_->map->size());
}

ZipFile::ZipFile(const void* bytes, size_t size, const std::string& source, std::string expected)
    : source_(source), expected_(std::move(expected)), open_(std::make_unique<Open>()) {
  open(bytes, size);
}

ZipFile::~ZipFile() = default;

void ZipFile::refuse(const std::string& what, const std::string& found, const std::string& remedy) const {
  throw FormatError({.what = what, .where = source_, .found = found, .expected = expected_, .remedy = remedy});
}

void ZipFile::open(const void* bytes, size_t size) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes, size, 0, &error);
  open_->zip.reset(source ? zip_open_from_source(source, ZIP_RDONLY, &error) : nullptr);
  if (open_->zip) return zip_error_fini(&error);
  if (source) zip_source_free(source);
  const std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  refuse("not a whole zip file", reason, kCutShort);
}

std::vector<std::string> ZipFile::names() const {
  std::vector<std::string> all;
  const zip_int64_t count = zip_get_num_entries(open_->zip.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* name = zip_get_name(open_->zip.get(), static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    all.emplace_back(name ? name : "");
  }
  return all;
}

bool ZipFile::has(const std::string& name) const {
  return zip_name_locate(open_->zip.get(), name.c_str(), ZIP_FL_ENC_RAW) >= 0;
}

uint64_t ZipFile::size(const std::string& name) const {
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_stat(open_->zip.get(), name.c_str(), ZIP_FL_ENC_RAW, &stat) != 0 || !(stat.valid & ZIP_STAT_SIZE))
    refuse("a part of the file is missing", "no entry '" + name + "'", kCutShort);
  return stat.size;
}

std::string ZipFile::read(const std::string& name, uint64_t most) const {
  const uint64_t size = this->size(name);
  if (size > most) refuse("an entry of this size", name + ", " + std::to_string(size) + " bytes");
  const std::unique_ptr<zip_file_t, CloseZip> file(zip_fopen(open_->zip.get(), name.c_str(), ZIP_FL_ENC_RAW));
  if (!file) refuse("a part of the file cannot be read", name + ": " + zip_strerror(open_->zip.get()));
  std::string bytes;
  constexpr size_t kPiece = 1 << 24;
  while (bytes.size() < size) {
    const size_t before = bytes.size();
    bytes.resize(std::min<uint64_t>(size, before + kPiece));
    const zip_int64_t got = zip_fread(file.get(), bytes.data() + before, bytes.size() - before);
    if (got <= 0) refuse("a part of the file cannot be read", name + " ends early or its checksum is wrong");
    bytes.resize(before + static_cast<size_t>(got));
  }
  char more;  // the checksum is looked at when the end is met
  if (zip_fread(file.get(), &more, 1) != 0)
    refuse("a part of the file cannot be read", name + ": its checksum is wrong");
  return bytes;
}

}  // namespace ramet::weights
