#include "ramet/kernel/devices.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "ramet/base/error.h"
#include "ramet/device/cpu_device.h"
#include "ramet/device/cuda/cuda_device.h"
#include "ramet/device/host_memory.h"
#include "ramet/device/loopback_device.h"
#include "ramet/kernel/cuda/cuda.h"
#include "ramet/kernel/hopper/hopper.h"

namespace ramet::kernel {
namespace {

constexpr std::string_view kDefault = "cpu";
constexpr const char* kVariable = "RAMET_DEVICE";

constexpr DeviceEntry kDevices[] = {
    {"cpu", "the processors of this machine", &cpu_backend, &make_cpu_device, &available_memory},
    {"cuda", "an NVIDIA GPU of class sm_90 (H100, H200), with its driver", &cuda_backend, &make_cuda_device,
     &available_cuda_memory, "h100",
     "64 KiB for reports of faults, and what NVIDIA's driver needs for its context and loaded code "
     "(RAMET_VERBOSE=dispatch tells)"},
    {"hopper-host", "the same processors, computing the bits of an NVIDIA GPU of class sm_90", &hopper_backend,
     &make_cpu_device, &available_memory},
    {"loopback", "the same processors behind the manners of an accelerator, for tests", &cpu_backend,
     &make_loopback_device, &available_memory},
};

const DeviceEntry& find(std::string_view name, const char* where) {
  const auto found = std::find_if(std::begin(kDevices), std::end(kDevices),
                                  [&](const DeviceEntry& each) { return each.name == name; });
  if (found != std::end(kDevices)) return *found;
  std::string names;
  for (const DeviceEntry& each : kDevices) names += (names.empty() ? "" : ", ") + std::string(each.name);
  throw Error({.what = "there is no kind of device of this name",
               .where = where,
               .found = "'" + std::string(name) + "'",
               .expected = "one of " + names});
}

}  // namespace

bool DeviceEntry::is_here() const {
  if (machine.empty()) return true;
  try {
    return available() > 0;
  } catch (const Error&) {
    return false;
  }
}

std::span<const DeviceEntry> devices() { return kDevices; }

const DeviceEntry& find_device(std::string_view name) {
  if (!name.empty()) return find(name, "device");
  const char* chosen = std::getenv(kVariable);
  return find(chosen && *chosen ? chosen : kDefault, "environment variable RAMET_DEVICE");
}

void choose_device(std::string_view name) { ::setenv(kVariable, std::string(find(name, "device").name).c_str(), 1); }

}  // namespace ramet::kernel
