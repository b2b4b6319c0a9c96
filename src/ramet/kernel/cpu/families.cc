#include "ramet/kernel/cpu/families.h"

#include "ramet/kernel/aliases.h"
#include "ramet/kernel/cpu/edge_map.h"
#include "ramet/kernel/cpu/hwy_entry.h"
#include "ramet/kernel/cpu/paths.h"

namespace ramet::kernel::cpu {

void add_all(Backend& backend) {
  add_cpu_map(backend);
  add_cpu_normalize(backend);
  add_cpu_channel_norm(backend);
  add_cpu_pooling(backend);
  add_cpu_loss(backend);
  add_cpu_ctc(backend);
  add_cpu_draw(backend);
  add_cpu_optimizer(backend);
  add_cpu_large_batch_optimizer(backend);
  add_cpu_exponents(backend);
  add_cpu_reduce(backend);
  add_cpu_gather(backend);
  add_cpu_take(backend);
  add_cpu_sparse(backend);
  add_cpu_neighbors(backend);
  add_cpu_segment_heads(backend);
  add_cpu_edge_map(backend);
  add_cpu_radial(backend);
  add_cpu_pairs(backend);
  add_cpu_paths(backend);
  add_cpu_sparse_rows(backend);
  add_cpu_order(backend);
  add_cpu_cache(backend);
  add_cpu_recurrent(backend);
  add_cpu_shape(backend);
  add_cpu_random(backend);
  add_cpu_narrow(backend);
  add_cpu_grid_sample(backend);
  add_cpu_patches(backend);
  add_cpu_resample(backend);
}

KernelEntry hwy_entry(const std::string& op, std::function<std::string(const NodeSignature&)> refuse, MakeFunction make,
                      ScratchFunction scratch) {
  KernelEntry entry;
  entry.op = op;
  entry.name = "hwy";
  entry.refuse = std::move(refuse);
  entry.make = [make = std::move(make)](const NodeSignature& node, int threads) -> std::unique_ptr<Kernel> {
    return std::make_unique<FunctionKernel>(make(node, threads));
  };
  entry.scratch = std::move(scratch);
  return entry;
}

void add_hwy(Backend& backend, const std::string& op, std::function<std::string(const NodeSignature&)> refuse,
             MakeFunction make, ScratchFunction scratch, std::vector<std::pair<int, int>> aliases, bool any_type) {
  KernelEntry entry = hwy_entry(op, std::move(refuse), std::move(make), std::move(scratch));
  entry.any_type = any_type;
  if (!aliases.empty()) {
    entry.may_alias = [aliases = std::move(aliases)](const NodeSignature& node) {
      return fitting_aliases(aliases, node);
    };
  }
  backend.add(std::move(entry));
}

}  // namespace ramet::kernel::cpu
