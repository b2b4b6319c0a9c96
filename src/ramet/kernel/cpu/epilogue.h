#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ramet/kernel/cpu/map.h"
#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// An epilogue that is no more than a sum of the result and one tensor of its shape, ReLU, or one behind the other.
struct SumAndRelu {
  int addend = -1;  ///< the node's input that is added; -1: none
  bool relu = false;
};

/// The epilogue of a node (ops/epilogue.h) for kernels that write the node's own result to the output first and let the
/// epilogue write over it, some elements at a time. A node without an epilogue has one that does nothing.
class Epilogue {
 public:
  Epilogue(const NodeSignature& node, int threads);

  bool empty() const { return !evaluator_; }
  /// What it is where it is no more and all of it is f32: kernels may compute it in registers instead.
  const std::optional<SumAndRelu>& simple() const { return simple_; }
  int64_t scratch_bytes() const { return evaluator_ ? evaluator_->scratch_bytes() : 0; }
  /// Applies it to elements [begin, end) of the output, on the thread of that rank. `scratch` has scratch_bytes().
  void apply(const KernelContext& context, void* scratch, int rank, int64_t begin, int64_t end) const;
  /// Applies it to all elements, on all threads.
  void apply_to_all(const KernelContext& context, void* scratch) const;

 private:
  int own_inputs_ = 0;  ///< of the node, before those of the epilogue
  int64_t elements_ = 0;
  std::optional<SumAndRelu> simple_;
  std::unique_ptr<cpu::MapEvaluator> evaluator_;
};

/// Why kernels that use Epilogue do not take the node's; "" when they do, or when the node has none.
std::string refuse_epilogue(const NodeSignature& node);

}  // namespace ramet::kernel
