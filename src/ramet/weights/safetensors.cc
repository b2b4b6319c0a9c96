#include "ramet/weights/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "ramet/base/error_types.h"

namespace ramet::weights {
namespace {

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the format's own bound
constexpr size_t kMostRank = 16;
constexpr size_t kLengthBytes = 8;
constexpr uint64_t kDataAlignment = 64;

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr std::array<TypeName, kDTypeCount> kTypeNames = {{{"F32", DType::kF32},
                                                           {"F16", DType::kF16},
                                                           {"BF16", DType::kBF16},
                                                           {"F8_E4M3", DType::kF8E4M3},
                                                           {"F8_E5M2", DType::kF8E5M2},
                                                           {"I32", DType::kI32},
                                                           {"I64", DType::kI64},
                                                           {"BOOL", DType::kBool},
                                                           {"U8", DType::kU8},
                                                           {"U16", DType::kU16},
                                                           {"F64", DType::kF64},
                                                           {"I8", DType::kI8},
                                                           {"I16", DType::kI16},
                                                           {"U32", DType::kU32},
                                                           {"U64", DType::kU64}}};

std::string_view safetensors_name(DType dtype) {
  for (const auto& entry : kTypeNames)
    if (entry.dtype == dtype) return entry.name;
  internal_error("safetensors_name", "unknown type");
}

/// A name as it may stand in a message: short, and quoted.
std::string quote_name(std::string_view text) {
  return "'" + std::string(text.substr(0, 120)) + (text.size() > 120 ? "..." : "") + "'";
}

/// Builds the header from the events of the JSON parser, so that no document is ever held, nothing nests, and a key
/// that stands twice is seen.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::string source, SafetensorsHeader& header) : source_(std::move(source)), header_(header) {}

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a truth value"); }
  bool number_integer(number_integer_t value) override {
    fail("a number is negative", std::to_string(value), "0 or more");
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (dims_.size() == kMostRank) fail("too many dimensions", "", "at most " + std::to_string(kMostRank));
      if (value > INT64_MAX) fail("an extent is too large", std::to_string(value));
      dims_.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets) {
      if (offsets_.size() == 2) fail("data_offsets has more than two numbers");
      offsets_.push_back(value);
      return true;
    }
    return unexpected("a number");
  }
  bool number_float(number_float_t, const string_t& text) override {
    return unexpected("the number " + text.substr(0, 40));
  }
  bool binary(binary_t&) override { return unexpected("binary"); }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = value;
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return unexpected("a text");
    const auto known =
        std::find_if(kTypeNames.begin(), kTypeNames.end(), [&](const auto& t) { return t.name == value; });
    if (known == kTypeNames.end()) fail("unknown element type", quote_name(value), "one of " + known_types());
    entry_.type.dtype = known->dtype;
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kOutside) {
      place_ = Place::kTensors;
    } else if (place_ == Place::kTensors) {
      place_ = tensor_ == "__metadata__" ? Place::kMetadata : Place::kTensor;
      seen_.clear();
      dims_.clear(), offsets_.clear();
      entry_ = SafetensorsEntry{};
      entry_.name = tensor_;
    } else {
      return unexpected("an object");
    }
    return true;
  }
  bool end_object() override {
    if (place_ == Place::kTensor) finish_tensor();
    place_ = place_ == Place::kTensors ? Place::kOutside : Place::kTensors;
    return true;
  }
  bool start_array(size_t) override {
    if (place_ != Place::kTensor || (key_ != "shape" && key_ != "data_offsets")) return unexpected("a list");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }
  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool key(string_t& name) override {
    if (place_ == Place::kTensors) {
      tensor_ = name;
      if (!names_.insert(name).second) fail("the name stands twice");
      return true;
    }
    key_ = name;
    if (!seen_.insert(name).second) fail("the key " + quote_name(name) + " stands twice");
    if (place_ == Place::kTensor && name != "dtype" && name != "shape" && name != "data_offsets")
      fail("unknown key", quote_name(name), "dtype, shape and data_offsets");
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    std::string reason = error.what();
    if (const size_t text = reason.find("] "); text != std::string::npos) reason = reason.substr(text + 2);
    throw Error({.what = "the header is not JSON: " + reason.substr(0, 200),
                 .where = source_ + ", byte " + std::to_string(kLengthBytes + position)});
  }

 private:
  enum class Place { kOutside, kTensors, kTensor, kMetadata, kShape, kOffsets };

  [[noreturn]] void fail(const std::string& what, const std::string& found = "",
                         const std::string& expected = "") const {
    throw FormatError({.what = what,
                       .where = source_ + (tensor_.empty() ? "" : ", tensor " + quote_name(tensor_)),
                       .found = found,
                       .expected = expected});
  }
  bool unexpected(const std::string& found) const {
    switch (place_) {
      case Place::kOutside: fail("the header is not an object", found);
      case Place::kTensors: fail("a tensor is not described by an object", found);
      case Place::kMetadata: fail("metadata is not a text", found);
      case Place::kShape: fail("an extent is not a whole number", found);
      case Place::kOffsets: fail("an offset is not a whole number", found);
      case Place::kTensor: fail("the key " + quote_name(key_) + " has a value of the wrong kind", found);
    }
    return false;
  }
  static std::string known_types() {
    std::string text;
    for (const auto& type : kTypeNames) text += (text.empty() ? "" : ", ") + std::string(type.name);
    return text;
  }

  void finish_tensor() {
    for (const char* needed : {"dtype", "shape", "data_offsets"})
      if (!seen_.count(needed)) fail(std::string("the key '") + needed + "' is missing");
    if (offsets_.size() != 2) fail("data_offsets needs two numbers", std::to_string(offsets_.size()));
    entry_.type.shape = Shape(dims_);
    entry_.begin = offsets_[0], entry_.end = offsets_[1];
    if (entry_.begin > entry_.end) fail("data_offsets end before they begin", range_text());
    int64_t bytes = 0;
    try {
      bytes = entry_.type.bytes();
    } catch (const Error&) {
      fail("the shape is too large", entry_.type.shape.text());
    }
    if (entry_.end - entry_.begin != static_cast<uint64_t>(bytes))
      fail("data_offsets do not fit the shape", std::to_string(entry_.end - entry_.begin) + " bytes",
           std::to_string(bytes) + " bytes for " + entry_.type.text());
    header_.tensors.push_back(std::move(entry_));
  }
  std::string range_text() const {
    return "[" + std::to_string(entry_.begin) + ", " + std::to_string(entry_.end) + "]";
  }

  std::string source_;
  SafetensorsHeader& header_;
  Place place_ = Place::kOutside;
  std::string tensor_, key_;
  std::set<std::string> names_, seen_;
  std::vector<int64_t> dims_;
  std::vector<uint64_t> offsets_;
  SafetensorsEntry entry_;
};

/// Sorts the tensors by place and checks that they cover [0, size).
void check_cover(SafetensorsHeader& header, uint64_t size, const std::string& source) {
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t end = 0;
  for (const auto& tensor : header.tensors) {
    const std::string where = source + ", tensor " + quote_name(tensor.name);
    if (tensor.end > size)
      throw Error({.what = "the file ends before the tensor does; it was cut short or its header is wrong",
                   .where = where,
                   .found = std::to_string(size) + " bytes of data",
                   .expected = std::to_string(tensor.end) + " or more"});
    if (tensor.begin < end)
      throw Error({.what = "the tensor overlaps the one before it",
                   .where = where,
                   .found = "begin " + std::to_string(tensor.begin),
                   .expected = std::to_string(end)});
    if (tensor.begin > end)
      throw Error({.what = "bytes before the tensor belong to none",
                   .where = where,
                   .found = "begin " + std::to_string(tensor.begin),
                   .expected = std::to_string(end)});
    end = tensor.end;
  }
  if (end != size)
    throw Error({.what = "bytes after the last tensor belong to none",
                 .where = source,
                 .found = std::to_string(size) + " bytes of data",
                 .expected = std::to_string(end)});
}

std::string build_header(const std::vector<SafetensorsSpec>& tensors,
                         const std::map<std::string, std::string>& metadata, const std::string& source,
                         uint64_t& data_bytes) {
  std::set<std::string> names;
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  data_bytes = 0;
  for (const auto& tensor : tensors) {
    if (tensor.name.empty() || tensor.name == "__metadata__" || !names.insert(tensor.name).second)
      throw Error({.what = "a tensor's name is empty, reserved or stands twice",
                   .where = source,
                   .found = quote_name(tensor.name)});
    const auto bytes = static_cast<uint64_t>(tensor.type.bytes());
    header[tensor.name] = {{"dtype", safetensors_name(tensor.type.dtype)},
                           {"shape", tensor.type.shape.dims()},
                           {"data_offsets", {data_bytes, data_bytes + bytes}}};
    data_bytes += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error({.what = "a tensor's name or its metadata is not UTF-8", .where = source});
  }
  text.append((kDataAlignment - (kLengthBytes + text.size()) % kDataAlignment) % kDataAlignment, ' ');
  if (text.size() > kMostHeaderBytes)
    throw Error({.what = "too many tensors for one file", .where = source, .found = std::to_string(tensors.size())});
  return text;
}

/// Length and header.
std::string build_head(const std::vector<SafetensorsSpec>& tensors, const std::map<std::string, std::string>& metadata,
                       const std::string& source, uint64_t& data_bytes) {
  const std::string header = build_header(tensors, metadata, source, data_bytes);
  std::string length;
  for (size_t i = 0; i < kLengthBytes; ++i) length += static_cast<char>(header.size() >> 8 * i & 255);
  return length + header;
}

}  // namespace

std::string safetensors_head(const std::vector<SafetensorsSpec>& tensors, const std::string& source) {
  uint64_t data_bytes = 0;
  return build_head(tensors, {}, source, data_bytes);
}

SafetensorsHeader parse_safetensors_header(std::string_view file, const std::string& source) {
  if (file.size() < kLengthBytes)
    throw Error({.what = "not a safetensors file: it is shorter than a header's length",
                 .where = source,
                 .found = std::to_string(file.size()) + " bytes",
                 .expected = "8 or more"});
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length |= static_cast<uint64_t>(static_cast<unsigned char>(file[i])) << 8 * i;
  if (length > kMostHeaderBytes || length > file.size() - kLengthBytes)
    throw Error(
        {.what = "not a safetensors file, or cut short: the header is longer than the file or than the format allows",
         .where = source,
         .found = "a header of " + std::to_string(length) + " bytes in a file of " + std::to_string(file.size()),
         .expected = "at most " + std::to_string(std::min<uint64_t>(kMostHeaderBytes, file.size() - kLengthBytes))});
  const std::string_view text = file.substr(kLengthBytes, length);
  if (!text.starts_with('{'))
    throw Error({.what = "not a safetensors file: the header does not begin with '{'", .where = source});
  SafetensorsHeader header;
  HeaderReader reader(source, header);
  nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  header.data_offset = kLengthBytes + length;
  check_cover(header, file.size() - header.data_offset, source);
  return header;
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path)
    : path_(path), file_(path), header_(parse_safetensors_header(file_.view(), path.string())) {
  for (size_t i = 0; i < header_.tensors.size(); ++i) by_name_.emplace(header_.tensors[i].name, i);
}

const SafetensorsEntry* SafetensorsReader::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.tensors[found->second];
}

const SafetensorsEntry& SafetensorsReader::get(std::string_view name) const {
  if (const auto* tensor = find(name)) return *tensor;
  std::vector<std::string_view> names;
  for (const auto& tensor : header_.tensors) names.push_back(tensor.name);
  const std::string nearest = nearest_name(std::string(name), names);
  throw Error({.what = "no tensor of that name",
               .where = path_.string(),
               .found = quote_name(name),
               .expected = nearest.empty() ? "one of its " + std::to_string(names.size()) + " tensors"
                                           : "perhaps " + quote_name(nearest)});
}

std::span<const std::byte> SafetensorsReader::bytes(const SafetensorsEntry& tensor) const {
  return {reinterpret_cast<const std::byte*>(file_.data()) + header_.data_offset + tensor.begin,
          tensor.end - tensor.begin};
}

void SafetensorsReader::read(const SafetensorsEntry& tensor, uint64_t offset, std::span<std::byte> to) const {
  const auto all = bytes(tensor);
  if (offset > all.size() || to.size() > all.size() - offset)
    throw Error({.what = "a read goes past the end of the tensor",
                 .where = path_.string() + ", tensor " + quote_name(tensor.name),
                 .found = "bytes " + std::to_string(offset) + " + " + std::to_string(to.size()),
                 .expected = "at most " + std::to_string(all.size())});
  if (!to.empty()) std::memcpy(to.data(), all.data() + offset, to.size());
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<SafetensorsSpec>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), file_(path) {
  uint64_t data_bytes = 0;
  const std::string head = build_head(tensors, metadata, path.string(), data_bytes);
  file_bytes_ = head.size() + data_bytes;
  write(head.data(), head.size());
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(const void* data, size_t size) {
  if (size > file_bytes_ - written_)
    internal_error("SafetensorsWriter::write", "more bytes than the tensors of " + path_.string() + " have");
  file_.write(data, size);
  hasher_.update(data, size);
  written_ += size;
}

void SafetensorsWriter::close() {
  if (written_ != file_bytes_)
    internal_error("SafetensorsWriter::close",
                   path_.string() + " lacks " + std::to_string(file_bytes_ - written_) + " bytes");
  file_.close();
}

Hash SafetensorsWriter::hash() const { return hasher_.digest(); }

}  // namespace ramet::weights
