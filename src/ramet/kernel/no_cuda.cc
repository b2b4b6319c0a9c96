#include "ramet/device/cuda/cuda_device.h"
#include "ramet/kernel/cuda/cuda.h"
#include "ramet/kernel/hopper/hopper.h"

// In place of kernel/cuda/ where Ramet is built without it.

namespace ramet::kernel {

const Backend& cuda_backend() {
  device::make_cuda_device(1);  // throws, saying what to do
  return hopper_backend();
}

}  // namespace ramet::kernel
