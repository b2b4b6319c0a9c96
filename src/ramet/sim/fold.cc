#include "ramet/sim/fold.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <unordered_map>

namespace ramet::sim {
namespace {

uint64_t mixed(uint64_t seed, uint64_t value) {
  // splitmix64 (Steele, Lea and Flood 2014)
  uint64_t z = seed * 0x9e3779b97f4a7c15u + value + 0x632be59bd9b4e019u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Sums that were made in different orders are the same bytes.
uint64_t bits_of(double value) { return std::bit_cast<uint32_t>(static_cast<float>(value)); }

uint64_t hash_of(uint64_t seed, std::vector<uint64_t>& unordered) {
  std::sort(unordered.begin(), unordered.end());
  for (const uint64_t value : unordered) seed = mixed(seed, value);
  return seed;
}

/// Numbers in order of first appearance.
std::vector<int32_t> numbered(const std::vector<uint64_t>& colours, size_t& count) {
  std::unordered_map<uint64_t, int32_t> number;
  std::vector<int32_t> result;
  for (const uint64_t colour : colours)
    result.push_back(number.emplace(colour, static_cast<int32_t>(number.size())).first->second);
  count = number.size();
  return result;
}

/// Colours of devices, moves and links, made finer until they agree with each other.
class Refinement {
 public:
  explicit Refinement(const Moves& moves) : moves_(moves), links_(moves.bandwidths().size()) {
    for (int d = 0; d < moves.devices(); ++d) devices_.push_back(mixed(1, static_cast<uint64_t>(moves.stage_of(d))));
    for (size_t l = 0; l < links_.size(); ++l)
      links_[l] = mixed(bits_of(moves.bandwidths()[l]), static_cast<uint64_t>(moves.channel_of()[l]));
    instances_.resize(moves.moves().size());
  }

  void run() {
    for (size_t before = 0;;) {
      colour_moves();
      colour_links();
      colour_moves();
      colour_devices();
      size_t count = 0, of_moves = 0, of_links = 0;
      numbered(devices_, count);
      numbered(instances_, of_moves);
      numbered(links_, of_links);
      if (count + of_moves + of_links == before) return;
      before = count + of_moves + of_links;
    }
  }
  const std::vector<uint64_t>& devices() const { return devices_; }
  const std::vector<uint64_t>& moves() const { return instances_; }
  const std::vector<uint64_t>& links() const { return links_; }

 private:
  void colour_moves() {
    std::vector<uint64_t> parts;
    for (size_t m = 0; m < instances_.size(); ++m) {
      const Move& move = moves_.moves()[m];
      uint64_t colour = mixed(static_cast<uint64_t>(move.what), bits_of(move.latency));
      parts.clear();
      for (const int32_t device : move.members) parts.push_back(devices_[static_cast<size_t>(device)]);
      colour = hash_of(colour, parts);
      parts.clear();
      for (const LinkBytes& load : move.loads)
        parts.push_back(mixed(links_[static_cast<size_t>(load.link)], bits_of(load.bytes)));
      instances_[m] = hash_of(colour, parts);
    }
  }
  void colour_links() {
    std::vector<std::vector<uint64_t>> parts(links_.size());
    for (size_t m = 0; m < instances_.size(); ++m)
      for (const LinkBytes& load : moves_.moves()[m].loads)
        parts[static_cast<size_t>(load.link)].push_back(mixed(instances_[m], bits_of(load.bytes)));
    for (size_t l = 0; l < links_.size(); ++l) links_[l] = hash_of(links_[l], parts[l]);
  }
  void colour_devices() {
    std::vector<std::vector<uint64_t>> parts(devices_.size());
    for (size_t m = 0; m < instances_.size(); ++m)
      for (const int32_t device : moves_.moves()[m].members)
        parts[static_cast<size_t>(device)].push_back(instances_[m]);
    for (size_t d = 0; d < devices_.size(); ++d) devices_[d] = hash_of(devices_[d], parts[d]);
  }

  const Moves& moves_;
  std::vector<uint64_t> devices_, instances_, links_;
};

void add_loads(DeviceClasses& fold, const Moves& moves, const std::vector<int32_t>& sort_of_link, size_t sorts) {
  std::vector<int32_t> first_of_sort(sorts, -1);
  for (size_t l = sort_of_link.size(); l-- > 0;)
    first_of_sort[static_cast<size_t>(sort_of_link[l])] = static_cast<int32_t>(l);
  std::vector<std::map<int32_t, double>> loads(fold.kinds.size());
  for (size_t m = 0; m < fold.kind_of.size(); ++m) {
    const auto k = static_cast<size_t>(fold.kind_of[m]);
    DeviceClasses::Kind& kind = fold.kinds[k];
    if (kind.moves++ == 0) kind.move = static_cast<int32_t>(m);
    kind.channel_bytes.resize(moves.channels().size(), 0);
    double slowest = 0;
    for (const LinkBytes& load : moves.moves()[m].loads) {
      const auto link = static_cast<size_t>(load.link);
      kind.channel_bytes[static_cast<size_t>(moves.channel_of()[link])] += load.bytes;
      if (first_of_sort[static_cast<size_t>(sort_of_link[link])] == load.link) loads[k][load.link] += load.bytes;
      const double seconds = load.bytes / moves.bandwidths()[link];
      if (kind.move == static_cast<int32_t>(m) && seconds > slowest) {
        slowest = seconds;
        kind.own_bytes = load.bytes;
      }
    }
    for (const int32_t device : moves.moves()[m].members) {
      const int32_t of_member = fold.class_of[static_cast<size_t>(device)];
      if (std::find(kind.classes.begin(), kind.classes.end(), of_member) == kind.classes.end())
        kind.classes.push_back(of_member);
    }
  }
  for (size_t k = 0; k < loads.size(); ++k)
    for (const auto& [link, bytes] : loads[k]) fold.kinds[k].loads.push_back({link, bytes});
}

}  // namespace

DeviceClasses fold(const Moves& moves, bool together) {
  DeviceClasses result;
  const auto devices = static_cast<size_t>(moves.devices());
  std::vector<int32_t> sort_of_link(moves.bandwidths().size());
  size_t classes = devices, kinds = moves.moves().size(), sorts = sort_of_link.size();
  if (together) {
    Refinement refinement(moves);
    refinement.run();
    result.class_of = numbered(refinement.devices(), classes);
    result.kind_of = numbered(refinement.moves(), kinds);
    sort_of_link = numbered(refinement.links(), sorts);
  } else {
    result.class_of.resize(devices);
    result.kind_of.resize(kinds);
    for (std::vector<int32_t>* all : {&result.class_of, &result.kind_of, &sort_of_link})
      std::iota(all->begin(), all->end(), 0);
  }
  result.classes.resize(classes);
  result.kinds.resize(kinds);
  for (size_t d = 0; d < devices; ++d) {
    DeviceClasses::Class& alike = result.classes[static_cast<size_t>(result.class_of[d])];
    if (alike.devices++ == 0) alike.device = static_cast<int32_t>(d);
    alike.stage = moves.stage_of(static_cast<int>(d));
  }
  add_loads(result, moves, sort_of_link, sorts);
  return result;
}

}  // namespace ramet::sim
