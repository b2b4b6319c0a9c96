#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/device/device.h"

// Kernels of an NVIDIA GPU, as the device `cuda` runs them. Device code is CUDA C++ that is compiled when a kernel is
// made (NVRTC, with a cache on disk), never when Ramet is built.

namespace ramet::device {

/// Device code and the definitions that it is compiled with.
struct CudaSource {
  std::string name;  ///< for messages, and its folder's files include each other by name: "rows.cu"
  std::string text;
  std::vector<std::string> definitions{};  ///< "kWidth=1024"
};

/// A kernel function on the card, loaded; it stays loaded until the process ends. Plain data.
struct CudaFunction {
  void* handle = nullptr;
};

/// Compiles `source`, or takes what was compiled before, loads it on the card and finds function `name` in it.
/// `dynamic_shared_bytes` is the most that a launch will ask for. Throws Error (kFailure) where there is no driver, no
/// card or no compiler, and an internal error with the compiler's text where the code is wrong.
CudaFunction load_cuda_function(const CudaSource& source, const std::string& name, int64_t dynamic_shared_bytes = 0);

/// Blocks of a launch, by dimension, and the threads of each.
struct CudaGrid {
  int64_t x = 1, y = 1, z = 1;
  int threads = 256;
  int64_t dynamic_shared_bytes = 0;
};

/// What a kernel found wrong with the values of its operands, in device memory: an index out of range. The first kernel
/// that finds something writes it (kernel/cuda/device/kernel.cuh, report_fault).
struct CudaFault {
  unsigned kernel = 0;  ///< its number on this stream; 0: nothing is wrong
  unsigned kind = 0;    ///< what it means is the kernel's own
  long long found = 0;
  long long limit = 0;
};

class CudaKernel;

/// The stream of a queue of the device `cuda`, as kernels use it: each call is more work behind what was given before.
class CudaStream {
 public:
  virtual ~CudaStream() = default;
  /// Launches a function that takes one struct; the struct is copied at the call.
  template <typename Arguments>
  void launch(const CudaFunction& function, const CudaGrid& grid, const Arguments& arguments) {
    static_assert(std::is_trivially_copyable_v<Arguments> && sizeof(Arguments) <= 4000);
    launch_bytes(function, grid, &arguments, sizeof(Arguments));
  }
  virtual void fill(void* to, uint8_t value, int64_t bytes) = 0;
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  /// Waits for the stream; then `to` (`from`) is host memory. Only for kernels that run on the host.
  virtual void copy_out_now(void* to, const void* from, int64_t bytes) = 0;
  virtual void copy_in_now(void* to, const void* from, int64_t bytes) = 0;
  /// The host's threads, for kernels that run there, and pinned memory that such a kernel has until it returns.
  virtual ThreadTeam& team() = 0;
  virtual std::byte* host_room(int64_t bytes) = 0;
  /// Where kernels report faults, and the number under which `kernel` does.
  virtual CudaFault* faults() = 0;
  virtual unsigned number_of(const CudaKernel& kernel) = 0;

 protected:
  virtual void launch_bytes(const CudaFunction& function, const CudaGrid& grid, const void* arguments,
                            size_t bytes) = 0;
};

/// A kernel that the backend of the device `cuda` makes: one launch or several on a stream.
class CudaKernel : public Kernel {
 public:
  void run(const KernelContext& context) const final;  ///< an internal error: such kernels need a stream
  virtual void launch(CudaStream& stream, const KernelOperands& operands) const = 0;
  /// How many bytes of each operand and of scratch the kernel reads or writes at most; those that it does not know are
  /// missing, and then a recorded program keeps it between all work before and behind it.
  struct OperandBytes {
    std::vector<int64_t> inputs, outputs;
    int64_t scratch = 0;
  };
  void set_operand_bytes(OperandBytes bytes) { operand_bytes_ = std::move(bytes); }
  const OperandBytes& operand_bytes() const { return operand_bytes_; }
  /// What to throw for a fault that this kernel reported.
  virtual Error error_of(const CudaFault& fault) const;

 private:
  OperandBytes operand_bytes_;
};

}  // namespace ramet::device
