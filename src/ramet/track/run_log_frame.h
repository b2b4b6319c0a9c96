#pragma once

#include <cstddef>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::track {

// What begins a frame of a run's log (track/run_log.h): the mark, the length and the checksum of its payload.
inline constexpr std::string_view kFrameMark = "RLF1";
inline constexpr size_t kFrameHeader = 12;
/// A frame is a line, not a file: bounds what damage can claim.
inline constexpr size_t kMostPayload = 1 << 20;
/// Of one entry.
inline constexpr size_t kMostNames = 4096;

}  // namespace ramet::track
