// Products whose elements are chains of fused multiply-adds of f32, in order of k, of operands of any type that is
// widened to f32. Definitions as for product_mma.cu.
//
// A block of 256 threads computes a tile of 128 x 128, each thread four quarters of 4 x 4 of it, sixteen of k at a
// time: while these are multiplied, the next ones are on their way from memory to registers. In shared memory the rows
// of both operands are k.

#include "product.cuh"

namespace ramet_device {

constexpr int kTile = 128, kDepth = 16, kThreads = 256, kStride = kTile + 4, kShare = kTile * kDepth / kThreads;

struct alignas(16) Four {
  float values[4];
};

/// The part of a tile of an operand that a thread takes from memory to shared memory.
template <class Type, bool kAlongK>
struct OperandShare {
  using Stored = typename Type::Stored;
  float values[kShare];

  /// Row of the result (column, of b) of value i, and its k.
  static __device__ __forceinline__ int other(int i) {
    const int at = static_cast<int>(threadIdx.x) + i * kThreads;
    return kAlongK ? at / kDepth : at % kTile;
  }
  static __device__ __forceinline__ int depth(int i) {
    const int at = static_cast<int>(threadIdx.x) + i * kThreads;
    return kAlongK ? at % kDepth : at / kTile;
  }

  __device__ __forceinline__ void load(const ProductArguments& p, const ProductOperand& operand, Index matrix,
                                       int chunk, int k_first, int first, int extent) {
    RAMET_UNROLL
    for (int i = 0; i < kShare; ++i) {
      const int k = k_first + depth(i), row = first + other(i);
      values[i] = 0;
      if (k >= p.k || row >= extent) continue;
      const Index source = source_k(p, chunk, k);
      const Index at = kAlongK ? static_cast<Index>(row) * operand.stride + source : source * operand.stride + row;
      values[i] = Type::widen(static_cast<const Stored*>(operand.data)[matrix + at]);
    }
  }
  __device__ __forceinline__ void store(float* to) const {
    RAMET_UNROLL
    for (int i = 0; i < kShare; ++i) to[depth(i) * kStride + other(i)] = values[i];
  }
};

/// One k of a thread's 8 x 8 elements.
__device__ __forceinline__ void add_one(float (&sums)[8][8], const float* a, const float* b) {
  Four rows[2], columns[2];
  RAMET_UNROLL
  for (int half = 0; half < 2; ++half) {
    rows[half] = *reinterpret_cast<const Four*>(a + half * (kTile / 2));
    columns[half] = *reinterpret_cast<const Four*>(b + half * (kTile / 2));
  }
  RAMET_UNROLL
  for (int i = 0; i < 8; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < 8; ++j)
      sums[i][j] = __fmaf_rn(rows[i / 4].values[i % 4], columns[j / 4].values[j % 4], sums[i][j]);
  }
}

RAMET_KERNEL(256, product_f32, ProductArguments, p) {
  RAMET_DYNAMIC_SHARED(shared);
  float* const shared_a = reinterpret_cast<float*>(shared);
  float* const shared_b = shared_a + kDepth * kStride;
  const ProductTile tile = tile_of<kTile, kTile>(p, blockIdx.x);
  const Index matrix_a = matrix_of(p, p.a, tile.product), matrix_b = matrix_of(p, p.b, tile.product);
  OperandShare<TypeA, !kTransposeA> a;
  OperandShare<TypeB, kTransposeB> b;
  const auto load = [&](int k) {
    a.load(p, p.a, matrix_a, tile.chunk, k, tile.row, p.m);
    b.load(p, p.b, matrix_b, tile.chunk, k, tile.column, p.n);
  };

  const int row = static_cast<int>(threadIdx.x) / 16 * 4, column = static_cast<int>(threadIdx.x) % 16 * 4;
  float sums[8][8] = {};
  load(0);
  for (int k = 0; k < p.k; k += kDepth) {
    __syncthreads();
    a.store(shared_a);
    b.store(shared_b);
    __syncthreads();
    load(k + kDepth);
    // A chain has no more than k links: one of zeros would make +0 of -0.
    const int depth = p.k - k < kDepth ? p.k - k : kDepth;
    RAMET_ROLLED
    for (int i = 0; i + 4 <= depth; i += 4) {
      RAMET_UNROLL
      for (int j = 0; j < 4; ++j)
        add_one(sums, shared_a + (i + j) * kStride + row, shared_b + (i + j) * kStride + column);
    }
    RAMET_ROLLED
    for (int i = depth / 4 * 4; i < depth; ++i)
      add_one(sums, shared_a + i * kStride + row, shared_b + i * kStride + column);
  }
  __syncthreads();
  const TileSums<kTile, kTile, kThreads> result{reinterpret_cast<float*>(shared)};
  RAMET_UNROLL
  for (int i = 0; i < 8; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < 8; j += 2)
      result.put(row + i / 4 * (kTile / 2) + i % 4, column + j / 4 * (kTile / 2) + j % 4, sums[i][j], sums[i][j + 1]);
  }
  __syncthreads();
  result.store(p, tile);
}

}  // namespace ramet_device
