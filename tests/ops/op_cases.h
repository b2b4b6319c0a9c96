#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/ir/graph.h"

namespace ramet::tests {

/// One input of a case: its type and its values, uniform in [low, high) (integers in [low, high]) or given.
struct CaseInput {
  TensorType type;
  double low = -1, high = 1;
  std::vector<double> values{};
  bool differentiate = true;  ///< f32 inputs only: compare the gradient with finite differences
};

/// One line of the case table. Every registered op has at least one; op_table_test.cc checks of each: types, text form,
/// values, gradients, other float types, and the sharding rule by really splitting.
struct OpCase {
  std::string op, name;
  std::vector<CaseInput> inputs;
  Attributes attributes{};
  /// Outputs as somebody else computes them (by hand, by another program); an empty list is not compared.
  std::vector<std::vector<double>> expected{};
  std::vector<int> gradient_outputs{};  ///< floating outputs that have a gradient; empty: all
  double gradient_tolerance = 1e-3;     ///< relative to the largest gradient of the input; 0: no comparison
  bool low_types = true;                ///< run it in bf16 and f16 as well
  bool in_reference = true;             ///< false: only other backends compute it (packed bytes)
};

// The tables, one a family of ops, and all of them.
void add_elementwise_cases(std::vector<OpCase>& cases);
void add_shape_cases(std::vector<OpCase>& cases);
void add_network_cases(std::vector<OpCase>& cases);
void add_indexing_cases(std::vector<OpCase>& cases);
void add_pooling_cases(std::vector<OpCase>& cases);
void add_channel_norm_cases(std::vector<OpCase>& cases);
void add_convolution_cases(std::vector<OpCase>& cases);
void add_attention_cases(std::vector<OpCase>& cases);
void add_arithmetic_cases(std::vector<OpCase>& cases);
void add_loss_cases(std::vector<OpCase>& cases);
void add_resize_cases(std::vector<OpCase>& cases);
void add_recurrent_cases(std::vector<OpCase>& cases);
void add_sparse_cases(std::vector<OpCase>& cases);
void add_graph_cases(std::vector<OpCase>& cases);
const std::vector<OpCase>& op_cases();

/// The node of a case, with the types of its outputs.
NodeSignature signature_of(const OpCase& op_case);
/// Values of the inputs; the same in every run.
std::vector<HostTensor> inputs_of(const OpCase& op_case);
/// The case with its f32 inputs, but for the op's `full_inputs`, in another float type.
OpCase in_type(const OpCase& op_case, DType dtype);

/// How GoogleTest prints a case.
void PrintTo(const OpCase& op_case, std::ostream* stream);

}  // namespace ramet::tests
