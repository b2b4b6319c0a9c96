#include "ramet/kernel/cpu/convolution.h"

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/convolution_dense.h"
#include "ramet/kernel/cpu/convolution_filter.h"
#include "ramet/kernel/cpu/convolution_stage.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"

namespace ramet::kernel {
namespace {

bool is_blocked(const NodeSignature& node) { return node.attributes.has("b_blocked"); }

/// Refuses what tiles do not take: types of 8 bits, and sums of nothing.
std::string refuse_types(const NodeSignature& node, const ConvolutionForm& form) {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (!(i == 1 && is_blocked(node)) && !cpu::has_vector_loads(node.inputs[i].dtype))
      return "8-bit floating types are not for this kernel";
  if (!cpu::has_vector_loads(form.result.dtype)) return "results in 8-bit floats are not for this kernel";
  if (form.channels == 0 || form.filters == 0) return "there are no channels";
  return "";
}

std::string refuse_dense(const NodeSignature& node) {
  const ConvolutionForm form = convolution_form(node);
  const std::string refused = refuse_types(node, form);
  if (!refused.empty() || !is_blocked(node)) return refused;
  const std::string expected = DenseConvolution(node, 1).filter().format();
  if (node.attributes.get_string("b_blocked") == expected) return "";
  return "the filter is blocked for another kernel; found " + node.attributes.get_string("b_blocked") + "; expected " +
         expected;
}

KernelEntry dense_entry(const std::string& op) {
  KernelEntry entry;
  entry.op = op;
  entry.name = "tiles";
  entry.refuse = refuse_dense;
  entry.make = [](const NodeSignature& node, int threads) -> std::unique_ptr<Kernel> {
    return std::make_unique<DenseConvolution>(node, threads);
  };
  entry.scratch = [](const NodeSignature& node, int threads) { return DenseConvolution(node, threads).scratch_bytes(); };
  return entry;
}

KernelEntry filter_entry() {
  KernelEntry entry;
  entry.op = "convolution_filter_grad";
  entry.name = "tiles";
  entry.refuse = [](const NodeSignature& node) { return refuse_types(node, convolution_form(node)); };
  entry.make = [](const NodeSignature& node, int threads) -> std::unique_ptr<Kernel> {
    return std::make_unique<FilterGradient>(node, threads);
  };
  entry.scratch = [](const NodeSignature& node, int threads) { return FilterGradient(node, threads).scratch_bytes(); };
  entry.may_alias = [](const NodeSignature& node) -> std::vector<std::pair<int, int>> {
    if (node.attributes.get_bool_or("accumulate", false)) return {{2, 0}};
    return {};
  };
  return entry;
}

}  // namespace

void add_cpu_convolution(Backend& backend) {
  cpu_level();
  for (const std::string op : {"convolution", "convolution_transposed"}) backend.add(dense_entry(op));
  backend.add(filter_entry());
}

}  // namespace ramet::kernel
