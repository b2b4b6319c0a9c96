#pragma once

// What the kernels of attention share: tiles in shared memory, their products, terms of scores and dropout.
//
// A text is compiled for one form of attention, by these definitions:
//   kStorage     F32, F16 or BF16: the operands; kTensor is 1 for BF16, whose products are the tensor core's. Those of
//                the others are chains of fused multiply-adds in order.
//   kHeadSize, kValueSize   head sizes, up to the next multiple of 16; what is behind the true size is zero
//   kVectors     1: rows of operands are 16 bytes aligned
//   kCausal, kSegments, kKeyMask, kDropout, kAdjusts, kCached   1 or 0, as AttentionForm has them; kKeyMask is without
//                segments, kCached has `first`
//   kBiasStorage the bias's type
//
// A block of four warps works on 64 rows, 16 a warp. A warp's values of 16 rows by 8 n columns are float[n][4], as the
// tensor core has them: lane / 4 is the row of [0] and [1], 8 below is that of [2] and [3]; columns lane % 4 * 2 and
// + 1.

#include "attention_arguments.h"
#include "convert.cuh"
#include "math.cuh"
#include "tensor_core.cuh"

namespace ramet_device {

using Arguments = AttentionArguments;
using Stored = kStorage::Stored;

constexpr int kThreads = 128;
constexpr int kRows = 64;          // of a tile of a block
constexpr int kForwardKeys = 128;  // over which a row's maximum is taken at once

#if kTensor
using Operand = Bits16;
#else
using Operand = float;
#endif
/// Operands of shared memory that are 16 bytes.
constexpr int kEach = 16 / static_cast<int>(sizeof(Operand));
/// Elements between rows in shared memory: an odd number of 16 bytes, so that eight rows lie in different banks.
template <int kSize>
constexpr int kPitch = kSize + kEach;

struct alignas(8) TwoFloats {
  float at[2];
};

__device__ __forceinline__ int warp_index() { return static_cast<int>(threadIdx.x) / 32; }
__device__ __forceinline__ int group_row() { return static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ __forceinline__ int pair_column() { return static_cast<int>(threadIdx.x) % 4 * 2; }

// --- tiles ---

/// Begins to fill a tile of `kCount` rows: `rows` of them of `size` elements; zeros behind both. A thread keeps its
/// column from row to row where the threads make whole rows.
template <int kCount, int kSize>
__device__ __forceinline__ void load_tile(Operand* to, const Stored* from, int stride, int rows, int size) {
#if kVectors
  constexpr int kPieces = kSize / kEach;
  const int thread = static_cast<int>(threadIdx.x);
  if constexpr (kThreads % kPieces == 0) {
    constexpr int kStride = kThreads / kPieces;
    const int row = thread / kPieces, column = thread % kPieces * kEach;
    to += row * kPitch<kSize> + column;
    rows = column < size ? rows : 0;
    RAMET_UNROLL
    for (int at = 0; at < kCount; at += kStride)
      copy_16_async(to + at * kPitch<kSize>, from + ((row + at) * stride + column), row + at < rows);
  } else {
    for (int i = thread; i < kCount * kPieces; i += kThreads) {
      const int row = i / kPieces, column = i % kPieces * kEach;
      copy_16_async(to + row * kPitch<kSize> + column, from + row * stride + column, row < rows && column < size);
    }
  }
#else
  for (int i = static_cast<int>(threadIdx.x); i < kCount * kSize; i += kThreads) {
    const int row = i / kSize, column = i % kSize;
    const bool there = row < rows && column < size;
    const Stored value = there ? from[row * stride + column] : Stored(0);
#if kTensor
    to[row * kPitch<kSize> + column] = value;
#else
    to[row * kPitch<kSize> + column] = kStorage::widen(value);
#endif
  }
#endif
}

/// Two values as bf16, to nearest even.
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
#ifdef RAMET_FAKE_CUDA
  return static_cast<unsigned>(narrow_bf16(low)) | static_cast<unsigned>(narrow_bf16(high)) << 16;
#else
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#endif
}
/// Two neighbouring elements of a row, of which `left` are there.
__device__ __forceinline__ void store_pair(Stored* to, float low, float high, int left) {
#if kTensor && kVectors
  if (left > 0) *reinterpret_cast<unsigned*>(to) = pack_bf16(low, high);
#else
  if (left > 0) to[0] = kStorage::narrow(low);
  if (left > 1) to[1] = kStorage::narrow(high);
#endif
}

/// The warp's sums, each row of them times a factor, to rows of a tensor of which `rows` are there.
template <int kSize>
__device__ __forceinline__ void store_sums(const float (&sums)[kSize / 8][4], const float (&factors)[2], Stored* to,
                                           int stride, int rows, int size) {
  RAMET_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = warp_index() * 16 + group_row() + half * 8;
    if (row >= rows) continue;
    RAMET_UNROLL
    for (int n = 0; n < kSize / 8; ++n) {
      const int column = n * 8 + pair_column();
      store_pair(to + row * stride + column, sums[n][half * 2] * factors[half], sums[n][half * 2 + 1] * factors[half],
                 size - column);
    }
  }
}

template <int kTiles>
__device__ __forceinline__ void clear(float (&values)[kTiles][4]) {
  RAMET_UNROLL
  for (int n = 0; n < kTiles; ++n) {
    RAMET_UNROLL
    for (int i = 0; i < 4; ++i) values[n][i] = 0.0f;
  }
}

// --- products ---

#if kTensor

/// values = a b^T: 16 rows of `a` by 8 kTiles rows of `b`, both [rows][kSize].
template <int kSize, int kTiles>
__device__ __forceinline__ void multiply_rows(float (&values)[kTiles][4], const Operand* a, const Operand* b, int) {
  clear(values);
  RAMET_UNROLL
  for (int k = 0; k < kSize; k += 16) {
    unsigned left[4];
    load_16x16(left, a + k, kPitch<kSize>);
    RAMET_UNROLL
    for (int n = 0; n < kTiles; n += 2) {
      unsigned first[2], second[2];
      load_columns(first, second, b + n * 8 * kPitch<kSize> + k, kPitch<kSize>);
      multiply_add<TensorType::kBf16>(values[n], left, first);
      multiply_add<TensorType::kBf16>(values[n + 1], left, second);
    }
  }
}

/// A warp's 16 rows of numbers, rounded to the operands' type, as the left factor of a product.
template <int kColumns>
class LeftFactor {
 public:
  __device__ __forceinline__ explicit LeftFactor(float*) {}
  /// Columns 8 n to 8 n + 7.
  __device__ __forceinline__ void set(int n, const float (&values)[4]) {
    fragments_[n / 2][n % 2 * 2] = pack_bf16(values[0], values[1]);
    fragments_[n / 2][n % 2 * 2 + 1] = pack_bf16(values[2], values[3]);
  }
  /// sums += this times b [kColumns][kSize].
  template <int kSize>
  __device__ __forceinline__ void multiply_add_to(float (&sums)[kSize / 8][4], const Operand* b, int) const {
    RAMET_UNROLL
    for (int k = 0; k < kColumns; k += 16) {
      RAMET_UNROLL
      for (int n = 0; n < kSize / 8; n += 2) {
        unsigned first[2], second[2];
        load_columns_transposed(first, second, b + k * kPitch<kSize> + n * 8, kPitch<kSize>);
        multiply_add<TensorType::kBf16>(sums[n], fragments_[k / 16], first);
        multiply_add<TensorType::kBf16>(sums[n + 1], fragments_[k / 16], second);
      }
    }
  }

 private:
  unsigned fragments_[kColumns / 16][4];
};

#else

/// Numbers that are read at once.
template <int kCount>
struct alignas(4 * kCount) Floats {
  float at[kCount];
};

/// values += a b^T over kCount columns: rows `above` and `below` of a, and rows of b.
template <int kSize, int kCount, int kTiles>
__device__ __forceinline__ void add_products(float (&values)[kTiles][4], const float* above, const float* below,
                                             const float* b) {
  const Floats<kCount> x = *reinterpret_cast<const Floats<kCount>*>(above);
  const Floats<kCount> y = *reinterpret_cast<const Floats<kCount>*>(below);
  RAMET_UNROLL
  for (int n = 0; n < kTiles; ++n) {
    RAMET_UNROLL
    for (int i = 0; i < 2; ++i) {
      const Floats<kCount> z = *reinterpret_cast<const Floats<kCount>*>(b + (n * 8 + i) * kPitch<kSize>);
      RAMET_UNROLL
      for (int k = 0; k < kCount; ++k) {
        values[n][i] = __fmaf_rn(x.at[k], z.at[k], values[n][i]);
        values[n][i + 2] = __fmaf_rn(y.at[k], z.at[k], values[n][i + 2]);
      }
    }
  }
}

/// values = a b^T: 16 rows of `a` by 8 kTiles rows of `b`, over `size` columns.
template <int kSize, int kTiles>
__device__ __forceinline__ void multiply_rows(float (&values)[kTiles][4], const Operand* a, const Operand* b,
                                              int size) {
  const float *above = a + group_row() * kPitch<kSize>, *below = above + 8 * kPitch<kSize>;
  b += pair_column() * kPitch<kSize>;
  clear(values);
  int k = 0;
  for (; k + 4 <= size; k += 4) add_products<kSize, 4>(values, above + k, below + k, b + k);
  for (; k < size; ++k) add_products<kSize, 1>(values, above + k, below + k, b + k);
}

/// A warp's 16 rows of numbers as the left factor of a product; they stand in shared memory of the warp's own.
template <int kColumns>
class LeftFactor {
 public:
  static constexpr int kFloats = 16 * (kColumns + 4);  ///< of each warp
  __device__ __forceinline__ explicit LeftFactor(float* memory) : at_(memory + warp_index() * kFloats) {}
  /// Columns 8 n to 8 n + 7.
  __device__ __forceinline__ void set(int n, const float (&values)[4]) {
    float* to = at_ + group_row() * (kColumns + 4) + n * 8 + pair_column();
    to[0] = values[0], to[1] = values[1];
    to += 8 * (kColumns + 4);
    to[0] = values[2], to[1] = values[3];
  }
  /// sums += this times b [rows][kSize].
  template <int kSize>
  __device__ __forceinline__ void multiply_add_to(float (&sums)[kSize / 8][4], const Operand* b, int rows) const {
    __syncwarp();
    const float *above = at_ + group_row() * (kColumns + 4), *below = above + 8 * (kColumns + 4);
    b += pair_column();
    const int count = rows < kColumns ? rows : kColumns;
    for (int k = 0; k < count; ++k) {
      RAMET_UNROLL
      for (int n = 0; n < kSize / 8; ++n) {
        const TwoFloats z = *reinterpret_cast<const TwoFloats*>(b + k * kPitch<kSize> + n * 8);
        RAMET_UNROLL
        for (int i = 0; i < 2; ++i) {
          sums[n][i] = __fmaf_rn(above[k], z.at[i], sums[n][i]);
          sums[n][i + 2] = __fmaf_rn(below[k], z.at[i], sums[n][i + 2]);
        }
      }
    }
    __syncwarp();
  }

 private:
  float* at_;
};

#endif

// --- places ---

/// 64 rows of queries, or of keys, of one head of a sample: positions [first, first + 64) of a run of `length` keys
/// that begins at position `begin`. Without segments the run is the sample.
struct Place {
  int sample, head, begin, length, first;
  bool padding;  ///< the run is none
};

/// Tiles of 64 positions of `extent` positions.
__device__ __forceinline__ int count_tiles(const Arguments& a, int sample, int extent) {
#if kSegments
  (void)extent;
  return a.tiles[static_cast<Index>(sample) * a.tile_ints];
#else
  (void)a, (void)sample;
  return (extent + kRows - 1) / kRows;
#endif
}

__device__ __forceinline__ Place place_of(const Arguments& a, int sample, int head, int tile) {
#if kSegments
  const int* at = a.tiles + static_cast<Index>(sample) * a.tile_ints + 4 + tile * 4;
  return {sample, head, at[0], at[1], at[2], at[3] == 0};
#else
  return {sample, head, 0, a.keys, tile * kRows, false};
#endif
}

__device__ __forceinline__ int least(int a, int b) { return a < b ? a : b; }
__device__ __forceinline__ int most_of(int a, int b) { return a > b ? a : b; }

/// Queries of the place's run.
__device__ __forceinline__ int queries_of(const Arguments& a, const Place& place) {
  return kSegments ? place.length : a.sequence;
}
/// The keys [first_key, end_key) of `count` that the query at position `own` may see by its position.
__device__ __forceinline__ int first_key(const Arguments& a, int own) {
  return a.left < 0 ? 0 : most_of(0, own - a.left);
}
__device__ __forceinline__ int end_key(const Arguments& a, int own, int count) {
  if (!kCausal && a.right < 0) return count;
  return most_of(0, least(kCausal ? own + 1 : own + a.right + 1, count));
}

/// Number of a row of queries among those of all samples and heads.
__device__ __forceinline__ Index query_row(const Arguments& a, const Place& place, int query) {
  return (static_cast<Index>(place.sample) * a.heads + place.head) * a.sequence + place.begin + query;
}
/// Element of `position` of the run in q, k, v, or the output.
__device__ __forceinline__ Index query_at(const Arguments& a, const Place& place, int position) {
  return (static_cast<Index>(place.sample) * a.sequence + place.begin + position) * a.query_stride +
         static_cast<Index>(place.head) * a.head_size;
}
__device__ __forceinline__ int key_head(const Arguments& a, const Place& place) {
  return place.head / (a.heads / a.key_heads);
}
__device__ __forceinline__ Index key_at(const Arguments& a, const Place& place, int position) {
  return (static_cast<Index>(place.sample) * a.keys + place.begin + position) * a.key_stride +
         static_cast<Index>(key_head(a, place)) * a.head_size;
}
__device__ __forceinline__ Index value_at(const Arguments& a, const Place& place, int position) {
  return (static_cast<Index>(place.sample) * a.keys + place.begin + position) * a.value_stride +
         static_cast<Index>(key_head(a, place)) * a.value_size;
}
__device__ __forceinline__ int out_stride(const Arguments& a) { return a.heads * a.value_size; }
__device__ __forceinline__ Index out_at(const Arguments& a, const Place& place, int position) {
  return ((static_cast<Index>(place.sample) * a.sequence + place.begin + position) * a.heads + place.head) *
         a.value_size;
}

// --- terms of scores ---

__device__ __forceinline__ bool mask_at(const Arguments& a, Index at) {
  return a.mask_bytes == 1 ? static_cast<const unsigned char*>(a.mask)[at] != 0
                           : static_cast<const int*>(a.mask)[at] != 0;
}

/// What is added to all scores of a key: 0, or -infinity where it is hidden or behind the run.
__device__ __forceinline__ float key_term(const Arguments& a, const Place& place, int key) {
  bool visible = key < place.length;
#if kKeyMask
  visible = visible && mask_at(a, static_cast<Index>(place.sample) * a.keys + key);
#endif
  return visible ? 0.0f : -infinity();
}
/// Whether some of the keys [key, key + count) may be hidden from all queries.
__device__ __forceinline__ bool some_hidden(const Place& place, int key, int count) {
  return kKeyMask || key + count > place.length;
}

#if kAdjusts

/// A row of scores whose terms are more than those of keys.
struct ScoreRow {
  Index bias, mask;  ///< elements of the row's key 0
  int own, first, end;
  float slope;
  bool there;

  __device__ __forceinline__ ScoreRow(const Arguments& a, const Place& place, int query, int own_position)
      : own(own_position), slope(0.0f), there(query < queries_of(a, place)) {
    bias = row_of(a.bias_strides, place, query), mask = row_of(a.mask_strides, place, query);
    first = first_key(a, own), end = end_key(a, own, place.length);
    if (a.slopes != nullptr) slope = a.slopes[place.head];
  }

  static __device__ __forceinline__ Index row_of(const Index (&strides)[4], const Place& place, int query) {
    return place.sample * strides[0] + place.head * strides[1] + (place.begin + query) * strides[2] +
           place.begin * strides[3];
  }

  /// What is added to the score of `key`, whose own term is `term`.
  __device__ __forceinline__ float term(const Arguments& a, int key, float term) const {
    if (!there) return 0.0f;
    if (key < first || key >= end) return -infinity();
    if (a.bias != nullptr)
      term =
          term + kBiasStorage::widen(static_cast<const kBiasStorage::Stored*>(a.bias)[bias + key * a.bias_strides[3]]);
    if (a.slopes != nullptr) term = __fmaf_rn(-slope, fabsf(static_cast<float>(own) - static_cast<float>(key)), term);
    if (!kKeyMask && !kSegments && a.mask != nullptr && !mask_at(a, mask + key * a.mask_strides[3])) return -infinity();
    return term;
  }
};

/// The score of a product of query and key; `slope` gets what the soft cap's derivative is.
__device__ __forceinline__ float adjusted_score(const Arguments& a, float product, float term, float& slope) {
  slope = 1.0f;
  if (!(a.cap > 0.0f)) return __fmaf_rn(product, a.scale, term);
  const float turned = tanh_of(product * a.scale * a.one_by_cap);
  slope = __fmaf_rn(-turned, turned, 1.0f);
  return turned * a.cap + term;
}

#endif

}  // namespace ramet_device
