#include <gtest/gtest.h>

#include <cstring>

#include "cuda/card_kernels.h"
#include "ramet/device/cuda/trial.h"

namespace ramet::tests {
namespace {

TEST(CudaTrial, LaunchesOnMemoryOfItsOwn) {
  const CudaFunction function =
      load_cuda_function(test_source("if (first_index() < a.n) a.data[first_index()] += 1;"), "test");
  device::CudaTrial trial;
  const std::vector<int> numbers = {3, 5, 7};
  void* const data = trial.put(std::as_bytes(std::span(numbers)));
  trial.launch(function, {}, TestArguments{data, 2});
  const std::vector<std::byte> bytes = trial.get(data, 12);
  std::vector<int> found(3);
  std::memcpy(found.data(), bytes.data(), bytes.size());
  EXPECT_EQ(found, (std::vector<int>{4, 6, 7}));
}

}  // namespace
}  // namespace ramet::tests
