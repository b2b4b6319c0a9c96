// NumPy's files: numpy/lib/format.py documents .npy; .npz is a zip archive of them.

#include <zip.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <memory>

#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/data/arrays.h"

namespace ramet::data {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";

[[noreturn]] void fail(const std::string& source, std::string what, std::string found = "", std::string expected = "",
                       std::string remedy = "") {
  throw FormatError({.what = std::move(what),
                     .where = source,
                     .found = std::move(found),
                     .expected = std::move(expected),
                     .remedy = std::move(remedy)});
}

template <typename T>
T number_at(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Reads the header's Python literal: a dictionary of 'descr', 'fortran_order' and 'shape'.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  void parse() {
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && descr.empty())
        descr = quoted();
      else if (key == "fortran_order" && !has_order_)
        has_order_ = true, fortran = truth();
      else if (key == "shape" && !has_shape_)
        has_shape_ = true, dims = tuple();
      else
        wrong("an unknown or repeated key");
      if (!take(',') && !at('}')) wrong("no comma");
    }
    skip();
    if (next_ != text_.size()) wrong("more than a dictionary");
    if (descr.empty() || !has_order_ || !has_shape_) wrong("a key is missing");
  }

  std::string_view descr;
  bool fortran = false;
  std::vector<int64_t> dims;

 private:
  [[noreturn]] void wrong(const char* found) const {
    fail(source_, "the header is not as NumPy writes it", found, "{'descr': ..., 'fortran_order': ..., 'shape': ...}");
  }
  void skip() {
    while (next_ < text_.size() && (text_[next_] == ' ' || text_[next_] == '\n')) ++next_;
  }
  bool at(char c) {
    skip();
    return next_ < text_.size() && text_[next_] == c;
  }
  bool take(char c) {
    if (!at(c)) return false;
    ++next_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) wrong("another character where '{', ':' or '(' belongs");
  }
  std::string_view quoted() {
    skip();
    const char quote = next_ < text_.size() ? text_[next_] : ' ';
    if (quote == '[')
      fail(source_, "an array of records is not read", "fields", "one type for all elements",
           "Save each field as an array of its own");
    if (quote != '\'' && quote != '"') wrong("no text in quotes");
    const size_t end = text_.find(quote, next_ + 1);
    if (end == std::string_view::npos) wrong("a text without its end");
    const std::string_view value = text_.substr(next_ + 1, end - next_ - 1);
    next_ = end + 1;
    return value;
  }
  bool truth() {
    skip();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (text_.substr(next_).starts_with(word)) {
        next_ += word.size();
        return value;
      }
    wrong("neither True nor False");
  }
  std::vector<int64_t> tuple() {
    constexpr size_t kMostDimensions = 32;  // NumPy's own limit for a long time
    std::vector<int64_t> numbers;
    expect('(');
    while (!take(')')) {
      skip();
      int64_t value = 0;
      const auto [end, error] = std::from_chars(text_.data() + next_, text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0) wrong("an extent that is no number of 0 or more");
      next_ = static_cast<size_t>(end - text_.data());
      numbers.push_back(value);
      if (numbers.size() > kMostDimensions) wrong("too many dimensions");
      if (!take(',') && !at(')')) wrong("no comma");
    }
    return numbers;
  }

  std::string_view text_;
  const std::string& source_;
  size_t next_ = 0;
  bool has_order_ = false, has_shape_ = false;
};

/// The element type of a `descr` such as "<f4".
std::string stored_type(std::string_view descr, const std::string& source) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {"f2", "f16"}, {"f4", "f32"}, {"f8", "f64"}, {"i1", "i8"},  {"i2", "i16"}, {"i4", "i32"},
      {"i8", "i64"}, {"u1", "u8"},  {"u2", "u16"}, {"u4", "u32"}, {"u8", "u64"}, {"b1", "bool"}};
  const std::string found(descr);
  if (descr.size() == 3 && descr[0] == '>')
    fail(source, "the array is big-endian", found, "little-endian",
         "Save it as array.astype(array.dtype.newbyteorder('<'))");
  if (descr.size() == 3 && (descr[0] == '<' || descr[0] == '|' || descr[0] == '='))
    for (const auto& [name, stored] : kTypes)
      if (descr.substr(1) == name) return std::string(stored);
  if (descr.size() > 1 && descr[1] == 'c')
    fail(source, "complex numbers are not supported", found, "floats, integers or bools",
         "Save the real and the imaginary part as two arrays");
  fail(source, "the array's element type is not read", found, "f2, f4, f8, i1 to i8, u1 to u8 or b1",
       "Save it as one of these types");
}

/// Where an entry of a zip archive lies in its file.
struct ZipEntry {
  std::string name;
  uint16_t method = 0, flags = 0;
  uint64_t packed = 0, size = 0, header = 0;
};

/// The central directory of a zip archive: PKWARE's APPNOTE.TXT, 4.3.12 to 4.3.16.
class ZipDirectory {
 public:
  ZipDirectory(std::string_view file, const std::string& source) : file_(file), source_(source) {}

  std::vector<ZipEntry> entries() {
    const auto [count, offset] = find_directory();
    std::vector<ZipEntry> entries;
    size_t at = offset;
    for (uint64_t i = 0; i < count; ++i) {
      need(at, 46);
      if (number_at<uint32_t>(file_, at) != 0x02014b50) damaged();
      ZipEntry entry;
      entry.flags = number_at<uint16_t>(file_, at + 8);
      entry.method = number_at<uint16_t>(file_, at + 10);
      entry.packed = number_at<uint32_t>(file_, at + 20);
      entry.size = number_at<uint32_t>(file_, at + 24);
      entry.header = number_at<uint32_t>(file_, at + 42);
      const size_t name = number_at<uint16_t>(file_, at + 28), extra = number_at<uint16_t>(file_, at + 30),
                   comment = number_at<uint16_t>(file_, at + 32);
      need(at + 46, name + extra + comment);
      entry.name = file_.substr(at + 46, name);
      take_large(entry, file_.substr(at + 46 + name, extra));
      entries.push_back(std::move(entry));
      at += 46 + name + extra + comment;
    }
    return entries;
  }

  /// The bytes of an entry as they lie in the file.
  std::string_view bytes_of(const ZipEntry& entry) const {
    need(entry.header, 30);
    if (number_at<uint32_t>(file_, entry.header) != 0x04034b50) damaged();
    const uint64_t begin = entry.header + 30 + number_at<uint16_t>(file_, entry.header + 26) +
                           number_at<uint16_t>(file_, entry.header + 28);
    need(begin, entry.packed);
    return file_.substr(begin, entry.packed);
  }

 private:
  [[noreturn]] void damaged() const { fail(source_, "the archive is damaged, or no zip archive"); }
  void need(uint64_t begin, uint64_t bytes) const {
    if (begin > file_.size() || bytes > file_.size() - begin) damaged();
  }

  /// How many entries the directory has, and where it begins.
  std::pair<uint64_t, uint64_t> find_directory() const {
    constexpr size_t kEnd = 22, kMostComment = 65535;
    if (file_.size() < kEnd) damaged();
    const size_t least = file_.size() - std::min(file_.size(), kEnd + kMostComment);
    size_t end = file_.size() - kEnd;
    while (number_at<uint32_t>(file_, end) != 0x06054b50) {
      if (end == least) damaged();
      --end;
    }
    uint64_t count = number_at<uint16_t>(file_, end + 10), offset = number_at<uint32_t>(file_, end + 16);
    if ((count == 0xFFFF || offset == 0xFFFFFFFF) && end >= 20 && number_at<uint32_t>(file_, end - 20) == 0x07064b50) {
      const auto large = number_at<uint64_t>(file_, end - 20 + 8);
      need(large, 56);
      if (number_at<uint32_t>(file_, large) != 0x06064b50) damaged();
      count = number_at<uint64_t>(file_, large + 32), offset = number_at<uint64_t>(file_, large + 48);
    }
    if (count > file_.size() / 46) damaged();
    return {count, offset};
  }

  /// Sizes and places of 64 bits, for those that do not fit 32.
  void take_large(ZipEntry& entry, std::string_view extra) const {
    for (size_t at = 0; at + 4 <= extra.size();) {
      const size_t size = number_at<uint16_t>(extra, at + 2);
      if (size > extra.size() - at - 4) damaged();
      if (number_at<uint16_t>(extra, at) == 1) {
        std::string_view left = extra.substr(at + 4, size);
        for (uint64_t* field : {&entry.size, &entry.packed, &entry.header})
          if (*field == 0xFFFFFFFF) {
            if (left.size() < 8) damaged();
            *field = number_at<uint64_t>(left, 0);
            left.remove_prefix(8);
          }
      }
      at += 4 + size;
    }
  }

  std::string_view file_;
  const std::string& source_;
};

struct CloseZip {
  void operator()(zip_t* zip) const { zip_discard(zip); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

/// A compressed entry as it was before; libzip checks its sum.
std::shared_ptr<const std::string> inflate(const std::filesystem::path& path, const ZipEntry& entry, uint64_t number,
                                           const std::string& source) {
  constexpr uint64_t kMostFactor = 1100;  // deflate makes no more than 1032 bytes of one
  if (entry.size > (entry.packed + 1) * kMostFactor) fail(source, "the entry cannot be as large as it says");
  const std::unique_ptr<zip_t, CloseZip> zip(zip_open(path.c_str(), ZIP_RDONLY, nullptr));
  const std::unique_ptr<zip_file_t, CloseZip> file(zip ? zip_fopen_index(zip.get(), number, 0) : nullptr);
  if (!file) fail(source, "the entry cannot be read", "", "", "Save the arrays again");
  auto bytes = std::make_shared<std::string>(entry.size, '\0');
  uint64_t done = 0;
  while (done < entry.size) {
    const auto read = zip_fread(file.get(), bytes->data() + done, entry.size - done);
    if (read <= 0) fail(source, "the entry is not whole");
    done += static_cast<uint64_t>(read);
  }
  char behind;  // the end of the stream is where libzip compares the checksum
  if (zip_fread(file.get(), &behind, 1) != 0) fail(source, "the entry is damaged");
  return bytes;
}

/// What stands before the data of a .npy file, and where the data begin.
std::pair<HeaderParser, size_t> header_of(std::string_view file, const std::string& source) {
  if (file.size() < 10 || !file.starts_with(kMagic))
    fail(source, "this is no .npy file", "another beginning", "\\x93NUMPY");
  const int major = static_cast<unsigned char>(file[6]);
  if (major < 1 || major > 3) fail(source, "a version of .npy that is not known", std::to_string(major), "1, 2 or 3");
  const size_t begin = major == 1 ? 10 : 12;
  if (file.size() < begin) fail(source, "the file is not whole");
  const uint64_t length = major == 1 ? number_at<uint16_t>(file, 8) : number_at<uint32_t>(file, 8);
  if (length > file.size() - begin)
    fail(source, "the file is not whole", std::to_string(file.size()) + " bytes",
         "a header of " + std::to_string(length) + " bytes");
  HeaderParser header(file.substr(begin, length), source);
  header.parse();
  return {header, begin + length};
}

}  // namespace

std::optional<std::string_view> npy_pickle(std::string_view file, const std::string& source) {
  const auto [header, begin] = header_of(file, source);
  if (header.descr != "|O" && header.descr != "O") return {};
  return file.substr(begin);
}

ArrayColumn parse_npy(std::string_view file, const std::string& source) {
  const auto [header, begin] = header_of(file, source);
  ArrayColumn column;
  column.stored = stored_type(header.descr, source);
  column.shape = Shape(header.dims);
  column.where = source;
  if (header.fortran && column.shape.rank() > 1)
    fail(source, "the array lies in Fortran's order", "", "C order", "Save numpy.ascontiguousarray(array)");
  const int64_t element = stored_size(column.stored), elements = column.shape.elements();
  const uint64_t there = file.size() - begin;
  if (elements > std::numeric_limits<int64_t>::max() / element ||
      there != static_cast<uint64_t>(elements) * static_cast<uint64_t>(element))
    fail(source, "the file has other bytes than its header says", std::to_string(there) + " bytes of data",
         column.stored + column.shape.text());
  column.data = reinterpret_cast<const std::byte*>(file.data() + begin);
  return column;
}

std::vector<ArrayColumn> open_npy(const std::filesystem::path& path) {
  const auto map = std::make_shared<const MappedFile>(path);
  ArrayColumn column = parse_npy(map->view(), path.string());
  column.name = path.stem().string();
  column.keeper = map;
  return {std::move(column)};
}

std::vector<ArrayColumn> open_npz(const std::filesystem::path& path) {
  constexpr uint16_t kStored = 0, kEncrypted = 1;
  const auto map = std::make_shared<const MappedFile>(path);
  const std::string archive = path.string();
  ZipDirectory directory(map->view(), archive);
  std::vector<ArrayColumn> columns;
  uint64_t number = 0;
  for (const ZipEntry& entry : directory.entries()) {
    const std::string source = archive + ": " + entry.name;
    if (entry.flags & kEncrypted) fail(source, "the entry is encrypted");
    if (entry.method == kStored) {
      if (entry.packed != entry.size) fail(source, "the entry is damaged");
      columns.push_back(parse_npy(directory.bytes_of(entry), source));
      columns.back().keeper = map;
    } else {
      const auto bytes = inflate(path, entry, number, source);
      columns.push_back(parse_npy(*bytes, source));
      columns.back().keeper = bytes;
      columns.back().host_bytes = static_cast<int64_t>(bytes->size());
    }
    columns.back().name = entry.name.ends_with(".npy") ? entry.name.substr(0, entry.name.size() - 4) : entry.name;
    ++number;
  }
  if (columns.empty()) fail(archive, "the archive has no array");
  return columns;
}

}  // namespace ramet::data
