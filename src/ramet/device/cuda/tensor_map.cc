#include "ramet/device/cuda/tensor_map.h"

#include "ramet/device/cuda/driver.h"

namespace ramet::device {
namespace {

// Of CUtensorMapDataType, ...Interleave, ...Swizzle, ...L2promotion and ...FloatOOBfill.
constexpr int kUnsigned16 = 1, kNotInterleaved = 0, kSwizzle128 = 3, kPromote256 = 3, kFillZeros = 0;

}  // namespace

bool has_tensor_maps() { return cuda_driver().tensor_map_encode_tiled.exists(); }

void make_tensor_map(const MatrixBoxes& boxes, void* map) {
  const auto columns = static_cast<uint64_t>(boxes.columns), rows = static_cast<uint64_t>(boxes.rows);
  const uint64_t sizes[] = {columns, rows, static_cast<uint64_t>(boxes.matrices)};
  const uint64_t row_bytes = static_cast<uint64_t>(boxes.stride) * 2, strides[] = {row_bytes, row_bytes * rows};
  const uint32_t box[] = {static_cast<uint32_t>(boxes.box_columns), static_cast<uint32_t>(boxes.box_rows), 1};
  const uint32_t each[] = {1, 1, 1};
  cuda_driver().tensor_map_encode_tiled(map, kUnsigned16, 3, const_cast<void*>(boxes.data), sizes, strides, box, each,
                                        kNotInterleaved, kSwizzle128, kPromote256, kFillZeros);
}

}  // namespace ramet::device
