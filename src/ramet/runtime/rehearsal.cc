#include "ramet/runtime/rehearsal.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "ramet/base/error.h"
#include "ramet/runtime/arena.h"
#include "ramet/runtime/localize.h"
#include "ramet/runtime/process.h"
#include "ramet/runtime/task_clock.h"
#include "ramet/runtime/transport_memory.h"

namespace ramet {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Ones among integers: indices and labels that are nearly always valid, and tokens that no mask hides. Floats are
/// positive, as rates and corrections are.
void fill_feed(std::byte* data, const TensorType& type) {
  constexpr double kRate = 0.001;
  for (int64_t i = 0; i < type.elements(); ++i) store_element(data, type.dtype, i, is_floating(type.dtype) ? kRate : 1);
}

/// A device that does a step's work and meets nobody.
class RehearsedDevice {
 public:
  RehearsedDevice(const Executable& exe, const Backend& backend, bool between_processes)
      : exe_(exe), team_(exe.threads), round_(distinct_runs(exe.train)) {
    if (between_processes) {
      memory_ = shared_.allocate(static_cast<size_t>(std::max<int64_t>(exe.arena_bytes, 1)));
    } else {
      arena_.emplace(exe.arena_bytes, team_);
      memory_ = arena_->data();
    }
    const int32_t devices = exe.mesh.devices();
    int32_t device = 0;  // any of the stage
    while (device + 1 < devices && exe.mesh.position(device).stage != exe.stage) ++device;
    for (const Task& task : exe.tasks)
      kernels_.push_back(task.node.op->exchange != Exchange::kNone
                             ? nullptr
                             : backend.make(localize(task.node, exe.mesh.position(device)), exe.threads, task.kernel));
    for (const StatePlace& state : exe.states) {
      if (state.tensor.kind != StateKind::kWeight && state.tensor.kind != StateKind::kDerived) continue;
      for (const BufferId slot : state.slots) fill_for_measurement(at(slot), state.tensor.type);
    }
    times_.resize(exe.segments.size());
    stretches_.resize(exe.segments.size());
    // Of what a pipeline stashes the oldest comes back, which has left the caches.
    for (ProgramStep& step : round_)
      if (const PieceKind kind = exe.segments[static_cast<size_t>(step.subject)].kind;
          step.micro >= 0 && (kind == PieceKind::kBackward || kind == PieceKind::kWeightGradient))
        ++step.micro;
    for (const ProgramStep& step : round_)
      times_[static_cast<size_t>(step.subject)].resize(
          exe.segments[static_cast<size_t>(step.subject)].instructions.size());
  }

  /// Every segment once, for the next of its micro-batches; not to its end when `stop` comes.
  void run_round(const std::atomic<bool>& stop) {
    double total = 0;
    for (ProgramStep& step : round_) {
      if (step.micro >= 0) step.micro = static_cast<int32_t>((step.micro + 1) % exe_.micro_batches());
      const Segment& segment = exe_.segments[static_cast<size_t>(step.subject)];
      for (const auto* bindings : {&segment.feeds, &segment.scalars})
        for (const Binding& binding : *bindings) fill_feed(at(binding.buffer, step.micro), binding.type);
      auto& times = times_[static_cast<size_t>(step.subject)];
      std::vector<double> stretch;  // between exchanges
      for (size_t i = 0; i < segment.instructions.size() && !stop.load(std::memory_order_relaxed); ++i) {
        const double seconds = run(segment.instructions[i], step);
        times[i].push_back(seconds);
        total += seconds;
        if (stretch.empty() || exchanges(segment.instructions[i])) stretch.push_back(0);
        stretch.back() += seconds;
      }
      auto& stretches = stretches_[static_cast<size_t>(step.subject)];
      stretches.resize(std::max(stretches.size(), stretch.size()));
      for (size_t i = 0; i < stretch.size(); ++i) stretches[i].push_back(stretch[i]);
    }
    totals_.push_back(total);
  }

  /// What the first round took is forgotten: it touched memory, and made what kernels make once.
  void forget() {
    for (auto& segment : times_)
      for (auto& rounds : segment) rounds.clear();
    for (auto& segment : stretches_) segment.clear();
    totals_.clear();
  }

  /// Calls visit(task, seconds, how often) for every timed place of the program, with the mean of ordinary rounds.
  template <typename Visit>
  void each_time(const Visit& visit) const {
    std::vector<double> runs(exe_.segments.size(), 0);
    for (const ProgramStep& step : exe_.train)
      if (step.kind == ProgramStep::Kind::kRun) ++runs[static_cast<size_t>(step.subject)];
    const std::vector<size_t> rounds = ordinary_rounds();
    for (size_t id = 0; id < times_.size(); ++id)
      for (size_t i = 0; i < times_[id].size(); ++i) {
        const Instruction& instruction = exe_.segments[id].instructions[i];
        if (instruction.task < 0 || exchanges(instruction) || times_[id][i].empty()) continue;
        double seconds = 0;
        for (const size_t round : rounds) seconds += times_[id][i][round];
        visit(exe_.tasks[static_cast<size_t>(instruction.task)], seconds / static_cast<double>(rounds.size()),
              runs[id]);
      }
  }

  /// Adds what is known of how much the work between two exchanges differs from one time to the next; not from one
  /// second to another, in which the other devices are slower, too.
  void add_variance(double& variance, double& seconds) const {
    constexpr double kDeviation = 1.4826;  // standard deviation over the median distance from the mean, if normal
    for (const auto& segment : stretches_)
      for (const auto& stretch : segment) {
        std::vector<double> apart;
        for (size_t i = 1; i < stretch.size(); ++i) apart.push_back(std::abs(stretch[i] - stretch[i - 1]));
        if (apart.empty()) continue;
        const double deviation = kDeviation * timing_of(apart).seconds;
        variance += deviation * deviation / 2;  // of a difference it is twice that of one
        seconds += timing_of(stretch).seconds;
      }
  }

 private:
  /// Those that are neither among the quickest nor the slowest quarter: a shared machine is half as fast for a second
  /// or two now and then, which is no property of the program.
  std::vector<size_t> ordinary_rounds() const {
    std::vector<size_t> order(totals_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return totals_[a] < totals_[b]; });
    const size_t quarter = order.size() / 4;
    return {order.begin() + static_cast<std::ptrdiff_t>(quarter), order.end() - static_cast<std::ptrdiff_t>(quarter)};
  }

  std::byte* at(BufferId id, int64_t micro = -1) const {
    return memory_ + exe_.buffers[static_cast<size_t>(id)].at(micro);
  }

  bool exchanges(const Instruction& instruction) const {
    return instruction.task >= 0 && !kernels_[static_cast<size_t>(instruction.task)];
  }

  /// Seconds of an instruction; 0 of those that are no work.
  double run(const Instruction& instruction, const ProgramStep& step) {
    if (exchanges(instruction)) return 0;
    inputs_.clear();
    outputs_.clear();
    for (const BufferId id : instruction.inputs) inputs_.push_back(at(id, step.micro));
    for (const BufferId id : instruction.outputs) outputs_.push_back(at(id, step.micro));
    if (instruction.task < 0) {
      std::memcpy(outputs_[0], inputs_[0],
                  static_cast<size_t>(exe_.buffers[static_cast<size_t>(instruction.inputs[0])].bytes));
      return 0;
    }
    void* const scratch = instruction.scratch == kNoBuffer ? nullptr : at(instruction.scratch);
    make_finite(exe_.tasks[static_cast<size_t>(instruction.task)]);
    const auto start = Clock::now();
    kernels_[static_cast<size_t>(instruction.task)]->run({inputs_, outputs_, scratch, team_});
    return seconds_since(start);
  }

  /// Updates are passed over where a norm is not finite, which these numbers may lead to.
  void make_finite(const Task& task) {
    for (size_t i = 0; i < task.node.inputs.size(); ++i)
      if (const TensorType& type = task.node.inputs[i]; type.dtype == DType::kF32 && type.shape.rank() == 0 &&
                                                        !std::isfinite(load_element(inputs_[i], type.dtype, 0)))
        fill_feed(static_cast<std::byte*>(const_cast<void*>(inputs_[i])), type);
  }

  const Executable& exe_;
  ThreadTeam team_;
  std::optional<Arena> arena_;
  SharedMemory shared_{true};
  std::byte* memory_ = nullptr;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<ProgramStep> round_;
  std::vector<std::vector<std::vector<double>>> times_;      // by segment, instruction and round
  std::vector<double> totals_;                               // by round
  std::vector<std::vector<std::vector<double>>> stretches_;  // by segment: each round's seconds between two exchanges
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

double seconds_of_round(const Machine& machine, const Executable& exe) {
  double seconds = 0;
  for (const ProgramStep& step : distinct_runs(exe.train))
    for (const Instruction& instruction : exe.segments[static_cast<size_t>(step.subject)].instructions)
      if (instruction.task >= 0) {
        const Task& task = exe.tasks[static_cast<size_t>(instruction.task)];
        if (task.node.op->exchange == Exchange::kNone)
          seconds += task_seconds(machine, task.node, task.kernel, task.cost);
      }
  return seconds;
}

}  // namespace

std::vector<ProgramStep> distinct_runs(const std::vector<ProgramStep>& program) {
  std::set<int32_t> seen;
  std::vector<ProgramStep> runs;
  for (const ProgramStep& step : program)
    if (step.kind == ProgramStep::Kind::kRun && seen.insert(step.subject).second) runs.push_back(step);
  return runs;
}

bool rehearse(Machine& machine, std::span<const Executable> stages, const Backend& backend, double budget_seconds,
              int beside, bool between_processes) try {
  double round = 0;
  int64_t most_bytes = 0;
  for (const Executable& exe : stages) {
    round += seconds_of_round(machine, exe);
    most_bytes = std::max(most_bytes, exe.arena_bytes);
  }
  if (round > 2 * budget_seconds || most_bytes * (beside + 1) > available_memory() / 2) return false;

  struct Sum {
    double seconds = 0, runs = 0;
  };
  std::map<std::string, Sum> sums;
  double variance = 0, of_seconds = 0;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    RehearsedDevice device(stages[stage], backend, between_processes);
    std::atomic<bool> stop{false};
    std::vector<std::thread> others;
    for (int i = 1; i <= beside; ++i)
      others.emplace_back([&, other = &stages[(stage + static_cast<size_t>(i)) % stages.size()]] {
        try {
          RehearsedDevice neighbour(*other, backend, between_processes);
          while (!stop.load(std::memory_order_relaxed)) {
            neighbour.run_round(stop);
            neighbour.forget();
          }
        } catch (const std::exception&) {  // the measurement is then without this one
        }
      });
    const std::atomic<bool> never{false};
    device.run_round(never);
    device.forget();
    const auto start = Clock::now();
    do device.run_round(never);
    while (seconds_since(start) < budget_seconds / static_cast<double>(stages.size()));
    stop = true;
    for (std::thread& other : others) other.join();
    device.each_time([&](const Task& task, double seconds, double runs) {
      Sum& sum = sums[task_key(task.node, task.kernel)];
      sum.seconds += seconds * runs;
      sum.runs += runs;
    });
    device.add_variance(variance, of_seconds);
  }
  for (const auto& [key, sum] : sums) machine.tasks[key] = sum.seconds / sum.runs;
  machine.device.jitter = of_seconds > 0 ? std::min(std::sqrt(variance / of_seconds), 1.0) : 0;
  return true;
} catch (const Error&) {  // these numbers were not for this model
  return false;
}

}  // namespace ramet
