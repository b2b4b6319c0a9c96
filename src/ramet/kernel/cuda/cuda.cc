#include "ramet/kernel/cuda/cuda.h"

#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/hopper/hopper.h"

namespace ramet::kernel {
namespace {

Backend make_backend() {
  Backend made(hopper_kernel_class());
  cuda::add_cuda_map(made);
  cuda::add_cuda_rows(made);
  cuda::add_cuda_channel_norm(made);
  cuda::add_cuda_reduce(made);
  cuda::add_cuda_loss(made);
  cuda::add_cuda_update(made);
  cuda::add_cuda_narrow(made);
  cuda::add_cuda_step(made);
  cuda::add_cuda_gather(made);
  cuda::add_cuda_neighbors(made);
  cuda::add_cuda_lines(made);
  cuda::add_cuda_shape(made);
  cuda::add_cuda_random(made);
  cuda::add_cuda_rotary(made);
  cuda::add_cuda_product(made);
  cuda::add_cuda_attention(made);
  cuda::add_host_kernels(made);
  return made;
}

}  // namespace

const Backend& cuda_backend() {
  static const Backend backend = make_backend();
  return backend;
}

}  // namespace ramet::kernel
