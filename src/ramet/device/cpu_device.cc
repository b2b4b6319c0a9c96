#include "ramet/device/cpu_device.h"

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "ramet/base/error.h"
#include "ramet/device/host_memory.h"
#include "ramet/device/host_work.h"

namespace ramet::device {
namespace {

class CpuProgram final : public CapturedProgram {
 public:
  std::vector<std::function<void()>> work;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads) : team_(threads) {}

  std::string_view name() const override { return "cpu"; }
  bool addressable() const override { return true; }
  int threads() const override { return team_.size(); }
  std::unique_ptr<Queue> make_queue() override;

  ThreadTeam& team() { return team_; }
  using Device::check_range;
  using Device::is_pinned;

 protected:
  std::byte* allocate(int64_t bytes, Memory, const char* what) override {
    HostMemory memory(bytes, team_, what);
    std::byte* data = memory.data();
    memories_.emplace(data, std::move(memory));
    return data;
  }
  void release(std::byte* data, Memory) noexcept override { memories_.erase(data); }

 private:
  ThreadTeam team_;
  std::map<std::byte*, HostMemory> memories_;
};

class CpuQueue final : public Queue {
 public:
  explicit CpuQueue(CpuDevice& device) : device_(device), team_(device.team()) {}

  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    device_.check_range(to, bytes, "copy_in");
    if (program_) check_pinned(from, bytes);
    work([this, to, from, bytes] { copy_bytes(team_, to, from, bytes); });
  }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    device_.check_range(from, bytes, "copy_out");
    if (program_) check_pinned(to, bytes);
    work([this, to, from, bytes] { copy_bytes(team_, to, from, bytes); });
  }
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    device_.check_range(to, bytes, "copy");
    device_.check_range(from, bytes, "copy");
    work([this, to, from, bytes] { copy_bytes(team_, to, from, bytes); });
  }
  void copy_from(std::byte* to, Device& other, const std::byte* from, int64_t bytes) override {
    refuse_in_capture("copy_from");
    device_.check_range(to, bytes, "copy_from");
    if (other.addressable()) return copy_bytes(team_, to, from, bytes);
    other.make_queue()->copy_out(to, from, bytes);
  }
  void fill(std::byte* to, uint8_t value, int64_t bytes) override {
    device_.check_range(to, bytes, "fill");
    work([this, to, value, bytes] { fill_bytes(team_, to, value, bytes); });
  }
  void transpose(std::byte* to, const std::byte* from, int64_t rows, int64_t columns, int64_t bytes) override {
    device_.check_range(to, rows * columns * bytes, "transpose");
    device_.check_range(from, rows * columns * bytes, "transpose");
    work([this, to, from, rows, columns, bytes] { transpose_runs(team_, to, from, rows, columns, bytes); });
  }
  void add(std::byte* to, const std::byte* from, DType dtype, int64_t count) override {
    check_sum_type(dtype);
    device_.check_range(to, count * static_cast<int64_t>(size_of(dtype)), "add");
    device_.check_range(from, count * static_cast<int64_t>(size_of(dtype)), "add");
    work([this, to, from, dtype, count] { add_elements(team_, to, from, dtype, count); });
  }
  void launch(const Kernel& kernel, const KernelOperands& operands) override {
    if (!program_) return kernel.run({operands.inputs, operands.outputs, operands.scratch, team_});
    program_->work.push_back([this, &kernel,
                              inputs = std::vector<const void*>(operands.inputs.begin(), operands.inputs.end()),
                              outputs = std::vector<void*>(operands.outputs.begin(), operands.outputs.end()),
                              scratch = operands.scratch] { kernel.run({inputs, outputs, scratch, team_}); });
  }
  void stamp(double* seconds) override {
    refuse_in_capture("stamp");
    *seconds = host_seconds();
  }

  Event record() override {
    refuse_in_capture("record");
    return {this, 0};
  }
  void wait_for(const Event&) override { refuse_in_capture("wait_for"); }
  bool done(const Event&) override { return true; }
  void wait(const Event&) override { refuse_in_capture("wait"); }

  void begin_capture() override {
    refuse_in_capture("begin_capture");
    program_ = std::make_unique<CpuProgram>();
  }
  std::unique_ptr<CapturedProgram> end_capture() override {
    if (!program_) internal_error("Queue::end_capture", "nothing is being recorded");
    return std::move(program_);
  }
  void replay(const CapturedProgram& program) override {
    refuse_in_capture("replay");
    for (const auto& each : static_cast<const CpuProgram&>(program).work) each();
  }

 private:
  template <typename Work>
  void work(Work&& body) {
    if (program_)
      program_->work.emplace_back(std::forward<Work>(body));
    else
      body();
  }
  void refuse_in_capture(const char* method) const {
    if (program_)
      throw Error({.what = "this cannot be recorded", .where = std::string("cpu device, ") + method},
                  ErrorKind::kFailure);
  }
  void check_pinned(const void* data, int64_t bytes) const {
    if (!device_.is_pinned(data, bytes))
      throw Error({.what = "a copy that is recorded needs pinned memory on the host's side", .where = "cpu device"},
                  ErrorKind::kFailure);
  }

  CpuDevice& device_;
  ThreadTeam& team_;
  std::unique_ptr<CpuProgram> program_;  // while recording
};

std::unique_ptr<Queue> CpuDevice::make_queue() { return std::make_unique<CpuQueue>(*this); }

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) { return std::make_unique<CpuDevice>(threads); }

}  // namespace ramet::device
