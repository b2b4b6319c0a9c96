#include "ramet/kernel/cpu/amx_product.h"

#include "ramet/base/error.h"

#if !defined(__x86_64__)
namespace ramet::kernel {
void amx_product(const AmxProduct&) { internal_error("amx_product", "no such instructions here"); }
void transpose_units(const uint32_t*, int64_t, int64_t, uint32_t*, int64_t) {
  internal_error("transpose_units", "no such instructions here");
}
void pack_rows(const uint16_t*, int64_t, bool, int64_t, int64_t, int64_t, void*) {
  internal_error("pack_rows", "no such instructions here");
}
}  // namespace ramet::kernel
#endif
