#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ramet/program/executable.h"
#include "ramet/train/feeds.h"

namespace ramet::report {

/// The figures of an executable's memory, for one device.
struct MemoryReport {
  int64_t planned_bytes = 0;                           ///< the arena: all device memory that will ever be used
  int64_t bound_bytes = 0;                             ///< no placement of this schedule can be smaller
  std::string placement;                               ///< how the placement was found
  std::string peak;                                    ///< the work at the instant with most live bytes
  std::array<int64_t, kBufferClassCount> at_peak{};    ///< bytes live there, by class
  std::array<int64_t, kBufferClassCount> most{};       ///< most bytes of a class live at any one time
  int64_t streaming_bytes = 0;                         ///< of streaming memory
  std::array<int64_t, kBufferClassCount> streaming{};  ///< most bytes of a class there at any one time
  struct Large {
    std::string name;
    BufferClass kind;
    int64_t bytes = 0;
    std::string from, to;  ///< what happens when its life begins and ends
    std::string origin{};  ///< of the node that makes it: where the model says so
  };
  std::vector<Large> largest;  ///< live at the peak, largest first
  /// A table of indices that each part of the model has its own rows of, padded to the longest (ops/parts.h).
  struct Table {
    std::string name;
    TensorType type;     ///< of the whole table
    double padding = 0;  ///< share of its indices that name no row
  };
  std::vector<Table> tables;
};

/// `largest` is how many buffers to name.
MemoryReport memory_report(const Executable& executable, size_t largest = 12);
/// As a table.
std::string text_of(const MemoryReport& report);
/// As one JSON object: planned_bytes, bound_bytes, gap, placement, peak, streaming_bytes, classes {NAME: {at_peak,
/// most, streaming}}, largest [...], tables [{name, type, padding}].
std::string json_of(const MemoryReport& report);

/// Host memory of a process with so many devices, as a row "host": text and one JSON object (bytes, batches, tables,
/// results, devices).
std::string text_of(const HostBytes& host, int devices);
std::string json_of(const HostBytes& host, int devices);

/// A picture of the arena: time from left to right, addresses upwards, a rectangle a buffer, coloured by class;
/// hovering shows its name, size and life. Buffers too small to be seen are left out.
std::string memory_svg(const Executable& executable);

}  // namespace ramet::report
