#include <algorithm>
#include <cstring>

#include "fake_cuda/block.h"
#include "fake_cuda/host_shim.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/hopper/product.h"

// The tensor core of the fake card: mma.sync of m16n8k16, computed by the model of kernel/hopper.

// Of the engine, this library has the model alone. What the model asks for instructions:
ramet::kernel::CpuLevel ramet::kernel::cpu_level() {
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? CpuLevel::kAvx512 : CpuLevel::kBaseline;
}

namespace ramet_fake {
namespace {

using ramet::kernel::HopperType;
using ramet::kernel::kPanel;

constexpr unsigned kLanes = 32, kRows = 16, kColumns = 8, kUnits = 8;  // a unit is a pair of 16-bit values

/// What the lanes give and get; d is both.
struct Fragments {
  unsigned a[kLanes][4], b[kLanes][2];
  float d[kLanes][4];
};
static_assert(sizeof(Fragments) <= kWarpRoom);

/// Where lanes hold the matrices: PTX ISA, "Matrix Fragments for mma.m16n8k16".
unsigned row_of(unsigned lane, unsigned part) { return lane / 4 + part % 2 * 8; }

template <HopperType type>
void multiply_fragments(void* room) {
  auto& all = *static_cast<Fragments*>(room);
  static uint32_t a[kRows][kUnits], b[kUnits][kPanel];  // one warp at a time; b's columns behind the eighth are zero
  static float c[kRows][2 * kColumns];
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const unsigned of_four = lane % 4;
    for (unsigned part = 0; part < 4; ++part) a[row_of(lane, part)][of_four + part / 2 * 4] = all.a[lane][part];
    for (unsigned part = 0; part < 2; ++part) b[of_four + part * 4][lane / 4] = all.b[lane][part];
    for (unsigned part = 0; part < 4; ++part) c[row_of(lane, part / 2)][of_four * 2 + part % 2] = all.d[lane][part];
  }
  // Sixteen columns are the least that the model takes.
  for (auto& row : c) std::fill_n(row + kColumns, kColumns, 0.0f);
  ramet::kernel::hopper_product(type, {.m = kRows,
                                       .n = 2 * kColumns,
                                       .k = kUnits,
                                       .a = &a[0][0],
                                       .a_stride = kUnits,
                                       .b = &b[0][0],
                                       .panel_stride = 0,
                                       .c = &c[0][0],
                                       .c_stride = 2 * kColumns,
                                       .add = true});
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned part = 0; part < 4; ++part) all.d[lane][part] = c[row_of(lane, part / 2)][lane % 4 * 2 + part % 2];
}

}  // namespace

__attribute__((visibility("default"))) void multiply_add(bool bf16, float* d, const unsigned* a, const unsigned* b) {
  const unsigned lane = threadIdx.x % kLanes;
  auto& all = *static_cast<Fragments*>(warp_room());
  std::memcpy(all.a[lane], a, sizeof(all.a[lane]));
  std::memcpy(all.b[lane], b, sizeof(all.b[lane]));
  std::memcpy(all.d[lane], d, sizeof(all.d[lane]));
  meet_warp_and(bf16 ? kMultiplyBf16 : kMultiplyF16,
                bf16 ? &multiply_fragments<HopperType::kBf16> : &multiply_fragments<HopperType::kF16>);
  std::memcpy(d, all.d[lane], sizeof(all.d[lane]));
}

}  // namespace ramet_fake
