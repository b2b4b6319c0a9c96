#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ramet/kernel/cpu/prepared_map.h"

namespace ramet::kernel::cpu {

/// A map program as one loop of machine code that is written when the program is prepared: values between steps stay in
/// vector registers, where the evaluator's own loops write each of them to L1 and read it again. Each step is the
/// instruction that its loop uses, so the bits are the same.
///
/// Where rows are summed, or inputs have a number for each row or column, blocks are whole rows of whole vectors, so
/// that such numbers are read where they lie. With sums the loop goes down the rows of a vector of columns: they stay
/// in registers, too.
class CompiledMap {
 public:
  /// Where the loop reads an input.
  enum class Reads : uint8_t {
    kPlace,   ///< as f32, i32 or bools of registers, an element after another: memory or a register
    kBf16,    ///< memory that lies as the space does, as bf16
    kColumn,  ///< memory of one row, which all rows of the space share
    kRow,     ///< memory of one number for each row
    kNumber   ///< memory of one number for all
  };

  /// Most inputs and outputs together.
  static constexpr size_t kMostPlaces = 64;

  /// Null where the processor lacks AVX-512, where a step is more than a few instructions, and where more values live
  /// at once than there are registers.
  static std::unique_ptr<const CompiledMap> make(const MapEvaluator::Prepared& prepared);
  ~CompiledMap();

  Reads reads(size_t input) const { return reads_[input]; }
  /// Whether it writes the output to memory itself; of others, it writes the value as a register.
  bool writes(size_t output) const { return writes_[output]; }
  /// Whether blocks are whole rows, whose sums (Reduce::kSumRows) it adds to those at their places.
  bool by_rows() const { return by_rows_; }
  /// Whether it goes by rows, and reads and writes memory alone, so that blocks need not be as short as registers.
  bool in_place() const { return in_place_; }
  /// `places`: of all inputs, then of all outputs (of what it does not read, nothing). `count`: elements, a multiple of
  /// kMapPad, or by rows their number.
  void run(const void* const* places, int64_t count) const;

 private:
  class Writer;
  explicit CompiledMap(const MapEvaluator::Prepared& prepared, bool by_rows);

  std::vector<Reads> reads_;
  std::vector<bool> writes_;
  bool by_rows_ = false, in_place_ = false;
  std::unique_ptr<Writer> code_;
};

}  // namespace ramet::kernel::cpu
