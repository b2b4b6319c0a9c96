#include "ramet/measure/rehearsal.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <thread>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/kernel/devices.h"
#include "ramet/measure/call_clock.h"
#include "ramet/ops/collective.h"
#include "ramet/runtime/localize.h"
#include "ramet/transport/process.h"
#include "ramet/transport/transport_memory.h"

namespace ramet::measure {
namespace {

/// Ones among integers: indices and labels that are nearly always valid, and tokens that no mask hides. Floats are
/// positive, as rates and corrections are.
void fill_feed(std::byte* data, const TensorType& type) {
  constexpr double kRate = 0.001;
  for (int64_t i = 0; i < type.elements(); ++i) store_element(data, type.dtype, i, is_floating(type.dtype) ? kRate : 1);
}

/// While it lives, this thread, and the threads that it starts, compute with 0 in place of denormal numbers, which cost
/// a processor a hundred times the time of others. The numbers of a rehearsal shrink from layer to layer and from step
/// to step of a recurrent layer, where those of a training do not.
class NoDenormals {
 public:
#ifdef __SSE__
  NoDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero); }
  ~NoDenormals() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  const unsigned before_;
#else
  NoDenormals() {}
#endif
  NoDenormals(const NoDenormals&) = delete;
  NoDenormals& operator=(const NoDenormals&) = delete;
};

/// Segments that wait for a message before they run.
std::set<int32_t> segments_that_wait(const std::vector<ProgramStep>& program) {
  std::set<int32_t> segments;
  bool waited = false;
  for (const ProgramStep& step : program) {
    if (step.kind == ProgramStep::Kind::kWait)
      waited |= program[static_cast<size_t>(step.subject)].kind == ProgramStep::Kind::kReceive;
    if (step.kind != ProgramStep::Kind::kRun) continue;
    if (waited) segments.insert(step.subject);
    waited = false;
  }
  return segments;
}

/// A device that does a step's work and meets no other device.
class RehearsedDevice {
 public:
  /// `number`: of the device in its mesh.
  RehearsedDevice(const Executable& exe, const Backend& backend, Device& device, Queue& queue, int32_t number,
                  bool between_processes, std::span<const TensorView> batch)
      : exe_(exe),
        batch_(batch),
        device_(device),
        queue_(queue),
        number_(static_cast<size_t>(number)),
        round_(distinct_runs(exe.train().steps)),
        waiting_(segments_that_wait(exe.train().steps)) {
    memory_ = between_processes && device.addressable()
                  ? device.adopt(shared_.allocate(static_cast<size_t>(std::max<int64_t>(exe.arena_bytes, 1))),
                                 exe.arena_bytes)
                  : device.take(exe.arena_bytes, Memory::kDevice, "device memory");
    for (const Call& call : exe.calls) {
      const bool exchanges = call.node.op->exchange != Exchange::kNone;
      members_.push_back(exchanges ? static_cast<size_t>(collective_form(call.node).parts) : 1);
      kernels_.push_back(
          exchanges ? nullptr : backend.make(localize(call.node, exe.mesh.position(number)), exe.threads, call.kernel));
    }
    for (const StatePlace& state : exe.states) {
      if (has_known_bytes(state) && !state.slots.empty())
        queue_.copy_in(at(state.slots[0]), known_bytes(state, exe.mesh.position(number)).data(),
                       state.tensor.type.bytes());
      if (state.tensor.kind != StateKind::kWeight && state.tensor.kind != StateKind::kDerived) continue;
      for (const BufferId slot : state.slots) fill(at(slot), state.tensor.type, fill_for_measurement);
    }
    times_.resize(exe.segments.size());
    stretches_.resize(exe.segments.size());
    // Of a pipeline's stash the oldest value is read next, and it has left the caches.
    for (ProgramStep& step : round_)
      if (const PieceKind kind = exe.segments[static_cast<size_t>(step.subject)].kind;
          step.micro >= 0 && (kind == PieceKind::kBackward || kind == PieceKind::kWeightGradient))
        ++step.micro;
    for (const ProgramStep& step : round_)
      times_[static_cast<size_t>(step.subject)].resize(
          exe.segments[static_cast<size_t>(step.subject)].instructions.size());
    meetings_ = number_;
  }

  /// Goes on until it would wait for others, so that another device gets its processor; or to the end of its round,
  /// which is every segment once, for the next of its micro-batches; or until `stop`.
  void take_turn(const std::atomic<bool>& stop) {
    while (step_ < round_.size()) {
      if (next_ == 0) begin_segment(round_[step_]);
      if (!run_segment(round_[step_], stop)) return;
      next_ = 0;
      if (++step_ < round_.size() && waiting_.contains(round_[step_].subject) && gives_way(2)) return;
    }
    end_round();
  }

  /// Rounds that count: the first does not, which touched memory and made what kernels make once.
  size_t rounds() const { return totals_.size(); }

  /// Calls visit(call, seconds, how often) for every timed place of the program, with the mean of ordinary rounds.
  template <typename Visit>
  void each_time(const Visit& visit) const {
    std::vector<double> runs(exe_.segments.size(), 0);
    for (const ProgramStep& step : exe_.train().steps)
      if (step.kind == ProgramStep::Kind::kRun) ++runs[static_cast<size_t>(step.subject)];
    const std::vector<size_t> rounds = ordinary_rounds();
    for (size_t id = 0; id < times_.size(); ++id)
      for (size_t i = 0; i < times_[id].size(); ++i) {
        const Instruction& instruction = exe_.segments[id].instructions[i];
        if (instruction.call < 0 || exchanges(instruction) || times_[id][i].empty()) continue;
        double seconds = 0;
        for (const size_t round : rounds) seconds += times_[id][i][round];
        visit(exe_.calls[static_cast<size_t>(instruction.call)], seconds / static_cast<double>(rounds.size()),
              runs[id]);
      }
  }

  /// Adds observations of how much the work between two exchanges varies from one time to the next; not over seconds,
  /// because then the other devices vary as well.
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
  void begin_segment(ProgramStep& step) {
    if (step.micro >= 0) step.micro = static_cast<int32_t>((step.micro + 1) % exe_.micro_batches());
    const Segment& segment = exe_.segments[static_cast<size_t>(step.subject)];
    for (const Binding& feed : segment.feeds) {
      const TensorView* const real = real_data(feed);
      if (real)
        copy_part(*real, feed, at(feed.buffer, step.micro));
      else
        fill(at(feed.buffer, step.micro), feed.type, fill_feed);
    }
    for (const Binding& scalar : segment.scalars)
      if (scalar.name == kCounterInput)
        count(scalar, step.micro);
      else
        fill(at(scalar.buffer, step.micro), scalar.type, fill_feed);
    stretch_.clear();
  }

  /// The number of the micro-batch says which row of a running sum is written: it must be one of them.
  void count(const Binding& counter, int64_t micro) {
    const int64_t numbers[2] = {1, std::max<int64_t>(micro, 0)};  // of the step and of the micro-batch
    queue_.copy_in(at(counter.buffer, micro), numbers, std::min<int64_t>(counter.type.bytes(), sizeof numbers));
  }

  /// The part of a data input that the first device has.
  void copy_part(const TensorView& real, const Binding& feed, std::byte* to) {
    const auto size = static_cast<int64_t>(size_of(feed.type.dtype));
    for_each_run(feed.sharding, {}, [&](const ShardRun& run) {
      queue_.copy_in(to + run.local * size, static_cast<const std::byte*>(real.data) + run.logical * size,
                     run.count * size);
    });
  }

  /// What the real micro-batch has for a data input; null: nothing of its name and type.
  const TensorView* real_data(const Binding& feed) const {
    const auto found = std::find_if(batch_.begin(), batch_.end(), [&](const TensorView& tensor) {
      return tensor.name == feed.name && *tensor.type == feed.sharding.logical;
    });
    return found == batch_.end() ? nullptr : &*found;
  }

  /// False where it gives way, or stops, before the segment's end.
  bool run_segment(const ProgramStep& step, const std::atomic<bool>& stop) {
    const auto& instructions = exe_.segments[static_cast<size_t>(step.subject)].instructions;
    auto& times = times_[static_cast<size_t>(step.subject)];
    while (next_ < instructions.size()) {
      if (stop.load(std::memory_order_relaxed)) return false;
      const Instruction& instruction = instructions[next_];
      const double seconds = run(instruction, step);
      times[next_++].push_back(seconds);
      total_ += seconds;
      if (stretch_.empty() || exchanges(instruction)) stretch_.push_back(0);
      stretch_.back() += seconds;
      if (exchanges(instruction) && gives_way(members_[static_cast<size_t>(instruction.call)])) return false;
    }
    auto& stretches = stretches_[static_cast<size_t>(step.subject)];
    stretches.resize(std::max(stretches.size(), stretch_.size()));
    for (size_t i = 0; i < stretch_.size(); ++i) stretches[i].push_back(stretch_[i]);
    return true;
  }

  /// Of those that meet all wait but the last; each is the last in its turn, at the same places in every round.
  bool gives_way(size_t members) { return ++meetings_ % members != 0; }

  void end_round() {
    if (first_) {
      for (auto& segment : times_)
        for (auto& rounds : segment) rounds.clear();
      for (auto& segment : stretches_) segment.clear();
    } else {
      totals_.push_back(total_);
    }
    first_ = false;
    total_ = 0;
    step_ = 0;
    meetings_ = number_;
  }

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
    return memory_.data() + exe_.buffers[static_cast<size_t>(id)].at(micro);
  }

  bool exchanges(const Instruction& instruction) const {
    return instruction.call >= 0 && !kernels_[static_cast<size_t>(instruction.call)];
  }

  /// Seconds of an instruction; 0 of those that are no work.
  double run(const Instruction& instruction, const ProgramStep& step) {
    inputs_.clear();
    outputs_.clear();
    for (const BufferId id : instruction.inputs) inputs_.push_back(at(id, step.micro));
    for (const BufferId id : instruction.outputs) outputs_.push_back(at(id, step.micro));
    if (exchanges(instruction)) {
      stand_in_for(exe_.calls[static_cast<size_t>(instruction.call)]);
      return 0;
    }
    if (instruction.call < 0) {
      queue_.copy(static_cast<std::byte*>(outputs_[0]), static_cast<const std::byte*>(inputs_[0]),
                  exe_.buffers[static_cast<size_t>(instruction.inputs[0])].bytes);
      return 0;
    }
    void* const scratch = instruction.scratch == kNoBuffer ? nullptr : at(instruction.scratch);
    make_finite(exe_.calls[static_cast<size_t>(instruction.call)]);
    queue_.wait();
    const auto start = Clock::now();
    queue_.launch(*kernels_[static_cast<size_t>(instruction.call)], {inputs_, outputs_, scratch});
    queue_.wait();
    return seconds_since(start);
  }

  /// Writes what an exchange would write elsewhere than it reads: left as they are, the bytes of other tensors would
  /// stand there, and some kernels are slow for numbers that no training has.
  void stand_in_for(const Call& exchange) {
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (std::ranges::find(inputs_, outputs_[i]) == inputs_.end())
        fill(static_cast<std::byte*>(outputs_[i]), exchange.node.outputs[i], fill_for_measurement);
  }

  /// Updates are passed over where a norm is not finite, which these numbers may lead to.
  void make_finite(const Call& call) {
    for (size_t i = 0; i < call.node.inputs.size(); ++i) {
      const TensorType& type = call.node.inputs[i];
      if (type.dtype != DType::kF32 || type.shape.rank() != 0) continue;
      auto* data = static_cast<std::byte*>(const_cast<void*>(inputs_[i]));
      float value = 0;
      queue_.copy_out(&value, data, sizeof value);
      if (!std::isfinite(value)) fill(data, type, fill_feed);
    }
  }

  /// Has `filler` write a tensor to device memory, in place where the host can.
  void fill(std::byte* data, const TensorType& type, void (*filler)(std::byte*, const TensorType&)) {
    if (device_.addressable()) return filler(data, type);
    std::vector<std::byte> room(static_cast<size_t>(type.bytes()));
    filler(room.data(), type);
    queue_.copy_in(data, room.data(), type.bytes());
  }

  const Executable& exe_;
  std::span<const TensorView> batch_;
  Device& device_;
  Queue& queue_;
  size_t number_;
  SharedMemory shared_{true};
  DeviceMemory memory_;
  std::vector<std::unique_ptr<Kernel>> kernels_;  // by call; none of exchanges
  std::vector<size_t> members_;                   // by call: devices that meet there
  std::vector<ProgramStep> round_;
  std::set<int32_t> waiting_;                                // segments that wait for a message
  size_t step_ = 0, next_ = 0;                               // of the round; instruction of its segment
  size_t meetings_ = 0;                                      // of this round
  bool first_ = true;                                        // round
  double total_ = 0;                                         // seconds of this round
  std::vector<double> stretch_;                              // of this segment: between exchanges
  std::vector<std::vector<std::vector<double>>> times_;      // by segment, instruction and round
  std::vector<double> totals_;                               // by round
  std::vector<std::vector<std::vector<double>>> stretches_;  // by segment: each round's seconds between two exchanges
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

double seconds_of_round(const Machine& machine, const Executable& exe) {
  double seconds = 0;
  for (const ProgramStep& step : distinct_runs(exe.train().steps))
    for (const Instruction& instruction : exe.segments[static_cast<size_t>(step.subject)].instructions)
      if (instruction.call >= 0) {
        const Call& call = exe.calls[static_cast<size_t>(instruction.call)];
        if (call.node.op->exchange == Exchange::kNone)
          seconds += call_seconds(machine, call.node, call.kernel, call.cost);
      }
  return seconds;
}

/// A processor (or several, of devices with threads) and the devices that take turns on it.
struct Lane {
  std::vector<int32_t> numbers;  ///< in the mesh
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<RehearsedDevice>> devices;
  std::unique_ptr<Queue> queue;  ///< destroyed before the memory that it works on
};

const Executable& program_of(std::span<const Executable> stages, int32_t device) {
  return stages[static_cast<size_t>(stages[0].mesh.position(device).stage)];
}

/// Devices that can be rehearsed, shared out to as many lanes: all, or one of each stage where they are too many for
/// the time or the memory; none where these are.
std::vector<Lane> share_out(const Machine& machine, std::span<const Executable> stages, int lanes,
                            double most_seconds) {
  const Mesh& mesh = stages[0].mesh;
  std::vector<int32_t> all, one_each;
  for (int32_t number = 0; number < std::max(mesh.devices(), lanes); ++number) all.push_back(number % mesh.devices());
  for (size_t i = 0; i < std::max(stages.size(), static_cast<size_t>(lanes)); ++i) {
    Mesh::Position position;
    position.stage = static_cast<int>(i % stages.size());
    one_each.push_back(mesh.device(position));
  }
  for (const auto& numbers : {all, one_each}) {
    double seconds = 0;
    int64_t bytes = 0;
    for (const int32_t number : numbers) {
      const Executable& exe = program_of(stages, number);
      seconds += seconds_of_round(machine, exe);
      bytes += exe.arena_bytes;
    }
    if (seconds > most_seconds * lanes || bytes > available_memory() / 2) continue;
    std::vector<Lane> shared(static_cast<size_t>(lanes));
    for (size_t i = 0; i < numbers.size(); ++i) shared[i % shared.size()].numbers.push_back(numbers[i]);
    return shared;
  }
  return {};
}

}  // namespace

bool has_known_bytes(const StatePlace& state) {
  const StateKind kind = state.tensor.kind;
  return (kind == StateKind::kConstant || kind == StateKind::kPattern) && state.tensor.init.data;
}

std::vector<std::byte> known_bytes(const StatePlace& state, const Mesh::Position& position) {
  const auto size = static_cast<int64_t>(size_of(state.tensor.type.dtype));
  const std::byte* const data = state.tensor.init.data->bytes().data();
  std::vector<std::byte> bytes(static_cast<size_t>(state.tensor.type.bytes()));
  for_each_run(state.sharding, position, [&](const ShardRun& run) {
    std::memcpy(bytes.data() + run.local * size, data + run.logical * size, static_cast<size_t>(run.count * size));
  });
  return bytes;
}

std::vector<ProgramStep> distinct_runs(const std::vector<ProgramStep>& program) {
  std::set<int32_t> seen;
  std::vector<ProgramStep> runs;
  for (const ProgramStep& step : program)
    if (step.kind == ProgramStep::Kind::kRun && seen.insert(step.subject).second) runs.push_back(step);
  return runs;
}

bool rehearse(Machine& machine, std::span<const Executable> stages, const Backend& backend, double budget_seconds,
              int beside, bool between_processes, std::span<const TensorView> batch) {
  std::vector<Lane> lanes = share_out(machine, stages, beside + 1, 2 * budget_seconds);
  if (lanes.empty()) return false;
  std::atomic<size_t> at_work{lanes.size()};
  std::atomic<bool> stop{false}, failed{false};
  const auto rehearse_lane = [&](Lane& lane) {
    const NoDenormals on_all_threads;
    try {
      lane.device = find_device().make(stages[0].threads);
      lane.queue = lane.device->make_queue();
      for (const int32_t number : lane.numbers)
        lane.devices.push_back(std::make_unique<RehearsedDevice>(program_of(stages, number), backend, *lane.device,
                                                                 *lane.queue, number, between_processes, batch));
      const auto start = Clock::now();
      bool enough = false;
      while (!stop.load(std::memory_order_relaxed)) {
        for (const auto& device : lane.devices) device->take_turn(stop);
        if (enough || seconds_since(start) < budget_seconds) continue;
        enough = std::ranges::all_of(lane.devices, [](const auto& device) { return device->rounds() > 0; });
        if (enough && --at_work == 0) stop = true;  // until then it is what the others work beside
      }
    } catch (const std::exception&) {  // these numbers were not for this model, or memory lacks
      failed = true;
      stop = true;
    }
  };
  std::vector<std::thread> threads;
  for (Lane& lane : lanes) threads.emplace_back([&rehearse_lane, &lane] { rehearse_lane(lane); });
  for (std::thread& thread : threads) thread.join();
  if (failed) return false;

  struct Sum {
    double seconds = 0, runs = 0;
  };
  std::map<std::string, Sum> sums;
  double variance = 0, of_seconds = 0;
  for (const Lane& lane : lanes)
    for (const auto& device : lane.devices) {
      device->each_time([&](const Call& call, double seconds, double runs) {
        Sum& sum = sums[timing_key(call.node, call.kernel)];
        sum.seconds += seconds * runs;
        sum.runs += runs;
      });
      device->add_variance(variance, of_seconds);
    }
  for (const auto& [key, sum] : sums) machine.measured_calls[key] = sum.seconds / sum.runs;
  machine.device.jitter = of_seconds > 0 ? std::min(std::sqrt(variance / of_seconds), 1.0) : 0;
  return true;
}

}  // namespace ramet::measure
