#pragma once

#include <memory>

#include "ramet/device/device.h"

namespace ramet::tests {

constexpr int64_t kCount = 1000;

/// The kernels that tests of devices launch, as one kind of device runs them.
class TestKernels {
 public:
  virtual ~TestKernels() = default;
  /// out[i] = in[i] * 2 + 1, kCount floats
  virtual std::unique_ptr<Kernel> twice_plus_one() const = 0;
  /// Takes 20 ms.
  virtual std::unique_ptr<Kernel> slow() const = 0;
  /// Takes 20 ms, then out[i] = out[i] + 1, kCount floats
  virtual std::unique_ptr<Kernel> slow_add() const = 0;
  /// Fails: "gather: an index is out of range".
  virtual std::unique_ptr<Kernel> bad() const = 0;
  /// out[0][i] = in[0][i] + in[1][i], 10 floats by way of scratch; out[1][0] = out[0][9]
  virtual std::unique_ptr<Kernel> add_by_scratch() const = 0;
  /// Waits at most 20 s for a second one that runs at the same time; out[0] is an int that counts them. Null where the
  /// device does one launch at a time.
  virtual std::unique_ptr<Kernel> meet() const = 0;
  /// Whether the work behind a kernel that fails is never done.
  virtual bool drops_work() const = 0;
};

std::unique_ptr<TestKernels> host_test_kernels();
std::unique_ptr<TestKernels> cuda_test_kernels();

}  // namespace ramet::tests
