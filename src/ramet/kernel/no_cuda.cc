#include "ramet/device/cuda/cuda_device.h"
#include "ramet/kernel/cuda/cuda.h"

#include "ramet/base/error.h"

// In place of device/cuda/ and kernel/cuda/ where Ramet is built without them.

namespace ramet {
namespace {

[[noreturn]] void fail() {
  throw Error({.what = "this build of Ramet has no NVIDIA GPUs",
               .where = "device cuda",
               .remedy = "Build it with -DRAMET_CUDA=ON, which needs nothing of CUDA, or use the device hopper-host, "
                         "whose bits are the same"});
}

}  // namespace

const kernel::Backend& kernel::cuda_backend() { fail(); }

std::unique_ptr<device::Device> device::make_cuda_device(int) { fail(); }

int64_t device::available_cuda_memory() { fail(); }

}  // namespace ramet
