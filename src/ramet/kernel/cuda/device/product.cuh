#pragma once

// What all products share: which tile a block computes, where k lies in an operand, and how a sum becomes a result.

#include "convert.cuh"
#include "kernel.cuh"
#include "product_arguments.h"

/// Before a loop that is long enough as it stands.
#ifdef RAMET_FAKE_CUDA
#define RAMET_ROLLED
#else
#define RAMET_ROLLED _Pragma("unroll 1")
#endif

namespace ramet_device {

/// Types of extras and results, by the numbers of DType.
constexpr int kTypeF32 = 0, kTypeF16 = 1;

__device__ __forceinline__ float load_extra(int type, const void* from, Index index) {
  if (type == kTypeF32) return static_cast<const float*>(from)[index];
  const Bits16 bits = static_cast<const Bits16*>(from)[index];
  return type == kTypeF16 ? widen_f16(bits) : widen_bf16(bits);
}
__device__ __forceinline__ Bits16 narrow_result(int type, float value) {
  return type == kTypeF16 ? narrow_f16(value) : narrow_bf16(value);
}
__device__ __forceinline__ void store_result(int type, void* to, Index index, float value) {
  if (type == kTypeF32)
    static_cast<float*>(to)[index] = value;
  else
    static_cast<Bits16*>(to)[index] = narrow_result(type, value);
}

/// The work of a block: a tile of one part of one product.
struct ProductTile {
  Index product;
  int chunk, row, column;
};

/// Tiles in an order in which neighbours share operands: down 1024 rows, then one tile to the right.
template <int kRows, int kColumns>
__device__ __forceinline__ ProductTile tile_of(const ProductArguments& p, Index block) {
  const Index down = (p.m + kRows - 1) / kRows, across = (p.n + kColumns - 1) / kColumns;
  constexpr Index kBand = 1024 / kRows;
  const Index tile = block % (down * across), rest = block / (down * across);
  const Index band = tile / (kBand * across), inside = tile % (kBand * across);
  const Index height = down - band * kBand < kBand ? down - band * kBand : kBand;
  return {rest / p.chunks, static_cast<int>(rest % p.chunks), static_cast<int>(band * kBand + inside % height) * kRows,
          static_cast<int>(inside / height) * kColumns};
}

/// The matrix of an operand's stack that a product reads, and its first element.
__device__ __forceinline__ Index matrix_index(const ProductArguments& p, const ProductOperand& operand, Index product) {
  Index matrix = 0;
  RAMET_UNROLL
  for (int axis = kStackAxes - 1; axis >= 0; --axis) {
    matrix += product % p.stack[axis] * operand.steps[axis];
    product /= p.stack[axis];
  }
  return matrix;
}
__device__ __forceinline__ Index matrix_of(const ProductArguments& p, const ProductOperand& operand, Index product) {
  return matrix_index(p, operand, product) * operand.matrix;
}

/// Where k of a part lies along an operand's own k.
__device__ __forceinline__ int source_k(const ProductArguments& p, int chunk, int k) {
  if (p.chunks == 1) return k;
  return (k / p.run * p.chunks + chunk) * p.run + k % p.run;
}

/// The value of a result: a sum and what is added to it.
__device__ __forceinline__ float finished(const ProductResult& result, float sum, Index element, int column) {
  if (!result.extra) return sum;
  return sum + load_extra(result.extra_type, result.extra, result.extra_is_row ? column : element);
}

/// The first element of a row of a part of a product in the result.
__device__ __forceinline__ Index result_row(const ProductArguments& p, const ProductTile& tile, int row) {
  return tile.chunk * p.part + (tile.product * p.m + row) * p.n;
}

/// Sums of a tile of kRows x kColumns on their way through shared memory, so that neighbouring threads write neighbours
/// to the result, whatever elements they had. All `kThreads` of a block call `store`, after a barrier.
template <int kRows, int kColumns, int kThreads>
struct TileSums {
  static constexpr int kStride = kColumns + 4, kBytes = kRows * kStride * 4;
  struct alignas(8) Pair {
    float first, second;
  };
  float* const sums;

  __device__ __forceinline__ void put(int row, int column, float first, float second) const {
    *reinterpret_cast<Pair*>(sums + row * kStride + column) = {first, second};
  }

  __device__ __forceinline__ void store(const ProductArguments& p, const ProductTile& tile) const {
    const int rows = p.m - tile.row < kRows ? p.m - tile.row : kRows;
    const Index start = result_row(p, tile, tile.row) + tile.column;
    RAMET_ROLLED
    for (int i = static_cast<int>(threadIdx.x); i < rows * (kColumns / 2); i += kThreads) {
      const int row = i / (kColumns / 2), column = i % (kColumns / 2) * 2;
      const int left = p.n - tile.column - column;
      if (left <= 0) continue;
      const Pair pair = *reinterpret_cast<const Pair*>(sums + row * kStride + column);
      store_pair(p.result, start + static_cast<Index>(row) * p.n + column, tile.column + column, left > 1, pair.first,
                 pair.second);
    }
  }

  static __device__ __forceinline__ void store_pair(const ProductResult& result, Index element, int column, bool both,
                                                    float first, float second) {
    first = finished(result, first, element, column);
    if (both) second = finished(result, second, element + 1, column + 1);
    if (!both || !result.aligned) {
      store_result(result.out_type, result.out, element, first);
      if (both) store_result(result.out_type, result.out, element + 1, second);
    } else if (result.out_type == kTypeF32) {
      static_cast<Pair*>(result.out)[element / 2] = {first, second};
    } else {
      const unsigned low = narrow_result(result.out_type, first), high = narrow_result(result.out_type, second);
      static_cast<unsigned*>(result.out)[element / 2] = low | high << 16;
    }
  }
};

}  // namespace ramet_device
