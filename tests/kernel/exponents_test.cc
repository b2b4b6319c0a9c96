#include "ramet/ops/exponents.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernel/kernel_tools.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/interpret.h"

namespace ramet::tests {
namespace {

/// Every exponent that f32 has, infinities and NaNs, and all bit patterns of 16-bit types.
TEST(Exponents, HaveTheirBins) {
  for (int exponent = kLeastExponent; exponent <= kMostExponent; ++exponent)
    for (const double part : {1.0, 1.25, 1.999}) {
      const auto value = static_cast<float>(std::ldexp(part, exponent));
      const int expected = std::ilogb(value);  // subnormals may have been rounded up
      EXPECT_EQ(exponent_bin(value), bin_of_exponent(expected)) << value;
      EXPECT_EQ(exponent_bin(-value), bin_of_exponent(expected)) << value;
    }
  EXPECT_EQ(exponent_bin(0.0f), kZeroBin);
  EXPECT_EQ(exponent_bin(-0.0f), kZeroBin);
  EXPECT_EQ(exponent_bin(INFINITY), kInfinityBin);
  EXPECT_EQ(exponent_bin(std::numeric_limits<float>::quiet_NaN()), kNanBin);
  EXPECT_EQ(bin_of_exponent(128), kInfinityBin);
  EXPECT_EQ(bin_of_exponent(-200), 1);
}

HostTensor histogram(const HostTensor& a, const Backend& backend) {
  return interpret_node(node_of("exponent_histogram", {a}, {}), backend, {a}).at(0);
}

TEST(Exponents, TheCpuCountsWhatTheReferenceCounts) {
  const RandomStream random(5, RandomPurpose::kTest, 0, 9);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (const int64_t elements : {1, 63, 4096, 4097, 50001})
      for (const int range : {0, 3, 30, 63, 64, 65, 200}) {
        HostTensor a(TensorType{dtype, Shape{elements}});
        for (int64_t i = 0; i < elements; ++i) {
          const auto draw = static_cast<uint64_t>(3 * i);
          const double mantissa = 1 + random.below(draw, 1000) / 1000.0;
          const int down = static_cast<int>(random.below(draw + 1, static_cast<uint32_t>(range + 1)));
          a.set(i, i % 7 == 3 ? 0.0 : std::ldexp(i % 2 ? mantissa : -mantissa, 20 - down));
        }
        if (range == 30 && elements > 4096) a.set(4096, NAN), a.set(17, -INFINITY), a.set(40, 1e-40);
        EXPECT_EQ(histogram(a, cpu_backend()), histogram(a, reference_backend())) << elements << " " << range;
      }
}

TEST(Exponents, NothingButZerosAndNothingAtAll) {
  for (const int64_t elements : {0, 100, 5000}) {
    const HostTensor found = histogram(HostTensor(TensorType{DType::kF32, Shape{elements}}), cpu_backend());
    for (int bin = 0; bin < kExponentBins; ++bin)
      EXPECT_EQ(found.get(bin), bin == kZeroBin ? static_cast<double>(elements) : 0) << bin;
  }
}

TEST(Exponents, SharesAreOfWhatIsNotZero) {
  int64_t bins[kExponentBins] = {};
  bins[kZeroBin] = 1000;
  bins[bin_of_exponent(-24)] = 3, bins[bin_of_exponent(0)] = 4, bins[bin_of_exponent(15)] = 2, bins[kNanBin] = 1;
  EXPECT_EQ(counted(bins), 10);
  EXPECT_EQ(counted_from(bins, 15), 3);
  EXPECT_EQ(counted_from(bins, 16), 1);
  EXPECT_EQ(counted_below(bins, -24), 0);
  EXPECT_EQ(counted_below(bins, -23), 3);
}

}  // namespace
}  // namespace ramet::tests
