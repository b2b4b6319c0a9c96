// Reductions over any axes, in the orders of ops/reduce_order.h: one pass a group of adjacent axes (device/reduce.cu),
// and the trees over its blocks (device/combine.cu).

#include <array>

#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/kernel/cuda/row_launch.h"
#include "ramet/ops/reduce_shape.h"

namespace ramet::kernel::cuda {
namespace {

using ramet_device::kReduceRows;

struct Join {
  const char* op;
  const char* type;  ///< of device/joins.cuh
};
constexpr std::array<Join, 4> kJoins = {{{"reduce_sum", "JoinSum"},
                                         {"reduce_prod", "JoinProduct"},
                                         {"reduce_max", "JoinMost"},
                                         {"reduce_min", "JoinLeast"}}};

/// One pass: [outer, reduced, inner] of `from` to [outer, inner] of `to`.
struct Pass {
  ReduceGroup group;
  int64_t chunks = 1;
  DType from = DType::kF32, to = DType::kF32;
  bool in_order = false;

  int64_t results() const { return group.outer * group.inner; }
  /// Parts that a tree joins: blocks of rows of a chunk, where nothing is behind the rows the whole chunk.
  int64_t blocks() const {
    if (group.reduced == 0) return 0;
    return group.last || in_order ? 1 : ceil_divide(group.reduced / chunks, kReduceRows);
  }
  /// A pass over nothing has a tree over nothing, which gives what a join starts from.
  bool has_partials() const { return group.reduced == 0 || (!in_order && chunks * blocks() != 1); }
  int64_t partials() const { return has_partials() ? results() * chunks * blocks() : 0; }
  const char* function() const {
    if (in_order) return "reduce_in_order";
    return group.last ? "reduce_lines" : "reduce_blocks";
  }
};

std::vector<Pass> passes_of(const NodeSignature& node) {
  std::vector<Pass> passes;
  for (const ReduceGroup& group : reduce_groups(node.inputs[0].shape, reduce_axes(node)))
    passes.push_back({.group = group,
                      .chunks = node.attributes.get_int_or("chunks", 1),
                      .from = passes.empty() ? node.inputs[0].dtype : DType::kF32,
                      .to = DType::kF32,
                      .in_order = node.attributes.get_bool_or("in_order", false)});
  if (!passes.empty()) passes.back().to = node.outputs[0].dtype;
  return passes;
}

/// f32 that a pass leaves for the next one.
int64_t between(const std::vector<Pass>& passes, size_t pass) {
  return pass + 1 < passes.size() ? passes[pass].results() : 0;
}

int64_t scratch_bytes(const NodeSignature& node) {
  const std::vector<Pass> passes = passes_of(node);
  int64_t floats = 0;
  for (size_t i = 0; i < passes.size(); ++i) floats += passes[i].partials() + between(passes, i);
  return floats * 4;
}

std::string refuse(const NodeSignature& node) {
  if (!is_row_type(node.inputs[0].dtype) || !is_row_type(node.outputs[0].dtype)) return "neither f32, bf16 nor f16";
  const std::vector<Pass> passes = passes_of(node);
  if (passes.empty()) return "no axes";
  for (const Pass& pass : passes)
    if (const std::string why = refuse_combine(pass.chunks, pass.blocks()); !why.empty()) return why;
  return "";
}

/// A pass with its functions.
struct LoadedPass {
  Pass pass;
  CudaFunction reduce{}, combine{};

  LoadedPass(const Pass& from, const char* join) : pass(from) {
    const DType out = pass.has_partials() ? DType::kF32 : pass.to;
    if (pass.results() == 0) return;
    if (pass.group.reduced > 0)
      reduce = load_cuda_function(
          cuda_device_source("reduce.cu", {std::string("kJoin=") + join, "kFromType=" + storage_of(pass.from),
                                           "kOutType=" + storage_of(out)}),
          pass.function());
    if (pass.has_partials()) combine = load_combine(join, pass.to);
  }

  CudaGrid grid() const {
    const ReduceGroup& group = pass.group;
    if (!pass.in_order && group.last) return grid_of_rows(ceil_divide(group.outer * pass.chunks, 4));
    const int64_t pairs = ceil_divide(group.inner, 2);
    // Loops over rows are long: as many blocks as there is work for.
    const int threads = 128;
    const int64_t work = group.outer * pairs * (pass.in_order ? 1 : pass.chunks * pass.blocks());
    return {.x = std::clamp<int64_t>(ceil_divide(work, threads), 1, kProcessors * 64), .threads = threads};
  }

  void launch(CudaStream& stream, const void* from, float* partials, void* to) const {
    const ReduceGroup& group = pass.group;
    if (pass.results() == 0) return;
    if (group.reduced > 0) {
      const ramet_device::ReduceArguments call{
          from,        pass.has_partials() ? partials : to, group.outer, group.reduced, group.inner, pass.chunks,
          group.extent};
      stream.launch(reduce, grid(), call);
    }
    if (pass.has_partials())
      launch_combine(stream, combine, {partials, to, nullptr, group.outer, pass.chunks, pass.blocks(), group.inner});
  }
};

std::unique_ptr<CudaKernel> make(const NodeSignature& node, const char* join) {
  const std::vector<Pass> passes = passes_of(node);
  std::vector<LoadedPass> loaded;
  for (const Pass& pass : passes) loaded.emplace_back(pass, join);
  return std::make_unique<StreamKernel>([passes, loaded](CudaStream& stream, const KernelOperands& operands) {
    auto* free = static_cast<float*>(operands.scratch);
    const void* from = operands.inputs[0];
    for (size_t i = 0; i < passes.size(); ++i) {
      float* partials = free;
      void* to = partials + passes[i].partials();
      free = static_cast<float*>(to) + between(passes, i);
      if (i + 1 == passes.size()) to = operands.outputs[0];
      loaded[i].launch(stream, from, partials, to);
      from = to;
    }
  });
}

}  // namespace

void add_cuda_reduce(Backend& backend) {
  for (const Join& join : kJoins)
    add_card(backend, {.op = join.op,
                       .refuse = refuse,
                       .make = [join](const NodeSignature& node) { return make(node, join.type); },
                       .scratch = scratch_bytes});
}

}  // namespace ramet::kernel::cuda
