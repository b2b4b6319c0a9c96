#include <algorithm>
#include <bit>
#include <set>

#include "ramet/base/error.h"
#include "ramet/machine/network.h"

namespace ramet::machine {
namespace {

using Groups = std::vector<std::vector<int>>;
using Steps = std::vector<NetworkStep>;

int count_of(const Groups& groups) { return static_cast<int>(groups[0].size()); }

/// Every member passes `bytes` to the next, and where `both` half of them to the one before; `times` over.
Steps ring(const Groups& groups, double bytes, int64_t times, bool both) {
  NetworkStep step{.messages = {}, .times = times};
  for (const auto& group : groups)
    for (size_t i = 0, n = group.size(); i < n; ++i) {
      step.messages.push_back({group[i], group[(i + 1) % n], both ? bytes / 2 : bytes});
      if (both) step.messages.push_back({group[i], group[(i + n - 1) % n], bytes / 2});
    }
  return {step};
}

/// Every member sends `bytes` to every other.
Steps direct(const Groups& groups, double bytes) {
  NetworkStep step;
  for (const auto& group : groups)
    for (const int from : group)
      for (const int to : group)
        if (from != to) step.messages.push_back({from, to, bytes});
  return {step};
}

/// Partners at distance 1, 2, 4, ... exchange half of their data, then half of that half (reduce-scatter).
Steps halving(const Groups& groups, double bytes) {
  Steps steps;
  for (size_t distance = 1; distance < groups[0].size(); distance *= 2) {
    bytes /= 2;
    NetworkStep step;
    for (const auto& group : groups)
      for (size_t i = 0; i < group.size(); ++i) step.messages.push_back({group[i], group[i ^ distance], bytes});
    steps.push_back(std::move(step));
  }
  return steps;
}

/// The fastest of all ways at once. Reduce-scatter and all-gather move the same; an all-reduce is one and the other.
Traffic flat(const Network& network, Exchange exchange, double bytes, const Groups& groups) {
  const int members = count_of(groups);
  const double part = bytes / members;
  const int64_t turns = exchange == Exchange::kAllReduce ? 2 : 1;
  std::vector<std::pair<const char*, Steps>> ways;
  ways.emplace_back("direct", direct(groups, part));
  if (exchange != Exchange::kAllToAll && members > 2) {  // of two, all ways are one
    ways.emplace_back("ring", ring(groups, part, members - 1, false));
    ways.emplace_back("two rings", ring(groups, part, members - 1, true));
    if (std::has_single_bit(static_cast<unsigned>(members))) ways.emplace_back("halving", halving(groups, bytes));
  }
  Traffic best;
  for (auto& [name, steps] : ways) {
    for (NetworkStep& step : steps) step.times *= turns;
    Traffic traffic = network.run(steps);
    traffic.way = name;
    if (!best.way.empty() && traffic.seconds >= best.seconds) continue;
    best = std::move(traffic);
    best.steps = std::move(steps);
  }
  return best;
}

void add(Traffic& sum, const Traffic& more) {
  sum.seconds += more.seconds;
  sum.latency += more.latency;
  sum.steps.insert(sum.steps.end(), more.steps.begin(), more.steps.end());
  sum.link_bytes.resize(std::max(sum.link_bytes.size(), more.link_bytes.size()));
  for (size_t i = 0; i < more.link_bytes.size(); ++i) sum.link_bytes[i] += more.link_bytes[i];
  if (more.way.empty()) return;
  sum.way += (sum.way.empty() ? "" : " + ") + more.way;
}

/// Groups as units see them: `inner` those members of a group that meet below some level, `outer` the k-th members of
/// all inner ones. Empty when the inner ones are not equally large, or there is but one or one member in each.
struct Cut {
  Groups inner, outer;
};
Cut cut_at(const Network& network, const Groups& groups, int level) {
  Cut cut;
  for (const auto& group : groups) {
    Groups own;
    for (const int device : group) {
      const auto home = std::find_if(own.begin(), own.end(), [&](const std::vector<int>& unit) {
        return network.level(network.route(unit[0], device)[0]) < level;
      });
      if (home == own.end())
        own.push_back({device});
      else
        home->push_back(device);
    }
    for (const auto& unit : own)
      if (unit.size() != own[0].size()) return {};
    for (size_t k = 0; k < own[0].size(); ++k) {
      std::vector<int> across;
      for (const auto& unit : own) across.push_back(unit[k]);
      cut.outer.push_back(across);
    }
    cut.inner.insert(cut.inner.end(), own.begin(), own.end());
  }
  for (const Groups* part : {&cut.inner, &cut.outer})
    for (const auto& group : *part)
      if (group.size() < 2 || group.size() != (*part)[0].size()) return {};
  return cut;
}

/// The outermost level that members of a group need.
int top_level(const Network& network, const Groups& groups) {
  int top = 0;
  for (const auto& group : groups)
    for (const int device : group)
      if (device != group[0]) top = std::max(top, network.level(network.route(group[0], device)[0]));
  return top;
}

Traffic best_of(const Network& network, Exchange exchange, double bytes, const Groups& groups) {
  if (count_of(groups) < 2) return {};
  Traffic best = flat(network, exchange, bytes, groups);
  if (exchange == Exchange::kAllToAll) return best;
  for (int level = top_level(network, groups); level > 0; --level) {
    const Cut cut = cut_at(network, groups, level);
    if (cut.inner.empty()) continue;
    // When units meet, each member has its part of the unit's data.
    Traffic levels = best_of(network, exchange, bytes, cut.inner);
    add(levels, best_of(network, exchange, bytes / count_of(cut.inner), cut.outer));
    if (levels.seconds < best.seconds) best = std::move(levels);
    break;  // inner and outer parts are cut further by themselves
  }
  return best;
}

}  // namespace

Traffic collective(const Network& network, Exchange exchange, double bytes, std::span<const std::vector<int>> groups) {
  Traffic none;
  none.link_bytes.assign(static_cast<size_t>(network.links()), 0);
  if (groups.empty() || exchange == Exchange::kNone) return none;
  std::set<int> seen;
  for (const auto& group : groups) {
    if (group.size() != groups[0].size() || group.empty())
      throw Error({.what = "groups of a collective differ in size",
                   .found = std::to_string(group.size()),
                   .expected = std::to_string(groups[0].size()) + " devices in each"});
    for (const int device : group)
      if (!seen.insert(device).second)
        throw Error({.what = "a device stands twice in a collective", .found = "device " + std::to_string(device)});
  }
  Traffic traffic = best_of(network, exchange, bytes, Groups(groups.begin(), groups.end()));
  traffic.link_bytes.resize(static_cast<size_t>(network.links()));
  // Where a meeting of all was measured, messages cannot be there sooner.
  if (groups[0].size() > 1) traffic.meeting = network.meeting(top_level(network, {groups.begin(), groups.end()}));
  const double later = std::max(traffic.meeting - traffic.latency, 0.0);
  traffic.seconds += later;
  traffic.latency += later;
  return traffic;
}

}  // namespace ramet::machine
