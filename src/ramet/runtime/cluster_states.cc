#include <algorithm>
#include <cstring>
#include <set>

#include "ramet/base/error.h"
#include "ramet/runtime/cluster_state.h"

namespace ramet::runtime {
namespace {

/// Runs of [begin, end) of the logical tensor: first and behind the last.
struct RunRange {
  const ShardRun* first = nullptr;
  const ShardRun* last = nullptr;
  int64_t local_begin = 0, local_end = 0;  ///< the device's elements that they mean: all that lie between are theirs

  bool empty() const { return first == last; }
};

RunRange runs_in(const std::vector<ShardRun>& runs, int64_t begin, int64_t end) {
  // Both orders are the row-major one, so runs ascend in both.
  const auto behind = [](const ShardRun& run) { return run.logical + run.count; };
  const auto first =
      std::partition_point(runs.begin(), runs.end(), [&](const ShardRun& run) { return behind(run) <= begin; });
  const auto last = std::partition_point(first, runs.end(), [&](const ShardRun& run) { return run.logical < end; });
  RunRange range{runs.data() + (first - runs.begin()), runs.data() + (last - runs.begin()), 0, 0};
  if (range.empty()) return range;
  const ShardRun &low = *range.first, &high = range.last[-1];
  range.local_begin = low.local + std::max<int64_t>(0, begin - low.logical);
  range.local_end = high.local + std::min(high.count, end - high.logical);
  return range;
}

/// Calls `body(logical, local, count)` in elements, cut to [begin, end).
template <typename Body>
void each_run(const RunRange& range, int64_t begin, int64_t end, const Body& body) {
  for (const ShardRun* run = range.first; run != range.last; ++run) {
    const int64_t from = std::max(begin, run->logical), to = std::min(end, run->logical + run->count);
    body(from, run->local + (from - run->logical), to - from);
  }
}

}  // namespace

const StateMap& ClusterState::map_of(const StateTensor& state) {
  if (map.name == state.name) return map;
  map = {};
  std::set<std::vector<int64_t>> known;  // parts that somebody reads already
  for (int number = 0; number < mesh.devices(); ++number) {
    const Executable& exe = stage_of(number);
    const int index = exe.find_state(state.name);
    if (index < 0) continue;
    const StatePlace& place = exe.states[static_cast<size_t>(index)];
    Sharding sharding = place.sharding;
    if (alone()) sharding.logical = place.tensor.type;
    if (sharding.logical != state.type)
      throw Error({.what = "a state is taken for another type than it has",
                   .where = "'" + state.name + "'",
                   .found = state.type.text(),
                   .expected = sharding.logical.text()});
    const Mesh::Position position = mesh.position(number);
    std::vector<int64_t> part;
    for (const Cut& cut : sharding.cuts) part.push_back(part_of(cut, position));
    if (sharding.flat_parts > 1) part.push_back(position.replica / sharding.flat_stride % sharding.flat_parts);
    StateMap::Holder& holder = map.holders.emplace_back();
    holder.device = number;
    holder.reads = known.insert(part).second;
    if (!holder.reads && !local(number)) {
      map.holders.pop_back();
      continue;
    }
    if (rank_of(number) != 0)
      for_each_run(sharding, position, [&](const ShardRun& run) { holder.runs.push_back(run); });
  }
  if (map.holders.empty())
    throw Error({.what = "the step has no state of this name", .where = "layout", .found = "'" + state.name + "'"});
  map.name = state.name;
  map.element_bytes = static_cast<int64_t>(size_of(state.type.dtype));
  return map;
}

void ClusterState::write_window(const StateMap& where, int64_t offset, std::span<const std::byte> bytes) {
  on_devices([&](ClusterDevice& device) {
    for (const StateMap::Holder& holder : where.holders)
      if (holder.device == device.number) device.engine->write_state(where.name, offset, bytes);
  });
}

/// Devices of the leading rank copy their parts into place; other devices send theirs to the first device, in the order
/// in which they hold them.
void ClusterState::read_window(const StateMap& where, int64_t offset, std::span<std::byte> to) {
  const int64_t size = where.element_bytes, begin = offset / size, end = begin + static_cast<int64_t>(to.size()) / size;
  on_devices([&](ClusterDevice& device) {
    for (const StateMap::Holder& holder : where.holders) {
      if (!holder.reads) continue;
      const bool sends = rank_of(holder.device) != 0, own = holder.device == device.number;
      if (own && !sends) device.engine->read_state(where.name, offset, to);
      const RunRange range = sends ? runs_in(holder.runs, begin, end) : RunRange{};
      if (range.empty() || !(own || device.number == 0)) continue;
      device.packed.resize(static_cast<size_t>((range.local_end - range.local_begin) * size));
      const auto at = [&](auto& bytes, int64_t element) { return bytes.data() + element * size; };
      if (own) {
        device.window.resize(to.size());
        device.engine->read_state(where.name, offset, device.window);
        each_run(range, begin, end, [&](int64_t logical, int64_t mine, int64_t count) {
          std::memcpy(at(device.packed, mine - range.local_begin), at(device.window, logical - begin),
                      static_cast<size_t>(count * size));
        });
        device.transport->send(0, kHostTag, device.packed.data(), device.packed.size());
        continue;
      }
      device.transport->receive(holder.device, kHostTag, device.packed.data(), device.packed.size());
      each_run(range, begin, end, [&](int64_t logical, int64_t theirs, int64_t count) {
        std::memcpy(at(to, logical - begin), at(device.packed, theirs - range.local_begin),
                    static_cast<size_t>(count * size));
      });
    }
  });
}

}  // namespace ramet::runtime
