#include "ramet/kernel/cuda/families.h"

namespace ramet::kernel::cuda {

void add_host_kernels(Backend&) {}

}  // namespace ramet::kernel::cuda
