#include "ramet/device/host_work.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>

#include "ramet/base/error.h"

namespace ramet::device {
namespace {

constexpr int64_t kCopyGrain = 1 << 16;  // bytes
constexpr int64_t kSumGrain = 1 << 14;   // elements

float widened(float value) { return value; }
float narrowed(float value, float) { return value; }

struct Bf16 {
  uint16_t bits;
};
float widened(Bf16 value) { return bf16_to_f32(value.bits); }
/// To nearest, without a branch, so that the compiler makes vectors of it. The bits of f32_to_bf16.
Bf16 narrowed(float value, Bf16) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + ((bits >> 16 & 1) + 0x7fffu), quiet = bits | 0x00400000u;
  return {static_cast<uint16_t>((value != value ? quiet : rounded) >> 16)};
}

struct F16 {
  uint16_t bits;
};
float widened(F16 value) { return f16_to_f32(value.bits); }
F16 narrowed(float value, F16) { return {f32_to_f16(value)}; }

// Integers wrap, which only unsigned ones may.
uint32_t widened(uint32_t value) { return value; }
uint32_t narrowed(uint32_t value, uint32_t) { return value; }
uint64_t widened(uint64_t value) { return value; }
uint64_t narrowed(uint64_t value, uint64_t) { return value; }

/// Blocks of a fixed length, which the compiler turns into vectors; no sum of two depends on how.
template <typename T>
void add_range(void* into, const void* from, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 64;
  T* to = static_cast<T*>(into);
  const T* add = static_cast<const T*>(from);
  int64_t i = begin;
  for (; i + kBlock <= end; i += kBlock) {
    T sum[kBlock];
    for (int64_t j = 0; j < kBlock; ++j) sum[j] = narrowed(widened(to[i + j]) + widened(add[i + j]), T{});
    std::memcpy(to + i, sum, sizeof sum);
  }
  for (; i < end; ++i) to[i] = narrowed(widened(to[i]) + widened(add[i]), T{});
}

void add_f16_range(void* into, const void* from, int64_t begin, int64_t end) {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  if (fast)
    return add_f16_avx2(static_cast<uint16_t*>(into) + begin, static_cast<const uint16_t*>(from) + begin, end - begin);
#endif
  add_range<F16>(into, from, begin, end);
}

using AddRange = void (*)(void*, const void*, int64_t, int64_t);

AddRange adder_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return &add_range<float>;
    case DType::kBF16: return &add_range<Bf16>;
    case DType::kF16: return &add_f16_range;
    case DType::kI32: return &add_range<uint32_t>;
    case DType::kI64: return &add_range<uint64_t>;
    default:
      throw Error({.what = "a type that devices do not sum",
                   .where = "Queue::add",
                   .found = std::string(name_of(dtype)),
                   .expected = "f32, bf16, f16, i32 or i64"},
                  ErrorKind::kFailure);
  }
}

}  // namespace

void copy_bytes(ThreadTeam& team, void* to, const void* from, int64_t bytes) {
  if (to == from || bytes == 0) return;
  if (bytes <= kCopyGrain) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  team.split(bytes, kCopyGrain, [&](int64_t begin, int64_t end, int) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

void fill_bytes(ThreadTeam& team, void* to, uint8_t value, int64_t bytes) {
  team.split(bytes, kCopyGrain, [&](int64_t begin, int64_t end, int) {
    std::memset(static_cast<char*>(to) + begin, value, static_cast<size_t>(end - begin));
  });
}

void transpose_runs(ThreadTeam& team, void* to, const void* from, int64_t rows, int64_t columns, int64_t bytes) {
  team.split(rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t column = 0; column < columns; ++column)
        std::memcpy(static_cast<char*>(to) + (column * rows + row) * bytes,
                    static_cast<const char*>(from) + (row * columns + column) * bytes, static_cast<size_t>(bytes));
  });
}

void add_elements(ThreadTeam& team, void* to, const void* from, DType dtype, int64_t count) {
  const AddRange add = adder_of(dtype);
  team.split(count, kSumGrain, [&](int64_t begin, int64_t end, int) { add(to, from, begin, end); });
}

void check_sum_type(DType dtype) { adder_of(dtype); }

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace ramet::device
