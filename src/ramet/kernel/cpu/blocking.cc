#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/blocking.cc"
#include "ramet/kernel/cpu/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/blocking-inl.h"
#include "ramet/kernel/cpu/blocking.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/ops/reduce_order.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {

/// A group of units whose rows are not neighbours in the source: gathered first.
template <typename T, typename C>
void GatherGroup(const BlockedMatrix& blocked, const T* source, int64_t chunk, int64_t k, int64_t count, int64_t column,
                 int64_t cols, uint32_t* to) {
  constexpr bool kPairs = sizeof(C) == 2;
  constexpr int64_t kGroup = kPairs ? 2 * kUnits : kUnits;
  HWY_ALIGN T rows[kGroup * kWidth];
  HWY_ALIGN uint32_t tile[kWidth * kUnits];
  const int64_t width = blocked.n_block;
  if (blocked.transposed) {
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t i = 0; i < count; ++i)
        rows[j * kGroup + i] = source[(column + j) * blocked.k + blocked.source_row(chunk, k + i)];
    UnitsFromColumns<T, C>(rows, kGroup, count, cols, width, tile);
    Transpose32(tile, kUnits, to, width, width, kUnits);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(static_cast<void*>(rows + i * kWidth), source + blocked.source_row(chunk, k + i) * blocked.n + column,
                static_cast<size_t>(cols) * sizeof(T));
  UnitsFromRowsEdge<T, kPairs>(rows, kWidth, count, cols, width, to);
}

template <typename T, typename C>
void FillBlocksOf(const BlockedMatrix& blocked, const T* source, const FillRange& range, char* out) {
  constexpr bool kPairs = sizeof(C) == 2;
  constexpr int64_t kGroup = kPairs ? 2 * kUnits : kUnits;
  HWY_ALIGN uint32_t tile[kWidth * kUnits];
  const int64_t width = blocked.n_block, k_chunk = blocked.k_chunk(), run = blocked.run();
  const int64_t groups = (k_chunk + kGroup - 1) / kGroup, first = groups * range.part / range.parts,
                last = std::min(k_chunk, groups * (range.part + 1) / range.parts * kGroup);
  for (int64_t chunk = 0; chunk < blocked.chunks; ++chunk)
    for (int64_t block = range.begin; block < range.end; ++block) {
      auto* to = reinterpret_cast<uint32_t*>(out + chunk * blocked.chunk_bytes() + block * blocked.block_bytes()) +
                 first * kUnits * width;
      const int64_t cols = std::min(width, blocked.n - block * width);
      for (int64_t k = first * kGroup; k < last; k += kGroup, to += kUnits * width) {
        const int64_t at = blocked.source_row(chunk, k), left = run - k % run;  // rows that follow it in the source
        if (left < std::min(kGroup, k_chunk - k)) {
          GatherGroup<T, C>(blocked, source, chunk, k, std::min(kGroup, k_chunk - k), block * width, cols, to);
        } else if (blocked.transposed) {
          UnitsFromColumns<T, C>(source + block * width * blocked.k + at, blocked.k, left, cols, width, tile);
          Transpose32(tile, kUnits, to, width, width, kUnits);
        } else {
          UnitsFromRows<T, kPairs>(source + at * blocked.n + block * width, blocked.n, left, cols, width, to);
        }
      }
    }
}

template <typename T, typename C>
void CopyBlockOf(const T* source, int64_t stride, bool transposed, int64_t rows, int64_t cols, int64_t out_stride,
                 C* out) {
  constexpr bool kPairs = sizeof(C) == 2;
  constexpr int64_t kGroup = kPairs ? 2 * kUnits : kUnits;
  if (!transposed) {
    for (int64_t i = 0; i < rows; ++i) ConvertRow(source + i * stride, cols, out + i * out_stride);
    return;
  }
  HWY_ALIGN uint32_t tile[kWidth * kUnits], turned[kWidth * kUnits];
  for (int64_t i = 0; i < rows; i += kWidth)
    for (int64_t k = 0; k < cols; k += kGroup) {
      const int64_t height = std::min(kWidth, rows - i), count = std::min(kGroup, cols - k);
      UnitsFromRows<T, kPairs>(source + k * stride + i, stride, cols - k, height, kWidth, tile);
      C* to = out + i * out_stride + k;
      Transpose32(tile, kWidth, turned, kUnits, kUnits, kWidth);
      if (count == kGroup) {  // whole cache lines, of a size that the compiler knows
        for (int64_t r = 0; r < height; ++r)
          std::memcpy(static_cast<void*>(to + r * out_stride), turned + r * kUnits, kUnits * 4);
        continue;
      }
      for (int64_t r = 0; r < height; ++r)
        std::memcpy(static_cast<void*>(to + r * out_stride), turned + r * kUnits,
                    static_cast<size_t>(count) * sizeof(C));
    }
}

void FillBlocks(const BlockedMatrix& blocked, const void* source, DType type, DType logical, const FillRange& range,
                void* out) {
  char* to = static_cast<char*>(out);
  const bool rounds = type == DType::kF32 && blocked.compute == DType::kF32;
  if (rounds && logical == DType::kBF16)
    return FillBlocksOf<F32AsBf16, float>(blocked, static_cast<const F32AsBf16*>(source), range, to);
  if (rounds && logical == DType::kF16)
    return FillBlocksOf<F32AsF16, float>(blocked, static_cast<const F32AsF16*>(source), range, to);
  WithOperand(type, source, [&](auto* typed) {
    using T = std::remove_cvref_t<decltype(*typed)>;
    if (blocked.compute == DType::kBF16)
      FillBlocksOf<T, Bf16>(blocked, typed, range, to);
    else
      FillBlocksOf<T, float>(blocked, typed, range, to);
  });
}

void CopyBlock(const void* source, DType type, int64_t stride, bool transposed, int64_t rows, int64_t cols,
               DType compute, int64_t out_stride, void* out) {
  WithOperand(type, source, [&](auto* typed) {
    if (compute == DType::kBF16)
      CopyBlockOf(typed, stride, transposed, rows, cols, out_stride, static_cast<Bf16*>(out));
    else
      CopyBlockOf(typed, stride, transposed, rows, cols, out_stride, static_cast<float*>(out));
  });
}

/// Sums of [begin, begin+count) rows of `sums` along the tree, into the first of them.
void TreeRows(float* sums, int64_t begin, int64_t count, int64_t stride, int64_t n) {
  if (count == 1) return;
  const int64_t half = tree_split(count);
  TreeRows(sums, begin, half, stride, n);
  TreeRows(sums, begin + half, count - half, stride, n);
  const F32 df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  float* left = sums + begin * stride;
  const float* right = sums + (begin + half) * stride;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(df, left + i), hn::LoadU(df, right + i)), df, left + i);
  for (; i < n; ++i) left[i] += right[i];
}

template <typename B, typename O>
void FinishOf(const float* sum, int64_t n, const B* bias, const float* c, O* out) {
  const F32 df;
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  if (!bias && !c)
    for (; i + lanes <= n; i += lanes) StoreF32(df, hn::LoadU(df, sum + i), out + i);
  else if (!c)
    for (; i + lanes <= n; i += lanes) StoreF32(df, hn::Add(hn::LoadU(df, sum + i), LoadF32(df, bias + i)), out + i);
  for (; i < n; i += lanes) {
    const int64_t left = n - i;
    auto value = LoadSome(sum + i, left);
    if (bias) value = hn::Add(value, LoadSome(bias + i, left));
    if (c) value = hn::Add(value, LoadSome(c + i, left));
    if (left >= lanes)
      StoreF32(df, value, out + i);
    else
      StoreF32N(df, value, out + i, static_cast<size_t>(left));
  }
}

void FinishRows(const SumRows& rows) {
  WithStorage(rows.bias ? rows.bias_type : DType::kF32, rows.bias, [&](auto* bias) {
    WithStorage(rows.out_type, rows.out, [&](auto* typed_out) {
      using O = std::remove_cvref_t<decltype(*typed_out)>;
      for (int64_t i = 0; i < rows.rows; ++i) {
        float* sums = rows.sums + i * rows.sum_stride;
        char* out = rows.outs ? rows.outs[i] + rows.out_offset : rows.out + i * rows.out_stride;
        TreeRows(sums, 0, rows.chunks, rows.chunk_stride, rows.n);
        FinishOf(sums, rows.n, bias, rows.c ? rows.c + i * rows.c_stride : nullptr, reinterpret_cast<O*>(out));
      }
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <sstream>

namespace ramet::kernel {
HWY_EXPORT(FillBlocks);
HWY_EXPORT(CopyBlock);
HWY_EXPORT(FinishRows);

void fill_blocks(const BlockedMatrix& blocked, const void* source, DType type, DType logical, const FillRange& range,
                 void* out) {
  HWY_DYNAMIC_DISPATCH(FillBlocks)(blocked, source, type, logical, range, out);
}

void copy_block(const void* source, DType type, int64_t stride, bool transposed, int64_t rows, int64_t cols,
                DType compute, int64_t out_stride, void* out) {
  HWY_DYNAMIC_DISPATCH(CopyBlock)(source, type, stride, transposed, rows, cols, compute, out_stride, out);
}

void finish_rows(const SumRows& rows) { HWY_DYNAMIC_DISPATCH(FinishRows)(rows); }

std::string BlockedMatrix::format() const {
  return "blocked " + std::string(name_of(compute)) + " " + std::to_string(k) + " " + std::to_string(n) + " " +
         std::to_string(n_block) + " " + std::to_string(chunks) +
         (chunk_blocks > 1 ? "x" + std::to_string(chunk_blocks) : "") + (transposed ? " transposed" : " plain");
}

std::optional<BlockedMatrix> BlockedMatrix::parse(const std::string& format) {
  std::istringstream text(format);
  std::string kind, dtype, order;
  BlockedMatrix blocked;
  text >> kind >> dtype >> blocked.k >> blocked.n >> blocked.n_block >> blocked.chunks;
  if (text.peek() == 'x') text.get(), text >> blocked.chunk_blocks;
  text >> order;
  if (!text || kind != "blocked" || (dtype != "f32" && dtype != "bf16")) return std::nullopt;
  blocked.compute = dtype == "bf16" ? DType::kBF16 : DType::kF32;
  blocked.transposed = order == "transposed";
  const bool sane = blocked.k > 0 && blocked.n > 0 && blocked.chunks > 0 && blocked.k % blocked.chunks == 0 &&
                    blocked.chunk_blocks > 0 && blocked.k_chunk() % blocked.chunk_blocks == 0 && blocked.n_block > 0 &&
                    blocked.n_block <= 64 && blocked.n_block % 16 == 0;
  if (!sane || blocked.format() != format) return std::nullopt;
  return blocked;
}

}  // namespace ramet::kernel
#endif
