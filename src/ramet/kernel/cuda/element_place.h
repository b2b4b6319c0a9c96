#pragma once

#include <string>

#include "ramet/kernel/cuda/device/place_arguments.h"
#include "ramet/ops/position.h"

namespace ramet::kernel::cuda {

/// Why a launch cannot say where the elements of a part are; "": it can.
std::string refuse_place(const Position& position);
/// The same as device code reads it (device/place.cuh).
ramet_device::ElementPlace place_of(const Position& position);
/// Whether eight elements from a multiple of eight on are such elements of the logical tensor.
bool keeps_blocks(const Position& position);

}  // namespace ramet::kernel::cuda
