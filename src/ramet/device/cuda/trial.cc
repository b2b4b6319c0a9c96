#include "ramet/device/cuda/trial.h"

#include <algorithm>

#include "ramet/device/cuda/code.h"

namespace ramet::device {
namespace {

[[noreturn]] void only_launches(const char* what) {
  internal_error("CudaTrial", std::string("a kernel on trial asked for ") + what);
}

}  // namespace

CudaTrial::CudaTrial() {
  cuda_card().make_current();
  cuda_driver().stream_create(&stream_, kCuStreamNonBlocking);
}

CudaTrial::~CudaTrial() {
  cuda_driver().stream_synchronize.attempt(stream_);
  for (const CuAddress address : taken_) cuda_driver().mem_free.attempt(address);
  cuda_driver().stream_destroy.attempt(stream_);
}

void* CudaTrial::put(std::span<const std::byte> bytes) {
  CuAddress address = 0;
  cuda_driver().mem_alloc(&address, std::max<size_t>(bytes.size(), 1));
  taken_.push_back(address);
  auto* const data = reinterpret_cast<void*>(address);
  copy_in_now(data, bytes.data(), static_cast<int64_t>(bytes.size()));
  return data;
}

std::vector<std::byte> CudaTrial::get(const void* from, int64_t bytes) {
  std::vector<std::byte> data(static_cast<size_t>(bytes));
  copy_out_now(data.data(), from, bytes);
  return data;
}

void CudaTrial::fill(void* to, uint8_t value, int64_t bytes) {
  cuda_driver().memset_d8_async(address_of(to), value, static_cast<size_t>(bytes), stream_);
}
void CudaTrial::copy(void* to, const void* from, int64_t bytes) {
  cuda_driver().memcpy_dtod_async(address_of(to), address_of(from), static_cast<size_t>(bytes), stream_);
}
void CudaTrial::copy_out_now(void* to, const void* from, int64_t bytes) {
  cuda_driver().memcpy_dtoh_async(to, address_of(from), static_cast<size_t>(bytes), stream_);
  cuda_driver().stream_synchronize(stream_);
}
void CudaTrial::copy_in_now(void* to, const void* from, int64_t bytes) {
  cuda_driver().memcpy_htod_async(address_of(to), from, static_cast<size_t>(bytes), stream_);
  cuda_driver().stream_synchronize(stream_);
}

void CudaTrial::launch_bytes(const CudaFunction& function, const CudaGrid& grid, const void* arguments, size_t) {
  launch_on(stream_, function, grid, arguments);
}

ThreadTeam& CudaTrial::team() { only_launches("threads"); }
std::byte* CudaTrial::host_room(int64_t) { only_launches("memory of the host"); }
CudaFault* CudaTrial::faults() { only_launches("a place for faults"); }
unsigned CudaTrial::number_of(const CudaKernel&) { only_launches("a number"); }

}  // namespace ramet::device
