// Reductions of several operands in one pass, and copies to several places. Blocks pass through the first-level cache,
// so that every operand is read once from memory and every output written once, however many there are.

#include "ramet/transport/collectives_kernels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/reduce_order.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/transport/collectives_kernels.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::transport {
namespace HWY_NAMESPACE {
using namespace kernel::HWY_NAMESPACE;  // loads and stores of convert-inl.h

namespace {

// How elements of a storage type become a vector of partial results.
template <typename T>
struct Partial {
  using Type = float;
};
template <>
struct Partial<int32_t> {
  using Type = int32_t;
};
template <>
struct Partial<int64_t> {
  using Type = int64_t;
};

template <class D, typename T>
HWY_INLINE hn::Vec<D> LoadPartial(D d, const T* from) {
  if constexpr (std::is_integral_v<T>)
    return hn::LoadU(d, from);
  else
    return LoadF32(d, from);
}

/// A sum as its storage type holds it: partial results may lie or travel in it anywhere, so every one of them does.
template <typename T, class D>
HWY_INLINE hn::Vec<D> AsStored(D d, hn::Vec<D> value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::And(RoundToBf16(du, value), hn::Set(du, 0xffff0000u)));
  } else if constexpr (std::is_same_v<T, F16>) {
    HWY_ALIGN T room[hn::MaxLanes(d)];
    StoreF32(d, value, room);
    return LoadF32(d, room);
  } else {
    return value;
  }
}

struct JoinSum {
  template <typename T, class D>
  static HWY_INLINE hn::Vec<D> join(D d, hn::Vec<D> left, hn::Vec<D> right) {
    return AsStored<T>(d, hn::Add(left, right));
  }
};
// The same choices as the max and min of rows (kernel/cpu/reduce.cc): NaN wins; of equals the right one.
struct JoinMax {
  template <typename, class D, class V = hn::Vec<D>>
  static HWY_INLINE V join(D, V left, V right) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>())
      return hn::IfThenElse(hn::Or(hn::Gt(left, right), hn::IsNaN(left)), left, right);
    else
      return hn::IfThenElse(hn::Gt(left, right), left, right);
  }
};
struct JoinMin {
  template <typename, class D, class V = hn::Vec<D>>
  static HWY_INLINE V join(D, V left, V right) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>())
      return hn::IfThenElse(hn::Or(hn::Lt(left, right), hn::IsNaN(left)), left, right);
    else
      return hn::IfThenElse(hn::Lt(left, right), left, right);
  }
};

/// The balanced tree over N operands, in registers.
template <class Join, int N, class D, typename T>
HWY_INLINE hn::Vec<D> Tree(D d, const T* const* in, int64_t at) {
  if constexpr (N == 1) {
    return LoadPartial(d, in[0] + at);
  } else {
    constexpr int kHalf = static_cast<int>(tree_split(N));
    const auto left = Tree<Join, kHalf>(d, in, at);
    return Join::template join<T>(d, left, Tree<Join, N - kHalf>(d, in + kHalf, at));
  }
}

template <class Join, int N, typename T>
void Leaves(const std::byte* const* operands, int64_t begin, int64_t count, void* into) {
  using A = typename Partial<T>::Type;
  const hn::ScalableTag<A> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  A* to = static_cast<A*>(into);
  const T* in[N];
  for (int i = 0; i < N; ++i) in[i] = reinterpret_cast<const T*>(operands[i]) + begin;
  int64_t at = 0;
  for (; at + lanes <= count; at += lanes) hn::StoreU(Tree<Join, N>(d, in, at), d, to + at);
  if (at == count) return;
  HWY_ALIGN T tail[N][hn::MaxLanes(hn::ScalableTag<A>())] = {};
  for (int i = 0; i < N; ++i) {
    std::memcpy(tail[i], in[i] + at, static_cast<size_t>(count - at) * sizeof(T));
    in[i] = tail[i];
  }
  HWY_ALIGN A result[hn::MaxLanes(hn::ScalableTag<A>())];
  hn::Store(Tree<Join, N>(d, in, 0), d, result);
  std::memcpy(to + at, result, static_cast<size_t>(count - at) * sizeof(A));
}

/// left[i] = left[i] joined with right[i], partial results of operands of type T.
template <class Join, typename T>
void JoinBlocks(void* left_block, const void* right_block, int64_t count) {
  using A = typename Partial<T>::Type;
  const hn::ScalableTag<A> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  A* left = static_cast<A*>(left_block);
  const A* right = static_cast<const A*>(right_block);
  int64_t at = 0;  // blocks are whole vectors long; what lies behind `count` is not used
  for (; at < count; at += lanes)
    hn::StoreU(Join::template join<T>(d, hn::LoadU(d, left + at), hn::LoadU(d, right + at)), d, left + at);
}

template <typename T>
void Narrow(const void* from, int64_t count, void* into) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* in = static_cast<const float*>(from);
  T* to = static_cast<T*>(into);
  int64_t at = 0;
  for (; at + lanes <= count; at += lanes) StoreF32(d, hn::LoadU(d, in + at), to + at);
  if (at < count)
    StoreF32N(d, LoadF32N(d, in + at, static_cast<size_t>(count - at)), to + at, static_cast<size_t>(count - at));
}

/// Writes past the caches; the whole vectors of `to` that are aligned.
void StreamCopy(const std::byte* from, std::byte* to, size_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  const size_t head = std::min(bytes, (lanes - reinterpret_cast<uintptr_t>(to) % lanes) % lanes);
  std::memcpy(to, from, head);
  size_t at = head;
  for (; at + lanes <= bytes; at += lanes)
    hn::Stream(hn::LoadU(d, reinterpret_cast<const uint8_t*>(from + at)), d, reinterpret_cast<uint8_t*>(to + at));
  std::memcpy(to + at, from + at, bytes - at);
}

using LeavesFunction = void (*)(const std::byte* const*, int64_t, int64_t, void*);
struct Functions {
  LeavesFunction leaves[5];  // of 1, 2, 3, 4 and 8 operands
  void (*join)(void*, const void*, int64_t);
};

template <class Join, typename T>
constexpr Functions functions() {
  return {{&Leaves<Join, 1, T>, &Leaves<Join, 2, T>, &Leaves<Join, 3, T>, &Leaves<Join, 4, T>, &Leaves<Join, 8, T>},
          &JoinBlocks<Join, T>};
}
template <class Join>
const Functions* functions_of(DType dtype) {
  static constexpr Functions kTable[] = {functions<Join, float>(), functions<Join, Bf16>(), functions<Join, F16>(),
                                         functions<Join, int32_t>(), functions<Join, int64_t>()};
  switch (dtype) {
    case DType::kF32: return &kTable[0];
    case DType::kBF16: return &kTable[1];
    case DType::kF16: return &kTable[2];
    case DType::kI32: return &kTable[3];
    case DType::kI64: return &kTable[4];
    default: internal_error("reduce_elements", "a type that cannot be reduced");
  }
}

constexpr int64_t kBlock = 2048;  // elements; with three levels of partial results still within the first-level cache
constexpr int kLevels = 12;       // of blocks: groups of up to 2^12 and more members

struct Reducer {
  const Functions& functions;
  const std::byte* const* in;
  alignas(64) std::byte blocks[kLevels][kBlock * 8];  // not set: only the levels in use are touched

  Reducer(const Functions& functions_, const std::byte* const* in_) : functions(functions_), in(in_) {}
  /// Partial result of operands [first, first + n) into the block of `level`.
  void node(int first, int n, int level, int64_t begin, int64_t count) {
    const int direct = n <= 4 ? n - 1 : n == 8 ? 4 : -1;
    if (direct >= 0) return functions.leaves[direct](in + first, begin, count, blocks[level]);
    const int half = static_cast<int>(tree_split(n));
    node(first, half, level, begin, count);
    node(first + half, n - half, level + 1, begin, count);
    functions.join(blocks[level], blocks[level + 1], count);
  }
};

void ReduceElements(const ReduceJob& job, int64_t in_begin, int64_t out_begin, int64_t count) {
  const Functions& functions = job.kind == Reduction::kSum   ? *functions_of<JoinSum>(job.in_type)
                               : job.kind == Reduction::kMax ? *functions_of<JoinMax>(job.in_type)
                                                             : *functions_of<JoinMin>(job.in_type);
  Reducer reducer(functions, job.in);
  const auto size = static_cast<int64_t>(size_of(job.out_type));
  alignas(64) std::byte narrow[kBlock * 2];
  for (int64_t done = 0; done < count; done += kBlock) {
    const int64_t part = std::min(kBlock, count - done);
    reducer.node(0, job.inputs, 0, in_begin + done, part);
    const std::byte* result = reducer.blocks[0];
    if (job.out_type == DType::kBF16 || job.out_type == DType::kF16) {
      (job.out_type == DType::kBF16 ? Narrow<Bf16> : Narrow<F16>)(result, part, narrow);
      result = narrow;
    }
    const auto bytes = static_cast<size_t>(part * size);
    for (int i = 0; i < job.outputs; ++i) {
      std::byte* to = job.out[i] + (out_begin + done) * size;
      if (job.stream)
        StreamCopy(result, to, bytes);
      else
        std::memcpy(to, result, bytes);
    }
  }
  if (job.stream) hwy::FlushStream();
}

void CopyToAll(const std::byte* from, std::byte* const* to, int outputs, size_t bytes, bool stream) {
  constexpr size_t kCopyBlock = 8192;
  for (size_t done = 0; done < bytes; done += kCopyBlock) {
    const size_t part = std::min(kCopyBlock, bytes - done);
    for (int i = 0; i < outputs; ++i) {
      if (to[i] == from) continue;
      if (stream)
        StreamCopy(from + done, to[i] + done, part);
      else
        std::memcpy(to[i] + done, from + done, part);
    }
  }
  if (stream) hwy::FlushStream();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ramet::transport
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::transport {

HWY_EXPORT(ReduceElements);
HWY_EXPORT(CopyToAll);

bool reducible(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kI32 ||
         dtype == DType::kI64;
}

void reduce_elements(const ReduceJob& job, int64_t in_begin, int64_t out_begin, int64_t count) {
  if (count <= 0) return;
  cpu_level();
  HWY_DYNAMIC_DISPATCH(ReduceElements)(job, in_begin, out_begin, count);
}

void copy_to_all(const std::byte* from, std::byte* const* to, int outputs, size_t bytes, bool stream) {
  if (bytes == 0) return;
  cpu_level();
  HWY_DYNAMIC_DISPATCH(CopyToAll)(from, to, outputs, bytes, stream);
}

}  // namespace ramet::transport
#endif  // HWY_ONCE
