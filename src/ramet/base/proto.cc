#include "ramet/base/proto.h"

#include <bit>

namespace ramet {
namespace {

template <typename Bits>
void append_little_endian(std::string& to, Bits bits) {
  for (size_t i = 0; i < sizeof(Bits); ++i) to += static_cast<char>(bits >> 8 * i & 0xff);
}

uint64_t tag(int field, uint64_t wire) { return static_cast<uint64_t>(field) << 3 | wire; }

}  // namespace

void ProtoMessage::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) data_ += static_cast<char>(value | 0x80);
  data_ += static_cast<char>(value);
}

ProtoMessage& ProtoMessage::number(int field, uint64_t value) {
  varint(tag(field, 0));
  varint(value);
  return *this;
}

ProtoMessage& ProtoMessage::real(int field, double value) {
  varint(tag(field, 1));
  append_little_endian(data_, std::bit_cast<uint64_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::single(int field, float value) {
  varint(tag(field, 5));
  append_little_endian(data_, std::bit_cast<uint32_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::bytes(int field, std::string_view value) {
  varint(tag(field, 2));
  varint(value.size());
  data_ += value;
  return *this;
}

bool ProtoReader::fail() {
  damaged_ = true;
  rest_ = {};
  return false;
}

std::optional<uint64_t> ProtoReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    if (shift == 63 && byte > 1) return std::nullopt;  // more than 64 bits
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<uint64_t> ProtoReader::fixed(size_t bytes) {
  if (rest_.size() < bytes) return std::nullopt;
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(rest_[i])) << 8 * i;
  rest_.remove_prefix(bytes);
  return value;
}

bool ProtoReader::next() {
  if (rest_.empty()) return false;
  const auto head = varint();
  constexpr uint64_t kMostField = (1 << 29) - 1;
  if (!head || *head >> 3 == 0 || *head >> 3 > kMostField) return fail();
  field_ = static_cast<int>(*head >> 3);
  std::optional<uint64_t> value;
  switch (*head & 7) {
    case 0: wire_ = Wire::kVarint, value = varint(); break;
    case 1: wire_ = Wire::kFixed64, value = fixed(8); break;
    case 5: wire_ = Wire::kFixed32, value = fixed(4); break;
    case 2: wire_ = Wire::kBytes, value = varint(); break;
    default: return fail();
  }
  if (!value) return fail();
  number_ = *value;
  bytes_ = {};
  if (wire_ == Wire::kBytes) {
    if (*value > rest_.size()) return fail();
    bytes_ = rest_.substr(0, *value);
    rest_.remove_prefix(*value);
  }
  return true;
}

double ProtoReader::real() const { return wire_ == Wire::kFixed64 ? std::bit_cast<double>(number_) : 0; }

float ProtoReader::single() const {
  return wire_ == Wire::kFixed32 ? std::bit_cast<float>(static_cast<uint32_t>(number_)) : 0;
}

}  // namespace ramet
