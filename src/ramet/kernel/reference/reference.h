#pragma once

#include <functional>

#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// Operands of a reference kernel, read and written as double whatever their types.
class ReferenceOperands {
 public:
  ReferenceOperands(const NodeSignature& node, const KernelContext& context) : node_(node), context_(context) {}

  double get(int input, int64_t index) const {
    return load_element(context_.inputs[static_cast<size_t>(input)], input_type(input).dtype, index);
  }
  void set(int output, int64_t index, double value) const {
    store_element(context_.outputs[static_cast<size_t>(output)], output_type(output).dtype, index, value);
  }
  /// Integers and bools without a detour over double; a u64 by its 64 bits. `set_int` wraps to the type.
  int64_t get_int(int input, int64_t index) const;
  void set_int(int output, int64_t index, int64_t value) const;

  const TensorType& input_type(int input) const { return node_.inputs[static_cast<size_t>(input)]; }
  const TensorType& output_type(int output) const { return node_.outputs[static_cast<size_t>(output)]; }
  int inputs() const { return static_cast<int>(node_.inputs.size()); }
  int outputs() const { return static_cast<int>(node_.outputs.size()); }
  const void* input_bytes(int input) const { return context_.inputs[static_cast<size_t>(input)]; }
  void* output_bytes(int output) const { return context_.outputs[static_cast<size_t>(output)]; }
  const NodeSignature& node() const { return node_; }
  const Attributes& attributes() const { return node_.attributes; }
  const KernelContext& context() const { return context_; }

 private:
  const NodeSignature& node_;
  const KernelContext& context_;
};

/// Adds every reference kernel; a faster backend calls this last.
void add_reference_kernels(Backend& backend);

/// Adds the reference kernel of an op: a function run on the team's owner thread; `refuse` as in KernelEntry.
void add_reference(Backend& backend, const std::string& op, std::function<void(const ReferenceOperands&)> run,
                   std::function<std::string(const NodeSignature&)> refuse = {});

/// What the reference kernel of `map` computes.
void run_reference_map(const ReferenceOperands& operands);

/// Calls `visit(index)` for each index vector of `shape` in row-major order.
void for_each_index(const Shape& shape, const std::function<void(const std::vector<int64_t>& index)>& visit);
/// Row-major offset of the element of `shape` that a broadcast to the space of `index` reads there.
int64_t broadcast_offset(const Shape& shape, const std::vector<int64_t>& index);

}  // namespace ramet::kernel
