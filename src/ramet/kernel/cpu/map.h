#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ramet/base/thread_team.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/ops/map_program.h"
#include "ramet/ops/position.h"

namespace ramet::kernel::cpu {

/// Evaluates a map program a block of about a thousand elements at a time: operands that lie well in memory are read
/// there, others are gathered to registers in L1, each step is one loop over the block; with AVX-512, programs of cheap
/// steps are one loop (compiled_map.h). Every element's value, and the order of every sum (ops/reduce_order.h), is
/// independent of that, of blocks and of threads.
class MapEvaluator {
 public:
  /// `program` must have passed map_value_types. Throws Error on f64, which it does not take.
  /// `position` says where the elements of the space are in the logical one; none: it is all of it.
  MapEvaluator(const MapProgram& program, const Shape& space, std::span<const TensorType> inputs,
               std::span<const TensorType> outputs, int threads, std::optional<Position> position = {});
  ~MapEvaluator();

  int64_t scratch_bytes() const;
  /// An output may lie over an input of its own element size that has the space's shape.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* scratch, ThreadTeam& team) const;
  /// Elements [begin, end) of the space, on the calling thread with the scratch of `rank`. Only for programs that sum
  /// no output and draw nothing.
  void run_part(std::span<const void* const> inputs, std::span<void* const> outputs, void* scratch, int rank,
                int64_t begin, int64_t end) const;

  struct Prepared;

 private:
  std::unique_ptr<const Prepared> prepared_;
};

}  // namespace ramet::kernel::cpu
