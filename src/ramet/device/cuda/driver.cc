#include "ramet/device/cuda/driver.h"

#include <dlfcn.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace ramet::device {
namespace {

constexpr const char* kWhere = "device cuda";
constexpr const char* kWithoutCard =
    "Run on a machine with an NVIDIA H100 or H200 and its driver, or use the device hopper-host, whose bits are the "
    "same";

void* find_function(void* library, const char* name) {
  if (void* address = ::dlsym(library, name)) return address;
  throw Error({.what = "NVIDIA's driver lacks a function",
               .where = kWhere,
               .found = std::string("no ") + name,
               .remedy = "Install a driver of CUDA 12.4 or newer"},
              ErrorKind::kFailure);
}

void* open_driver() {
  const char* named = std::getenv("RAMET_CUDA_DRIVER");
  const char* file = named && *named ? named : "libcuda.so.1";
  if (void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL)) return library;
  const char* reason = ::dlerror();
  throw Error({.what = "NVIDIA's driver is not there",
               .where = kWhere,
               .found = reason ? reason : file,
               .expected = file,
               .remedy = kWithoutCard},
              ErrorKind::kFailure);
}

int chosen_card() {
  const char* chosen = std::getenv("RAMET_CUDA_CARD");
  if (!chosen || !*chosen) return 0;
  int number = -1;
  const char* end = chosen + std::strlen(chosen);
  if (std::from_chars(chosen, end, number).ptr != end || number < 0)
    throw Error({.what = "the number of a card is not one",
                 .where = "environment variable RAMET_CUDA_CARD",
                 .found = std::string("'") + chosen + "'",
                 .expected = "0, 1, ..."});
  return number;
}

CudaCard open_card() {
  const CudaDriver& driver = cuda_driver();
  CudaCard card;
  card.number = chosen_card();
  int count = 0;
  driver.device_get_count(&count);
  if (card.number >= count)
    throw Error({.what = "there is no such GPU",
                 .where = kWhere,
                 .found = "card " + std::to_string(card.number) + " of " + std::to_string(count),
                 .remedy = count > 0 ? "Name one of them by RAMET_CUDA_CARD" : kWithoutCard},
                ErrorKind::kFailure);
  CuDevice device = 0;
  driver.device_get(&device, card.number);
  std::array<char, 256> name{};
  driver.device_get_name(name.data(), static_cast<int>(name.size()) - 1, device);
  card.name = name.data();
  int major = 0, minor = 0;
  driver.device_get_attribute(&major, kCuCapabilityMajor, device);
  driver.device_get_attribute(&minor, kCuCapabilityMinor, device);
  if (major != 9 || minor != 0)
    throw Error({.what = "a GPU of another class",
                 .where = kWhere,
                 .found = card.name + ", sm_" + std::to_string(major) + std::to_string(minor),
                 .expected = "sm_90",
                 .remedy = kWithoutCard},
                ErrorKind::kFailure);
  driver.device_get_attribute(&card.multiprocessors, kCuMultiprocessors, device);
  driver.primary_ctx_retain(&card.context, device);
  return card;
}

}  // namespace

void fail_cuda(const char* function, CuResult result) {
  const CudaDriver& driver = cuda_driver();
  const char *name = nullptr, *text = nullptr;
  driver.get_error_name.attempt(result, &name);
  driver.get_error_string.attempt(result, &text);
  throw Error({.what = "NVIDIA's driver reports a failure",
               .where = std::string(kWhere) + ", " + function,
               .found = (name ? name : std::to_string(result)) + (text ? std::string(": ") + text : std::string())},
              ErrorKind::kFailure);
}

CudaDriver::CudaDriver(void* library)
#define RAMET_FIND(member, name) member(name, find_function(library, name))
#define RAMET_FIND_OR_NOT(member, name) member(name, ::dlsym(library, name))
    : RAMET_FIND(driver_get_version, "cuDriverGetVersion"),
      RAMET_FIND(init, "cuInit"),
      RAMET_FIND(get_error_name, "cuGetErrorName"),
      RAMET_FIND(get_error_string, "cuGetErrorString"),
      RAMET_FIND(device_get_count, "cuDeviceGetCount"),
      RAMET_FIND(device_get, "cuDeviceGet"),
      RAMET_FIND(device_get_name, "cuDeviceGetName"),
      RAMET_FIND(device_get_attribute, "cuDeviceGetAttribute"),
      RAMET_FIND(primary_ctx_retain, "cuDevicePrimaryCtxRetain"),
      RAMET_FIND(ctx_set_current, "cuCtxSetCurrent"),
      RAMET_FIND(mem_get_info, "cuMemGetInfo_v2"),
      RAMET_FIND(mem_alloc, "cuMemAlloc_v2"),
      RAMET_FIND(mem_free, "cuMemFree_v2"),
      RAMET_FIND(mem_host_alloc, "cuMemHostAlloc"),
      RAMET_FIND(mem_free_host, "cuMemFreeHost"),
      RAMET_FIND(memcpy_htod_async, "cuMemcpyHtoDAsync_v2"),
      RAMET_FIND(memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2"),
      RAMET_FIND(memcpy_dtod_async, "cuMemcpyDtoDAsync_v2"),
      RAMET_FIND(memset_d8_async, "cuMemsetD8Async"),
      RAMET_FIND(stream_create, "cuStreamCreate"),
      RAMET_FIND(stream_destroy, "cuStreamDestroy_v2"),
      RAMET_FIND(stream_synchronize, "cuStreamSynchronize"),
      RAMET_FIND(stream_wait_event, "cuStreamWaitEvent"),
      RAMET_FIND(stream_begin_capture, "cuStreamBeginCapture_v2"),
      RAMET_FIND(stream_end_capture, "cuStreamEndCapture"),
      RAMET_FIND_OR_NOT(stream_get_capture_info, "cuStreamGetCaptureInfo_v2"),
      RAMET_FIND_OR_NOT(stream_update_capture_dependencies, "cuStreamUpdateCaptureDependencies"),
      RAMET_FIND(event_create, "cuEventCreate"),
      RAMET_FIND(event_destroy, "cuEventDestroy_v2"),
      RAMET_FIND(event_query, "cuEventQuery"),
      RAMET_FIND(event_synchronize, "cuEventSynchronize"),
      RAMET_FIND(event_record, "cuEventRecord"),
      RAMET_FIND(graph_instantiate, "cuGraphInstantiateWithFlags"),
      RAMET_FIND(graph_launch, "cuGraphLaunch"),
      RAMET_FIND(graph_destroy, "cuGraphDestroy"),
      RAMET_FIND(graph_exec_destroy, "cuGraphExecDestroy"),
      RAMET_FIND(module_load_data, "cuModuleLoadData"),
      RAMET_FIND(module_get_function, "cuModuleGetFunction"),
      RAMET_FIND(func_get_attribute, "cuFuncGetAttribute"),
      RAMET_FIND(func_set_attribute, "cuFuncSetAttribute"),
      RAMET_FIND(launch_kernel, "cuLaunchKernel"),
      RAMET_FIND_OR_NOT(tensor_map_encode_tiled, "cuTensorMapEncodeTiled") {
}
#undef RAMET_FIND
#undef RAMET_FIND_OR_NOT

const CudaDriver& cuda_driver() {
  static const CudaDriver driver = [] {
    const CudaDriver found(open_driver());
    // Not by the call that throws: its message needs the driver.
    if (const CuResult result = found.init.attempt(0)) {
      const char* name = nullptr;
      found.get_error_name.attempt(result, &name);
      throw Error({.what = "NVIDIA's driver does not start",
                   .where = std::string(kWhere) + ", cuInit",
                   .found = name ? name : std::to_string(result),
                   .remedy = kWithoutCard},
                  ErrorKind::kFailure);
    }
    return found;
  }();
  return driver;
}

void CudaCard::make_current() const {
  thread_local bool is_current = false;
  if (is_current) return;
  cuda_driver().ctx_set_current(context);
  is_current = true;
}

const CudaCard& cuda_card() {
  static const CudaCard card = open_card();
  card.make_current();
  return card;
}

}  // namespace ramet::device
