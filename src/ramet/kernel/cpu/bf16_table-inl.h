// Functions of one bf16 number by a table of all 65,536 of them: several times as fast as an exponential and a
// division, and the same bits. Numbers of a tensor have few exponents, so what is read of the table stays in L1.
// Elements are looked up one by one: instructions that gather are hardly faster where they are fast, and slow on many
// processors. Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_BF16_TABLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_BF16_TABLE_INL_H_
#undef RAMET_BF16_TABLE_INL_H_
#else
#define RAMET_BF16_TABLE_INL_H_
#endif

#include <memory>
#include <type_traits>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kBf16Numbers = 65536;

struct Bf16Table {
  float values[kBf16Numbers];
  Bf16 narrow[kBf16Numbers];  ///< the values rounded
};

/// The table of `Op::apply`, made when it is first asked for.
template <class Op>
const Bf16Table& bf16_table() {
  static const std::unique_ptr<const Bf16Table> kTable = [] {
    auto table = std::make_unique<Bf16Table>();
    const hn::ScalableTag<float> d;
    Bf16 numbers[hn::MaxLanes(d)];
    for (size_t first = 0; first < kBf16Numbers; first += hn::Lanes(d)) {
      for (size_t i = 0; i < hn::Lanes(d); ++i) numbers[i].bits = static_cast<uint16_t>(first + i);
      const auto number = LoadF32(d, numbers);
      const auto value = Op::apply(d, number, number, hn::Zero(d), hn::Zero(d));
      hn::StoreU(value, d, table->values + first);
      StoreF32(d, value, table->narrow + first);
    }
    return table;
  }();
  return *kTable;
}

/// A number by its bits, which are where tables have its value.
HWY_INLINE uint16_t bf16_bits(const Bf16& number) { return number.bits; }

/// Asks for the memory at `p` and beyond that loops will come to: what they do for an element is so much that a
/// processor does not see far enough ahead by itself.
template <class T>
HWY_INLINE void prefetch_ahead(const T* p, int64_t count) {
  constexpr int64_t kAhead = 1024, kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < count; i += kLine) hwy::Prefetch(p + kAhead + i);
}

/// What is looked up before it is read as vectors, which had better not wait for the stores of their elements.
constexpr int64_t kLookedUp = 256;

/// result = Op(a), where `A` holds bf16 numbers; `count` is whole vectors. The result may lie where `a` does.
template <class Op, class A>
void look_up(const A* a, int64_t count, Bf16* result) {
  const Bf16Table& table = bf16_table<Op>();
  constexpr int64_t kAtOnce = 32;
  for (int64_t first = 0; first < count; first += kAtOnce) {
    const int64_t end = HWY_MIN(count, first + kAtOnce);
    prefetch_ahead(a + first, kAtOnce);
    prefetch_ahead(result + first, kAtOnce);
    for (int64_t i = first; i < end; ++i) result[i] = table.narrow[bf16_bits(a[i])];
  }
}

/// result = use(i, Op(a)) by vectors that begin at element i; otherwise as above.
template <class Op, class A, class R, class Use>
HWY_INLINE void look_up_and(const A* a, int64_t count, R* result, const Use& use) {
  const Bf16Table& table = bf16_table<Op>();
  const hn::ScalableTag<float> d;
  HWY_ALIGN float values[kLookedUp];
  for (int64_t first = 0; first < count; first += kLookedUp) {
    const int64_t end = HWY_MIN(count - first, kLookedUp);
    prefetch_ahead(a + first, end);
    prefetch_ahead(result + first, end);
    for (int64_t i = 0; i < end; ++i) values[i] = table.values[bf16_bits(a[first + i])];
    for (int64_t i = 0; i < end; i += static_cast<int64_t>(hn::Lanes(d)))
      StoreF32(d, use(first + i, hn::Load(d, values + i)), result + first + i);
  }
}

template <class Op, class A, class R>
void look_up(const A* a, int64_t count, R* result) {
  look_up_and<Op>(a, count, result, [](int64_t, auto value) HWY_ATTR { return value; });
}

/// result = b Op(a); `count` is whole vectors. The result may lie where `a` or `b` does.
template <class Op, class A, class B, class R>
void multiply_looked_up(const A* a, const B* b, int64_t count, R* result) {
  const hn::ScalableTag<float> d;
  look_up_and<Op>(a, count, result, [&](int64_t i, auto value) HWY_ATTR {
    if (i % kLookedUp == 0) prefetch_ahead(b + i, kLookedUp);
    return hn::Mul(LoadF32(d, b + i), value);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // RAMET_BF16_TABLE_INL_H_
