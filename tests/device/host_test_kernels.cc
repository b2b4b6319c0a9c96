#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "device/test_kernels.h"
#include "ramet/base/error.h"

namespace ramet::tests {
namespace {

class HostTestKernel final : public Kernel {
 public:
  using Body = std::function<void(const KernelContext&)>;
  explicit HostTestKernel(Body body) : body_(std::move(body)) {}
  void run(const KernelContext& context) const override { body_(context); }

 private:
  Body body_;
};

std::unique_ptr<Kernel> kernel(HostTestKernel::Body body) { return std::make_unique<HostTestKernel>(std::move(body)); }
void sleep_for(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }
const float* in(const KernelContext& context, size_t i) { return static_cast<const float*>(context.inputs[i]); }
float* out(const KernelContext& context, size_t i) { return static_cast<float*>(context.outputs[i]); }

class HostTestKernels final : public TestKernels {
 public:
  std::unique_ptr<Kernel> twice_plus_one() const override {
    return kernel([](const KernelContext& context) {
      context.team.split(kCount, 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) out(context, 0)[i] = in(context, 0)[i] * 2 + 1;
      });
    });
  }
  std::unique_ptr<Kernel> slow() const override {
    return kernel([](const KernelContext&) { sleep_for(20); });
  }
  std::unique_ptr<Kernel> slow_add() const override {
    return kernel([](const KernelContext& context) {
      sleep_for(20);
      for (int64_t i = 0; i < kCount; ++i) out(context, 0)[i] += 1;
    });
  }
  std::unique_ptr<Kernel> bad() const override {
    return kernel([](const KernelContext&) { throw Error({.what = "an index is out of range", .where = "gather"}); });
  }
  std::unique_ptr<Kernel> add_by_scratch() const override {
    return kernel([](const KernelContext& context) {
      if (context.inputs.size() != 2 || context.outputs.size() != 2 || context.team.size() != 2)
        internal_error("add_by_scratch", "other operands than were given");
      auto* room = static_cast<float*>(context.scratch);
      for (int i = 0; i < 10; ++i) room[i] = in(context, 0)[i] + in(context, 1)[i];
      for (int i = 0; i < 10; ++i) out(context, 0)[i] = room[i];
      out(context, 1)[0] = room[9];
    });
  }
  std::unique_ptr<Kernel> meet() const override {
    return kernel([](const KernelContext& context) {
      std::atomic_ref came(static_cast<int*>(context.outputs[0])[0]);
      ++came;
      for (int i = 0; i < 20'000 && came < 2; ++i) sleep_for(1);
    });
  }
  bool drops_work() const override { return true; }
};

}  // namespace

std::unique_ptr<TestKernels> host_test_kernels() { return std::make_unique<HostTestKernels>(); }

}  // namespace ramet::tests
