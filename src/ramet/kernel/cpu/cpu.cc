#include "ramet/kernel/cpu/attention.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/convolution.h"
#include "ramet/kernel/cpu/matmul.h"
#include "ramet/kernel/kernel.h"
#include "ramet/kernel/reference/reference.h"

namespace ramet::kernel {

const Backend& cpu_backend() {
  static const Backend backend = [] {
    Backend made(cpu_kernel_class());
    add_cpu_matmul(made);
    add_cpu_convolution(made);
    add_cpu_attention(made);
    cpu::add_all(made);
    add_reference_kernels(made);
    return made;
  }();
  return backend;
}

}  // namespace ramet::kernel
