#include <immintrin.h>

#include <cstdint>

namespace ramet::kernel {

double fma_loop_amx(int64_t rounds) {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16};
  } shapes;
  asm volatile("" : : "r"(&shapes) : "memory");  // the intrinsic names a part of what it reads
  _tile_loadconfig(&shapes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
  return static_cast<double>(rounds) * 4 * 16 * 16 * 32 * 2;
}

}  // namespace ramet::kernel
