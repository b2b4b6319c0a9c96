#include "ramet/base/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ramet/base/error.h"

namespace ramet::tests {
namespace {

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Shape, CountsAndPrints) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape.text(), "[2,3,4]");
  EXPECT_EQ(shape.dim(-1), 4);
  EXPECT_EQ(shape[-3], 2);
  EXPECT_EQ(shape.strides(), (std::vector<int64_t>{12, 4, 1}));
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape().text(), "[]");
  EXPECT_TRUE(Shape().strides().empty());
  EXPECT_EQ((Shape{3, 0, 5}).elements(), 0);
}

TEST(Shape, SizesBeyondSixtyThreeBitsAreRefused) {
  const Shape huge{int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_EQ(
      message_of([&] { (void)huge.elements(); }),
      "a tensor larger than any memory; found [1099511627776,1099511627776]; expected fewer than 2^63 elements and "
      "bytes");
  // The elements fit; the bytes do not.
  const TensorType type{DType::kF32, Shape{int64_t{1} << 31, int64_t{1} << 31}};
  EXPECT_EQ(type.elements(), int64_t{1} << 62);
  EXPECT_THAT(message_of([&] { (void)type.bytes(); }), testing::StartsWith("a tensor larger than any memory"));
  EXPECT_THAT(message_of([] { (void)Shape({2, int64_t{1} << 62, 2, 2}).strides(); }),
              testing::StartsWith("a tensor larger than any memory"));
  // Nothing is nothing, in any order.
  EXPECT_EQ((Shape{0, int64_t{1} << 40, int64_t{1} << 40}).elements(), 0);
  EXPECT_EQ((Shape{int64_t{1} << 40, int64_t{1} << 40, 0}).elements(), 0);
}

TEST(TensorType, CountsAndPrints) {
  const TensorType type{DType::kBF16, Shape{16, 128}};
  EXPECT_EQ(type.text(), "bf16[16,128]");
  EXPECT_EQ(type.bytes(), 4096);
  EXPECT_EQ((TensorType{DType::kI64, Shape()}).bytes(), 8);
  EXPECT_NE(type, (TensorType{DType::kF16, Shape{16, 128}}));
}

TEST(NormalizeAxis, CountsFromEitherEnd) {
  for (int axis = 0; axis < 4; ++axis) {
    EXPECT_EQ(normalize_axis(axis, 4, "op"), axis);
    EXPECT_EQ(normalize_axis(axis - 4, 4, "op"), axis);
  }
  EXPECT_EQ(message_of([] { normalize_axis(4, 4, "node sum.1"); }),
            "node sum.1: axis out of range; found 4; expected an axis in [-4, 4)");
  EXPECT_EQ(message_of([] { normalize_axis(-5, 4, "node sum.1"); }),
            "node sum.1: axis out of range; found -5; expected an axis in [-4, 4)");
  EXPECT_NE(message_of([] { normalize_axis(int64_t{1} << 40, 4, "x"); }), "no error");
  EXPECT_NE(message_of([] { normalize_axis(0, 0, "x"); }), "no error");
}

TEST(Broadcast, FollowsNumPysRule) {
  EXPECT_EQ(broadcast_shapes({4, 1}, {3}, ""), (Shape{4, 3}));
  EXPECT_EQ(broadcast_shapes({3}, {4, 1}, ""), (Shape{4, 3}));
  EXPECT_EQ(broadcast_shapes({}, {2, 5}, ""), (Shape{2, 5}));
  EXPECT_EQ(broadcast_shapes({8, 1, 6, 1}, {7, 1, 5}, ""), (Shape{8, 7, 6, 5}));
  EXPECT_EQ(broadcast_shapes({0}, {1}, ""), (Shape{0}));
  EXPECT_EQ(
      message_of([] { broadcast_shapes({2, 3}, {4, 3}, "node add.7"); }),
      "node add.7: shapes do not broadcast; found [2,3] and [4,3]; expected equal extents, or 1, in each dimension "
      "counted from the last");
  EXPECT_NE(message_of([] { broadcast_shapes({0}, {2}, ""); }), "no error");
}

}  // namespace
}  // namespace ramet::tests
