#include "ramet/runtime/probe.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/runtime/process.h"

namespace ramet {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Plain memory for the operands of one task, in huge pages where there are any, as the arena's is.
class Scratchpad {
 public:
  explicit Scratchpad(int64_t bytes) : bytes_(static_cast<size_t>(bytes) + kSlack) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw Error({.what = "no memory for a measurement", .found = format_size(bytes)}, ErrorKind::kFailure);
    memory_ = static_cast<std::byte*>(memory);
    madvise(memory_, bytes_, MADV_HUGEPAGE);
  }
  ~Scratchpad() { munmap(memory_, bytes_); }
  Scratchpad(const Scratchpad&) = delete;
  Scratchpad& operator=(const Scratchpad&) = delete;

  std::byte* take(int64_t bytes) {
    std::byte* place = memory_ + used_;
    used_ += (static_cast<size_t>(bytes) + 63) / 64 * 64;
    return place;
  }

 private:
  static constexpr size_t kSlack = size_t{1} << 21;
  size_t bytes_, used_ = 0;
  std::byte* memory_;
};

int64_t bytes_of(const Task& task) {
  int64_t bytes = task.scratch_bytes + 64;
  for (const TensorType& type : task.node.inputs) bytes += type.bytes() + 64;
  for (const TensorType& type : task.node.outputs) bytes += type.bytes() + 64;
  return bytes;
}

/// Numbers that kernels meet: floats around 0.01 (no denormals, no infinities), integers 0 (valid as indices and
/// labels).
void fill(std::byte* data, const TensorType& type) {
  if (!is_floating(type.dtype)) return;  // fresh memory is zero
  const int64_t count = type.elements(), block = std::min<int64_t>(count, 4096);
  for (int64_t i = 0; i < block; ++i) store_element(data, type.dtype, i, 0.01 + 1e-5 * static_cast<double>(i % 97));
  const auto size = static_cast<int64_t>(size_of(type.dtype));
  for (int64_t i = block; i < count; i += block)
    std::memcpy(data + i * size, data, static_cast<size_t>(std::min(block, count - i) * size));
}

/// Pushes a task's operands out of the caches, as the rest of a step does between two runs of the same work.
class Evictor {
 public:
  explicit Evictor(ThreadTeam& team) : team_(team), pad_(kBytes), data_(pad_.take(kBytes)) {}
  void run() {
    ++turn_;
    team_.split(kBytes, 1 << 16, [&](int64_t begin, int64_t end, int) {
      std::memset(data_ + begin, turn_ & 1, static_cast<size_t>(end - begin));
    });
  }

 private:
  static constexpr int64_t kBytes = int64_t{24} << 20;
  ThreadTeam& team_;
  Scratchpad pad_;
  std::byte* data_;
  int turn_ = 0;
};

/// Median of a few runs of a task, with operands that have been evicted before each run where an evictor is given.
double time_task(const Task& task, const Backend& backend, ThreadTeam& team, int most_runs, double most_seconds,
                 Evictor* evictor = nullptr) {
  Scratchpad pad(bytes_of(task));
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const TensorType& type : task.node.inputs) {
    std::byte* data = pad.take(type.bytes());
    fill(data, type);
    inputs.push_back(data);
  }
  for (const TensorType& type : task.node.outputs) outputs.push_back(pad.take(type.bytes()));
  void* scratch = pad.take(task.scratch_bytes);
  const std::unique_ptr<Kernel> kernel = backend.make(task.node, team.size(), task.kernel);
  kernel->run({inputs, outputs, scratch, team});  // touches the memory
  std::vector<double> seconds;
  double total = 0;
  for (int run = 0; run < most_runs && (run == 0 || total < most_seconds); ++run) {
    if (evictor) evictor->run();
    const auto start = Clock::now();
    kernel->run({inputs, outputs, scratch, team});
    seconds.push_back(seconds_since(start));
    total += seconds.back();
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

Task make_task(const Backend& backend, int threads, const std::string& op, std::vector<TensorType> inputs,
               Attributes attributes) {
  Task task;
  task.node = {&OpRegistry::instance().get(op), std::move(inputs), {}, std::move(attributes), "probe"};
  task.node.outputs = task.node.op->infer(task.node);
  const KernelChoice choice = backend.choose(task.node, threads);
  task.kernel = choice.name;
  task.scratch_bytes = choice.scratch_bytes;
  if (task.node.op->cost) task.cost = task.node.op->cost(task.node);
  return task;
}

/// Bytes a second, read and written, of a copy too large for caches.
double copy_bandwidth(ThreadTeam& team) {
  constexpr int64_t kBytes = int64_t{48} << 20;
  Scratchpad pad(2 * kBytes);
  std::byte *from = pad.take(kBytes), *to = pad.take(kBytes);
  double best = 1e30;
  for (int run = 0; run < 5; ++run) {  // the first touches the memory
    const auto start = Clock::now();
    team.split(kBytes, 1 << 16, [&](int64_t begin, int64_t end, int) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
    if (run > 0) best = std::min(best, seconds_since(start));
  }
  return 2.0 * kBytes / best;
}

/// Operations a second of a square product: some milliseconds.
double product_rate(const Backend& backend, ThreadTeam& team, DType dtype) {
  const TensorType matrix{dtype, {768, 768}};
  const Task product = make_task(backend, team.size(), "matmul", {matrix, matrix}, {});
  return product.cost.flops / time_task(product, backend, team, 8, 0.15);
}

/// Whether the machine is much faster now than when it was measured: it was busy then, and all that is known is wrong.
bool was_busy(const Machine& machine, const Backend& backend) {
  constexpr double kMuch = 1.15;
  ThreadTeam team(machine.device.units);
  return product_rate(backend, team, DType::kF32) > kMuch * machine.device.peak(DType::kF32);
}

std::filesystem::path cache_file(const std::string& cpu, const Backend& backend, int threads) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache && *cache)
    folder = cache;
  else if (home && *home)
    folder = std::filesystem::path(home) / ".cache";
  else
    return {};
  const std::string name =
      hash_text(cpu + "\n" + backend.kernel_class() + "\n" + std::to_string(threads)).hex().substr(0, 16);
  return folder / "ramet" / ("machine-" + name + ".toml");
}

}  // namespace

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0)
      if (const size_t colon = line.find(':'); colon != std::string::npos)
        return line.substr(std::min(line.size(), colon + 2));
  return "unknown CPU";
}

Machine probe_machine(const Backend& backend, int threads) {
  Machine machine;
  machine.name = cpu_name();
  machine.kernel_class = backend.kernel_class();
  machine.devices = std::max(available_processors() / threads, 1);
  machine.processors = available_processors();
  DeviceKind& device = machine.device;
  device.name = machine.name;
  device.units = threads;
  device.clock = 1e9;  // rates are measured whole, so that any clock will do
  ThreadTeam team(threads);
  for (const DType dtype : {DType::kF32, DType::kBF16})
    device.operations_per_cycle[std::string(name_of(dtype))] =
        product_rate(backend, team, dtype) / (device.clock * threads);
  const double bandwidth = copy_bandwidth(team);
  machine.memories.push_back({.role = MemoryRole::kDevice,
                              .bytes = available_memory(),
                              .read = bandwidth,
                              .write = bandwidth,
                              .total = bandwidth});
  if (machine.devices > 1)
    machine.links.push_back({.name = "memory",
                             .topology = Topology::kHostGateway,
                             .group = machine.devices,
                             .links = 1,
                             .bandwidth = bandwidth / 2,
                             .latency = 1e-6});
  const TensorType tiny{DType::kF32, {16}};
  device.overhead =
      std::min(time_task(make_task(backend, threads, "add", {tiny, tiny}, {}), backend, team, 200, 0.02), 1e-3);
  return machine;
}

void measure_tasks(Machine& machine, const Executable& exe, const Backend& backend, double budget_seconds) {
  // What matters most first: how often a task runs times what the rates say it takes.
  std::vector<double> weight(exe.tasks.size(), 0);
  std::vector<double> runs(exe.segments.size(), 0);
  for (const ProgramStep& step : exe.train)
    if (step.kind == ProgramStep::Kind::kRun) ++runs[static_cast<size_t>(step.subject)];
  for (size_t id = 0; id < exe.segments.size(); ++id) {
    if (runs[id] == 0) continue;
    for (const Instruction& instruction : exe.segments[id].instructions)
      if (instruction.task >= 0) {
        const Task& task = exe.tasks[static_cast<size_t>(instruction.task)];
        if (task.node.op->exchange != Exchange::kNone) continue;  // no work of one device alone
        weight[static_cast<size_t>(instruction.task)] +=
            runs[id] * task_seconds(machine, task.node, task.kernel, task.cost);
      }
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < weight.size(); ++i)
    if (weight[i] > 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return weight[a] > weight[b]; });
  ThreadTeam team(machine.device.units);
  Evictor evictor(team);
  const auto start = Clock::now();
  const int64_t most_bytes = available_memory() / 2;
  for (const size_t i : order) {
    const Task& task = exe.tasks[i];
    const std::string key = task_key(task.node, task.kernel);
    if (machine.tasks.count(key) || bytes_of(task) > most_bytes) continue;
    if (seconds_since(start) > budget_seconds) break;
    machine.tasks[key] = time_task(task, backend, team, 3, 0.03, &evictor);
  }
}

Machine local_machine(std::span<const Executable> stages, const Backend& backend, double budget_seconds) {
  const std::string cpu = cpu_name();
  const int threads = stages[0].threads;
  const std::filesystem::path file = cache_file(cpu, backend, threads);
  Machine machine;
  try {
    if (!file.empty() && std::filesystem::exists(file)) machine = parse_machine(read_file(file), file.string());
  } catch (const std::exception&) {
    machine = {};
  }
  if (machine.name != cpu || machine.kernel_class != backend.kernel_class() || machine.device.units != threads ||
      was_busy(machine, backend))
    machine = probe_machine(backend, threads);
  for (const Executable& exe : stages)
    measure_tasks(machine, exe, backend, budget_seconds / static_cast<double>(stages.size()));
  if (file.empty()) return machine;
  try {
    std::filesystem::create_directories(file.parent_path());
    write_file_atomic(file, print_machine(machine));
  } catch (const std::exception&) {  // no place to keep it: measured again next time
  }
  return machine;
}

Machine local_machine(const Executable& exe, const Backend& backend, double budget_seconds) {
  return local_machine(std::span(&exe, 1), backend, budget_seconds);
}

}  // namespace ramet
