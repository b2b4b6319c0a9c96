#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/card_tools.h"
#include "ramet/device/cuda/cuda_kernel.h"
#include "ramet/kernel/cuda/families.h"

// Device code of a test's own, for tests of the fake card and of the device.

namespace ramet::tests {

/// `body` of a kernel `test` of up to 256 threads that takes {int* data; long long n;} `a`.
inline CudaSource test_source(const std::string& body, const std::string& before = "") {
  return {"test.cu", "#include \"kernel.cuh\"\nusing namespace ramet_device;\nstruct A { int* data; long long n; };\n" +
                         before + "\nRAMET_KERNEL(256, test, A, a) {\n" + body + "\n}\n"};
}

struct TestArguments {
  void* data;
  long long n;
};

/// Launches `test` of `source` on `data`, which is copied to the card and back.
inline std::vector<int> run_test_kernel(const CudaSource& source, std::vector<int> data, const CudaGrid& grid) {
  const CudaFunction function = load_cuda_function(source, "test", grid.dynamic_shared_bytes);
  const kernel::cuda::StreamKernel kernel([&](CudaStream& stream, const KernelOperands& operands) {
    stream.launch(function, grid, TestArguments{operands.outputs[0], static_cast<long long>(data.size())});
  });
  Device& device = card_device();
  const auto bytes = static_cast<int64_t>(data.size() * sizeof(int));
  const DeviceMemory memory = device.take(bytes, Memory::kDevice, "a test");
  const auto queue = device.make_queue();
  queue->copy_in(memory.data(), data.data(), bytes);
  void* outputs[] = {memory.data()};
  queue->launch(kernel, {{}, outputs, nullptr});
  queue->copy_out(data.data(), memory.data(), bytes);
  return data;
}

}  // namespace ramet::tests
