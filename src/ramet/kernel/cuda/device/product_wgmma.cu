// Products of bf16 and f16 by wgmma. Definitions: kTileColumns (a multiple of 8 up to 256), kStages, kClusterRows,
// kClusterColumns, kHeadStart, kTransposeA, kTransposeB, TypeOut and TypeExtra (of convert.cuh), kExtra: 0 none, 1 a
// bias, 2 c. In front of this text stands `multiply_tile`, one wgmma of that width.
//
// A block stays and computes tiles of 128 x kTileColumns, one after the other. One thread has the copies made, 64 of k
// at a time, some stages ahead and across tiles; two groups of 128 threads multiply, each the sums of 64 rows in
// registers. The second group begins when the first has started kHeadStart steps (0: with it), and stays behind: so one
// multiplies while the other writes its results. Operands lie in shared memory as they do in memory, so a transposed
// operand needs no copy. The kClusterRows x kClusterColumns blocks of a cluster have neighbouring tiles; those below
// each other share the copies of columns, those beside each other the copies of rows.

#include "product.cuh"
#include "warp_group.cuh"

namespace ramet_device {

constexpr int kRows = 128, kGroupRows = 64, kDepth = 64, kStep = 16, kSums = kTileColumns / 2;
constexpr int kSlab = 64 * kDepth * 2;  // bytes of 64 rows or columns of the result
constexpr int kSlabsA = kRows / 64, kSlabsB = (kTileColumns + 63) / 64;
constexpr int kStageBytes = (kSlabsA + kSlabsB) * kSlab;

constexpr int kCluster = kClusterRows * kClusterColumns;
using Stages = Ring<kStages, kCluster>;

/// This block's place in its cluster.
struct Place {
  int row, column;
  __device__ __forceinline__ Place() {
    const int rank = kCluster == 1 ? 0 : rank_in_cluster();
    row = rank % kClusterRows;
    column = rank / kClusterRows;
  }
};

/// The share of the tiles of this block's cluster, each kCluster of the block's.
struct Tiles {
  Index tile, count;
  __device__ __forceinline__ explicit Tiles(const ProductArguments& p) : tile(blockIdx.x / kCluster) {
    const int down = (p.m + kRows * kClusterRows - 1) / (kRows * kClusterRows);
    const int across = (p.n + kTileColumns * kClusterColumns - 1) / (kTileColumns * kClusterColumns);
    count = static_cast<Index>(down) * across * p.products * p.chunks;
  }
  __device__ __forceinline__ bool left() const { return tile < count; }
  __device__ __forceinline__ void next() { tile += gridDim.x / kCluster; }
  __device__ __forceinline__ ProductTile of_block(const ProductArguments& p, Place place) const {
    ProductTile own = tile_of<kRows * kClusterRows, kTileColumns * kClusterColumns>(p, tile);
    own.row += place.row * kRows;
    own.column += place.column * kTileColumns;
    return own;
  }
};

/// Has 64 rows (columns, of b) of the result and 64 of k copied to the blocks `blocks`.
template <bool kAlongK, int kBlocks>
__device__ __forceinline__ void copy_slab(unsigned to, const TensorMap& map, unsigned barrier, unsigned blocks, int k,
                                          int first, int matrix) {
  const int x = kAlongK ? k : first, y = kAlongK ? first : k;
  if constexpr (kBlocks == 1)
    copy_box(to, map, barrier, x, y, matrix);
  else
    copy_box_to_all(to, map, barrier, blocks, x, y, matrix);
}

__device__ __forceinline__ void copy_tiles(const WgmmaArguments& all, unsigned memory, Stages stages, Place place) {
  constexpr unsigned kBelow = (1u << kClusterRows) - 1u;
  const unsigned below = kBelow << (place.column * kClusterRows);  // blocks with the same columns
  unsigned beside = 0;                                             // blocks with the same rows
  for (int i = 0; i < kClusterColumns; ++i) beside |= 1u << (i * kClusterRows + place.row);
  const ProductArguments& p = all.product;
  for (Tiles tiles(p); tiles.left(); tiles.next()) {
    const ProductTile tile = tiles.of_block(p, place);
    const int matrix_a = static_cast<int>(matrix_index(p, p.a, tile.product));
    const int matrix_b = static_cast<int>(matrix_index(p, p.b, tile.product));
    for (int k = 0; k < p.k; k += kDepth, stages.next()) {
      const unsigned a = memory + stages.slot * kStageBytes, b = a + kSlabsA * kSlab;
      const unsigned barrier = stages.full + stages.slot * 8;
      const int source = source_k(p, tile.chunk, k);
      stages.wait_empty();
      arrive_expecting(barrier, kStageBytes);
      RAMET_UNROLL
      for (int i = 0; i < kSlabsA; ++i)
        if (i % kClusterColumns == place.column)
          copy_slab<!kTransposeA, kClusterColumns>(a + i * kSlab, all.map_a, barrier, beside, source, tile.row + i * 64,
                                                   matrix_a);
      RAMET_UNROLL
      for (int i = 0; i < kSlabsB; ++i)
        if (i % kClusterRows == place.row)
          copy_slab<kTransposeB, kClusterRows>(b + i * kSlab, all.map_b, barrier, below, source, tile.column + i * 64,
                                               matrix_b);
    }
  }
}

/// Starts the products of a stage; those of the one before are done on return.
__device__ __forceinline__ void multiply_stage(float (&sums)[kSums], unsigned a, unsigned b) {
  constexpr unsigned kNextA = kTransposeA ? kStep * 128 : kStep * 2, kNextB = kTransposeB ? kStep * 2 : kStep * 128;
  const unsigned long long operand_a = shared_operand(a, kTransposeA ? kSlab : 16);
  const unsigned long long operand_b = shared_operand(b, kTransposeB ? 16 : kSlab);
  fence_products();
  RAMET_UNROLL
  for (int i = 0; i < kDepth / kStep; ++i)
    multiply_tile(sums, operand_a + i * (kNextA >> 4), operand_b + i * (kNextB >> 4));
  commit_products();
  wait_for_products<1>();
}

// --- from sums to the result: block j of a thread's sums has rows r and r + 8, columns 8j + 2 (lane % 4) and the next

struct Pair {
  float first, second;
};

/// What is added to two neighbours.
__device__ __forceinline__ Pair finish_pair(const ProductResult& result, Pair sum, Index element, int column,
                                            bool second) {
  if constexpr (kExtra != 0) {
    const auto* extra = static_cast<const typename TypeExtra::Stored*>(result.extra);
    const Index at = kExtra == 1 ? column : element;
    sum.first += TypeExtra::widen(extra[at]);
    if (second) sum.second += TypeExtra::widen(extra[at + 1]);
  }
  return sum;
}

/// Two sums as 16-bit results, the first in the lower half. A NaN that the card computed has one form only.
template <class Type>
__device__ __forceinline__ unsigned narrow_pair(Pair pair) {
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(pair.second), "f"(pair.first));
  return both;
}
template <>
__device__ __forceinline__ unsigned narrow_pair<F16>(Pair pair) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(pair.second), "f"(pair.first));
  return both;
}

/// Rows with edges, or whose columns do not begin at multiples of 16 bytes.
__device__ __forceinline__ void store_singly(const ProductArguments& p, const float (&sums)[kSums], int half,
                                             Index start, int first) {
  auto* const out = static_cast<typename TypeOut::Stored*>(p.result.out);
  RAMET_UNROLL
  for (int j = 0; j < kTileColumns / 8; ++j) {
    const int column = first + j * 8;
    if (column >= p.n) continue;
    const bool second = column + 1 < p.n;
    const Pair pair =
        finish_pair(p.result, {sums[j * 4 + half * 2], sums[j * 4 + half * 2 + 1]}, start + column, column, second);
    if constexpr (sizeof(*out) == 2) {
      const unsigned both = narrow_pair<TypeOut>(pair);
      out[start + column] = static_cast<Bits16>(both);
      if (second) out[start + column + 1] = static_cast<Bits16>(both >> 16);
    } else {
      out[start + column] = pair.first;
      if (second) out[start + column + 1] = pair.second;
    }
  }
}

struct alignas(8) Words2 {
  float words[2];
};

__device__ __forceinline__ void store_wide(const ProductArguments& p, const float (&sums)[kSums], int half, Index start,
                                           int first) {
  auto* const out = static_cast<float*>(p.result.out);
  RAMET_UNROLL
  for (int j = 0; j < kTileColumns / 8; ++j) {
    const int column = first + j * 8;
    const Pair pair =
        finish_pair(p.result, {sums[j * 4 + half * 2], sums[j * 4 + half * 2 + 1]}, start + column, column, true);
    *reinterpret_cast<Words2*>(out + start + column) = {{pair.first, pair.second}};
  }
}

/// Word i of lane t of four becomes word t of lane i.
__device__ __forceinline__ void exchange_words(unsigned (&words)[4]) {
  const bool odd = threadIdx.x & 1u, high = threadIdx.x & 2u;
  RAMET_UNROLL
  for (int i = 0; i < 4; i += 2) {
    const unsigned got = __shfl_xor_sync(~0u, odd ? words[i] : words[i + 1], 1);
    words[i] = odd ? got : words[i];
    words[i + 1] = odd ? words[i + 1] : got;
  }
  RAMET_UNROLL
  for (int i = 0; i < 2; ++i) {
    const unsigned got = __shfl_xor_sync(~0u, high ? words[i] : words[i + 2], 2);
    words[i] = high ? got : words[i];
    words[i + 2] = high ? words[i + 2] : got;
  }
}

/// 16-bit results: four lanes have a row of eight neighbours between them, so they exchange those of four blocks, and
/// each writes 16 bytes.
__device__ __forceinline__ void store_narrow(const ProductArguments& p, const float (&sums)[kSums], int half,
                                             Index start, int first, bool inside) {
  auto* const out = static_cast<Bits16*>(p.result.out);
  const int of_four = static_cast<int>(threadIdx.x) % 4;
  const auto packed = [&](int j) {
    const int column = first + j * 8;
    const Pair sum = {sums[j * 4 + half * 2], sums[j * 4 + half * 2 + 1]};
    return narrow_pair<TypeOut>(finish_pair(p.result, sum, start + column, column, true));
  };
  constexpr int kFours = kTileColumns / 32;
  RAMET_UNROLL
  for (int i = 0; i < kFours; ++i) {
    Bytes16 words;
    RAMET_UNROLL
    for (int j = 0; j < 4; ++j) words.words[j] = inside ? packed(i * 4 + j) : 0u;
    exchange_words(words.words);
    if (inside) *reinterpret_cast<Bytes16*>(out + start + first - of_four * 2 + i * 32 + of_four * 8) = words;
  }
  RAMET_UNROLL
  for (int j = kFours * 4; j < kTileColumns / 8; ++j)
    if (inside) *reinterpret_cast<unsigned*>(out + start + first + j * 8) = packed(j);
}

__device__ __forceinline__ void store_tile(const ProductArguments& p, const ProductTile& tile,
                                           const float (&sums)[kSums], int group) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int row = tile.row + group * kGroupRows + thread / 32 * 16 + thread % 32 / 4;
  const int first = tile.column + thread % 4 * 2;
  const bool whole = p.result.aligned && tile.column + kTileColumns <= p.n;
  RAMET_UNROLL
  for (int half = 0; half < 2; ++half) {
    const bool inside = row + half * 8 < p.m;
    const Index start = inside ? result_row(p, tile, row + half * 8) : 0;
    if (!whole) {
      if (inside) store_singly(p, sums, half, start, first);
    } else if constexpr (sizeof(typename TypeOut::Stored) == 2) {
      store_narrow(p, sums, half, start, first, inside);
    } else {
      if (inside) store_wide(p, sums, half, start, first);
    }
  }
}

__device__ __forceinline__ void multiply_tiles(const WgmmaArguments& all, unsigned memory, Stages stages, Place place,
                                               int group) {
  const ProductArguments& p = all.product;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int steps = (p.k + kDepth - 1) / kDepth;
  int ahead = kHeadStart < steps ? kHeadStart : steps;  // steps until the other group may begin
  if (group == 1 && ahead > 0) wait_for_start();
  for (Tiles tiles(p); tiles.left(); tiles.next()) {
    const ProductTile tile = tiles.of_block(p, place);
    float sums[kSums];
    RAMET_UNROLL
    for (float& sum : sums) sum = 0;
    for (int k = 0; k < p.k; k += kDepth, stages.next()) {
      const unsigned at = memory + stages.slot * kStageBytes;
      stages.wait_full();
      multiply_stage(sums, at + group * kSlab, at + kSlabsA * kSlab);
      if (k > 0) stages.release_last(thread);
      if (group == 0 && --ahead == 0) give_start();
    }
    wait_for_products<0>();
    stages.release_last(thread);
    hold(sums);
    store_tile(p, tile, sums, group);
  }
}

extern "C" __global__ void __launch_bounds__(384, 1) __cluster_dims__(kCluster, 1, 1)
    product_wgmma(const __grid_constant__ WgmmaArguments all) {
  extern __shared__ unsigned char shared[];
  const unsigned memory = (shared_address(shared) + 1023u) & ~1023u;
  const Stages stages(memory + kStages * kStageBytes);
  const int group = static_cast<int>(threadIdx.x) / 128;
  const Place place;
  if (threadIdx.x == 0) stages.init(2);
  __syncthreads();
  if constexpr (kCluster > 1) meet_cluster();
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) copy_tiles(all, memory, stages, place);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    multiply_tiles(all, memory, stages, place, group - 1);
  }
  // A block's memory must be there as long as others copy into it.
  if constexpr (kCluster > 1) meet_cluster();
}

}  // namespace ramet_device
