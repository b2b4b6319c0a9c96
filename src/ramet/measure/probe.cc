#include "ramet/measure/probe.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ramet/base/cache_folder.h"
#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/kernel/devices.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/measure/call_clock.h"
#include "ramet/measure/rehearsal.h"
#include "ramet/measure/survey_links.h"
#include "ramet/runtime/streaming_store.h"
#include "ramet/transport/process.h"

namespace ramet::measure {
namespace {

/// Bytes a second, read and written, that each of so many devices copies while all of them do, where caches hold
/// nothing of it.
double copy_bandwidth(int devices, int threads) {
  constexpr int64_t kMost = int64_t{48} << 20, kLeast = int64_t{8} << 20, kOfAll = int64_t{768} << 20;
  constexpr int64_t kPiece = int64_t{256} << 10;  // as transfers are: memcpy does large ones another way
  const int64_t bytes = devices * std::clamp(kOfAll / devices, kLeast, kMost);
  ThreadTeam all(devices * threads);
  Scratchpad pad(2 * bytes);
  std::byte *const from = pad.take(bytes), *const to = pad.take(bytes);
  const auto copy = [&] {
    const auto start = Clock::now();
    all.split(bytes, kPiece, [&](int64_t begin, int64_t end, int) {
      for (int64_t at = begin; at < end; at += kPiece)
        std::memcpy(to + at, from + at, static_cast<size_t>(std::min(kPiece, end - at)));
    });
    return seconds_since(start);
  };
  std::vector<double> seconds(12);
  std::generate(seconds.begin(), seconds.end(), copy);
  return 2.0 * static_cast<double>(bytes) / devices / timing_of(seconds).seconds;
}

/// Operations a second of a square product: some milliseconds.
double product_rate(const Backend& backend, ThreadTeam& team, DType dtype) {
  const TensorType matrix{dtype, {768, 768}};
  const Call product = make_call(backend, team.size(), "matmul", {matrix, matrix}, {});
  return product.cost.flops / time_call(product, backend, team, 8, 0.15).seconds;
}

/// Whether the machine is much faster now than when it was measured: it was busy then, and all that is known is wrong.
bool was_busy(const Machine& machine, const Backend& backend) {
  constexpr double kMuch = 1.15;
  ThreadTeam team(machine.device.units);
  return product_rate(backend, team, DType::kF32) > kMuch * machine.device.peak(DType::kF32);
}

/// Bytes a second of transfers of `piece` bytes, several of them under way; `start(at)` starts the one at an offset.
template <typename Start>
double transfer_rate(StreamingStore& store, int64_t bytes, int64_t piece, const Start& start) {
  const auto begin = Clock::now();
  std::vector<Ticket> tickets;
  for (int64_t at = 0; at < bytes; at += piece) tickets.push_back(start(at));
  for (const Ticket ticket : tickets) store.wait(ticket);
  return static_cast<double>(bytes) / std::max(seconds_since(begin), 1e-9);
}

std::string files_source(const std::filesystem::path& folder) {
  return "measured in " + std::filesystem::absolute(folder).lexically_normal().string();
}

/// To be raised when kernels become faster or slower: times that were measured before would be predicted for them.
constexpr int kTimesVersion = 7;

std::filesystem::path cache_file(const std::string& cpu, const Backend& backend, int threads, int devices,
                                 bool between_processes) {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return {};
  const std::string name =
      hash_text(std::to_string(kTimesVersion) + "\n" + cpu + "\n" + std::string(find_device().name) + "\n" +
                backend.kernel_class() + "\n" + std::to_string(threads) + "\n" + std::to_string(devices) +
                (between_processes ? "\nranks" : ""))
          .hex()
          .substr(0, 16);
  return folder / ("machine-" + name + ".toml");
}

/// Measures messages and meetings of so many devices, which are threads, and notes them as the machine's only links.
void measure_meetings(Machine& machine, int devices) {
  constexpr double kSeconds = 0.15;
  machine.links.clear();
  if (devices < 2) return;
  const LinkTiming timing = time_threads(devices, kSeconds);
  machine.devices = devices;
  machine.links.push_back({.name = "memory",
                           .topology = Topology::kHostGateway,
                           .group = devices,
                           .links = 1,
                           .bandwidth = timing.bandwidth,
                           .latency = std::min(timing.latency, 1e-3),
                           .barrier = std::min(timing.barrier, 1e-2)});
}

/// Whether the stages' training has calls whose time the machine does not know.
bool lacks_calls(const Machine& machine, std::span<const Executable> stages) {
  for (const Executable& exe : stages) {
    std::set<int32_t> calls;
    for (const ProgramStep& step : distinct_runs(exe.train().steps))
      for (const Instruction& instruction : exe.segments[static_cast<size_t>(step.subject)].instructions)
        if (instruction.call >= 0) calls.insert(instruction.call);
    for (const int32_t id : calls) {
      const Call& call = exe.calls[static_cast<size_t>(id)];
      if (call.node.op->exchange == Exchange::kNone &&
          !machine.measured_calls.contains(timing_key(call.node, call.kernel)))
        return true;
    }
  }
  return false;
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
  if (find_device().has_own_memory()) {
    machine = load_machine(std::string(find_device().machine));
    machine.kernel_class = backend.kernel_class();
    return machine;
  }
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
  const double bandwidth = copy_bandwidth(machine.devices, threads);
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
      std::min(time_call(make_call(backend, threads, "add", {tiny, tiny}, {}), backend, team, 200, 0.02).seconds, 1e-3);
  return machine;
}

bool measure_files(Machine& machine, const std::filesystem::path& folder) {
  constexpr int64_t kBytes = int64_t{96} << 20, kPiece = int64_t{8} << 20;
  const std::string source = files_source(folder), key = "memory." + std::string(name_of(MemoryRole::kDisk));
  if (machine.memory(MemoryRole::kDisk) && machine.notes[key].source == source) return true;
  std::erase_if(machine.memories, [](const MemoryKind& memory) { return memory.role == MemoryRole::kDisk; });
  std::erase_if(machine.notes, [&](const auto& note) { return note.first.starts_with(key); });
  try {
    const auto store = make_file_store(kBytes, {.folder = folder, .name = "measure"});
    Scratchpad pad(2 * kPiece + 4096);
    std::byte* const memory = pad.take(2 * kPiece);
    std::memset(memory, 1, static_cast<size_t>(2 * kPiece));
    const auto load = [&](int64_t at) { return store->start_load(at, memory, kPiece); };
    const auto save = [&](int64_t at) { return store->start_store(at, memory + kPiece, kPiece); };
    MemoryKind disk{.role = MemoryRole::kDisk, .bytes = kBytes, .devices = machine.devices};
    const double most = machine.bandwidth();
    disk.write = std::min(most, transfer_rate(*store, kBytes, kPiece, save));
    disk.read = std::min(most, transfer_rate(*store, kBytes, kPiece, load));
    // Both at once, as phases come and go.
    const double both =
        transfer_rate(*store, kBytes, kPiece, [&](int64_t at) { return at / kPiece % 2 == 0 ? load(at) : save(at); });
    disk.total = std::clamp(both, std::max(disk.read, disk.write), (disk.read + disk.write) * disk.devices);
    std::error_code error;
    const auto space = std::filesystem::space(folder, error);
    if (!error) disk.bytes = static_cast<int64_t>(space.available);
    machine.memories.push_back(disk);
    machine.notes[key].source = source;
    return true;
  } catch (const Error&) {
    return false;  // the run itself will say why
  }
}

namespace {

/// The constants, patterns and tensors of the batch that each call reads, by input.
struct KnownInput {
  size_t input = 0;
  std::vector<std::byte> bytes;
};
std::vector<std::vector<KnownInput>> known_inputs(const Executable& exe, std::span<const TensorView> batch) {
  std::map<BufferId, std::vector<std::byte>> known;
  for (const StatePlace& state : exe.states)
    if (has_known_bytes(state))
      for (const BufferId slot : state.slots) known[slot] = known_bytes(state, exe.mesh.position(0));
  for (const Segment& segment : exe.segments)
    for (const Binding& feed : segment.feeds)
      for (const TensorView& tensor : batch)
        if (tensor.name == feed.name && *tensor.type == feed.type)
          known[feed.buffer].assign(tensor.data, tensor.data + feed.type.bytes());
  std::vector<std::vector<KnownInput>> inputs(exe.calls.size());
  for (const Segment& segment : exe.segments)
    for (const Instruction& instruction : segment.instructions) {
      if (instruction.call < 0 || !inputs[static_cast<size_t>(instruction.call)].empty()) continue;
      for (size_t i = 0; i < instruction.inputs.size(); ++i)
        if (const auto found = known.find(instruction.inputs[i]);
            found != known.end() &&
            std::ssize(found->second) == exe.calls[static_cast<size_t>(instruction.call)].node.inputs[i].bytes())
          inputs[static_cast<size_t>(instruction.call)].push_back({i, found->second});
    }
  return inputs;
}

/// As measure_calls; calls that read a data input of `batch` get its tensor.
void measure_missing(Machine& machine, const Executable& exe, const Backend& backend, double budget_seconds, int beside,
                     std::span<const TensorView> batch) {
  // What matters most first: how often a call runs times what the rates say it takes.
  std::vector<double> weight(exe.calls.size(), 0);
  std::vector<double> runs(exe.segments.size(), 0);
  for (size_t id = 0; id < exe.programs.size(); ++id)
    if (exe.runs_in_step(static_cast<int32_t>(id)))
      for (const ProgramStep& step : exe.programs[id].steps)
        if (step.kind == ProgramStep::Kind::kRun)
          runs[static_cast<size_t>(step.subject)] += 1 / static_cast<double>(exe.programs[id].when.every);
  for (size_t id = 0; id < exe.segments.size(); ++id) {
    if (runs[id] == 0) continue;
    for (const Instruction& instruction : exe.segments[id].instructions)
      if (instruction.call >= 0) {
        const Call& call = exe.calls[static_cast<size_t>(instruction.call)];
        if (call.node.op->exchange != Exchange::kNone) continue;  // no work of one device alone
        weight[static_cast<size_t>(instruction.call)] +=
            runs[id] * call_seconds(machine, call.node, call.kernel, call.cost);
      }
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < weight.size(); ++i)
    if (weight[i] > 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return weight[a] > weight[b]; });
  ThreadTeam team(exe.threads);
  Evictor evictor(team);
  const auto start = Clock::now();
  const int64_t most_bytes = available_memory() / 2;
  const auto known = known_inputs(exe, batch);
  for (const size_t i : order) {
    const Call& call = exe.calls[i];
    const std::string key = timing_key(call.node, call.kernel);
    if (machine.measured_calls.count(key) || operand_bytes(call) > most_bytes) continue;
    if (seconds_since(start) > budget_seconds) break;
    const Neighbours neighbours(call, backend, team.size(), beside);
    const auto prepare = [&](std::span<std::byte* const> inputs) {
      for (const KnownInput& each : known[i]) std::memcpy(inputs[each.input], each.bytes.data(), each.bytes.size());
    };
    try {
      machine.measured_calls[key] = time_call(call, backend, team, 3, 0.03, &evictor, prepare).seconds;
    } catch (const Error&) {  // its integers must be others than 0: the machine's rates are all that is known
    }
  }
}

}  // namespace

void measure_calls(Machine& machine, const Executable& exe, const Backend& backend, double budget_seconds, int beside) {
  measure_missing(machine, exe, backend, budget_seconds, beside, {});
}

namespace {

/// What the integers of a micro-batch are like: of each tensor its type and the mean of its numbers, to a quarter of an
/// octave. So micro-batches of one data set are alike, and a graph's real edges are told from made-up ones.
std::string kind_of_data(std::span<const TensorView> batch) {
  std::string text;
  for (const TensorView& tensor : batch) {
    if (!is_integer(tensor.type->dtype)) continue;
    const int64_t count = tensor.type->elements();
    double sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += std::abs(load_element(static_cast<const std::byte*>(tensor.data), tensor.type->dtype, i));
    const double mean = sum / static_cast<double>(std::max<int64_t>(count, 1));
    text += tensor.type->text() + " " + std::to_string(std::lround(4 * std::log2(1 + mean))) + "\n";
  }
  return text.empty() ? "" : hash_text(text).hex().substr(0, 8);
}

/// Whether a timing_key is that of a call that reads integers: indices and pointers, which say how much work there is.
bool reads_integers(const std::string& key) {
  const std::string inputs = key.substr(0, key.find(")->"));
  for (size_t at = 1; at + 1 < inputs.size(); ++at) {
    const bool begins = (inputs[at] == 'i' || inputs[at] == 'u') && (inputs[at - 1] == '(' || inputs[at - 1] == ',');
    if (begins && std::isdigit(static_cast<unsigned char>(inputs[at + 1]))) return true;
  }
  return false;
}

constexpr std::string_view kWithData = " with data ";

/// The name under which the time of a call is kept that was measured with such data.
std::string kept_key(const std::string& key, const std::string& data) {
  return data.empty() || !reads_integers(key) ? key : key + std::string(kWithData) + data;
}

/// Of all times that are kept, those that hold for such data, by timing_key.
std::map<std::string, double> times_with(const std::map<std::string, double>& kept, const std::string& data) {
  std::map<std::string, double> times;
  for (const auto& [name, seconds] : kept) {
    const std::string key = name.substr(0, name.find(kWithData));
    if (kept_key(key, data) == name) times[key] = seconds;
  }
  return times;
}

bool is_of(const Machine& machine, const std::string& cpu, const Backend& backend, int threads) {
  if (machine.kernel_class != backend.kernel_class()) return false;
  if (find_device().has_own_memory()) return machine.name == find_device().machine;
  return machine.name == cpu && machine.device.units == threads && !was_busy(machine, backend);
}

}  // namespace

Machine local_machine(std::span<const Executable> stages, const Backend& backend, double budget_seconds,
                      const std::filesystem::path& streaming, bool between_processes,
                      std::span<const TensorView> batch) {
  const std::string cpu = cpu_name();
  const int threads = stages[0].threads;
  const int beside = std::max(std::min(stages[0].mesh.devices(), available_processors() / threads) - 1, 0);
  const int devices = stages[0].mesh.devices();
  const std::filesystem::path file = cache_file(cpu, backend, threads, devices, between_processes);
  Machine machine;
  try {
    if (!file.empty() && std::filesystem::exists(file)) machine = parse_machine(read_file(file), file.string());
  } catch (const std::exception&) {
    machine = {};
  }
  if (!is_of(machine, cpu, backend, threads)) {
    machine = probe_machine(backend, threads);
    measure_meetings(machine, devices);
  }
  const std::string data = kind_of_data(batch);
  std::map<std::string, double> kept = std::exchange(machine.measured_calls, {});
  machine.measured_calls = times_with(kept, data);
  if (lacks_calls(machine, stages))
    rehearse(machine, stages, backend, budget_seconds, beside, between_processes, batch);
  for (const Executable& exe : stages)
    measure_missing(machine, exe, backend, budget_seconds / static_cast<double>(stages.size()), beside, batch);
  if (!streaming.empty()) measure_files(machine, streaming);
  if (file.empty()) return machine;
  try {
    std::filesystem::create_directories(file.parent_path());
    for (const auto& [key, seconds] : machine.measured_calls) kept[kept_key(key, data)] = seconds;
    Machine written = machine;
    written.measured_calls = std::move(kept);
    write_file_atomic(file, print_machine(written));
  } catch (const std::exception&) {  // no place to keep it: measured again next time
  }
  return machine;
}

Machine local_machine(std::span<const Executable> stages, const Layout& layout, bool between_processes,
                      std::span<const TensorView> batch) {
  constexpr double kBudgetSeconds = 2;
  return local_machine(stages, find_device().backend(), kBudgetSeconds,
                       layout.streams_to_files() ? layout.streaming : "", between_processes, batch);
}

Machine local_machine(const Executable& exe, const Backend& backend, double budget_seconds,
                      const std::filesystem::path& streaming, std::span<const TensorView> batch) {
  return local_machine(std::span(&exe, 1), backend, budget_seconds, streaming, false, batch);
}

}  // namespace ramet::measure
