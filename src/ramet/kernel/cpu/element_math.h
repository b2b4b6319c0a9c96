#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ramet/base/house.h"

namespace ramet::kernel::cpu {

// Arithmetic on one element of any number type: integers wrap.

template <typename T>
bool is_nan(T a) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(a);
  else
    return false;
}

template <typename T>
T wrapped_sum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a + b;
  else
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
}

template <typename T>
T wrapped_product(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a * b;
  else  // in 64 bits: the product of two u16 would overflow an int
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

}  // namespace ramet::kernel::cpu
