#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ramet/kernel/cpu/prepared_map.h"

namespace ramet::kernel::cpu {

/// A map program as one loop of machine code that is written when the program is prepared: values between steps stay in
/// vector registers, where the evaluator's own loops write each of them to L1 and read it again. Each step is the
/// instruction that its loop uses, so the bits are the same.
class CompiledMap {
 public:
  /// Most inputs and outputs together.
  static constexpr size_t kMostPlaces = 64;

  /// Null where the processor lacks AVX-512, where a step is more than a few instructions, and where more values live
  /// at once than there are registers.
  static std::unique_ptr<const CompiledMap> make(const MapEvaluator::Prepared& prepared);
  ~CompiledMap();

  /// Whether it reads the input where it lies in memory, as bf16; the others are f32, i32 or bools of registers.
  bool reads_bf16(size_t input) const { return reads_bf16_[input]; }
  /// Whether it writes the output to memory itself; of others, it writes the value as a register.
  bool writes(size_t output) const { return writes_[output]; }
  /// `places`: of all inputs, then of all outputs (of what it does not read, nothing). `count` is a multiple of
  /// kMapPad.
  void run(const void* const* places, int64_t count) const;

 private:
  class Writer;
  CompiledMap() = default;

  std::vector<bool> reads_bf16_, writes_;
  std::unique_ptr<Writer> code_;
};

}  // namespace ramet::kernel::cpu
