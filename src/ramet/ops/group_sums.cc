#include "ramet/ops/group_sums.h"

#include "ramet/ops/build.h"
#include "ramet/ops/matmul.h"
#include "ramet/ops/reduce_shape.h"

namespace ramet::ops {
namespace {

/// `a` with its first dimension as [groups, the rest of it].
Tensor in_groups(Tensor a, int64_t groups) {
  std::vector<int64_t> dims = a.shape().dims();
  dims[0] /= groups;
  dims.insert(dims.begin(), groups);
  return reshape(a, Shape(std::move(dims)));
}

Tensor sums(SimplifyContext& context, int64_t groups) {
  const Tensor a = context.inputs[0];
  const std::vector<int> axes = reduce_axes(context.node);
  if (axes.empty() || axes[0] != 0 || a.dim(0) % groups != 0) return {};
  if (axes.size() == 1 && a.dim(0) == groups && context.node.attributes.get_int_or("chunks", 1) == groups) return {};
  std::vector<int64_t> inner{1};
  for (const int axis : axes)
    if (axis > 0) inner.push_back(axis + 1);
  const Tensor found =
      context.build.op("reduce_sum", {in_groups(a, groups)}, {{"axes", inner}, {"dtype", DType::kF32}});
  std::vector<int64_t> dims = context.node.outputs[0].shape.dims();  // with reduced dimensions where these are kept
  dims.insert(dims.begin(), groups);
  return found.shape() == Shape(dims) ? found : reshape(found, Shape(std::move(dims)));
}

/// The gradient of a weight, a^T b over rows: a product for each group of rows.
Tensor products(SimplifyContext& context, int64_t groups) {
  const MatmulForm form = matmul_form(context.node);
  if (!form.transpose_a || form.transpose_b || form.accumulate || form.blocked || form.a.shape.rank() != 2 ||
      form.b.shape.rank() != 2 || form.k % groups != 0)
    return {};
  Attributes attributes{{"transpose_a", true}, {"dtype", DType::kF32}};
  if (form.in_order) attributes.set("in_order", true);
  return context.build.op("matmul", {in_groups(context.inputs[0], groups), in_groups(context.inputs[1], groups)},
                          std::move(attributes));
}

}  // namespace

Tensor sums_of_groups(SimplifyContext& context, int64_t groups) {
  const OpRegistry& ops = OpRegistry::instance();
  static const OpDef* const sum = ops.find("reduce_sum");
  static const OpDef* const product = ops.find("matmul");
  if (context.node.op == sum) return sums(context, groups);
  return context.node.op == product ? products(context, groups) : Tensor{};
}

}  // namespace ramet::ops
