#include "ramet/kernel/cuda/families.h"

namespace ramet::kernel::cuda {

void add_cuda_gather(Backend&) {}

}  // namespace ramet::kernel::cuda
