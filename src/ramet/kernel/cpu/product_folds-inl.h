// Dot products of short rows, each summed in kProductLanes strided lanes that are then folded in halves: lane l of the
// lower half plus lane l of the upper one. The same bits for every vector width.
// Included once per target, as Highway's *-inl.h files are.
#if defined(RAMET_PRODUCT_FOLDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RAMET_PRODUCT_FOLDS_INL_H_
#undef RAMET_PRODUCT_FOLDS_INL_H_
#else
#define RAMET_PRODUCT_FOLDS_INL_H_
#endif

#include <hwy/highway.h>

#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kProductLanes = 16;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Df()));
constexpr int kPieces = static_cast<int>(kProductLanes) / kLanes;  // vectors that hold the lanes of a product
static_assert(kPieces >= 1);

/// Adds halves of the kHalf * 2 lanes that each product has in `a` and `b`: the sum has twice as many products, kHalf
/// lanes each. Those of `b` follow those of `a`, but where kHalf is 4 of 16 lanes or 2 of any, they take turns.
template <int kHalf>
HWY_INLINE Vf add_halves(Vf a, Vf b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Add(a, b);  // never called: a vector is one product
#else
  const Df d;
  if constexpr (kHalf == 1) {
    return hn::Add(hn::ConcatEven(d, b, a), hn::ConcatOdd(d, b, a));
  } else if constexpr (kHalf == 2) {
    const hn::Repartition<uint64_t, Df> pairs;
    const auto low = hn::BitCast(pairs, a), high = hn::BitCast(pairs, b);
    return hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, low, high)),
                   hn::BitCast(d, hn::InterleaveUpper(pairs, low, high)));
  } else if constexpr (kHalf * 2 == kLanes) {
    return hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
  } else {
    static_assert(kHalf == 4);
    return hn::Add(hn::OddEvenBlocks(b, a), hn::SwapAdjacentBlocks(hn::OddEvenBlocks(a, b)));
  }
#endif
}

/// The place, among kLanes vectors, of the lanes of product `n`: the one that ends as lane n when pairs of vectors are
/// added by halves. Taking turns reverses all bits of n but the first.
constexpr int place_of_product(int n) {
  int place = n & (kLanes / 2);
  RAMET_UNROLL
  for (int bit = 1, other = kLanes / 4; other > 0; bit *= 2, other /= 2)
    if (n & bit) place |= other;
  return place;
}

template <int kVectors>
HWY_INLINE void fold_pairs(Vf (&vectors)[kLanes]) {
  if constexpr (kVectors > 1) {
    RAMET_UNROLL
    for (int v = 0; v < kVectors / 2; ++v) vectors[v] = add_halves<kVectors / 2>(vectors[2 * v], vectors[2 * v + 1]);
    fold_pairs<kVectors / 2>(vectors);
  }
}

/// kLanes products from their lanes: those of product n are the vector at place_of_product(n) of `lanes`.
HWY_INLINE Vf fold_products(const float* lanes) {
  Vf vectors[kLanes];
  RAMET_UNROLL
  for (int v = 0; v < kLanes; ++v) vectors[v] = hn::Load(Df(), lanes + v * kLanes);
  fold_pairs<kLanes>(vectors);
  return vectors[0];
}

/// The lanes of the product of `size` features, as many as a vector has. kWhole: size is a multiple of kProductLanes;
/// else `last` has those of the last vector.
template <bool kWhole, typename T>
HWY_INLINE Vf product_lanes(const T* a, const T* b, int64_t size, hn::Mask<Df> last) {
  const Df d;
  Vf sums[kPieces];
  RAMET_UNROLL
  for (int p = 0; p < kPieces; ++p) sums[p] = hn::Zero(d);
  int64_t at = 0;
  for (; at + kProductLanes <= size; at += kProductLanes) {
    RAMET_UNROLL
    for (int p = 0; p < kPieces; ++p)
      sums[p] = hn::MulAdd(LoadF32(d, a + at + p * kLanes), LoadF32(d, b + at + p * kLanes), sums[p]);
  }
  if (!kWhole) {
    RAMET_UNROLL
    for (int p = 0; p < kPieces; ++p) {
      const int64_t first = at + p * kLanes;
      if (first + kLanes <= size)
        sums[p] = hn::MulAdd(LoadF32(d, a + first), LoadF32(d, b + first), sums[p]);
      else if (first < size)
        sums[p] =
            hn::MulAdd(load_lanes(a + first, last, size - first), load_lanes(b + first, last, size - first), sums[p]);
    }
  }
  RAMET_UNROLL
  for (int half = kPieces / 2; half > 0; half /= 2) {
    RAMET_UNROLL
    for (int p = 0; p < half; ++p) sums[p] = hn::Add(sums[p], sums[p + half]);
  }
  return sums[0];
}

/// The products of the edges of rows [begin, end), of T: `heads` for each edge, one after another from the first edge's
/// on.
template <typename T>
struct EdgeFolds {
  const int32_t* ptr = nullptr;
  int64_t begin = 0, end = 0, heads = 1;
  int64_t size = 0;                ///< features of a product
  int64_t a_step = 0, b_step = 0;  ///< elements from the operands of a head to those of the next
  T* out = nullptr;                ///< of the first edge of all rows
};

/// `operands(row, edge)` gives the operands of head 0. Both arguments are copied, so that registers hold them.
template <bool kWhole, typename T, typename Operands>
HWY_NOINLINE void fold_edges_of(const EdgeFolds<T>& folds, Operands operands) {
  const Df d;
  const auto [ptr, begin, end, heads, size, a_step, b_step, all] = folds;
  const auto last = hn::FirstN(d, static_cast<size_t>(size % kLanes));
  HWY_ALIGN float lanes[kLanes * kLanes] = {};  // of products that are not folded yet
  int held = 0;
  T* out = all + ptr[begin] * heads;
  for (int64_t row = begin, e = ptr[row]; row < end; ++row)
    for (const int64_t row_end = ptr[row + 1]; e < row_end; ++e) {
      auto [a, b] = operands(row, e);
      for (int64_t head = 0; head < heads; ++head, a += a_step, b += b_step) {
        hn::Store(product_lanes<kWhole>(a, b, size, last), d, lanes + place_of_product(held) * kLanes);
        if (++held < kLanes) continue;
        StoreF32(d, fold_products(lanes), out);
        out += kLanes;
        held = 0;
      }
    }
  if (held > 0) store_part(fold_products(lanes), out, held);
}

template <typename T, typename Operands>
HWY_INLINE void fold_edges(const EdgeFolds<T>& folds, const Operands& operands) {
  if (folds.size % kProductLanes == 0)
    fold_edges_of<true>(folds, operands);
  else
    fold_edges_of<false>(folds, operands);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
