#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ramet/device/cuda/device_files.h"
#include "ramet/kernel/kernel.h"

namespace ramet::kernel::cuda {

// One function a family of ops; each adds the card's kernels of its file. What they refuse runs on the host.
void add_cuda_map(Backend& backend);
void add_cuda_rows(Backend& backend);
void add_cuda_channel_norm(Backend& backend);
void add_cuda_reduce(Backend& backend);
void add_cuda_loss(Backend& backend);
void add_cuda_update(Backend& backend);
void add_cuda_narrow(Backend& backend);
void add_cuda_step(Backend& backend);
void add_cuda_gather(Backend& backend);
void add_cuda_neighbors(Backend& backend);
void add_cuda_lines(Backend& backend);
void add_cuda_shape(Backend& backend);
void add_cuda_random(Backend& backend);
void add_cuda_rotary(Backend& backend);
void add_cuda_product(Backend& backend);
void add_cuda_attention(Backend& backend);
/// Last: every kernel of the class on the host, with its operands copied there and back.
void add_host_kernels(Backend& backend);

/// A kernel that is one function of its stream and operands.
class StreamKernel : public CudaKernel {
 public:
  using Function = std::function<void(CudaStream&, const KernelOperands&)>;
  explicit StreamKernel(Function function) : function_(std::move(function)) {}
  void launch(CudaStream& stream, const KernelOperands& operands) const override { function_(stream, operands); }

 private:
  Function function_;
};

/// What `add_card` needs of a kernel, as KernelEntry has it. `make` loads functions (load_cuda_function); the others
/// are asked without a card too.
struct CardKernel {
  std::string op;
  std::function<std::string(const NodeSignature& node)> refuse;  ///< why the card does not take the node; "": it does
  std::function<std::unique_ptr<CudaKernel>(const NodeSignature& node)> make;
  std::function<int64_t(const NodeSignature& node)> scratch{};
  std::vector<std::pair<int, int>> aliases{};  ///< pairs that may share bytes when shape and element size are the same
  std::function<std::vector<std::pair<int, int>>(const NodeSignature& node)> may_alias{};  ///< instead of `aliases`
  bool any_type = false;
};
void add_card(Backend& backend, CardKernel kernel);

inline constexpr int64_t kProcessors = 132;  ///< of the cards that grids are made for

/// Blocks of `threads` for `count` pieces of work in a loop over the grid (kernel.cuh): enough to fill a card, no more.
CudaGrid grid_for(int64_t count, int threads = 256);
/// Blocks for `elements` in a loop over the grid, of which a thread takes four at a time: so many that the last ones
/// leave no part of the card waiting, whatever number of them a processor holds.
CudaGrid grid_of_groups(int64_t elements);

}  // namespace ramet::kernel::cuda
