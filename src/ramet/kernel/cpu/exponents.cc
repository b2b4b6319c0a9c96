// Histograms of exponents. A block's exponents are first made bytes, of which a vector holds many; then each exponent
// between the least and the greatest of the block, mostly some twenty, is counted by comparing. A block with a wide
// range, subnormals, infinities or NaNs is counted one by one.

#include <algorithm>
#include <cstring>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/exponents.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/exponents.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/exponents.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

void count_one_by_one(const float* from, int64_t count, int64_t* bins) {
  for (int64_t i = 0; i < count; ++i) ++bins[exponent_bin(from[i])];
}

#if HWY_TARGET == HWY_SCALAR
void count_block(const float* from, int64_t count, int64_t* bins) { count_one_by_one(from, count, bins); }
#else
constexpr int64_t kMostDistinct = 64;  // exponents beyond which one by one is as fast

void count_block(const float* from, int64_t count, int64_t* bins) {
  const hn::ScalableTag<uint32_t> d32;
  const hn::ScalableTag<uint8_t> d8;
  const hn::Rebind<uint8_t, decltype(d32)> narrow;
  const auto wide = static_cast<int64_t>(hn::Lanes(d32)), bytes = static_cast<int64_t>(hn::Lanes(d8));
  HWY_ALIGN uint8_t exponents[cpu::kExponentBlock];
  const int64_t whole = count - count % bytes;
  const auto magnitude = hn::Set(d32, 0x7fffffffu), one = hn::Set(d32, 1);
  auto most = hn::Zero(d32), least = hn::Set(d32, ~0u);
  for (int64_t i = 0; i < whole; i += wide) {
    const auto bits = hn::And(hn::LoadU(d32, reinterpret_cast<const uint32_t*>(from + i)), magnitude);
    most = hn::Max(most, bits);
    least = hn::Min(least, hn::Sub(bits, one));  // 0 becomes the greatest
    hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<23>(bits)), narrow, exponents + i);
  }
  const uint32_t high = hn::GetLane(hn::MaxOfLanes(d32, most)) >> 23;
  const uint32_t least_bits = hn::GetLane(hn::MinOfLanes(d32, least));
  const uint32_t low = least_bits == ~0u ? high : (least_bits + 1) >> 23;
  if (high == 255 || (low == 0 && high > 0) || (high == 0 && least_bits != ~0u) || high - low >= kMostDistinct)
    return count_one_by_one(from, count, bins);
  int64_t rest = whole;
  for (uint32_t exponent = std::max(low, 1u); exponent <= high; ++exponent) {
    const auto wanted = hn::Set(d8, static_cast<uint8_t>(exponent));
    size_t found = 0;
    for (int64_t i = 0; i < whole; i += bytes) found += hn::CountTrue(d8, hn::Eq(hn::Load(d8, exponents + i), wanted));
    bins[exponent + 23] += static_cast<int64_t>(found);
    rest -= static_cast<int64_t>(found);
  }
  bins[kZeroBin] += rest;
  count_one_by_one(from + whole, count - whole, bins);
}
#endif

}  // namespace

cpu::CountExponents GetCountExponents() { return count_block; }

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetCountExponents);

cpu::CountExponents cpu::count_exponents() {
  static const CountExponents count = (cpu_level(), HWY_DYNAMIC_DISPATCH(GetCountExponents)());
  return count;
}

namespace {

using cpu::kExponentBlock;

/// Of one thread: its counts, and a block made f32.
struct Room {
  int64_t counts[kExponentBins];
  float block[kExponentBlock];
};

int64_t scratch(const NodeSignature&, int threads) { return threads * static_cast<int64_t>(sizeof(Room)); }

void run_histogram(const NodeSignature& node, const KernelContext& context) {
  const TensorType& type = node.inputs[0];
  const int64_t elements = type.elements(), blocks = (elements + kExponentBlock - 1) / kExponentBlock;
  const auto width = static_cast<int64_t>(size_of(type.dtype));
  auto* const rooms = static_cast<Room*>(context.scratch);
  for (int rank = 0; rank < context.team.size(); ++rank) std::fill_n(rooms[rank].counts, kExponentBins, 0);
  context.team.split(blocks, 4, [&](int64_t begin, int64_t end, int rank) {
    Room& room = rooms[rank];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kExponentBlock, count = std::min(kExponentBlock, elements - first);
      const char* from = static_cast<const char*>(context.inputs[0]) + first * width;
      const bool plain = type.dtype == DType::kF32;
      if (!plain) cpu::map_steps().load(type.dtype)(from, 1, count, room.block);
      cpu::count_exponents()(plain ? reinterpret_cast<const float*>(from) : room.block, count, room.counts);
    }
  });
  auto* const result = static_cast<int64_t*>(context.outputs[0]);
  for (int bin = 0; bin < kExponentBins; ++bin) {
    result[bin] = 0;
    for (int rank = 0; rank < context.team.size(); ++rank) result[bin] += rooms[rank].counts[bin];
  }
}

std::string refuse(const NodeSignature& node) {
  return cpu::has_vector_loads(node.inputs[0].dtype) ? "" : "a type without vector loads";
}

}  // namespace

void add_cpu_exponents(Backend& backend) {
  cpu::add_hwy(
      backend, "exponent_histogram", refuse,
      [](const NodeSignature& node, int) {
        return [node](const KernelContext& context) { run_histogram(node, context); };
      },
      scratch);
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
