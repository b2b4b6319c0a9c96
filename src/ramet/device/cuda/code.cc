#include "ramet/device/cuda/cuda_kernel.h"

namespace ramet::device {

CudaFunction load_cuda_function(const CudaSource& source, const std::string&, int64_t) {
  internal_error("load_cuda_function", "no driver is there yet to load " + source.name);
}

}  // namespace ramet::device
