#include "device/test_kernels.h"
#include "ramet/base/error.h"
#include "support/test_card.h"

#ifdef RAMET_CUDA
#include <functional>

#include "ramet/device/cuda/cuda_kernel.h"
#endif

namespace ramet::tests {

#ifndef RAMET_CUDA

std::unique_ptr<TestKernels> cuda_test_kernels() { internal_error("cuda_test_kernels", "a build without the device"); }

#else

namespace {

struct Arguments {
  const float *in0, *in1;
  float *out0, *out1, *scratch;
  void* faults;
  long long count;
  unsigned number;
};

constexpr const char* kText = R"cuda(
#include "kernel.cuh"
#ifdef RAMET_FAKE_CUDA
#include <time.h>
#endif
namespace ramet_device {
struct Arguments {
  const float *in0, *in1;
  float *out0, *out1, *scratch;
  Fault* faults;
  long long count;
  unsigned number;
};
__device__ inline unsigned long long nanoseconds() {
#ifdef RAMET_FAKE_CUDA
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ull + now.tv_nsec;
#else
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#endif
}
__device__ inline void spend(unsigned long long milliseconds) {
  const unsigned long long begin = nanoseconds();
  while (nanoseconds() - begin < milliseconds * 1000000ull) {
  }
}
RAMET_KERNEL(256, twice_plus_one, Arguments, a) {
  for (Index i = first_index(); i < a.count; i += index_step()) a.out0[i] = a.in0[i] * 2 + 1;
}
RAMET_KERNEL(256, slow, Arguments, a) { spend(20 + a.count * 0); }
RAMET_KERNEL(256, slow_add, Arguments, a) {
  spend(20);
  for (Index i = first_index(); i < a.count; i += index_step()) a.out0[i] = a.out0[i] + 1;
}
RAMET_KERNEL(256, bad, Arguments, a) {
  if (threadIdx.x == 0) report_fault(a.faults, a.number, 1, 12, 10);
}
RAMET_KERNEL(256, add_by_scratch, Arguments, a) {
  for (Index i = first_index(); i < 10; i += index_step()) {
    a.scratch[i] = a.in0[i] + a.in1[i];
    a.out0[i] = a.scratch[i];
    if (i == 9) a.out1[0] = a.scratch[i];
  }
}
RAMET_KERNEL(256, meet, Arguments, a) {
  int* came = reinterpret_cast<int*>(a.out0);
  atomicAdd(came, 1);
  for (int i = 0; i < 20000 && atomicAdd(came, 0) < 2; ++i) spend(1);
}
}  // namespace ramet_device
)cuda";

class CudaTestKernel final : public CudaKernel {
 public:
  CudaTestKernel(const char* name, int threads)
      : function_(load_cuda_function({"conformance_test.cu", kText}, name)), threads_(threads), bad_(*name == 'b') {}
  void launch(CudaStream& stream, const KernelOperands& operands) const override {
    const auto in = [&](size_t i) {
      return static_cast<const float*>(i < operands.inputs.size() ? operands.inputs[i] : nullptr);
    };
    const auto out = [&](size_t i) {
      return static_cast<float*>(i < operands.outputs.size() ? operands.outputs[i] : nullptr);
    };
    Arguments arguments{in(0), in(1), out(0), out(1), static_cast<float*>(operands.scratch), nullptr, kCount, 0};
    if (bad_) arguments.faults = stream.faults(), arguments.number = stream.number_of(*this);
    stream.launch(function_, {.x = threads_ == 1 ? 1 : 4, .threads = threads_}, arguments);
  }
  Error error_of(const CudaFault& fault) const override {
    if (fault.kind != 1 || fault.found != 12 || fault.limit != 10) return CudaKernel::error_of(fault);
    return Error({.what = "an index is out of range", .where = "gather"});
  }

 private:
  CudaFunction function_;
  int threads_;
  bool bad_;
};

class CudaTestKernels final : public TestKernels {
 public:
  std::unique_ptr<Kernel> twice_plus_one() const override { return kernel("twice_plus_one", 256); }
  std::unique_ptr<Kernel> slow() const override { return kernel("slow", 1); }
  std::unique_ptr<Kernel> slow_add() const override { return kernel("slow_add", 1); }
  std::unique_ptr<Kernel> bad() const override { return kernel("bad", 32); }
  std::unique_ptr<Kernel> add_by_scratch() const override { return kernel("add_by_scratch", 32); }
  std::unique_ptr<Kernel> meet() const override { return has_real_card() ? kernel("meet", 1) : nullptr; }
  bool drops_work() const override { return false; }

 private:
  static std::unique_ptr<Kernel> kernel(const char* name, int threads) {
    return std::make_unique<CudaTestKernel>(name, threads);
  }
};

}  // namespace

std::unique_ptr<TestKernels> cuda_test_kernels() { return std::make_unique<CudaTestKernels>(); }

#endif

}  // namespace ramet::tests
