#include "ramet/track/nvml.h"

#include <dlfcn.h>

namespace ramet::track {
namespace {

// The part of nvml.h that is used, as NVIDIA's NVML API reference has it: 0 is success.
using Device = struct nvmlDevice_st*;
struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
constexpr int kGpuTemperature = 0;

}  // namespace

struct Nvml::State {
  void* library = nullptr;
  int (*shut_down)() = nullptr;
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*temperature)(Device, int, unsigned*) = nullptr;
  std::vector<Device> devices;

  ~State() {
    if (shut_down) shut_down();
    if (library) ::dlclose(library);
  }
  template <typename Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
  }
};

Nvml::Nvml() {
  auto state = std::make_unique<State>();
  state->library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!state->library) return;
  int (*start)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Device*) = nullptr;
  state->find(start, "nvmlInit_v2");
  state->find(count, "nvmlDeviceGetCount_v2");
  state->find(by_index, "nvmlDeviceGetHandleByIndex_v2");
  state->find(state->utilization, "nvmlDeviceGetUtilizationRates");
  state->find(state->memory, "nvmlDeviceGetMemoryInfo");
  state->find(state->power, "nvmlDeviceGetPowerUsage");
  state->find(state->temperature, "nvmlDeviceGetTemperature");
  if (!start || !count || !by_index || start() != 0) return;
  state->find(state->shut_down, "nvmlShutdown");
  unsigned devices = 0;
  if (count(&devices) != 0) return;
  for (unsigned i = 0; i < devices; ++i)
    if (Device device = nullptr; by_index(i, &device) == 0) state->devices.push_back(device);
  if (!state->devices.empty()) state_ = std::move(state);
}

Nvml::~Nvml() = default;

void Nvml::read(std::vector<LoggedNumber>& sample) {
  if (!state_) return;
  for (size_t i = 0; i < state_->devices.size(); ++i) {
    const std::string name = "gpu" + std::to_string(i) + "_";
    const Device device = state_->devices[i];
    if (Utilization busy{}; state_->utilization && state_->utilization(device, &busy) == 0)
      sample.emplace_back(name + "percent", busy.gpu);
    if (Memory memory{}; state_->memory && state_->memory(device, &memory) == 0)
      sample.emplace_back(name + "memory_bytes", static_cast<double>(memory.used));
    if (unsigned milliwatts = 0; state_->power && state_->power(device, &milliwatts) == 0)
      sample.emplace_back(name + "watts", milliwatts / 1000.0);
    if (unsigned celsius = 0; state_->temperature && state_->temperature(device, kGpuTemperature, &celsius) == 0)
      sample.emplace_back(name + "celsius", celsius);
  }
}

}  // namespace ramet::track
