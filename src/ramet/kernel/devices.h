#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ramet/device/device.h"
#include "ramet/kernel/kernel.h"

namespace ramet::kernel {

/// A kind of device by name, with the kernels that run on it. All that is above this folder finds devices and backends
/// here, and none by the name of a function.
struct DeviceEntry {
  std::string_view name;
  std::string_view about;  ///< for people
  const Backend& (*backend)();
  /// A device with `threads` threads; each backend decides what a thread is.
  std::unique_ptr<Device> (*make)(int threads);
  /// Bytes of device memory that this process could still take for all its devices of this kind. Throws Error where the
  /// machine has no such device.
  int64_t (*available)();
  /// The machine file by which time is predicted where the machine has no such device; "": every machine has it.
  std::string_view machine{};
  /// For people: what it takes of its memory beside a program's; "": its memory is the host's.
  std::string_view beside{};

  bool has_own_memory() const { return !beside.empty(); }
  bool is_here() const;
};

std::span<const DeviceEntry> devices();
/// The kind of that name; "": the one that the environment variable RAMET_DEVICE names, or else "cpu". Throws Error on
/// another name.
const DeviceEntry& find_device(std::string_view name = "");
/// From now on "" is this kind, in this process and those that it starts. Throws Error on a name that is none.
void choose_device(std::string_view name);

}  // namespace ramet::kernel
