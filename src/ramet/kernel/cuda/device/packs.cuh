#pragma once

// Elements to registers and back, several at a time: 16 bytes at once where they lie so.

#include "convert.cuh"

namespace ramet_device {

/// Elements [at, at + kPack) of a tensor, of which `count` are there; `at` is a multiple of kPack, the tensor aligned.
template <class Type, int kPack>
__device__ __forceinline__ void load_pack(const void* tensor, Index at, Index count, typename Type::Register* to) {
  using Stored = typename Type::Stored;
  constexpr int kAtOnce = kPack < kWide<Type> ? kPack : kWide<Type>;
  const Stored* from = static_cast<const Stored*>(tensor) + at;
  if (count >= kPack) {
    Pack<Type, kAtOnce> packs[kPack / kAtOnce];
    RAMET_UNROLL
    for (int i = 0; i < kPack / kAtOnce; ++i) packs[i] = reinterpret_cast<const Pack<Type, kAtOnce>*>(from)[i];
    RAMET_UNROLL
    for (int i = 0; i < kPack; ++i) to[i] = Type::widen(packs[i / kAtOnce].at[i % kAtOnce]);
  } else {
    RAMET_UNROLL
    for (int i = 0; i < kPack; ++i) to[i] = i < count ? Type::widen(from[i]) : typename Type::Register{};
  }
}
template <class Type, int kPack>
__device__ __forceinline__ void store_pack(void* tensor, Index at, Index count, const typename Type::Register* from) {
  using Stored = typename Type::Stored;
  constexpr int kAtOnce = kPack < kWide<Type> ? kPack : kWide<Type>;
  Stored* to = static_cast<Stored*>(tensor) + at;
  if (count >= kPack) {
    RAMET_UNROLL
    for (int i = 0; i < kPack / kAtOnce; ++i) {
      Pack<Type, kAtOnce> pack;
      RAMET_UNROLL
      for (int j = 0; j < kAtOnce; ++j) pack.at[j] = Type::narrow(from[i * kAtOnce + j]);
      reinterpret_cast<Pack<Type, kAtOnce>*>(to)[i] = pack;
    }
  } else {
    RAMET_UNROLL
    for (int i = 0; i < kPack; ++i)
      if (i < count) to[i] = Type::narrow(from[i]);
  }
}
template <class Type>
__device__ __forceinline__ typename Type::Register load_one(const void* tensor, Index at) {
  return Type::widen(static_cast<const typename Type::Stored*>(tensor)[at]);
}
template <class Type>
__device__ __forceinline__ void store_one(void* tensor, Index at, typename Type::Register value) {
  static_cast<typename Type::Stored*>(tensor)[at] = Type::narrow(value);
}
/// `count` elements from `at` on, at a distance.
template <class Type, int kPack>
__device__ __forceinline__ void load_strided(const void* tensor, Index at, Index stride, Index count,
                                             typename Type::Register* to) {
  RAMET_UNROLL
  for (int i = 0; i < kPack; ++i)
    to[i] = i < count ? load_one<Type>(tensor, at + i * stride) : typename Type::Register{};
}

}  // namespace ramet_device
