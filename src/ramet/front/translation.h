#pragma once

#include "ramet/base/house.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/front/program.h"
#include "ramet/ops/build.h"

namespace ramet::front {

class Importer;

/// A recorded call while it is translated: its arguments as tensors and numbers, and the graph that it is added to.
/// Functions that take a default return it where the call left the argument out or gave None.
class Translation {
 public:
  Translation(Importer& importer, const TracedCall& call) : importer_(importer), call_(call) {}

  const TracedCall& call() const { return call_; }
  GraphBuilder& build() const;
  /// Whether the graph is the one of training.
  bool trains() const;
  /// Whether calls that draw random numbers draw them; else they give their means, as dropout in evaluation does.
  bool draws() const;

  /// Whether an argument was given and is not None.
  bool has(std::string_view name) const;
  /// A tensor argument; refuses the call where it is missing. A number becomes a constant of rank 0.
  Tensor tensor(std::string_view name) const;
  /// A value as the translation of a number is made: i64[], f32[] or bool[].
  Tensor constant(const TracedArgument& number) const;
  /// A tensor argument, or an invalid tensor where it is missing.
  Tensor tensor_if(std::string_view name) const;
  std::vector<Tensor> tensors(std::string_view name) const;
  /// The elements of a list of tensors and Nones; a None is an invalid tensor.
  std::vector<Tensor> tensors_or_none(std::string_view name) const;
  int64_t integer(std::string_view name, std::optional<int64_t> absent = std::nullopt) const;
  double number(std::string_view name, std::optional<double> absent = std::nullopt) const;
  bool flag(std::string_view name, std::optional<bool> absent = std::nullopt) const;
  std::string text(std::string_view name, const std::string& absent = "") const;
  /// A list of integers; one integer counts as a list of one.
  std::vector<int64_t> integers(std::string_view name, const std::vector<int64_t>& absent = {}) const;
  /// Whether the argument is a plain number, not a tensor.
  bool is_number(std::string_view name) const;

  /// The values of a tensor argument where they are known before the program runs (made by arange, full, comparisons of
  /// such, or a constant of the file); null otherwise.
  const TensorData* known(std::string_view name) const;
  /// The same of an element of a list of tensors.
  const TensorData* known(std::string_view name, size_t element) const;
  /// The same of a tensor of the graph.
  const TensorData* known(Tensor tensor) const;
  /// Whether the values of a tensor argument, or of an element of a list, are complex numbers: [..., 2] of f32.
  bool complex(std::string_view name) const;

  /// What torch recorded of output `index`. The importer casts results to its element type and checks its shape.
  const TensorType& result(size_t index = 0) const;
  /// Whether a later call or the program reads output `index`.
  bool reads(size_t index) const;

  /// The random counter of a micro-batch, i64[2], and a name for random numbers that no other call has.
  Tensor counter() const;
  std::string random_name() const;
  int64_t seed() const;

  /// Declares what a micro-batch contributes to a mutated buffer: the value of output `index`, as the buffer's next
  /// value, is s = fold(s, value) (a deferred state). `tensor_argument` names the argument that holds the buffer.
  void fold_buffer(std::string_view tensor_argument, size_t index, const std::string& by, double momentum,
                   Tensor value) const;

  /// Refuses this call with a reason and what to do. All refusals of a program are reported in one Error.
  [[noreturn]] void refuse(const std::string& why, const std::string& remedy = "") const;

 private:
  Importer& importer_;
  const TracedCall& call_;
};

/// Adds a call to the graph and returns its outputs. An output that nothing reads may be an invalid tensor.
using Translate = std::vector<Tensor> (*)(const Translation& at);

/// One line of the table of operators.
struct OperatorEntry {
  std::string_view op;  ///< "aten.conv2d", for all overloads
  Translate translate;
  bool complex = false;  ///< whether the operator takes or gives complex values
};

}  // namespace ramet::front
