#pragma once

// Tensors of an update, four elements at a time: widened to f32 when read, rounded when written (ops/rounding.h).

#include "convert.cuh"
#include "philox.cuh"
#include "update_arguments.h"

namespace ramet_device {

constexpr int kGroup = 4;  ///< elements of each tensor that a thread has at once

/// What a tensor holds, which decides how f16 stores it: kPlain as it is, others in a scale of their own.
enum Role { kPlain, kMoment, kSquare };
constexpr float kHalfStateScale = 1024;

template <class A, class B>
constexpr bool kSame = false;
template <class A>
constexpr bool kSame<A, A> = true;
template <class Type, int kRole>
constexpr bool kScaled = kSame<Type, F16> && kRole != kPlain;

template <class Type>
struct FormatOf;
template <>
struct FormatOf<BF16> : BrainFormat {};
template <>
struct FormatOf<F16> : HalfFormat {};
template <>
struct FormatOf<F8E4M3> : E4M3Format {};
template <>
struct FormatOf<F8E5M2> : E5M2Format {};

__device__ __forceinline__ bool is_finite(float value) { return (__float_as_uint(value) & 0x7f800000u) != 0x7f800000u; }

/// Elements [at, at + kGroup) of a tensor of `elements`; in registers, those beyond are 0.
struct Group {
  Index at;
  int count;
  __device__ __forceinline__ Group(Index first, Index elements)
      : at(first),
        count(first + kGroup <= elements ? kGroup
              : first < elements         ? static_cast<int>(elements - first)
                                         : 0) {}
};

template <class Type>
__device__ __forceinline__ Pack<Type, kGroup> read_group(const void* from, const Group& group) {
  using Stored = typename Type::Stored;
  const Stored* elements = static_cast<const Stored*>(from) + group.at;
  if (group.count == kGroup) return *reinterpret_cast<const Pack<Type, kGroup>*>(elements);
  Pack<Type, kGroup> pack;
  RAMET_UNROLL
  for (int k = 0; k < kGroup; ++k) pack.at[k] = k < group.count ? elements[k] : Stored(0);
  return pack;
}
template <class Type>
__device__ __forceinline__ void write_group(const Pack<Type, kGroup>& pack, void* to, const Group& group) {
  auto* elements = static_cast<typename Type::Stored*>(to) + group.at;
  if (group.count == kGroup) {
    *reinterpret_cast<Pack<Type, kGroup>*>(elements) = pack;
    return;
  }
  RAMET_UNROLL
  for (int k = 0; k < kGroup; ++k)
    if (k < group.count) elements[k] = pack.at[k];
}

/// A state that comes out as it is.
template <class Type>
__device__ __forceinline__ void keep_group(const void* from, void* to, const Group& group) {
  if (from != to) write_group<Type>(read_group<Type>(from, group), to, group);
}

template <class Type, int kRole>
__device__ __forceinline__ void load_state(const void* from, const Group& group, float (&to)[kGroup]) {
  const Pack<Type, kGroup> pack = read_group<Type>(from, group);
  RAMET_UNROLL
  for (int k = 0; k < kGroup; ++k) {
    to[k] = Type::widen(pack.at[k]);
    if (kScaled<Type, kRole>) to[k] *= 1 / kHalfStateScale;
    if (kScaled<Type, kRole> && kRole == kSquare) to[k] *= to[k];
  }
}

/// 16 random bits for each element of a group.
struct Draws {
  unsigned of[kGroup];
};

/// Rounds to nearest, or by draws; with kSaturates never to infinity.
template <class Type, bool kDraws, bool kSaturates>
__device__ __forceinline__ typename Type::Stored narrow_state(float value, unsigned draw) {
  if constexpr (kSame<Type, F32>) {
    return value;
  } else {
    using Format = FormatOf<Type>;
    constexpr unsigned kOver = kSaturates ? Format::kLargest : Format::kInfinity;
    return static_cast<typename Type::Stored>(narrow_code<Format, kDraws>(value, draw, kOver));
  }
}

/// `factor`: what an output's draws are multiplied by (rounding_factor of ops/rounding.h).
template <class Type, int kRole, bool kDraws, bool kSaturates = true>
__device__ __forceinline__ void store_state(const float (&from)[kGroup], void* to, const Group& group,
                                            const Draws& draws, unsigned factor) {
  Pack<Type, kGroup> pack;
  RAMET_UNROLL
  for (int k = 0; k < kGroup; ++k) {
    float value = from[k];
    if (kScaled<Type, kRole>) value = (kRole == kSquare ? __fsqrt_rn(value) : value) * kHalfStateScale;
    pack.at[k] = narrow_state<Type, kDraws, kSaturates>(value, kDraws ? draws.of[k] * factor & 0xffffu : 0u);
  }
  write_group<Type>(pack, to, group);
}

/// A weight: of a type, or in two halves, of which `low` is the second (base/rounding.h, SplitFloat).
template <class Type, bool kSplit>
__device__ __forceinline__ void load_weight(const void* from, const void* low, const Group& group,
                                            float (&to)[kGroup]) {
  load_state<Type, kPlain>(from, group, to);
  if constexpr (kSplit) {
    const Pack<U16, kGroup> halves = read_group<U16>(low, group);
    RAMET_UNROLL
    for (int k = 0; k < kGroup; ++k) {
      const unsigned half = halves.at[k];
      to[k] = __uint_as_float(__float_as_uint(to[k]) + half - (half & 0x8000u) * 2u);
    }
  }
}
template <class Type, bool kSplit, bool kDraws>
__device__ __forceinline__ void store_weight(const float (&from)[kGroup], void* to, void* low, const Group& group,
                                             const Draws& draws) {
  if constexpr (!kSplit) {
    store_state<Type, kPlain, kDraws>(from, to, group, draws, 1u);
  } else {
    Pack<BF16, kGroup> high;
    Pack<U16, kGroup> halves;
    RAMET_UNROLL
    for (int k = 0; k < kGroup; ++k) {
      const unsigned bits = __float_as_uint(from[k]);
      const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
      high.at[k] = static_cast<Bits16>(nan ? bits >> 16 | 0x40u : (bits + 0x8000u) >> 16);
      halves.at[k] = static_cast<Bits16>(nan ? 0u : bits);
    }
    write_group<BF16>(high, to, group);
    write_group<U16>(halves, low, group);
  }
}
template <class Type, bool kSplit>
__device__ __forceinline__ void keep_weight(const void* from, const void* low, void* to, void* low_to,
                                            const Group& group) {
  keep_group<Type>(from, to, group);
  if (kSplit) keep_group<U16>(low, low_to, group);
}

/// The draws of a node: element e has number `first` + e of the stream.
template <bool kDraws>
__device__ __forceinline__ Draws draws_of(const RandomStream& stream, unsigned long long first, const Group& group) {
  Draws draws{};
  if constexpr (kDraws) {
    const unsigned long long number = first + static_cast<unsigned long long>(group.at);
    if ((number & 3u) == 0u) {
      const uint4 words = stream.block(number / 8);
      const bool upper = (number & 4u) != 0u;
      const unsigned front = upper ? words.z : words.x, back = upper ? words.w : words.y;
      draws.of[0] = front & 0xffffu, draws.of[1] = front >> 16, draws.of[2] = back & 0xffffu, draws.of[3] = back >> 16;
    } else {
      RAMET_UNROLL
      for (int k = 0; k < kGroup; ++k) draws.of[k] = stream.bits16(number + static_cast<unsigned>(k));
    }
  }
  return draws;
}

/// The random bits of a node's elements, when it draws (ops/rounding.h, RoundingDraw).
template <bool kDraws>
struct DrawSource {
  RandomStream stream{};
  unsigned long long first = 0;
  __device__ __forceinline__ explicit DrawSource(const RoundingArguments& a) {
    if (!kDraws) return;
    stream = {a.key0, a.key1, static_cast<unsigned>(a.counter[0]), a.tensor};
    first = static_cast<unsigned long long>(a.counter[1]) * static_cast<unsigned long long>(a.logical);
  }
  __device__ __forceinline__ Draws of(const Group& group) const { return draws_of<kDraws>(stream, first, group); }
};

}  // namespace ramet_device
