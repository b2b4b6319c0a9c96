#pragma once

// What texts over rows are compiled with: kRowType, the storage type of rows, and kRowWidth where rows of that width are
// kept in registers.

#include "convert.cuh"

#ifndef kRowWidth
#define kRowWidth 0
#endif

namespace ramet_device {

constexpr int kFixedWidth = kRowWidth;  ///< 0: any width
using RowType = kRowType;

}  // namespace ramet_device
