#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

// One function a family; each adds the Highway kernels of its file. The reference takes what they refuse.
void add_cpu_map(Backend& backend);
void add_cpu_normalize(Backend& backend);
void add_cpu_channel_norm(Backend& backend);
void add_cpu_pooling(Backend& backend);
void add_cpu_loss(Backend& backend);
void add_cpu_ctc(Backend& backend);
void add_cpu_draw(Backend& backend);
void add_cpu_optimizer(Backend& backend);
void add_cpu_large_batch_optimizer(Backend& backend);
void add_cpu_exponents(Backend& backend);
void add_cpu_reduce(Backend& backend);
void add_cpu_gather(Backend& backend);
void add_cpu_take(Backend& backend);
void add_cpu_sparse(Backend& backend);
void add_cpu_neighbors(Backend& backend);
void add_cpu_segment_heads(Backend& backend);
void add_cpu_radial(Backend& backend);
void add_cpu_pairs(Backend& backend);
void add_cpu_sparse_rows(Backend& backend);
void add_cpu_order(Backend& backend);
void add_cpu_cache(Backend& backend);
void add_cpu_recurrent(Backend& backend);
void add_cpu_shape(Backend& backend);
void add_cpu_random(Backend& backend);
void add_cpu_narrow(Backend& backend);
void add_cpu_grid_sample(Backend& backend);
void add_cpu_patches(Backend& backend);
void add_cpu_resample(Backend& backend);

namespace cpu {

/// All of the families above.
void add_all(Backend& backend);

/// A kernel that is one function of its context.
class FunctionKernel : public Kernel {
 public:
  explicit FunctionKernel(std::function<void(const KernelContext&)> function) : function_(std::move(function)) {}
  void run(const KernelContext& context) const override { function_(context); }

 private:
  std::function<void(const KernelContext&)> function_;
};

using MakeFunction = std::function<std::function<void(const KernelContext&)>(const NodeSignature& node, int threads)>;
using ScratchFunction = std::function<int64_t(const NodeSignature& node, int threads)>;

/// A kernel "hwy" of `op`. `refuse` as in KernelEntry; `aliases` are the pairs that may share bytes when their types
/// are the same size; `any_type` as in KernelEntry.
void add_hwy(Backend& backend, const std::string& op, std::function<std::string(const NodeSignature&)> refuse,
             MakeFunction make, ScratchFunction scratch = {}, std::vector<std::pair<int, int>> aliases = {},
             bool any_type = false);

/// Types whose rows the vector loops read and write.
inline bool has_vector_loads(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

}  // namespace cpu
}  // namespace ramet::kernel
