#include "ramet/measure/call_clock.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/kernel/devices.h"

namespace ramet::measure {
namespace {

constexpr size_t kSlack = size_t{1} << 21;

}  // namespace

void fill_for_measurement(std::byte* data, const TensorType& type) {
  if (!is_floating(type.dtype)) return;  // fresh memory is zero
  const int64_t count = type.elements(), block = std::min<int64_t>(count, 4096);
  uint64_t bits = 1;  // any generator: a processor may run faster on numbers that are all alike
  for (int64_t i = 0; i < block; ++i) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    const double size = 0.005 + 0.015 * static_cast<double>(bits >> 40) / (1 << 24);
    store_element(data, type.dtype, i, bits >> 39 & 1 ? size : -size);
  }
  const auto size = static_cast<int64_t>(size_of(type.dtype));
  for (int64_t i = block; i < count; i += block)
    std::memcpy(data + i * size, data, static_cast<size_t>(std::min(block, count - i) * size));
}

Scratchpad::Scratchpad(int64_t bytes) : bytes_(static_cast<size_t>(bytes) + kSlack) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error({.what = "no memory for a measurement", .found = format_size(bytes)}, ErrorKind::kFailure);
  memory_ = static_cast<std::byte*>(memory);
  madvise(memory_, bytes_, MADV_HUGEPAGE);
  std::memset(memory_, 0,
              bytes_);  // memory that was never written maps to one page of zeros, which stays in the caches
}

Scratchpad::~Scratchpad() { munmap(memory_, bytes_); }

std::byte* Scratchpad::take(int64_t bytes) {
  std::byte* place = memory_ + used_;
  used_ += (static_cast<size_t>(bytes) + 63) / 64 * 64;
  return place;
}

Evictor::Evictor(ThreadTeam& team) : team_(team), pad_(kBytes), data_(pad_.take(kBytes)) {}

void Evictor::run() {
  ++turn_;
  team_.split(kBytes, 1 << 16, [&](int64_t begin, int64_t end, int) {
    std::memset(data_ + begin, turn_ & 1, static_cast<size_t>(end - begin));
  });
}

Timing timing_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const size_t count = seconds.size();
  const double median = seconds[count / 2];
  return {median, median > 0 ? (seconds[count * 3 / 4] - seconds[count / 4]) / 2 / median : 0};
}

int64_t operand_bytes(const Call& call) {
  int64_t bytes = call.scratch_bytes + 64;
  for (const TensorType& type : call.node.inputs) bytes += type.bytes() + 64;
  for (const TensorType& type : call.node.outputs) bytes += type.bytes() + 64;
  return bytes;
}

namespace {

using Prepare = std::function<void(std::span<std::byte* const>)>;

/// Inputs of a call in host memory.
std::vector<std::byte*> fill_inputs(const Call& call, Scratchpad& pad, const Prepare& prepare) {
  std::vector<std::byte*> inputs;
  for (const TensorType& type : call.node.inputs) {
    inputs.push_back(pad.take(type.bytes()));
    fill_for_measurement(inputs.back(), type);
  }
  if (prepare) prepare(inputs);
  return inputs;
}

/// A call with operands of its own, ready to run.
class Trial {
 public:
  virtual ~Trial() = default;
  /// Seconds that it took.
  virtual double run() = 0;
};

/// In the host's memory, by a team of the caller's.
class HostTrial final : public Trial {
 public:
  HostTrial(const Call& call, const Backend& backend, ThreadTeam& team, const Prepare& prepare)
      : team_(team), pad_(operand_bytes(call)) {
    for (std::byte* input : fill_inputs(call, pad_, prepare)) inputs_.push_back(input);
    for (const TensorType& type : call.node.outputs) outputs_.push_back(pad_.take(type.bytes()));
    scratch_ = pad_.take(call.scratch_bytes);
    kernel_ = backend.make(call.node, team.size(), call.kernel);
  }
  double run() override {
    const auto start = Clock::now();
    kernel_->run({inputs_, outputs_, scratch_, team_});
    return seconds_since(start);
  }

 private:
  ThreadTeam& team_;
  Scratchpad pad_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  void* scratch_ = nullptr;
  std::unique_ptr<Kernel> kernel_;
};

/// In a device's own memory, by a queue of it.
class DeviceTrial final : public Trial {
 public:
  DeviceTrial(const Call& call, const Backend& backend, int threads, const Prepare& prepare)
      : device_(find_device().make(threads)),
        memory_(device_->take(operand_bytes(call), Memory::kDevice, "a measurement")),
        kernel_(backend.make(call.node, threads, call.kernel)),
        queue_(device_->make_queue()) {
    Scratchpad pad(operand_bytes(call));
    const std::vector<std::byte*> filled = fill_inputs(call, pad, prepare);
    for (size_t i = 0; i < filled.size(); ++i) {
      std::byte* input = take(call.node.inputs[i].bytes());
      queue_->copy_in(input, filled[i], call.node.inputs[i].bytes());
      inputs_.push_back(input);
    }
    for (const TensorType& type : call.node.outputs) outputs_.push_back(take(type.bytes()));
    scratch_ = take(call.scratch_bytes);
    queue_->wait();
  }
  double run() override {
    double before = 0, after = 0;
    queue_->stamp(&before);
    queue_->launch(*kernel_, {inputs_, outputs_, scratch_});
    queue_->stamp(&after);
    queue_->wait();
    return after - before;
  }

 private:
  std::byte* take(int64_t bytes) {
    std::byte* place = memory_.data() + used_;
    used_ += (bytes + 63) / 64 * 64;
    return place;
  }

  std::unique_ptr<Device> device_;
  DeviceMemory memory_;
  int64_t used_ = 0;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  void* scratch_ = nullptr;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Queue> queue_;  // goes before what it works on
};

std::unique_ptr<Trial> make_trial(const Call& call, const Backend& backend, ThreadTeam& team, const Prepare& prepare) {
  if (find_device().has_own_memory()) return std::make_unique<DeviceTrial>(call, backend, team.size(), prepare);
  return std::make_unique<HostTrial>(call, backend, team, prepare);
}

}  // namespace

Neighbours::Neighbours(const Call& call, const Backend& backend, int threads, int count) {
  for (int i = 0; i < count; ++i)
    threads_.emplace_back([this, &call, &backend, threads] {
      try {
        ThreadTeam team(threads);
        const auto trial = make_trial(call, backend, team, {});
        while (!stop_.load(std::memory_order_relaxed)) trial->run();
      } catch (const std::exception&) {  // the measurement is then without this one
      }
    });
}

Neighbours::~Neighbours() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
}

Timing time_call(const Call& call, const Backend& backend, ThreadTeam& team, int most_runs, double most_seconds,
                 Evictor* evictor, const std::function<void(std::span<std::byte* const>)>& prepare) {
  const auto trial = make_trial(call, backend, team, prepare);
  trial->run();  // touches the memory
  std::vector<double> seconds;
  double total = 0;
  for (int run = 0; run < most_runs && (run == 0 || total < most_seconds); ++run) {
    if (evictor) evictor->run();
    seconds.push_back(trial->run());
    total += seconds.back();
  }
  return timing_of(std::move(seconds));
}

Call make_call(const Backend& backend, int threads, const std::string& op, std::vector<TensorType> inputs,
               Attributes attributes) {
  Call call;
  call.node = {&OpRegistry::instance().get(op), std::move(inputs), {}, std::move(attributes), "probe"};
  call.node.outputs = call.node.op->infer(call.node);
  const KernelChoice choice = backend.choose(call.node, threads);
  call.kernel = choice.name;
  call.scratch_bytes = choice.scratch_bytes;
  if (call.node.op->cost) call.cost = call.node.op->cost(call.node);
  return call;
}

}  // namespace ramet::measure
