#pragma once

#include <cstdint>
#include <string_view>

#include "ramet/base/rng.h"

namespace ramet::ops {

/// How initial values are drawn. Each depends on (seed, tensor, element) alone.
enum class RandomKind : uint8_t {
  kUniform,         ///< in [a, b)
  kNormal,          ///< mean a, deviation b
  kTruncatedNormal  ///< the same, drawn again until within two deviations of the mean
};
/// "uniform", "normal", "truncated_normal"; throws Error on another name.
RandomKind random_kind_from_name(std::string_view name);

/// Initial value of logical element `element` of a tensor with id `tensor` (hash64 of its name), rounded to f32: the
/// one meaning of op `random` and of the states' initial values.
float random_initial_value(RandomKind kind, double a, double b, uint64_t seed, uint64_t tensor, uint64_t element);

}  // namespace ramet::ops
