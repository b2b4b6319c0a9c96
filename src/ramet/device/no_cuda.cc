#include "ramet/base/error.h"
#include "ramet/device/cuda/cuda_device.h"

// In place of device/cuda/ where Ramet is built without it.

namespace ramet::device {
namespace {

[[noreturn]] void fail() {
  throw Error({.what = "this build of Ramet has no NVIDIA GPUs",
               .where = "device cuda",
               .remedy = "Build it with -DRAMET_CUDA=ON, which needs nothing of CUDA, or use the device hopper-host, "
                         "whose bits are the same"});
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(int) { fail(); }

int64_t available_cuda_memory() { fail(); }

}  // namespace ramet::device
