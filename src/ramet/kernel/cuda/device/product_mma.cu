// Products of bf16 and f16 by mma.sync. Definitions: Type (BF16 or F16 of convert.cuh), kTransposeA, kTransposeB.
//
// A block of 256 threads computes a tile of 128 x 128, a warp 64 x 32 of it, 32 of k at a time from shared memory,
// which several stages ahead are copied to. An operand lies there as it does in memory, rows padded so that eight of
// them touch all banks. Zeros behind k do not show in the sums.

#include "product.cuh"
#include "tensor_core.cuh"

namespace ramet_device {

constexpr int kTile = 128, kDepth = 32, kStages = 4, kThreads = 256;
constexpr int kWarpRows = 64, kWarpColumns = 32, kRowBlocks = kWarpRows / 16, kColumnBlocks = kWarpColumns / 8;

template <class Any>
constexpr TensorType kTensorOf = TensorType::kBf16;
template <>
constexpr TensorType kTensorOf<F16> = TensorType::kF16;

/// A tile of an operand: kTile rows of the result (its columns, of b) by kDepth of k. If kAlongK, rows that lie along
/// k; otherwise the rows are k.
template <bool kAlongK>
struct OperandTile {
  static constexpr int kWidth = kAlongK ? kDepth : kTile, kHeight = kAlongK ? kTile : kDepth, kStride = kWidth + 8;
  static constexpr int kElements = kHeight * kStride, kVectors = kHeight * kWidth / 8;

  const ProductArguments& p;
  const ProductOperand& operand;
  Index matrix;
  int chunk, first, extent;  // of rows of the result

  /// Element of the matrix where row and column of the tile lie; -1 beyond the matrix.
  __device__ __forceinline__ Index place(int k_first, int row, int column) const {
    const int k = k_first + (kAlongK ? column : row), other = first + (kAlongK ? row : column);
    if (k >= p.k || other >= extent) return -1;
    const int source = source_k(p, chunk, k);
    return kAlongK ? static_cast<Index>(other) * operand.stride + source
                   : static_cast<Index>(source) * operand.stride + other;
  }

  __device__ __forceinline__ unsigned element(int k_first, int row, int column) const {
    const Index at = place(k_first, row, column);
    if (at < 0) return 0;
    return static_cast<const Bits16*>(operand.data)[matrix + at];
  }

  /// This thread's share of the tile whose k begin at `k_first`.
  __device__ __forceinline__ void load(int k_first, Bits16* to) const {
    RAMET_UNROLL
    for (int i = 0; i < kVectors / kThreads; ++i) {
      const int vector = static_cast<int>(threadIdx.x) + i * kThreads;
      const int row = vector / (kWidth / 8), column = vector % (kWidth / 8) * 8;
      Bits16* const at = to + row * kStride + column;
      if (operand.whole_vectors) {
        const Index from = place(k_first, row, column);
        const Bits16* data = static_cast<const Bits16*>(operand.data);
        copy_16_async(at, from < 0 ? data : data + matrix + from, from >= 0);
        continue;
      }
      RAMET_ROLLED
      for (int j = 0; j < 8; j += 2)
        *reinterpret_cast<unsigned*>(at + j) = element(k_first, row, column + j) | element(k_first, row, column + j + 1)
                                                                                       << 16;
    }
  }

  /// The fragment of 16 rows of the result and 16 of k.
  static __device__ __forceinline__ void fragment(unsigned (&r)[4], const Bits16* tile, int row, int k) {
    if constexpr (kAlongK)
      load_16x16(r, tile + row * kStride + k, kStride);
    else
      load_16x16_transposed(r, tile + k * kStride + row, kStride);
  }
};

using TileA = OperandTile<!kTransposeA>;
using TileB = OperandTile<kTransposeB>;
constexpr int kStageElements = TileA::kElements + TileB::kElements;

using Sums = float[kRowBlocks][kColumnBlocks][4];

/// Adds the kDepth products of a stage to a warp's sums.
__device__ __forceinline__ void add_stage(Sums& sums, const Bits16* stage, int row, int column) {
  RAMET_UNROLL
  for (int k = 0; k < kDepth; k += 16) {
    unsigned a[kRowBlocks][4], b[kColumnBlocks / 2][4];
    RAMET_UNROLL
    for (int i = 0; i < kRowBlocks; ++i) TileA::fragment(a[i], stage, row + i * 16, k);
    RAMET_UNROLL
    for (int j = 0; j < kColumnBlocks / 2; ++j) TileB::fragment(b[j], stage + TileA::kElements, column + j * 16, k);
    RAMET_UNROLL
    for (int i = 0; i < kRowBlocks; ++i) {
      RAMET_UNROLL
      for (int j = 0; j < kColumnBlocks; ++j)
        multiply_add<kTensorOf<Type>>(sums[i][j], a[i], {b[j / 2][j % 2], b[j / 2][j % 2 + 2]});
    }
  }
}

using Result = TileSums<kTile, kTile, kThreads>;

__device__ __forceinline__ void put_sums(const Result& result, const Sums& sums, int row, int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  RAMET_UNROLL
  for (int i = 0; i < kRowBlocks * 2; ++i) {
    RAMET_UNROLL
    for (int j = 0; j < kColumnBlocks; ++j)
      result.put(row + i * 8 + lane / 4, column + j * 8 + lane % 4 * 2, sums[i / 2][j][i % 2 * 2],
                 sums[i / 2][j][i % 2 * 2 + 1]);
  }
}

RAMET_KERNEL(256, product_mma, ProductArguments, p) {
  RAMET_DYNAMIC_SHARED(shared);
  Bits16* const stages = reinterpret_cast<Bits16*>(shared);
  const ProductTile tile = tile_of<kTile, kTile>(p, blockIdx.x);
  const TileA a{p, p.a, matrix_of(p, p.a, tile.product), tile.chunk, tile.row, p.m};
  const TileB b{p, p.b, matrix_of(p, p.b, tile.product), tile.chunk, tile.column, p.n};
  const int steps = (p.k + kDepth - 1) / kDepth;
  const auto load = [&](int step) {
    Bits16* const stage = stages + step % kStages * kStageElements;
    if (step < steps) {
      a.load(step * kDepth, stage);
      b.load(step * kDepth, stage + TileA::kElements);
    }
    commit_copies();
  };

  const int warp = static_cast<int>(threadIdx.x) / 32, row = warp / 4 * kWarpRows, column = warp % 4 * kWarpColumns;
  Sums sums = {};
  for (int step = 0; step < kStages - 1; ++step) load(step);
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<kStages - 2>();
    __syncthreads();
    load(step + kStages - 1);  // where the last step was read from
    add_stage(sums, stages + step % kStages * kStageElements, row, column);
  }
  wait_for_copies<0>();
  __syncthreads();
  const Result result{reinterpret_cast<float*>(shared)};
  put_sums(result, sums, row, column);
  __syncthreads();
  result.store(p, tile);
}

}  // namespace ramet_device
