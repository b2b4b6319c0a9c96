#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/machine/efficiency.h"
#include "ramet/machine/machine_toml.h"

namespace ramet::machine {
namespace {

std::string rate_text(double bytes) {
  return bytes < 9e18 ? format_size(static_cast<int64_t>(bytes)) + "/s" : std::to_string(bytes) + " B/s";
}

/// One walk over a machine's figures; throws at the first contradiction.
class Check {
 public:
  Check(const Machine& machine, const std::string& source) : machine_(machine), source_(source) {}

  void run() const {
    check_device();
    check_caches();
    check_efficiency();
    check_memories();
    check_links();
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& key, const std::string& found,
                           const std::string& expected) const {
    throw Error({.what = what, .where = source_ + " " + key, .found = found, .expected = expected});
  }

  void check_device() const {
    const DeviceKind& device = machine_.device;
    if (device.operations_per_cycle.count("f32") == 0)
      refuse("missing figure", "device.operations_per_cycle.f32", "",
             "the rate of f32, in which all that has no rate of its own is computed");
    const bool tiles = device.model == DeviceModel::kTiles;
    if (!tiles) return;
    const MemoryKind* memory = machine_.memory(MemoryRole::kDevice);
    const int64_t of_tiles = device.tiles.memory * device.units;
    if (memory && memory->bytes != of_tiles)
      refuse("figures contradict each other", "memory.device.bytes", format_size(memory->bytes),
             std::to_string(device.units) + " tiles of " + format_size(device.tiles.memory) + ", which are " +
                 std::to_string(of_tiles) + " bytes");
    const auto half = device.operations_per_cycle.find("f16");
    if (half != device.operations_per_cycle.end() &&
        half->second != 2 * std::max(device.tiles.half_macs, device.tiles.half_float_macs))
      refuse("figures contradict each other", "device.operations_per_cycle.f16", std::to_string(half->second),
             "twice the multiply-adds of device.tiles");
    if (const double single = device.operations_per_cycle.at("f32"); single != 2 * device.tiles.float_macs)
      refuse("figures contradict each other", "device.operations_per_cycle.f32", std::to_string(single),
             "twice the multiply-adds of device.tiles");
    if (device.tiles.half_sum_bits != 16 && device.tiles.half_sum_bits != 32)
      refuse("unknown width of sums", "device.tiles.half_sum_bits", std::to_string(device.tiles.half_sum_bits),
             "16 or 32");
    if (!device.caches.empty()) refuse("tiles have no caches", "device.caches", "", "none of them");
  }

  void check_caches() const {
    const auto& caches = machine_.device.caches;
    for (size_t i = 0; i + 1 < caches.size(); ++i) {
      const std::string key = "device.caches." + std::to_string(i + 1);
      if (caches[i + 1].bytes <= caches[i].bytes)
        refuse("an outer cache is no larger", key + ".bytes", format_size(caches[i + 1].bytes),
               "more than the " + format_size(caches[i].bytes) + " of " + caches[i].name);
      if (caches[i + 1].bandwidth > caches[i].bandwidth)
        refuse("an outer cache is faster", key + ".bandwidth", rate_text(caches[i + 1].bandwidth),
               "at most the " + rate_text(caches[i].bandwidth) + " of " + caches[i].name);
    }
  }

  void check_efficiency() const {
    const auto& table = machine_.device.efficiency;
    for (size_t i = 0; i < table.size(); ++i) {
      const std::string key = "device.efficiency." + std::to_string(i);
      for (size_t k = 0; k < i; ++k)
        if (table[k].op == table[i].op && table[k].dtype == table[i].dtype && table[k].shape == table[i].shape &&
            table[k].size == table[i].size)
          refuse("two shares of one size", key, "", "one entry for each op, dtype, shape and size");
    }
  }

  void check_memories() const {
    const auto& memories = machine_.memories;
    for (const MemoryKind& memory : memories) {
      const std::string key = std::string("memory.") + name_of(memory.role);
      if (machine_.devices % memory.devices != 0)
        refuse("devices cannot share it equally", key + ".devices", std::to_string(memory.devices),
               "a divisor of the machine's " + std::to_string(machine_.devices) + " devices");
      if (memory.total < std::max(memory.read, memory.write))
        refuse("figures contradict each other", key + ".total", rate_text(memory.total),
               "at least what one device alone reads or writes, " + rate_text(std::max(memory.read, memory.write)));
      if (memory.total > (memory.read + memory.write) * memory.devices * (1 + 1e-9))
        refuse("figures contradict each other", key + ".total", rate_text(memory.total),
               "at most what its devices read and write alone, " +
                   rate_text((memory.read + memory.write) * memory.devices));
    }
    const MemoryKind& own = *machine_.memory(MemoryRole::kDevice);
    if (own.devices != 1 && machine_.device.model == DeviceModel::kTiles)
      refuse("tiles share memory", "memory.device.devices", std::to_string(own.devices), "1");
    for (const MemoryKind& memory : memories)
      if (memory.role != MemoryRole::kDevice && std::max(memory.read, memory.write) > own.total)
        refuse("a memory beside the device is faster than its own", std::string("memory.") + name_of(memory.role),
               rate_text(std::max(memory.read, memory.write)), "at most " + rate_text(own.total));
  }

  void check_links() const {
    int64_t joined = 1;
    for (const LinkLevel& level : machine_.links) joined = std::min<int64_t>(joined * level.group, int64_t{1} << 40);
    if (joined != machine_.devices)
      refuse(machine_.links.empty() ? "devices without links" : "figures contradict each other", "links",
             "groups that join " + std::to_string(joined) + (joined == 1 ? " device" : " devices"),
             "as many as the machine has, " + std::to_string(machine_.devices));
    for (size_t i = 0; i < machine_.links.size(); ++i)
      if (machine_.links[i].topology == Topology::kTorus && machine_.links[i].group < 4)
        refuse("a torus of a line", "links." + std::to_string(i) + ".group", std::to_string(machine_.links[i].group),
               "4 or more; ring or ladder for fewer");
  }

  const Machine& machine_;
  const std::string& source_;
};

}  // namespace

void validate(const Machine& machine, const std::string& source) {
  if (!machine.memory(MemoryRole::kDevice))
    throw Error({.what = "missing table", .where = source + " memory.device", .expected = "the memory of one device"});
  Check(machine, source).run();
}

}  // namespace ramet::machine
