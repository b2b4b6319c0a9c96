#include "ramet/device/cuda/cuda_kernel.h"

#include <string>

namespace ramet::device {

void CudaKernel::run(const KernelContext&) const {
  internal_error("CudaKernel::run", "a kernel of a GPU was called on the host");
}

Error CudaKernel::error_of(const CudaFault& fault) const {
  return Error({.what = "a kernel on the GPU found an index out of range",
                .where = "cuda device",
                .found = std::to_string(fault.found),
                .expected = "below " + std::to_string(fault.limit)},
               ErrorKind::kFailure);
}

}  // namespace ramet::device
