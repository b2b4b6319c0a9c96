#pragma once

#include <span>
#include <vector>

#include "ramet/device/cuda/cuda_kernel.h"
#include "ramet/device/cuda/driver.h"

namespace ramet::device {

/// A stream on which kernels are tried before a program uses them, with memory of its own, apart from all devices. It
/// only launches; the host waits for each result.
class CudaTrial final : public CudaStream {
 public:
  CudaTrial();
  ~CudaTrial() override;
  CudaTrial(const CudaTrial&) = delete;
  CudaTrial& operator=(const CudaTrial&) = delete;

  /// Memory of the card with these bytes, until this is gone.
  void* put(std::span<const std::byte> bytes);
  std::vector<std::byte> get(const void* from, int64_t bytes);

  void fill(void* to, uint8_t value, int64_t bytes) override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void copy_out_now(void* to, const void* from, int64_t bytes) override;
  void copy_in_now(void* to, const void* from, int64_t bytes) override;
  ThreadTeam& team() override;
  std::byte* host_room(int64_t bytes) override;
  CudaFault* faults() override;
  unsigned number_of(const CudaKernel& kernel) override;

 protected:
  void launch_bytes(const CudaFunction& function, const CudaGrid& grid, const void* arguments, size_t bytes) override;

 private:
  CuStream stream_ = nullptr;
  std::vector<CuAddress> taken_;
};

}  // namespace ramet::device
