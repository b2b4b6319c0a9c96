#include "ramet/kernel/cpu/amx_product.h"

#include "ramet/base/error.h"

#if !defined(__x86_64__)
namespace ramet::kernel {
void amx_product(const AmxProduct&) { internal_error("amx_product", "no such instructions here"); }
void transpose_units(const uint32_t*, int64_t, int64_t, uint32_t*, int64_t) {
  internal_error("transpose_units", "no such instructions here");
}
}  // namespace ramet::kernel
#endif
