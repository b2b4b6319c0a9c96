#pragma once

// The ops of map programs (ops/map_program.h) by their names: op_NAME(operands, immediates), as the CPU's map steps
// compute them (kernel/cpu/map_steps.cc). Printed maps call them. Floats are f32; bools and integers shorter than 32
// bits are int, and the printer wraps what may have left a type (wrapped<T>).

#include "convert.cuh"
#include "wide_math.cuh"

namespace ramet_device {

// --- floats ---

#define RAMET_OP1(name, expression) \
  __device__ __forceinline__ float op_##name(float a) { return expression; }
#define RAMET_OP2(name, expression) \
  __device__ __forceinline__ float op_##name(float a, float b) { return expression; }

RAMET_OP2(add, a + b)
RAMET_OP2(subtract, a - b)
RAMET_OP2(multiply, (a * b))
RAMET_OP2(divide, __fdiv_rn(a, b))
RAMET_OP2(maximum, a > b || is_nan(a) ? a : b)
RAMET_OP2(minimum, a < b || is_nan(a) ? a : b)
RAMET_OP2(power, power_of(a, b))
RAMET_OP2(remainder, remainder_of(a, b))
RAMET_OP2(fmod, fmod_of(a, b))
RAMET_OP2(floor_divide, floor_quotient_of(a, b))
RAMET_OP2(atan2, atan2_of(a, b))
RAMET_OP2(hypot, hypot_of(a, b))
RAMET_OP2(copysign, copysignf(a, b))
RAMET_OP2(logaddexp, log_add_exp(a, b))
RAMET_OP1(negate, -a)
RAMET_OP1(abs, fabsf(a))
RAMET_OP1(sign, a < 0.0f ? -1.0f : a > 0.0f ? 1.0f : a)
RAMET_OP1(exp, exp_of(a))
RAMET_OP1(log, log_of(a))
RAMET_OP1(log1p, log1p_of(a))
RAMET_OP1(expm1, expm1_of(a))
RAMET_OP1(sqrt, __fsqrt_rn(a))
RAMET_OP1(rsqrt, rsqrt_of(a))
RAMET_OP1(reciprocal, __frcp_rn(a))
RAMET_OP1(square, (a * a))
RAMET_OP1(tanh, tanh_of(a))
RAMET_OP1(sigmoid, sigmoid_of(a))
RAMET_OP1(silu, silu_of(a))
RAMET_OP1(relu, a < 0.0f ? 0.0f : a)
RAMET_OP1(softplus, softplus_of(a))
RAMET_OP1(erf, erf_of(a))
RAMET_OP1(gelu, gelu_of(a))
RAMET_OP1(gelu_tanh, gelu_tanh_of(a))
RAMET_OP1(sin, sine_turned(a, 0))
RAMET_OP1(cos, sine_turned(a, 1))
RAMET_OP1(exp2, exp2_of(a))
RAMET_OP1(log2, log2_of(a))
RAMET_OP1(log10, log10_of(a))
RAMET_OP1(tan, tan_of(a))
RAMET_OP1(sinh, sinh_of(a))
RAMET_OP1(cosh, cosh_of(a))
RAMET_OP1(asinh, asinh_of(a))
RAMET_OP1(acosh, acosh_of(a))
RAMET_OP1(atanh, atanh_of(a))
RAMET_OP1(asin, asin_of(a))
RAMET_OP1(acos, acos_of(a))
RAMET_OP1(atan, atan_of(a))
RAMET_OP1(erfc, erfc_of(a))
RAMET_OP1(lgamma, lgamma_of(a))
RAMET_OP1(digamma, digamma_of(a))
RAMET_OP1(trigamma, trigamma_of(a))
RAMET_OP1(floor, floorf(a))
RAMET_OP1(ceil, ceilf(a))
RAMET_OP1(round, rintf(a))
RAMET_OP1(trunc, truncf(a))
RAMET_OP1(round_bf16, round_bf16(a))
RAMET_OP1(round_f16, round_f16(a))
RAMET_OP2(tanh_grad, (b * __fmaf_rn(-a, a, 1.0f)))
RAMET_OP2(sigmoid_grad, (b * a * (1.0f - a)))
RAMET_OP2(silu_grad, (b * silu_slope(a)))
RAMET_OP2(relu_grad, a > 0.0f ? b : 0.0f)
RAMET_OP2(gelu_grad, (b * gelu_slope(a)))
RAMET_OP2(gelu_tanh_grad, (b * gelu_tanh_slope(a)))
#undef RAMET_OP1
#undef RAMET_OP2

__device__ __forceinline__ float op_leaky_relu(float a, float p) { return a < 0.0f ? p * a : a; }
__device__ __forceinline__ float op_elu(float a, float p) { return a < 0.0f ? p * expm1_of(a) : a; }
__device__ __forceinline__ float op_clamp(float a, float p, float q) { return a < p ? p : a > q ? q : a; }
__device__ __forceinline__ float op_scale(float a, float p) { return a * p; }
__device__ __forceinline__ float op_add_scalar(float a, float p) { return a + p; }
__device__ __forceinline__ float op_leaky_relu_grad(float a, float b, float p) { return a < 0.0f ? p * b : b; }
__device__ __forceinline__ float op_elu_grad(float a, float b, float p) { return a < 0.0f ? p * exp_of(a) * b : b; }
__device__ __forceinline__ float op_clamp_grad(float a, float b, float p, float q) {
  return a >= p && a <= q ? b : 0.0f;
}
__device__ __forceinline__ int op_is_finite(float a) { return fabsf(a) < infinity(); }
__device__ __forceinline__ int op_is_nan(float a) { return is_nan(a); }
__device__ __forceinline__ int op_is_inf(float a) { return fabsf(a) == infinity(); }

// --- numbers of any kind ---

template <class T>
__device__ __forceinline__ int op_equal(T a, T b) {
  return a == b;
}
template <class T>
__device__ __forceinline__ int op_not_equal(T a, T b) {
  return !(a == b);
}
template <class T>
__device__ __forceinline__ int op_less(T a, T b) {
  return a < b;
}
template <class T>
__device__ __forceinline__ int op_less_equal(T a, T b) {
  return a <= b;
}
template <class T>
__device__ __forceinline__ int op_greater(T a, T b) {
  return a > b;
}
template <class T>
__device__ __forceinline__ int op_greater_equal(T a, T b) {
  return a >= b;
}
template <class T>
__device__ __forceinline__ T op_select(int condition, T a, T b) {
  return condition ? a : b;
}
template <class T>
__device__ __forceinline__ T op_stop_gradient(T a) {
  return a;
}

// --- integers: int, unsigned, long long, unsigned long long; they wrap ---

template <class T>
struct Unsigned {
  using Type = unsigned;
};
template <>
struct Unsigned<long long> {
  using Type = unsigned long long;
};
template <>
struct Unsigned<unsigned long long> {
  using Type = unsigned long long;
};
template <class T>
using Bits = typename Unsigned<T>::Type;
template <class T>
constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);
/// Bits of a register.
template <class T>
constexpr int kRegisterBits = 8 * static_cast<int>(sizeof(T));

template <class T>
__device__ __forceinline__ T op_add(T a, T b) {
  return static_cast<T>(static_cast<Bits<T>>(a) + static_cast<Bits<T>>(b));
}
template <class T>
__device__ __forceinline__ T op_subtract(T a, T b) {
  return static_cast<T>(static_cast<Bits<T>>(a) - static_cast<Bits<T>>(b));
}
template <class T>
__device__ __forceinline__ T op_multiply(T a, T b) {
  return static_cast<T>(static_cast<Bits<T>>(a) * static_cast<Bits<T>>(b));
}
template <class T>
__device__ __forceinline__ T op_negate(T a) {
  return static_cast<T>(Bits<T>{0} - static_cast<Bits<T>>(a));
}
template <class T>
__device__ __forceinline__ T op_square(T a) {
  return op_multiply(a, a);
}
template <class T>
__device__ __forceinline__ T op_maximum(T a, T b) {
  return a > b ? a : b;
}
template <class T>
__device__ __forceinline__ T op_minimum(T a, T b) {
  return a < b ? a : b;
}
template <class T>
__device__ __forceinline__ T op_relu(T a) {
  return kSigned<T> && a < T{0} ? T{0} : a;
}
template <class T>
__device__ __forceinline__ T op_abs(T a) {
  return kSigned<T> && a < T{0} ? op_negate(a) : a;
}
template <class T>
__device__ __forceinline__ T op_sign(T a) {
  return kSigned<T> && a < T{0} ? static_cast<T>(-1) : static_cast<T>(a != T{0});
}
/// Towards zero; 0 where b is 0.
template <class T>
__device__ __forceinline__ T op_divide(T a, T b) {
  if (b == T{0}) return T{0};
  return kSigned<T> && b == static_cast<T>(-1) ? op_negate(a) : a / b;
}
/// What that leaves; 0 where b is 0.
template <class T>
__device__ __forceinline__ T op_fmod(T a, T b) {
  return b == T{0} || (kSigned<T> && b == static_cast<T>(-1)) ? T{0} : a % b;
}
template <class T>
__device__ __forceinline__ bool rounds_down(T rest, T b) {
  return kSigned<T> && rest != T{0} && (rest < T{0}) != (b < T{0});
}
template <class T>
__device__ __forceinline__ T op_remainder(T a, T b) {
  const T rest = op_fmod(a, b);
  return rounds_down(rest, b) ? rest + b : rest;
}
template <class T>
__device__ __forceinline__ T op_floor_divide(T a, T b) {
  const T cut = op_divide(a, b);
  return rounds_down(op_fmod(a, b), b) ? cut - T{1} : cut;
}
template <class T>
__device__ __forceinline__ T op_logical_and(T a, T b) {
  return a & b;
}
template <class T>
__device__ __forceinline__ T op_logical_or(T a, T b) {
  return a | b;
}
__device__ __forceinline__ int op_logical_not(int a) { return a == 0; }
template <class T>
__device__ __forceinline__ T op_bitwise_and(T a, T b) {
  return a & b;
}
template <class T>
__device__ __forceinline__ T op_bitwise_or(T a, T b) {
  return a | b;
}
template <class T>
__device__ __forceinline__ T op_bitwise_xor(T a, T b) {
  return a ^ b;
}
template <class T>
__device__ __forceinline__ T op_bitwise_not(T a) {
  return ~a;
}
/// By any number of bits: those beyond the register leave 0, or the sign. Negative ones count as too many.
template <class T>
__device__ __forceinline__ T op_shift_left(T a, T b) {
  return (kSigned<T> && b < T{0}) || b >= T{kRegisterBits<T>} ? T{0} : static_cast<T>(static_cast<Bits<T>>(a) << b);
}
template <class T>
__device__ __forceinline__ T op_shift_right(T a, T b) {
  if ((kSigned<T> && b < T{0}) || b >= T{kRegisterBits<T>}) return kSigned<T> && a < T{0} ? static_cast<T>(-1) : T{0};
  return a >> b;
}

/// A number of 32 bits as one of a shorter type.
template <class T>
__device__ __forceinline__ int wrapped(int a) {
  return static_cast<int>(static_cast<T>(a));
}

// --- casts between registers ---

__device__ __forceinline__ int float_to_bool(float a) { return !(a == 0.0f); }
/// Towards zero, held between `low` and `high`; NaN gives 0.
__device__ __forceinline__ int float_to_i32(float a, int low, int high) {
  if (is_nan(a)) return 0;
  if (a <= static_cast<float>(low)) return low;
  return a >= static_cast<float>(high) ? high : static_cast<int>(a);
}
__device__ __forceinline__ unsigned float_to_u32(float a) {
  if (!(a > 0.0f)) return 0u;
  return a >= 0x1p32f ? 0xffffffffu : static_cast<unsigned>(a);
}
__device__ __forceinline__ long long float_to_i64(float a) {
  if (is_nan(a)) return 0;
  if (a <= -0x1p63f) return static_cast<long long>(0x8000000000000000ull);
  return a >= 0x1p63f ? 0x7fffffffffffffffll : static_cast<long long>(a);
}
__device__ __forceinline__ unsigned long long float_to_u64(float a) {
  if (!(a > 0.0f)) return 0ull;
  return a >= 0x1p64f ? ~0ull : static_cast<unsigned long long>(a);
}

}  // namespace ramet_device
