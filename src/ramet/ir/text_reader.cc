#include "ramet/ir/text_reader.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>

#include "ramet/base/base64.h"
#include "ramet/base/error_types.h"

namespace ramet::ir {
namespace {

constexpr int kMaxRank = 16;
constexpr int64_t kMaxExtent = int64_t{1} << 40;
constexpr int64_t kMaxElements = int64_t{1} << 50;  // a tensor's bytes stay far below 2^63

}  // namespace

std::string TextReader::text_of_place(size_t place) const {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < place && i < text_.size(); ++i) text_[i] == '\n' ? (++line, column = 1) : ++column;
  return source_ + ":" + std::to_string(line) + ":" + std::to_string(column);
}

void TextReader::fail(const std::string& what, const std::string& expected) const {
  std::string found;
  for (size_t i = position_; i < text_.size() && i < position_ + 20 && text_[i] != '\n'; ++i)
    found += std::isprint(static_cast<unsigned char>(text_[i])) ? text_[i] : '?';
  throw FormatError({.what = what,
                     .where = text_of_place(position_),
                     .found = position_ >= text_.size() ? "the end of the text" : "'" + found + "'",
                     .expected = expected});
}

void TextReader::fail_at(size_t place, const std::string& what, const std::string& expected) {
  position_ = place;
  fail(what, expected);
}

void TextReader::skip_space() {
  while (position_ < text_.size()) {
    if (std::isspace(static_cast<unsigned char>(text_[position_])))
      ++position_;
    else if (text_[position_] == '#')
      while (position_ < text_.size() && text_[position_] != '\n') ++position_;
    else
      break;
  }
}

char TextReader::peek() {
  skip_space();
  return position_ < text_.size() ? text_[position_] : '\0';
}

bool TextReader::accept(char c) {
  if (peek() != c || position_ >= text_.size()) return false;
  ++position_;
  return true;
}

void TextReader::expect(char c) {
  if (!accept(c)) fail("unexpected text", std::string("'") + c + "'");
}

std::string TextReader::word() {
  skip_space();
  const size_t start = position_;
  while (position_ < text_.size() &&
         (std::isalnum(static_cast<unsigned char>(text_[position_])) || text_[position_] == '_'))
    ++position_;
  if (start == position_) fail("unexpected text", "a name");
  return std::string(text_.substr(start, position_ - start));
}

void TextReader::expect_word(const std::string& expected) {
  const size_t start = (skip_space(), position_);
  if (word() != expected) {
    position_ = start;
    fail("unexpected text", "'" + expected + "'");
  }
}

std::string TextReader::string() {
  expect('"');
  std::string value;
  for (;;) {
    if (position_ >= text_.size()) fail("a string does not end", "'\"'");
    const char c = text_[position_++];
    if (c == '"') return value;
    if (c != '\\') {
      value += c;
      continue;
    }
    if (position_ >= text_.size()) fail("a string does not end", "'\"'");
    const char escaped = text_[position_++];
    value += escaped == 'n' ? '\n' : escaped;
  }
}

int64_t TextReader::integer() {
  skip_space();
  int64_t value = 0;
  const auto result = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
  if (result.ec != std::errc()) fail("not an integer", "an integer of 64 bits");
  position_ = static_cast<size_t>(result.ptr - text_.data());
  return value;
}

std::vector<std::string> TextReader::strings() {
  std::vector<std::string> list;
  expect('[');
  if (accept(']')) return list;
  do list.push_back(string());
  while (accept(','));
  expect(']');
  return list;
}

std::vector<int64_t> TextReader::integers() {
  std::vector<int64_t> list;
  expect('[');
  if (accept(']')) return list;
  do list.push_back(integer());
  while (accept(','));
  expect(']');
  return list;
}

TensorType TextReader::type() {
  const size_t start = (skip_space(), position_);
  const std::string name = word();
  DType dtype;
  try {
    dtype = dtype_from_name(name);
  } catch (const Error& error) {
    position_ = start;
    fail(error.parts().what, error.parts().expected);
  }
  const size_t shape_start = (skip_space(), position_);
  std::vector<int64_t> dims = integers();
  int64_t elements = 1;
  bool fits = dims.size() <= kMaxRank;
  for (int64_t dim : dims) {
    fits = fits && dim >= 0 && dim <= kMaxExtent && (dim == 0 || elements <= kMaxElements / dim);
    if (fits) elements *= std::max<int64_t>(dim, 1);
  }
  if (!fits) {
    position_ = shape_start;
    fail("shape out of bounds", "at most 16 dimensions, none negative, at most 2^50 elements");
  }
  return {dtype, Shape(std::move(dims))};
}

Attribute TextReader::number() {
  skip_space();
  const size_t start = position_;
  while (position_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[position_])) ||
                                      std::string_view("+-.").find(text_[position_]) != std::string_view::npos))
    ++position_;
  const std::string_view token = text_.substr(start, position_ - start);
  const char *begin = token.data(), *end = begin + token.size();
  int64_t as_integer;
  if (const auto result = std::from_chars(begin, end, as_integer); result.ec == std::errc() && result.ptr == end)
    return as_integer;
  double as_float;
  if (const auto result = std::from_chars(begin, end, as_float); result.ec == std::errc() && result.ptr == end)
    return as_float;
  position_ = start;
  fail("not a number", "an attribute: true, 3, 0.5, \"text\", [1,2] or an element type");
}

/// An element of a tensor's list, in the bytes of the tensor's type.
void TextReader::element(DType dtype, std::vector<std::byte>& bytes) {
  const size_t start = (skip_space(), position_), size = size_of(dtype);
  bytes.resize(bytes.size() + size);
  std::byte* const to = bytes.data() + bytes.size() - size;
  if (dtype == DType::kU64) {  // which may be too large for an attribute
    const char *begin = text_.data() + position_, *end = text_.data() + text_.size();
    uint64_t natural = 0;
    const auto result = std::from_chars(begin, end, natural);
    const bool whole = result.ptr == end || std::string_view(",]").find(*result.ptr) != std::string_view::npos;
    if (result.ec == std::errc() && whole) {
      position_ += static_cast<size_t>(result.ptr - begin);
      std::memcpy(to, &natural, size);
      return;
    }
  }
  const Attribute value = number();
  const auto* integer = std::get_if<int64_t>(&value);
  if (integer && dtype == DType::kI64) {
    std::memcpy(to, integer, size);
  } else {
    const double wanted = integer ? static_cast<double>(*integer) : std::get<double>(value);
    if (is_floating(dtype) || integer) store_element(to, dtype, 0, wanted);
    if ((is_floating(dtype) || integer) && load_element(to, dtype, 0) == wanted) return;
    position_ = start;
    fail("the number is none of the tensor's type", std::string(name_of(dtype)));
  }
}

/// What follows the word "tensor". Nothing is taken from memory for elements that are not there.
TensorData TextReader::tensor() {
  expect('(');
  HostTensor result;
  result.type = type();
  expect(',');
  const size_t start = (skip_space(), position_);
  if (accept('[')) {
    if (!accept(']')) {
      do element(result.type.dtype, result.data);
      while (accept(','));
      expect(']');
    }
    if (static_cast<int64_t>(result.data.size()) != result.type.bytes()) {
      position_ = start;
      fail("not as many elements as the tensor's type has", std::to_string(result.type.elements()));
    }
    expect(')');
    return TensorData(std::move(result));
  }
  const std::string hash = string();
  if (tensor_of_hash && accept(')')) {
    const TensorData* const kept = tensor_of_hash(hash);
    if (!kept || kept->type() != result.type)
      fail_at(start, "no tensor of this hash and type is there", kept ? kept->type().text() : "");
    return *kept;
  }
  expect(',');
  auto bytes = bytes_of_base64(string());
  expect(')');
  if (!bytes || static_cast<int64_t>(bytes->size()) != result.type.bytes()) {
    position_ = start;
    fail("not the bytes of the tensor", std::to_string(result.type.bytes()) + " bytes in base64");
  }
  result.data = std::move(*bytes);
  TensorData data(std::move(result));
  if (data.hash().hex() != hash) {
    position_ = start;
    fail("the tensor's bytes are not those of its hash", data.hash().hex());
  }
  return data;
}

Attribute TextReader::attribute() {
  const char c = peek();
  if (c == '"') return string();
  if (c == '[') return integers();
  if (std::isalpha(static_cast<unsigned char>(c))) {
    const size_t start = position_;
    const std::string name = word();
    if (name == "true") return true;
    if (name == "false") return false;
    if (name == "tensor") return tensor();
    for (int i = 0; i < kDTypeCount; ++i)
      if (name_of(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    position_ = start;
  }
  return number();
}

int32_t TextReader::number_up_to(int32_t most) {
  const size_t place = (skip_space(), position_);
  const int64_t number = integer();
  if (number < 0 || number > most) {
    position_ = place;
    fail("number out of range", "0 to " + std::to_string(most));
  }
  return static_cast<int32_t>(number);
}

Attributes TextReader::attributes() {
  Attributes attributes;
  if (!accept('{') || accept('}')) return attributes;
  do {
    const size_t start = place();
    const std::string name = word();
    if (attributes.has(name)) fail_at(start, "a second attribute of this name");
    expect('=');
    attributes.set(name, attribute());
  } while (accept(','));
  expect('}');
  return attributes;
}

}  // namespace ramet::ir
