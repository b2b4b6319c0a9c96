#include "ramet/measure/survey.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/devices.h"
#include "ramet/machine/efficiency.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/measure/call_clock.h"
#include "ramet/measure/probe.h"
#include "ramet/measure/survey_links.h"
#include "ramet/runtime/streaming_store.h"
#include "ramet/transport/process.h"

namespace ramet::measure {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

/// A matrix product to time: of a shape class, at one of its sizes.
struct Shape3 {
  int64_t batch, m, k, n;
};
constexpr Shape3 kProducts[] = {
    {1, 128, 128, 128}, {1, 512, 512, 512},  {1, 1280, 1280, 1280},  // square
    {1, 16, 256, 256},  {1, 16, 1024, 1024}, {1, 64, 768, 3072},     // flat
    {1, 32, 1024, 32},  {1, 128, 4096, 128}, {1, 256, 8192, 256},    // deep
    {8, 32, 32, 32},    {32, 128, 64, 128},  {96, 256, 64, 256},     // batched
};

class Survey {
 public:
  Survey(const Backend& backend, const SurveyOptions& options)
      : backend_(backend), options_(options), team_(options.threads) {}

  Machine run() {
    machine_.name = "local";
    machine_.description = cpu_name();
    machine_.kernel_class = backend_.kernel_class();
    machine_.device.name = cpu_name();
    machine_.device.units = options_.threads;
    machine_.device.vector_bits = 512;
    machine_.processors = available_processors();
    machine_.devices = std::max(1, machine_.processors / options_.threads);
    tell("the clock");
    measure_clock();
    measure_overhead();
    measure_products();
    measure_caches();
    measure_memory();
    measure_gather();
    measure_streaming();
    return std::move(machine_);
  }

 private:
  /// What one of about forty measurements may take.
  double turn() const { return options_.seconds / 45; }
  void tell(const std::string& what) {
    if (options_.progress) options_.progress(what, std::min(1.0, turns_++ / 45.0));
  }
  void note(const std::string& key, double spread, const std::string& how = "") {
    machine_.notes[key] = {.source = "measured" + (how.empty() ? "" : ": " + how), .spread = spread};
  }
  Timing time(const Call& call, const std::function<void(std::span<std::byte* const>)>& prepare = {}) {
    return time_call(call, backend_, team_, 2000, turn(), nullptr, prepare);
  }

  /// Additions of which each needs the one before take a cycle each on all that we know.
  void measure_clock() {
    constexpr int64_t kRounds = 40'000;
    const Timing timing = sample(std::min(turn(), 0.5), [&] {
      uint64_t x = 1;
      for (int64_t i = 0; i < kRounds; ++i) {
        for (int k = 0; k < 16; ++k) {
          x += 3;
          __asm__ volatile("" : "+r"(x));  // each is done, one after the other
        }
      }
    });
    machine_.device.clock = std::clamp(16.0 * kRounds / timing.seconds, 1e8, 2e10);
    note("device.clock", timing.spread, "additions in a chain");
  }

  void measure_overhead() {
    tell("an instruction's overhead");
    const TensorType tiny{DType::kF32, {16}};
    const Timing timing = time(make_call(backend_, options_.threads, "add", {tiny, tiny}, {}));
    machine_.device.overhead = std::min(timing.seconds, 1e-3);
    note("device.overhead", timing.spread, "an addition of 16 numbers");
  }

  void measure_products() {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      std::vector<std::pair<Efficiency, double>> found;  // share is the rate, at first; spread
      double best = 0, best_spread = 0;
      for (const Shape3& s : kProducts) {
        const MatrixProduct product{.batch = s.batch, .m = s.m, .k = s.k, .n = s.n, .operands = dtype};
        const std::string shape = product_shape(product), name(name_of(dtype));
        tell(shape + " products of " + name);
        const Shape a = s.batch > 1 ? Shape{s.batch, s.m, s.k} : Shape{s.m, s.k};
        const Shape b = s.batch > 1 ? Shape{s.batch, s.k, s.n} : Shape{s.k, s.n};
        const Call call =
            make_call(backend_, options_.threads, "matmul", {TensorType{dtype, a}, TensorType{dtype, b}}, {});
        const Timing timing = time(call);
        const double size = 2.0 * static_cast<double>(s.batch * s.m) * static_cast<double>(s.k * s.n);
        const double rate = size / std::max(timing.seconds - machine_.device.overhead, timing.seconds / 10);
        found.push_back({{.op = "matmul", .dtype = name, .shape = shape, .size = size, .share = rate}, timing.spread});
        if (rate > best) {
          best = rate;
          best_spread = timing.spread;
        }
      }
      const std::string name(name_of(dtype));
      machine_.device.operations_per_cycle[name] = best / (machine_.device.clock * options_.threads);
      note("device.operations_per_cycle." + name, best_spread, "the fastest of the products below");
      for (auto& [entry, spread] : found) {
        entry.share /= best;
        const std::string key = "device.efficiency." + std::to_string(machine_.device.efficiency.size());
        note(key + ".share", spread);
        machine_.device.efficiency.push_back(entry);
      }
    }
  }

  /// Bytes a second of z = x + y over `bytes` in all, less what every call costs.
  std::pair<double, double> element_rate(int64_t bytes) {
    const TensorType vector{DType::kF32, {std::max<int64_t>(bytes / 12, 64)}};
    const Timing timing = time(make_call(backend_, options_.threads, "add", {vector, vector}, {}));
    const auto moved = static_cast<double>(3 * vector.bytes());
    return {moved / std::max(timing.seconds - machine_.device.overhead, timing.seconds / 10), timing.spread};
  }

  void measure_caches() {
    const std::pair<const char*, int> levels[] = {
        {"L1", _SC_LEVEL1_DCACHE_SIZE}, {"L2", _SC_LEVEL2_CACHE_SIZE}, {"L3", _SC_LEVEL3_CACHE_SIZE}};
    auto& caches = machine_.device.caches;
    for (const auto& [name, number] : levels) {
      const bool own = number != _SC_LEVEL3_CACHE_SIZE;  // each core's
      const int64_t bytes = sysconf(number) * (own ? options_.threads : 1);
      if (bytes <= 0 || (!caches.empty() && bytes <= caches.back().bytes)) continue;
      tell(std::string("element-wise work in ") + name);
      auto [rate, spread] = element_rate(bytes / 2);
      if (!caches.empty()) rate = std::min(rate, caches.back().bandwidth);
      const std::string key = "device.caches." + std::to_string(caches.size());
      caches.push_back({.name = name, .bytes = bytes, .bandwidth = rate});
      note(key + ".bandwidth", spread, "sums of two vectors that fill half of it");
      machine_.notes[key + ".bytes"] = {.source = "as the system says", .spread = 0};
    }
  }

  /// Bytes for measurements of memory and files: past caches where time allows.
  int64_t large() const {
    const int64_t past = 4 * std::max<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), 8 * kMiB);
    const auto affordable = static_cast<int64_t>(options_.seconds * 8) * kMiB;
    return std::clamp(std::min({past, affordable, available_memory() / 16}), 4 * kMiB, 256 * kMiB) & ~(kMiB - 1);
  }

  void measure_memory() {
    const int64_t bytes = large();
    Scratchpad pad(2 * bytes);
    std::byte *from = pad.take(bytes), *to = pad.take(bytes);
    const auto over = [&](ThreadTeam& team, const std::function<void(int64_t, int64_t)>& body) {
      const Timing timing = sample(
          turn(), [&] { team.split(bytes, 1 << 16, [&](int64_t begin, int64_t end, int) { body(begin, end); }); });
      return std::pair(static_cast<double>(bytes) / timing.seconds, timing.spread);
    };
    const auto copy = [&](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    };
    tell("reading memory");
    uint64_t sink = 0;
    const auto [read, read_spread] = over(team_, [&](int64_t begin, int64_t end) {
      uint64_t sum = 0;
      for (int64_t i = begin; i + 8 <= end; i += 8) {
        uint64_t word;
        std::memcpy(&word, from + i, 8);
        sum += word;
      }
      __atomic_fetch_add(&sink, sum, __ATOMIC_RELAXED);
    });
    tell("writing memory");
    const auto [write, write_spread] =
        over(team_, [&](int64_t begin, int64_t end) { std::memset(to + begin, 1, static_cast<size_t>(end - begin)); });
    tell("copies of all devices at once");
    ThreadTeam all(machine_.devices * options_.threads);
    const auto [copied, copy_spread] = over(all, copy);
    MemoryKind memory{.role = MemoryRole::kDevice,
                      .bytes = available_memory(),
                      .read = read,
                      .write = write,
                      .total = 2 * copied,
                      .devices = machine_.devices};
    memory.total = std::clamp(memory.total, std::max(read, write), (read + write) * memory.devices);
    machine_.memories.push_back(memory);
    note("memory.device.bytes", 0, "what the system could give");
    note("memory.device.read", read_spread, "a large vector read by one device");
    note("memory.device.write", write_spread, "a large vector written by one device");
    note("memory.device.total", copy_spread, "a large copy by all devices");
  }

  void measure_gather() {
    tell("gathers");
    const int64_t rows = std::max<int64_t>(large() / 1024, 64), count = std::max<int64_t>(rows / 2, 16);
    const Call call = make_call(backend_, options_.threads, "gather",
                                {TensorType{DType::kF32, {rows, 256}}, TensorType{DType::kI32, {count}}}, {});
    const Timing timing = time(call, [&](std::span<std::byte* const> inputs) {
      for (int64_t i = 0; i < count; ++i)
        store_element(inputs[1], DType::kI32, i, static_cast<double>(i * 2654435761 % rows));
    });
    const auto moved = static_cast<double>(call.cost.bytes_read + call.cost.bytes_written);
    const double share = std::min(moved / timing.seconds / machine_.bandwidth(), 1.0);
    note("device.efficiency." + std::to_string(machine_.device.efficiency.size()) + ".share", timing.spread,
         "rows of 1 KiB at random");
    machine_.device.efficiency.push_back(
        {.op = "gather", .dtype = "f32", .shape = "any", .size = moved, .share = share});
  }

  void measure_store(StreamingStore& store, MemoryRole role, int64_t bytes, const std::string& how) {
    Scratchpad pad(bytes);
    std::byte* memory = pad.take(bytes);
    const std::string key = std::string("memory.") + name_of(role);
    tell("writing to " + how);
    const Timing write = sample(2 * turn(), [&] { store.store(0, memory, bytes); });
    tell("reading from " + how);
    const Timing read = sample(2 * turn(), [&] { store.load(0, memory, bytes); });
    const double most = machine_.memory(MemoryRole::kDevice)->total;
    MemoryKind kind{.role = role, .bytes = bytes, .devices = machine_.devices};
    kind.read = std::min(static_cast<double>(bytes) / read.seconds, most);
    kind.write = std::min(static_cast<double>(bytes) / write.seconds, most);
    kind.total = std::clamp(most / 2, std::max(kind.read, kind.write), (kind.read + kind.write) * kind.devices);
    if (role == MemoryRole::kDisk) kind.total = std::max(kind.read, kind.write);
    note(key + ".read", read.spread, how);
    note(key + ".write", write.spread, how);
    note(key + ".total", 0, role == MemoryRole::kDisk ? "taken to be one way at a time" : "memory's copies");
    machine_.memories.push_back(kind);
  }

  void measure_streaming() {
    const int64_t bytes = large();
    const auto device = find_device().make(team_.size());
    measure_store(*make_ram_store(bytes, device.get()), MemoryRole::kStreaming, bytes, "a store in memory");
    machine_.memories.back().bytes = machine_.memory(MemoryRole::kDevice)->bytes;
    note("memory.streaming.bytes", 0, "what the system could give");
    const std::filesystem::space_info room = std::filesystem::space(options_.folder);
    measure_store(*make_file_store(bytes, {.folder = options_.folder}), MemoryRole::kDisk, bytes, "a file");
    machine_.memories.back().bytes = std::max<int64_t>(static_cast<int64_t>(room.available), 1);
    note("memory.disk.bytes", 0, "what the file system has free");
  }

  const Backend& backend_;
  const SurveyOptions& options_;
  ThreadTeam team_;
  Machine machine_;
  int turns_ = 0;
};

void add_link(Machine& machine, const LinkTiming& timing, LinkLevel level, const std::string& how) {
  const std::string key = "links." + std::to_string(machine.links.size());
  level.bandwidth = timing.bandwidth;
  level.latency = std::min(timing.latency, 1.0);
  level.barrier = std::min(timing.barrier, 1.0);
  machine.notes[key + ".bandwidth"] = {.source = "measured: large messages " + how, .spread = timing.bandwidth_spread};
  machine.notes[key + ".latency"] = {.source = "measured: messages of 8 bytes " + how, .spread = timing.latency_spread};
  machine.notes[key + ".barrier"] = {.source = "measured: meetings of all devices " + how,
                                     .spread = timing.barrier_spread};
  machine.links.push_back(level);
}

/// Ranks by host: level 0 within hosts, where each has several, then between hosts.
void survey_ranks(Machine& machine, Transport& rank, double seconds) {
  const int ranks = rank.devices();
  int hosts = 1, on_first = 0, peer = -1;
  for (int i = 0; i < ranks; ++i) {
    hosts = std::max(hosts, rank.host_of(i) + 1);
    on_first += rank.host_of(i) == 0;
    if (peer < 0 && rank.host_of(i) != 0) peer = i;
  }
  machine.devices = ranks;
  const bool equal = on_first * hosts == ranks;
  if (on_first > 1 && equal)
    add_link(machine, time_pair(rank, 0, 1, seconds / 8),
             {.name = "memory of a host", .topology = Topology::kHostGateway, .group = on_first},
             "between ranks of one host");
  if (hosts > 1)
    add_link(machine, time_pair(rank, 0, peer, seconds / 8),
             {.name = "MPI between hosts", .topology = Topology::kFatTree, .group = equal ? hosts : ranks},
             "between ranks of two hosts");
  if (machine.memories.empty()) return;
  for (MemoryKind& memory : machine.memories) {
    memory.devices = equal ? on_first : 1;
    memory.total =
        std::clamp(memory.total, std::max(memory.read, memory.write), (memory.read + memory.write) * memory.devices);
  }
  // Ranks that are bound to their cores see but those.
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  if (machine.processors < online)
    machine.processors = static_cast<int>(std::min<long>(online, static_cast<long>(machine.processors) * on_first));
}

}  // namespace

Machine survey_machine(const Backend& backend, const SurveyOptions& options, Transport* rank) {
  if (options.threads > available_processors())
    throw Error({.what = "too few processors for one device",
                 .found = std::to_string(options.threads) + " threads",
                 .expected = "at most " + std::to_string(available_processors())});
  Machine machine;
  if (!rank || rank->device() == 0) machine = Survey(backend, options).run();
  if (options.progress && (!rank || rank->device() == 0)) options.progress("messages between devices", 0.93);
  if (rank)
    survey_ranks(machine, *rank, options.seconds);
  else if (machine.devices > 1)
    add_link(machine, time_threads(machine.devices, options.seconds / 8),
             {.name = "memory", .topology = Topology::kHostGateway, .group = machine.devices}, "between threads");
  if (!rank || rank->device() == 0) validate(machine, "the survey");
  return machine;
}

}  // namespace ramet::measure
