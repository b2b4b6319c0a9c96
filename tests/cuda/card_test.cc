#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "cuda/card_kernels.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/hopper/product.h"
#include "support/test_card.h"

// What device code may use (kernel.cuh) means the same on the fake card and on a true one.

namespace ramet::tests {
namespace {

std::vector<int> numbers(size_t count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(Card, ShufflesWithinWarpsAndPartsOfThem) {
  const CudaSource source = test_source(R"(
    const int t = threadIdx.x, lane = t % 32;
    int* out = a.data + t * 10;
    out[0] = __shfl_sync(0xffffffffu, t, 5);
    out[1] = __shfl_sync(0xffffffffu, t, lane + 3, 8);
    out[2] = __shfl_xor_sync(0xffffffffu, t, 16);
    out[3] = __shfl_xor_sync(0xffffffffu, t, 1, 16);
    out[4] = __shfl_down_sync(0xffffffffu, t, 4);
    out[5] = __shfl_down_sync(0xffffffffu, t, 3, 16);
    out[6] = __shfl_up_sync(0xffffffffu, t, 2);
    out[7] = __shfl_up_sync(0xffffffffu, t, 3, 8);
    out[8] = (int)__ballot_sync(0xffffffffu, lane % 3 == 0);
    out[9] = (int)(__shfl_xor_sync(0xffffffffu, (long long)t << 33, 1) >> 33);
  )");
  const std::vector<int> found = run_test_kernel(source, numbers(640), {.threads = 64});
  for (int t = 0; t < 64; ++t) {
    const int lane = t % 32, warp = t - lane;
    const std::vector<int> expected = {warp + 5,
                                       warp + (lane & -8) + (lane + 3) % 8,
                                       t ^ 16,
                                       t ^ 1,
                                       lane + 4 < 32 ? t + 4 : t,
                                       lane % 16 + 3 < 16 ? t + 3 : t,
                                       lane >= 2 ? t - 2 : t,
                                       lane % 8 >= 3 ? t - 3 : t,
                                       0x49249249,
                                       t ^ 1};
    const auto first = found.begin() + t * 10;
    ASSERT_EQ(std::vector<int>(first, first + 10), expected) << "thread " << t;
  }
}

TEST(Card, BlocksShareMemoryAndMeet) {
  const CudaSource source = test_source(R"(
    RAMET_SHARED(int, values, 256);
    RAMET_DYNAMIC_SHARED(more);
    int* again = (int*)more;
    int* mine = a.data + blockIdx.x * 256;
    for (int round = 0; round < 3; ++round) {
      values[threadIdx.x] = mine[threadIdx.x];
      __syncthreads();
      again[threadIdx.x] = values[(threadIdx.x + 100) % 256] + round;
      __syncthreads();
      mine[threadIdx.x] = again[255 - threadIdx.x];
    }
  )");
  std::vector<int> expected = numbers(256 * 9);
  for (int block = 0; block < 9; ++block)
    for (int round = 0; round < 3; ++round) {
      const std::vector<int> before(expected.begin() + block * 256, expected.begin() + block * 256 + 256);
      for (int t = 0; t < 256; ++t)
        expected[static_cast<size_t>(block * 256 + t)] = before[static_cast<size_t>(255 - t + 100) % 256] + round;
    }
  EXPECT_EQ(run_test_kernel(source, numbers(256 * 9), {.x = 9, .threads = 256, .dynamic_shared_bytes = 1024}),
            expected);
}

TEST(Card, CountsAtomically) {
  const CudaSource source = test_source(R"(
    atomicAdd(a.data, 1);
    atomicMax(a.data + 1, (int)(blockIdx.x * blockDim.x + threadIdx.x));
    atomicMin(a.data + 2, -(int)threadIdx.x);
    atomicCAS(a.data + 3, 3, 77);
    atomicAdd((unsigned long long*)(a.data + 4), 1ull << 31);
  )");
  const std::vector<int> found = run_test_kernel(source, {0, 1, 2, 3, 0, 0}, {.x = 10, .threads = 96});
  EXPECT_EQ(found, (std::vector<int>{960, 959, -95, 77, 0, 480}));
}

TEST(Card, GridsHaveThreeDimensions) {
  const CudaSource source = test_source(R"(
    const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    if (threadIdx.x == 0) a.data[block] += block * 3;
  )");
  std::vector<int> expected = numbers(5 * 4 * 3);
  for (int& value : expected) value *= 4;
  EXPECT_EQ(run_test_kernel(source, numbers(5 * 4 * 3), {.x = 5, .y = 4, .z = 3, .threads = 32}), expected);
}

/// The tensor core of the fake card, by fragments, has the steps of the model.
TEST(Card, MultipliesAsTheModel) {
  if (has_real_card()) GTEST_SKIP() << "the fragments of the fake card; a true one's are device/tensor_core.cuh's";
  const CudaSource source = test_source(R"(
    const int* mine = a.data + threadIdx.x * 10;
    unsigned x[4] = {(unsigned)mine[0], (unsigned)mine[1], (unsigned)mine[2], (unsigned)mine[3]};
    unsigned y[2] = {(unsigned)mine[4], (unsigned)mine[5]};
    float d[4];
    for (int i = 0; i < 4; ++i) d[i] = __int_as_float(mine[6 + i]);
    fake_mma_16x8x16(a.n % 100 != 20, d, x, y);
    for (int i = 0; i < 4; ++i) a.data[threadIdx.x * 10 + 6 + i] = __float_as_int(d[i]);
  )");
  for (const HopperType type : {HopperType::kBf16, HopperType::kF16}) {
    uint16_t a[16][16], b[8][16];  // b by columns
    float c[16][8];
    const RandomStream random(3, RandomPurpose::kTest, 0, 1);
    uint64_t drawn = 0;
    const auto bits = [&] { return static_cast<uint16_t>(random.uniform(drawn++) * 65536); };
    for (auto& row : a)
      for (uint16_t& value : row) value = bits() & 0xbfff;
    for (auto& column : b)
      for (uint16_t& value : column) value = bits() & 0xbfff;
    for (auto& row : c)
      for (float& value : row) value = static_cast<float>(random.uniform(drawn++));
    std::vector<int> data(type == HopperType::kBf16 ? 320 : 321);
    const auto pair = [](const uint16_t* values) { return values[0] | values[1] << 16; };
    for (int lane = 0; lane < 32; ++lane) {
      int* mine = &data[static_cast<size_t>(lane) * 10];
      for (int i = 0; i < 4; ++i) mine[i] = pair(&a[lane / 4 + i % 2 * 8][lane % 4 * 2 + i / 2 * 8]);
      for (int i = 0; i < 2; ++i) mine[4 + i] = pair(&b[lane / 4][lane % 4 * 2 + i * 8]);
      for (int i = 0; i < 4; ++i) mine[6 + i] = std::bit_cast<int>(c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
    }
    data = run_test_kernel(source, data, {.threads = 32});
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        EXPECT_EQ(std::bit_cast<int>(hopper_step(type, a[row], b[column], c[row][column])),
                  data[static_cast<size_t>(lane * 10 + 6 + i)])
            << row << ", " << column;
      }
  }
}

}  // namespace
}  // namespace ramet::tests
