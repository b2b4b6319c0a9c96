#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ramet/base/error.h"

// The driver of NVIDIA's GPUs, libcuda.so.1, which is looked for when a program first needs a card. Its types and
// functions are declared here from the published interface, which the driver keeps for good (that is what the numbers
// at the ends of names are for), so that building needs nothing of CUDA.

namespace ramet::device {

using CuResult = int;
using CuDevice = int;
using CuAddress = unsigned long long;
using CuContext = struct CUctx_st*;
using CuStream = struct CUstream_st*;
using CuEvent = struct CUevent_st*;
using CuModule = struct CUmod_st*;
using CuFunction = struct CUfunc_st*;
using CuGraph = struct CUgraph_st*;
using CuGraphExec = struct CUgraphExec_st*;
using CuGraphNode = struct CUgraphNode_st*;

inline constexpr CuResult kCuOutOfMemory = 2;
inline constexpr CuResult kCuNotReady = 600;
inline constexpr int kCuMultiprocessors = 16, kCuCapabilityMajor = 75, kCuCapabilityMinor = 76;  // of a device
inline constexpr int kCuMostThreads = 0, kCuSharedBytes = 1, kCuLocalBytes = 3, kCuRegisters = 4,
                     kCuMostDynamicSharedBytes = 8;  // of a function
inline constexpr unsigned kCuHostPortable = 1, kCuStreamNonBlocking = 1, kCuEventBlockingSync = 1,
                          kCuEventDisableTiming = 2;
inline constexpr int kCuCaptureRelaxed = 2;
inline constexpr unsigned kCuSetCaptureDependencies = 1;

inline CuAddress address_of(const void* data) { return reinterpret_cast<CuAddress>(data); }

/// Throws Error (kFailure) with the driver's name and text of what `function` returned.
[[noreturn]] void fail_cuda(const char* function, CuResult result);

/// A function of the driver. To call it throws when it fails.
template <typename... Parameters>
class DriverFunction {
 public:
  DriverFunction(const char* name, void* address)
      : name_(name), call_(reinterpret_cast<CuResult (*)(Parameters...)>(address)) {}
  void operator()(Parameters... parameters) const {
    if (const CuResult result = call_(parameters...)) fail_cuda(name_, result);
  }
  CuResult attempt(Parameters... parameters) const noexcept { return call_(parameters...); }
  const char* name() const { return name_; }
  /// Whether the driver has it; only of those that may be missing.
  bool exists() const { return call_ != nullptr; }

 private:
  const char* name_;
  CuResult (*call_)(Parameters...);
};

/// All functions that are used, by the names of the library; those that a newer form replaced have its number.
struct CudaDriver {
  explicit CudaDriver(void* library);

  DriverFunction<int*> driver_get_version;
  DriverFunction<unsigned> init;
  DriverFunction<CuResult, const char**> get_error_name, get_error_string;
  DriverFunction<int*> device_get_count;
  DriverFunction<CuDevice*, int> device_get;
  DriverFunction<char*, int, CuDevice> device_get_name;
  DriverFunction<int*, int, CuDevice> device_get_attribute;
  DriverFunction<CuContext*, CuDevice> primary_ctx_retain;
  DriverFunction<CuContext> ctx_set_current;
  DriverFunction<size_t*, size_t*> mem_get_info;
  DriverFunction<CuAddress*, size_t> mem_alloc;
  DriverFunction<CuAddress> mem_free;
  DriverFunction<void**, size_t, unsigned> mem_host_alloc;
  DriverFunction<void*> mem_free_host;
  DriverFunction<CuAddress, const void*, size_t, CuStream> memcpy_htod_async;
  DriverFunction<void*, CuAddress, size_t, CuStream> memcpy_dtoh_async;
  DriverFunction<CuAddress, CuAddress, size_t, CuStream> memcpy_dtod_async;
  DriverFunction<CuAddress, unsigned char, size_t, CuStream> memset_d8_async;
  DriverFunction<CuStream*, unsigned> stream_create;
  DriverFunction<CuStream> stream_destroy, stream_synchronize;
  DriverFunction<CuStream, CuEvent, unsigned> stream_wait_event;
  DriverFunction<CuStream, int> stream_begin_capture;
  DriverFunction<CuStream, CuGraph*> stream_end_capture;
  DriverFunction<CuStream, int*, unsigned long long*, CuGraph*, const CuGraphNode**, size_t*> stream_get_capture_info;
  DriverFunction<CuStream, CuGraphNode*, size_t, unsigned> stream_update_capture_dependencies;
  DriverFunction<CuEvent*, unsigned> event_create;
  DriverFunction<CuEvent> event_destroy, event_query, event_synchronize;
  DriverFunction<CuEvent, CuStream> event_record;
  DriverFunction<CuGraphExec*, CuGraph, unsigned long long> graph_instantiate;
  DriverFunction<CuGraphExec, CuStream> graph_launch;
  DriverFunction<CuGraph> graph_destroy;
  DriverFunction<CuGraphExec> graph_exec_destroy;
  DriverFunction<CuModule*, const void*> module_load_data;
  DriverFunction<CuFunction*, CuModule, const char*> module_get_function;
  DriverFunction<int*, int, CuFunction> func_get_attribute;
  DriverFunction<CuFunction, int, int> func_set_attribute;
  DriverFunction<CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CuStream, void**,
                 void**>
      launch_kernel;
  /// May be missing.
  DriverFunction<void*, int, unsigned, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int,
                 int, int, int>
      tensor_map_encode_tiled;
};

/// The driver, found and started at the first call. The environment variable RAMET_CUDA_DRIVER names another library.
/// Throws Error (kFailure) with what to do where there is none.
const CudaDriver& cuda_driver();

/// The card of this process and its primary context, which lives until the process ends.
struct CudaCard {
  int number = 0;
  std::string name;
  int multiprocessors = 0;
  CuContext context = nullptr;
  /// To be called in each thread before it uses the driver.
  void make_current() const;
};

/// The card that the environment variable RAMET_CUDA_CARD chooses, 0 by default. Throws Error (kFailure) with what to
/// do where there is no such card, or where it is of another class than sm_90.
const CudaCard& cuda_card();

}  // namespace ramet::device
