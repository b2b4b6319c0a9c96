#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "fake_cuda/block.h"
#include "fake_cuda/card.h"
#include "fake_cuda/host_shim.h"
#include "fake_cuda/module.h"
#include "fake_cuda/races.h"

// The functions of libcuda.so.1 that Ramet's driver table looks up (device/cuda/driver.cc), on the fake card. Calls are
// as strict as NVIDIA's: they want a context of their thread, take live handles only, and give the first failure of a
// launch again and again.

using namespace ramet_fake;

namespace {

struct Context {
  int device = 0, references = 0;
};
constexpr int kMostDevices = 16;
Context contexts[kMostDevices];
bool initialized = false;
/// The thread's contexts, the current one last. Devices may still be closed after a thread's objects are gone.
struct ContextStack {
  Context* all[8];
  int count;
};
thread_local constinit ContextStack stack{};
Context* current() { return stack.count > 0 ? stack.all[stack.count - 1] : nullptr; }

/// Streams, events, graphs and modules that live.
class Handles {
 public:
  template <typename T>
  T* add(T* handle) {
    const std::lock_guard lock(mutex_);
    live_.insert(handle);
    return handle;
  }
  bool has(const void* handle) {
    const std::lock_guard lock(mutex_);
    return live_.contains(handle);
  }
  bool drop(const void* handle) {
    const std::lock_guard lock(mutex_);
    return live_.erase(handle) != 0;
  }

 private:
  std::mutex mutex_;
  std::set<const void*> live_;
};
Handles& handles() {
  static auto* all = new Handles;
  return *all;
}

struct EventHandle {
  std::shared_ptr<Moment> moment;  ///< null: never recorded
  bool timed = true;
};

Stream& default_stream() {
  static auto* one = new Stream(true);
  return *one;
}
Stream* stream_of(void* handle) {
  // Null, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
  if (reinterpret_cast<uintptr_t>(handle) <= 2) return &default_stream();
  return handles().has(handle) ? static_cast<Stream*>(handle) : nullptr;
}

/// What every call checks first.
Result ready() {
  if (!initialized) return kNotInitialized;
  if (Stream::in_stream()) return kNotPermitted;  // within cuLaunchHostFunc's function
  if (!current()) return kInvalidContext;
  return lost();
}
/// The same for calls that wait or allocate: they break recordings of the mode "global".
Result ready_to_wait() {
  const Result result = ready();
  return result == kSuccess && Stream::strict_recordings() > 0 ? kCaptureUnsupported : result;
}

#define RAMET_FAKE_CHECK(call) \
  if (const Result checked = (call); checked != kSuccess) return checked

/// Work of the card, but for a lost one.
Work on_card(Work work) {
  return [work = std::move(work)] {
    if (lost() != kSuccess) return;
    const CardMemory::Open open;
    work();
  };
}

bool is_device(DevicePointer address, size_t bytes) { return CardMemory::instance().holds(address, bytes); }
void* at(DevicePointer address) { return reinterpret_cast<void*>(address); }

Result copy_in(DevicePointer to, const void* from, size_t bytes, Stream& stream) {
  if (bytes == 0) return kSuccess;
  if (!is_device(to, bytes)) return kInvalidValue;
  if (stream.recording || CardMemory::instance().is_pinned(from, bytes)) {
    stream.give(on_card([=] { std::memcpy(at(to), from, bytes); }));
    return kSuccess;
  }
  const auto* first = static_cast<const unsigned char*>(from);
  stream.give(on_card([to, staged = std::vector<unsigned char>(first, first + bytes)] {
    std::memcpy(at(to), staged.data(), staged.size());
  }));
  return kSuccess;
}

Result copy_out(void* to, DevicePointer from, size_t bytes, Stream& stream) {
  if (bytes == 0) return kSuccess;
  if (!is_device(from, bytes)) return kInvalidValue;
  stream.give(on_card([=] { std::memcpy(to, at(from), bytes); }));
  if (!stream.recording && !CardMemory::instance().is_pinned(to, bytes)) stream.synchronize();
  return lost();
}

Result copy_within(DevicePointer to, DevicePointer from, size_t bytes, Stream& stream) {
  if (bytes == 0) return kSuccess;
  auto& memory = CardMemory::instance();
  const auto known = [&](DevicePointer address) {
    return is_device(address, bytes) || memory.is_pinned(at(address), bytes);
  };
  if (!known(to) || !known(from)) return kInvalidValue;
  stream.give(on_card([=] { std::memmove(at(to), at(from), bytes); }));
  return kSuccess;
}

Result fill(DevicePointer to, unsigned char value, size_t bytes, Stream& stream) {
  if (bytes == 0) return kSuccess;
  if (!is_device(to, bytes)) return kInvalidValue;
  stream.give(on_card([=] { std::memset(at(to), value, bytes); }));
  return kSuccess;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// --- Driver and devices ---

Result cuInit(unsigned) {
  if (settings().devices < 1) return kNoDevice;
  initialized = true;
  return kSuccess;
}
Result cuDriverGetVersion(int* version) {
  *version = settings().version;
  return kSuccess;
}
Result cuDeviceGetCount(int* count) {
  if (!initialized) return kNotInitialized;
  *count = settings().devices;
  return kSuccess;
}
Result cuDeviceGet(int* device, int ordinal) {
  if (!initialized) return kNotInitialized;
  if (ordinal < 0 || ordinal >= std::min(settings().devices, kMostDevices)) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}
Result cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<size_t>(bytes), "Ramet fake card");
  return kSuccess;
}
Result cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = settings().memory;
  return kSuccess;
}
Result cuDeviceGetAttribute(int* value, int attribute, int device) {
  switch (attribute) {
    case kMostThreadsPerBlock:
    case kMostBlockX: *value = 1024; break;
    case kMostGridX: *value = 2147483647; break;
    case kMostGridY:
    case kMostGridZ: *value = 65535; break;
    case kSharedPerBlock: *value = 48 << 10; break;
    case kSharedPerBlockOptIn: *value = 227 << 10; break;
    case kSharedPerMultiprocessor: *value = 228 << 10; break;
    case kReservedSharedPerBlock: *value = 1 << 10; break;
    case kWarpSize: *value = 32; break;
    case kRegistersPerBlock:
    case kRegistersPerMultiprocessor: *value = 65536; break;
    case kThreadsPerMultiprocessor: *value = 2048; break;
    case kMultiprocessors: *value = 132; break;
    case kClockRate: *value = 1980000; break;
    case kMemoryClockRate: *value = 2619000; break;
    case kMemoryBusWidth: *value = 5120; break;
    case kL2Bytes: *value = 50 << 20; break;
    case kAsyncEngines: *value = 3; break;
    case kUnifiedAddressing:
    case kRegisteredHostPointers: *value = 1; break;
    case kComputeMajor: *value = settings().major; break;
    case kComputeMinor: *value = settings().minor; break;
    case kPciBus: *value = device + 1; break;
    default: *value = 0;
  }
  return kSuccess;
}
Result cuDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return kSuccess;
}

// --- Contexts ---

Result cuDevicePrimaryCtxRetain(void** context, int device) {
  if (!initialized) return kNotInitialized;
  if (device < 0 || device >= std::min(settings().devices, kMostDevices)) return kInvalidDevice;
  contexts[device].device = device;
  ++contexts[device].references;
  *context = &contexts[device];
  return kSuccess;
}
Result cuDevicePrimaryCtxRelease_v2(int device) {
  if (device < 0 || device >= kMostDevices || contexts[device].references == 0) return kInvalidContext;
  if (--contexts[device].references == 0) forget_loss();
  return kSuccess;
}
Result cuDevicePrimaryCtxReset_v2(int) {
  forget_loss();
  return kSuccess;
}
Result cuDevicePrimaryCtxSetFlags_v2(int, unsigned) { return kSuccess; }
Result cuCtxSetCurrent(void* context) {
  if (!initialized) return kNotInitialized;
  if (stack.count == 0) stack.count = 1;
  stack.all[stack.count - 1] = static_cast<Context*>(context);
  return kSuccess;
}
Result cuCtxGetCurrent(void** context) {
  *context = current();
  return kSuccess;
}
Result cuCtxPushCurrent_v2(void* context) {
  if (stack.count == 8) return kInvalidValue;
  stack.all[stack.count++] = static_cast<Context*>(context);
  return kSuccess;
}
Result cuCtxPopCurrent_v2(void** context) {
  if (stack.count == 0) return kInvalidContext;
  if (context) *context = current();
  --stack.count;
  return kSuccess;
}
Result cuCtxGetDevice(int* device) {
  if (!current()) return kInvalidContext;
  *device = current()->device;
  return kSuccess;
}
Result cuCtxSynchronize() {
  RAMET_FAKE_CHECK(ready_to_wait());
  synchronize_streams(true);
  return lost();
}
Result cuCtxSetLimit(int, size_t) { return ready(); }
Result cuCtxGetLimit(size_t* value, int) {
  *value = 0;
  return ready();
}
Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return ready();
}

// --- Memory ---

Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  RAMET_FAKE_CHECK(ready());
  *total = settings().memory;
  *free = *total - CardMemory::instance().used();
  return kSuccess;
}
Result cuMemAlloc_v2(DevicePointer* address, size_t bytes) {
  RAMET_FAKE_CHECK(ready_to_wait());
  return CardMemory::instance().allocate(bytes, address);
}
Result cuMemFree_v2(DevicePointer address) {
  if (!initialized) return kNotInitialized;
  if (address == 0) return kSuccess;
  if (lost() == kSuccess) synchronize_streams(true);  // as on a card, where freeing waits
  const Result result = CardMemory::instance().release(address);
  return lost() != kSuccess ? lost() : result;
}
Result cuMemHostAlloc(void** data, size_t bytes, unsigned) {
  RAMET_FAKE_CHECK(ready_to_wait());
  return CardMemory::instance().allocate_host(bytes, data);
}
Result cuMemAllocHost_v2(void** data, size_t bytes) { return cuMemHostAlloc(data, bytes, 0); }
Result cuMemFreeHost(void* data) {
  if (lost() == kSuccess) synchronize_streams(true);
  return CardMemory::instance().release_host(data);
}
Result cuMemHostRegister_v2(void* data, size_t bytes, unsigned) {
  RAMET_FAKE_CHECK(ready_to_wait());
  return CardMemory::instance().register_host(data, bytes);
}
Result cuMemHostUnregister(void* data) { return CardMemory::instance().unregister_host(data); }
Result cuMemHostGetDevicePointer_v2(DevicePointer* address, void* data, unsigned) {
  if (!CardMemory::instance().is_pinned(data, 1)) return kInvalidValue;
  *address = reinterpret_cast<DevicePointer>(data);
  return kSuccess;
}
Result cuMemGetAddressRange_v2(DevicePointer*, size_t*, DevicePointer) { return kNotSupported; }

Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes, void* handle) {
  RAMET_FAKE_CHECK(ready());
  Stream* stream = stream_of(handle);
  return stream ? copy_in(to, from, bytes, *stream) : kInvalidHandle;
}
Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, void* handle) {
  RAMET_FAKE_CHECK(ready());
  Stream* stream = stream_of(handle);
  return stream ? copy_out(to, from, bytes, *stream) : kInvalidHandle;
}
Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, void* handle) {
  RAMET_FAKE_CHECK(ready());
  Stream* stream = stream_of(handle);
  return stream ? copy_within(to, from, bytes, *stream) : kInvalidHandle;
}
Result cuMemcpyAsync(DevicePointer to, DevicePointer from, size_t bytes, void* handle) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, handle);
}
Result cuMemcpyPeerAsync(DevicePointer to, void*, DevicePointer from, void*, size_t bytes, void* handle) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, handle);
}
Result cuMemsetD8Async(DevicePointer to, unsigned char value, size_t bytes, void* handle) {
  RAMET_FAKE_CHECK(ready());
  Stream* stream = stream_of(handle);
  return stream ? fill(to, value, bytes, *stream) : kInvalidHandle;
}
Result cuMemcpyHtoD_v2(DevicePointer to, const void* from, size_t bytes) {
  RAMET_FAKE_CHECK(ready_to_wait());
  synchronize_streams(false);
  RAMET_FAKE_CHECK(copy_in(to, from, bytes, default_stream()));
  default_stream().synchronize();
  return lost();
}
Result cuMemcpyDtoH_v2(void* to, DevicePointer from, size_t bytes) {
  RAMET_FAKE_CHECK(ready_to_wait());
  synchronize_streams(false);
  RAMET_FAKE_CHECK(copy_out(to, from, bytes, default_stream()));
  default_stream().synchronize();
  return lost();
}
Result cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, size_t bytes) {
  RAMET_FAKE_CHECK(ready_to_wait());
  synchronize_streams(false);
  return copy_within(to, from, bytes, default_stream());
}
Result cuMemsetD8_v2(DevicePointer to, unsigned char value, size_t bytes) {
  RAMET_FAKE_CHECK(ready_to_wait());
  synchronize_streams(false);
  return fill(to, value, bytes, default_stream());
}

// --- Streams and events ---

Result cuStreamCreateWithPriority(void** stream, unsigned flags, int) {
  RAMET_FAKE_CHECK(ready());
  *stream = handles().add(new Stream(flags != 1));  // CU_STREAM_NON_BLOCKING
  return kSuccess;
}
Result cuStreamCreate(void** stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }
Result cuStreamDestroy_v2(void* stream) {
  if (!handles().drop(stream)) return kInvalidHandle;
  delete static_cast<Stream*>(stream);
  return kSuccess;
}
Result cuStreamSynchronize(void* handle) {
  RAMET_FAKE_CHECK(ready());
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  if (stream->recording) return kCaptureUnsupported;
  stream->synchronize();
  return lost();
}
Result cuStreamQuery(void* handle) {
  RAMET_FAKE_CHECK(ready());
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  if (stream->recording) return kCaptureUnsupported;
  return stream->idle() ? lost() : kNotReady;
}
Result cuStreamWaitEvent(void* handle, void* event, unsigned) {
  RAMET_FAKE_CHECK(ready());
  Stream* stream = stream_of(handle);
  if (!stream || !handles().has(event)) return kInvalidHandle;
  if (stream->recording) return kCaptureUnsupported;  // the fake card records one stream at a time
  if (const auto& moment = static_cast<EventHandle*>(event)->moment) stream->wait_for(moment);
  return kSuccess;
}
Result cuLaunchHostFunc(void* handle, HostFunction function, void* data) {
  RAMET_FAKE_CHECK(ready());
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  stream->give([=] {
    if (lost() == kSuccess) function(data);
  });
  return kSuccess;
}

Result cuEventCreate(void** event, unsigned flags) {
  RAMET_FAKE_CHECK(ready());
  *event = handles().add(new EventHandle{.moment = nullptr, .timed = (flags & 2) == 0});  // CU_EVENT_DISABLE_TIMING
  return kSuccess;
}
Result cuEventDestroy_v2(void* event) {
  if (!handles().drop(event)) return kInvalidHandle;
  delete static_cast<EventHandle*>(event);
  return kSuccess;
}
Result cuEventRecord(void* event, void* handle) {
  RAMET_FAKE_CHECK(ready());
  Stream* stream = stream_of(handle);
  if (!stream || !handles().has(event)) return kInvalidHandle;
  if (stream->recording) return kCaptureUnsupported;
  auto moment = std::make_shared<Moment>();
  static_cast<EventHandle*>(event)->moment = moment;
  stream->give_moment(std::move(moment));
  return kSuccess;
}
Result cuEventQuery(void* event) {
  RAMET_FAKE_CHECK(ready());
  if (!handles().has(event)) return kInvalidHandle;
  const auto& moment = static_cast<EventHandle*>(event)->moment;
  return !moment || Stream::come(moment) ? lost() : kNotReady;
}
Result cuEventSynchronize(void* event) {
  RAMET_FAKE_CHECK(ready());
  if (!handles().has(event)) return kInvalidHandle;
  if (const auto moment = static_cast<EventHandle*>(event)->moment) Stream::wait_for_host(moment);
  return lost();
}
Result cuEventElapsedTime_v2(float* milliseconds, void* first, void* last) {
  RAMET_FAKE_CHECK(ready());
  if (!handles().has(first) || !handles().has(last)) return kInvalidHandle;
  const auto *from = static_cast<EventHandle*>(first), *to = static_cast<EventHandle*>(last);
  if (!from->timed || !to->timed || !from->moment || !to->moment) return kInvalidHandle;
  if (!Stream::come(from->moment) || !Stream::come(to->moment)) return kNotReady;
  *milliseconds = static_cast<float>((to->moment->seconds - from->moment->seconds) * 1e3);
  return kSuccess;
}
Result cuEventElapsedTime(float* milliseconds, void* first, void* last) {
  return cuEventElapsedTime_v2(milliseconds, first, last);
}

// --- Recording and graphs ---

Result cuStreamBeginCapture_v2(void* handle, int mode) {
  RAMET_FAKE_CHECK(ready());
  if (!handle || !handles().has(handle)) return kInvalidHandle;
  auto* stream = static_cast<Stream*>(handle);
  if (stream->recording) return kCaptureUnsupported;
  stream->recording = std::make_unique<Graph>();
  stream->strict = mode == 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL
  if (stream->strict) ++Stream::strict_recordings();
  return kSuccess;
}
Result cuStreamEndCapture(void* handle, void** graph) {
  RAMET_FAKE_CHECK(ready());
  if (!handles().has(handle)) return kInvalidHandle;
  auto* stream = static_cast<Stream*>(handle);
  if (!stream->recording) return kInvalidValue;
  if (stream->strict) --Stream::strict_recordings();
  *graph = handles().add(stream->recording.release());
  return kSuccess;
}
Result cuStreamIsCapturing(void* handle, int* capturing) {
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  *capturing = stream->recording ? 1 : 0;
  return kSuccess;
}
/// A node's handle is its number, from 1 on.
Result cuStreamGetCaptureInfo_v2(void* handle, int* status, unsigned long long* id, void** graph,
                                 void* const** dependencies, size_t* count) {
  Stream* stream = stream_of(handle);
  if (!stream) return kInvalidHandle;
  *status = stream->recording ? 1 : 0;
  if (!stream->recording) return kSuccess;
  static thread_local std::vector<void*> nodes;
  nodes.clear();
  for (const size_t node : stream->recording->next_behind) nodes.push_back(reinterpret_cast<void*>(node + 1));
  if (id) *id = 1;
  if (graph) *graph = stream->recording.get();
  if (dependencies) *dependencies = nodes.data();
  if (count) *count = nodes.size();
  return kSuccess;
}
Result cuStreamUpdateCaptureDependencies(void* handle, void** dependencies, size_t count, unsigned flags) {
  Stream* stream = stream_of(handle);
  if (!stream || !stream->recording) return kInvalidValue;
  Graph& graph = *stream->recording;
  if (flags == 1) graph.next_behind.clear();
  for (size_t i = 0; i < count; ++i) {
    const size_t node = reinterpret_cast<size_t>(dependencies[i]) - 1;
    if (node >= graph.nodes.size()) return kInvalidValue;
    graph.next_behind.push_back(node);
  }
  return kSuccess;
}
Result cuThreadExchangeStreamCaptureMode(int*) { return kSuccess; }
Result cuGraphInstantiateWithFlags(void** made, void* graph, unsigned long long) {
  RAMET_FAKE_CHECK(ready());
  if (!handles().has(graph)) return kInvalidHandle;
  // Shared by the launches under way, so that the graph may go.
  *made = handles().add(new std::shared_ptr<const Graph>(new Graph(*static_cast<Graph*>(graph))));
  return kSuccess;
}
Result cuGraphInstantiate_v2(void** made, void* graph, void**, char*, size_t) {
  return cuGraphInstantiateWithFlags(made, graph, 0);
}
Result cuGraphGetNodes(void* graph, void**, size_t* count) {
  if (!handles().has(graph)) return kInvalidHandle;
  *count = static_cast<Graph*>(graph)->nodes.size();
  return kSuccess;
}
Result cuGraphUpload(void* made, void*) { return handles().has(made) ? kSuccess : kInvalidHandle; }
Result cuGraphLaunch(void* made, void* handle) {
  RAMET_FAKE_CHECK(ready());
  Stream* stream = stream_of(handle);
  if (!stream || !handles().has(made)) return kInvalidHandle;
  stream->give([graph = *static_cast<std::shared_ptr<const Graph>*>(made)] { graph->run(); });
  return kSuccess;
}
Result cuGraphExecDestroy(void* made) {
  if (!handles().drop(made)) return kInvalidHandle;
  delete static_cast<std::shared_ptr<const Graph>*>(made);
  return kSuccess;
}
Result cuGraphDestroy(void* graph) {
  if (!handles().drop(graph)) return kInvalidHandle;
  delete static_cast<Graph*>(graph);
  return kSuccess;
}

// --- Modules and launches ---

Result cuModuleLoadData(void** made, const void* image) {
  RAMET_FAKE_CHECK(ready());
  Module* module = nullptr;
  RAMET_FAKE_CHECK(load_module(image, &module));
  *made = handles().add(module);
  return kSuccess;
}
Result cuModuleLoadDataEx(void** made, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(made, image);
}
Result cuModuleUnload(void* module) { return handles().has(module) ? kSuccess : kInvalidHandle; }
Result cuModuleGetFunction(void** function, void* module, const char* name) {
  RAMET_FAKE_CHECK(ready());
  if (!handles().has(module)) return kInvalidHandle;
  Function* found = find_function(*static_cast<Module*>(module), name);
  if (!found) return kNotFound;
  *function = handles().add(found);
  return kSuccess;
}
Result cuFuncGetAttribute(int* value, int attribute, void* handle) {
  if (!handles().has(handle)) return kInvalidHandle;
  const auto* function = static_cast<const Function*>(handle);
  *value = 0;
  if (attribute == kFunctionThreads) *value = static_cast<int>(function->most_threads);
  if (attribute == kFunctionDynamicShared) *value = static_cast<int>(function->most_dynamic);
  if (attribute == kFunctionRegisters) *value = static_cast<int>(function->registers);
  if (attribute == kFunctionLocal) *value = static_cast<int>(function->local_bytes);
  if (attribute == kFunctionShared) *value = static_cast<int>(function->shared_bytes);
  return kSuccess;
}
Result cuFuncSetAttribute(void* handle, int attribute, int value) {
  RAMET_FAKE_CHECK(ready());
  if (!handles().has(handle)) return kInvalidHandle;
  if (attribute != kFunctionDynamicShared) return kSuccess;
  if (value < 0 || value > 227 << 10) return kInvalidValue;
  static_cast<Function*>(handle)->most_dynamic = static_cast<unsigned>(value);
  return kSuccess;
}
Result cuFuncSetCacheConfig(void*, int) { return ready(); }
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* handle, int threads, size_t) {
  if (!handles().has(handle) || threads < 1) return kInvalidValue;
  *blocks = 2048 / threads;
  return kSuccess;
}
Result cuLaunchKernel(void* handle, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned threads_y,
                      unsigned threads_z, unsigned dynamic_bytes, void* stream_handle, void** arguments, void** extra) {
  RAMET_FAKE_CHECK(ready());
  Stream* stream = stream_of(stream_handle);
  if (!stream || !handles().has(handle)) return kInvalidHandle;
  const auto* function = static_cast<const Function*>(handle);
  if (!function->run) return kNotSupported;  // code of a true card
  if (extra || !arguments || !arguments[0]) return kInvalidValue;
  if (x == 0 || y == 0 || z == 0 || x > 0x7fffffffu || y > 65535 || z > 65535) return kInvalidValue;
  if (threads == 0 || threads > 1024 || threads_y != 1 || threads_z != 1) return kInvalidValue;
  if (threads > function->most_threads) return kInvalidValue;
  if (dynamic_bytes > function->most_dynamic) return kInvalidValue;
  // On a multiple of 64 bytes, as the struct's members may want.
  const size_t room = (function->arguments_bytes + size_t{127}) / 64 * 64;
  const std::shared_ptr<void> copied(std::aligned_alloc(64, room), &std::free);
  std::memcpy(copied.get(), arguments[0], function->arguments_bytes);
  stream->give(on_card([=] {
    Fault fault;
    begin_watch(function->name.c_str(), block_number + 1);
    const std::string why = run_grid(function->run, copied.get(), {x, y, z, threads, dynamic_bytes}, &fault);
    if (fault != Fault::kNone)
      lose(fault == Fault::kAddress     ? kIllegalAddress
           : fault == Fault::kNeverEnds ? kLaunchTimeout
                                        : kLaunchFailed,
           "kernel " + function->name + ": " + why);
  }));
  return kSuccess;
}

// --- Names of results ---

Result cuGetErrorName(Result result, const char** text) {
  switch (result) {
#define RAMET_FAKE_NAME(number, name) \
  case number: *text = name; return kSuccess
    RAMET_FAKE_NAME(kSuccess, "CUDA_SUCCESS");
    RAMET_FAKE_NAME(kInvalidValue, "CUDA_ERROR_INVALID_VALUE");
    RAMET_FAKE_NAME(kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY");
    RAMET_FAKE_NAME(kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED");
    RAMET_FAKE_NAME(kNoDevice, "CUDA_ERROR_NO_DEVICE");
    RAMET_FAKE_NAME(kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE");
    RAMET_FAKE_NAME(kInvalidImage, "CUDA_ERROR_INVALID_IMAGE");
    RAMET_FAKE_NAME(kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT");
    RAMET_FAKE_NAME(kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU");
    RAMET_FAKE_NAME(kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE");
    RAMET_FAKE_NAME(kNotFound, "CUDA_ERROR_NOT_FOUND");
    RAMET_FAKE_NAME(kNotReady, "CUDA_ERROR_NOT_READY");
    RAMET_FAKE_NAME(kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS");
    RAMET_FAKE_NAME(kLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
    RAMET_FAKE_NAME(kLaunchTimeout, "CUDA_ERROR_LAUNCH_TIMEOUT");
    RAMET_FAKE_NAME(kHostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED");
    RAMET_FAKE_NAME(kHostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED");
    RAMET_FAKE_NAME(kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED");
    RAMET_FAKE_NAME(kNotPermitted, "CUDA_ERROR_NOT_PERMITTED");
    RAMET_FAKE_NAME(kNotSupported, "CUDA_ERROR_NOT_SUPPORTED");
    RAMET_FAKE_NAME(kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
    RAMET_FAKE_NAME(kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
#undef RAMET_FAKE_NAME
  }
  *text = nullptr;
  return kInvalidValue;
}
Result cuGetErrorString(Result result, const char** text) {
  switch (result) {
    case kSuccess: *text = "no error"; break;
    case kOutOfMemory: *text = "out of memory"; break;
    case kNoDevice: *text = "no CUDA-capable device is detected"; break;
    case kNoBinaryForGpu: *text = "no kernel image is available for execution on the device"; break;
    case kIllegalAddress: *text = "an illegal memory access was encountered"; break;
    case kLaunchTimeout: *text = "the launch timed out and was terminated"; break;
    case kLaunchFailed: *text = "unspecified launch failure"; break;
    default: return cuGetErrorName(result, text);
  }
  return kSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
