#include "ramet/base/proto.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ramet::tests {
namespace {

TEST(Proto, BytesAreThoseOfTheFormat) {
  // The example of Protocol Buffers' own documentation: field 1 with 150, field 2 with "testing".
  EXPECT_EQ(ProtoMessage().number(1, 150).data(), std::string("\x08\x96\x01"));
  EXPECT_EQ(ProtoMessage().bytes(2, "testing").data(), std::string("\x12\x07testing"));
  EXPECT_EQ(ProtoMessage().single(2, 0.5f).data(), std::string("\x15\x00\x00\x00\x3f", 5));
}

TEST(Proto, ReadsBackWhatWasWritten) {
  ProtoMessage inner, outer;
  inner.number(15, 127).number(16, 128).number(2047, UINT64_MAX).real(1, -0.5).single(3, 0.25f);
  outer.message(1, inner).bytes(2, std::string("a\0b", 3)).number(3, 0);
  ProtoReader fields(outer.data());
  ASSERT_TRUE(fields.next());
  EXPECT_EQ(fields.field(), 1);
  ProtoReader below(fields.bytes());
  std::vector<std::pair<int, uint64_t>> numbers;
  while (below.next()) {
    if (below.wire() == ProtoReader::Wire::kVarint) numbers.emplace_back(below.field(), below.number());
    if (below.field() == 1) {
      EXPECT_EQ(below.real(), -0.5);
    }
    if (below.field() == 3) {
      EXPECT_EQ(below.single(), 0.25f);
    }
  }
  EXPECT_FALSE(below.damaged());
  EXPECT_EQ(numbers, (std::vector<std::pair<int, uint64_t>>{{15, 127}, {16, 128}, {2047, UINT64_MAX}}));
  ASSERT_TRUE(fields.next());
  EXPECT_EQ(fields.bytes(), std::string("a\0b", 3));
  EXPECT_EQ(fields.number(), 0u) << "bytes are no number";
  ASSERT_TRUE(fields.next());
  EXPECT_EQ(fields.field(), 3);
  EXPECT_FALSE(fields.next());
  EXPECT_FALSE(fields.damaged());
}

TEST(Proto, DamageEndsTheReading) {
  const std::vector<std::string> damaged = {
      std::string("\x08"),                                          // no value
      std::string("\x12\x7f") + "short",                            // more bytes than there are
      std::string("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),  // 2^64 - 1 bytes
      std::string("\x08") + std::string(11, '\xff'),                // a varint without an end
      std::string("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),  // 65 bits
      std::string("\x00\x01", 2),                                   // field 0
      std::string("\x0b"),                                          // a group, as proto2 had them
      std::string("\x09\x01\x02"),                                  // a double of two bytes
      std::string("\xf8\xff\xff\xff\xff\x01\x01"),                  // a field number that is too large
  };
  for (const std::string& bytes : damaged) {
    ProtoReader fields(bytes);
    EXPECT_FALSE(fields.next()) << ::testing::PrintToString(bytes);
    EXPECT_TRUE(fields.damaged()) << ::testing::PrintToString(bytes);
    EXPECT_FALSE(fields.next());
  }
}

}  // namespace
}  // namespace ramet::tests
