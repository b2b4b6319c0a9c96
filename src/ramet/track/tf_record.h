#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::track {

/// One record of TensorFlow's record files, of which TensorBoard's event files are made: u64 length, u32 masked CRC-32C
/// of the length, the payload, u32 masked CRC-32C of the payload (little-endian; the source is TensorFlow's
/// core/lib/io/record_writer.cc).
std::string tf_record(std::string_view payload);

/// Calls `take` with the payload of each whole record, in order, and returns how many bytes belong to none: a torn end,
/// or damage, behind which the next whole record is looked for. Never fails.
int64_t read_tf_records(std::string_view file, const std::function<void(std::string_view payload)>& take);

/// Whether a file begins with a whole record.
bool begins_with_tf_record(std::string_view file);

}  // namespace ramet::track
