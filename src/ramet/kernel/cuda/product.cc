#include "ramet/kernel/cuda/families.h"

namespace ramet::kernel::cuda {

void add_cuda_product(Backend&) {}

}  // namespace ramet::kernel::cuda
