#include "ramet/kernel/cpu/convolution.h"

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/convolution_dense.h"
#include "ramet/kernel/cpu/convolution_filter.h"
#include "ramet/kernel/cpu/convolution_product.h"
#include "ramet/kernel/cpu/convolution_stage.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/depthwise.h"
#include "ramet/kernel/cpu/epilogue.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/ops/epilogue.h"

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

std::vector<std::pair<int, int>> may_add_in_place(const NodeSignature& node) {
  if (node.attributes.get_bool_or("accumulate", false)) return {{2, 0}};
  return {};
}

/// Refuses what neither tiles nor the depthwise kernel take of a node with or without an epilogue.
std::string refuse_operands(const NodeSignature& node) {
  const std::string refused = refuse_epilogue(node);
  if (!refused.empty()) return refused;
  const NodeSignature bare = without_epilogue(node);
  return refuse_types(bare, convolution_form(bare));
}

std::string refuse_dense(const NodeSignature& node) {
  const std::string refused = refuse_operands(node);
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
  entry.scratch = [](const NodeSignature& node, int threads) {
    return DenseConvolution(node, threads).scratch_bytes();
  };
  entry.blocking = [](const NodeSignature& node, int input) -> std::optional<BlockedLayout> {
    if (input != 1 || is_blocked(node)) return std::nullopt;
    const DenseConvolution made(node, 1);
    return BlockedLayout{made.filter().format(), made.filter().bytes()};
  };
  return entry;
}

class FilterBlocking : public Kernel {
 public:
  FilterBlocking(const BlockedFilter& filter, DType type, DType logical)
      : filter_(filter), type_(type), logical_(logical) {}
  void run(const KernelContext& context) const override {
    context.team.split(filter_.items(), 1, [&](int64_t begin, int64_t end, int) {
      fill_filter(filter_, context.inputs[0], type_, logical_, begin, end, context.outputs[0]);
    });
  }

 private:
  BlockedFilter filter_;
  DType type_, logical_;
};

std::string refuse_blocking(const NodeSignature& node) {
  const auto filter = BlockedFilter::parse(node.attributes.get_string("format"));
  if (!filter) return "unknown format";
  const TensorType& source = node.inputs[0];
  const DType logical = node.attributes.get_dtype("dtype");
  const std::vector<int64_t>& dims = source.shape.dims();
  if (!cpu::has_vector_loads(source.dtype) || !cpu::has_vector_loads(logical) || dims.size() < 3 ||
      dims[0] != filter->groups * filter->filters || dims[1] != filter->channels ||
      source.shape.elements() != dims[0] * dims[1] * filter->taps)
    return "the format is not for " + source.text();
  if (node.attributes.get_int("bytes") != filter->bytes())
    return "the format takes " + std::to_string(filter->bytes()) + " bytes";
  return "";
}

KernelEntry filter_blocking_entry() {
  KernelEntry entry;
  entry.op = "block";
  entry.name = "filter";
  entry.refuse = refuse_blocking;
  entry.make = [](const NodeSignature& node, int) -> std::unique_ptr<Kernel> {
    return std::make_unique<FilterBlocking>(*BlockedFilter::parse(node.attributes.get_string("format")),
                                            node.inputs[0].dtype, node.attributes.get_dtype("dtype"));
  };
  return entry;
}

KernelEntry depthwise_entry(const std::string& op) {
  KernelEntry entry;
  entry.op = op;
  entry.name = "channels";
  entry.refuse = [](const NodeSignature& node) {
    const ConvolutionForm form = convolution_form(without_epilogue(node));
    if (form.groups < 2 || form.group_channels() != 1 || form.group_filters() != 1)
      return std::string("groups have more than one channel");
    if (is_blocked(node)) return std::string("the filter is blocked for another kernel");
    return refuse_operands(node);
  };
  entry.make = [](const NodeSignature& node, int threads) -> std::unique_ptr<Kernel> {
    return std::make_unique<DepthwiseConvolution>(node, threads);
  };
  entry.scratch = [](const NodeSignature& node, int threads) {
    return DepthwiseConvolution(node, threads).scratch_bytes();
  };
  entry.may_alias = may_add_in_place;
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
  entry.may_alias = may_add_in_place;
  return entry;
}

}  // namespace

void add_cpu_convolution(Backend& backend) {
  cpu_level();
  for (const std::string op : {"convolution", "convolution_transposed", "convolution_filter_grad"})
    backend.add(depthwise_entry(op));
  for (const std::string op : {"convolution", "convolution_transposed"}) {
    backend.add(convolution_product_entry(op));
    backend.add(dense_entry(op));
  }
  backend.add(filter_entry());
  backend.add(filter_blocking_entry());
  backend.add(product_filter_entry());
}

}  // namespace ramet::kernel
