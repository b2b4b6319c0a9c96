#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet {

/// Writes Protocol Buffers' wire format: fields by their numbers (protobuf.dev/programming-guides/encoding).
class ProtoMessage {
 public:
  ProtoMessage& number(int field, uint64_t value);         ///< wire type 0
  ProtoMessage& real(int field, double value);             ///< wire type 1
  ProtoMessage& single(int field, float value);            ///< wire type 5
  ProtoMessage& bytes(int field, std::string_view value);  ///< wire type 2: text too
  ProtoMessage& message(int field, const ProtoMessage& value) { return bytes(field, value.data_); }
  const std::string& data() const { return data_; }

 private:
  void varint(uint64_t value);
  std::string data_;
};

/// Reads the fields of a message one by one, whatever the bytes are: a field that is cut off or has an unknown wire
/// type ends the reading, and `damaged` is true from then on. Never reads beyond the text given, which must outlive the
/// reader.
class ProtoReader {
 public:
  enum class Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  explicit ProtoReader(std::string_view text) : rest_(text) {}

  /// Moves to the next field. False at the end, and where the message is damaged.
  bool next();
  bool damaged() const { return damaged_; }

  int field() const { return field_; }
  Wire wire() const { return wire_; }
  /// The value of the field as a kind of number; 0 where its wire type is another.
  uint64_t number() const { return wire_ == Wire::kVarint ? number_ : 0; }
  int64_t integer() const { return static_cast<int64_t>(number()); }
  double real() const;   ///< of a fixed64
  float single() const;  ///< of a fixed32
  /// The bytes of a text or message; empty where the wire type is another.
  std::string_view bytes() const { return wire_ == Wire::kBytes ? bytes_ : std::string_view(); }

 private:
  bool fail();
  std::optional<uint64_t> varint();
  std::optional<uint64_t> fixed(size_t bytes);

  std::string_view rest_, bytes_;
  uint64_t number_ = 0;
  int field_ = 0;
  Wire wire_ = Wire::kVarint;
  bool damaged_ = false;
};

}  // namespace ramet
