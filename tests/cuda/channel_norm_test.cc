#include <gtest/gtest.h>

#include "cuda/row_data.h"

// Moments of channels on the card, bit for bit as the class `hopper` on the host; every_op_test.cc has small shapes.

namespace ramet::tests {
namespace {

/// All statistics of [samples, space, channels] or, without space, of [samples, channels].
void check_channels(DType dtype, Shape shape, int64_t groups, bool specials = false) {
  const bool space = shape.rank() > 2;
  const HostTensor a = row_numbers(dtype, shape, 1, specials), dy = row_numbers(dtype, shape, 2, specials);
  const int64_t channels = shape.dim(-1);
  Attributes batch, samples{{"each_sample", true}}, grouped{{"groups", groups}};
  if (space)
    for (Attributes* attributes : {&batch, &samples, &grouped}) attributes->set("channels_last", true);
  check_on_card("channel_moments", {a}, batch);
  const Shape one = space ? Shape{1, 1, channels} : Shape{1, channels};
  check_on_card("channel_sums", {dy, a, row_numbers(DType::kF32, one, 3)}, batch);
  if (!space) return;
  check_on_card("channel_moments", {a}, grouped);
  check_on_card("channel_sums", {dy, a, row_numbers(DType::kF32, {shape[0], 1, channels}, 3)}, samples);
  HostTensor used(TensorType{DType::kI32, {shape[0]}});
  for (int64_t i = 0; i < shape[0]; ++i) used.set(i, static_cast<double>(shape[1] * i / 2));  // none, half of them, all
  check_on_card("channel_moments", {a, used}, grouped);
}

TEST(CudaChannelNorm, MomentsAndSumsOfManyRows) {
  for (const DType dtype : kRowTypes) {
    for (const int64_t rows : {1, 63, 64, 65, 64 * 3, 64 * 16 + 1, 64 * 37 + 5}) check_channels(dtype, {rows, 5}, 1);
    check_channels(dtype, {3, 200, 70}, 7);
    check_channels(dtype, {2, 64 * 18, 12}, 3);
    check_channels(dtype, {2, 130, 33}, 11, true);
  }
}

}  // namespace
}  // namespace ramet::tests
