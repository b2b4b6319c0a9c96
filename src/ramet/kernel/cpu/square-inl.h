// Squares of 4 x 4 numbers of 32 bits, turned in registers. Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_SQUARE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_SQUARE_INL_H_
#undef RAMET_SQUARE_INL_H_
#else
#define RAMET_SQUARE_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
/// square[j] lane i = square[i] lane j. D: vectors of 4 lanes of 32 bits.
template <class D>
HWY_INLINE void turn_square(D d, hn::Vec<D> (&square)[4]) {
  const hn::RepartitionToWide<D> pairs;
  const auto a = hn::BitCast(pairs, hn::InterleaveLower(d, square[0], square[1])),
             b = hn::BitCast(pairs, hn::InterleaveLower(d, square[2], square[3]));
  const auto e = hn::BitCast(pairs, hn::InterleaveUpper(d, square[0], square[1])),
             f = hn::BitCast(pairs, hn::InterleaveUpper(d, square[2], square[3]));
  square[0] = hn::BitCast(d, hn::InterleaveLower(pairs, a, b));
  square[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, a, b));
  square[2] = hn::BitCast(d, hn::InterleaveLower(pairs, e, f));
  square[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, e, f));
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // RAMET_SQUARE_INL_H_
