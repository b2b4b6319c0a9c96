#include "ramet/machine/network.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ramet/base/error.h"

namespace ramet::machine {
namespace {

/// The most square grid of `size` units: its columns, the lesser divisor.
int64_t columns_of(int64_t size) {
  int64_t columns = static_cast<int64_t>(std::sqrt(static_cast<double>(size)));
  while (size % columns != 0) --columns;
  return columns;
}

int64_t slots_of(const LinkLevel& level) {
  switch (level.topology) {
    case Topology::kLadder:
    case Topology::kRing: return 2;     // on, back
    case Topology::kTorus: return 4;    // on, back along a row, then along a column
    case Topology::kFatTree: return 2;  // up, down
    case Topology::kAllToAll: return level.group;
    case Topology::kHostGateway: return 1;  // the first unit of a group holds its gateway's
  }
  internal_error("slots_of", "no such topology");
}

}  // namespace

Network::Network(const Machine& machine) : machine_(machine.name), devices_(machine.devices) {
  int64_t unit = 1, first = 0;
  for (const LinkLevel& figures : machine.links) {
    Level level{.figures = figures, .first = first, .slots = slots_of(figures), .unit = unit};
    if (figures.topology == Topology::kTorus) level.columns = columns_of(figures.group);
    first += devices_ / unit * level.slots;
    level_of_.resize(static_cast<size_t>(first), static_cast<int>(levels_.size()));
    unit *= figures.group;
    levels_.push_back(level);
  }
}

double Network::bandwidth(int64_t link) const {
  const LinkLevel& level = levels_[static_cast<size_t>(this->level(link))].figures;
  return level.links * level.bandwidth * level.efficiency;
}

double Network::alone(int level) const {
  const Level& at = levels_[static_cast<size_t>(level)];
  const double own = std::max(1.0, static_cast<double>(at.figures.links) / static_cast<double>(at.unit));
  // A gateway's links belong to no unit.
  const double links = at.figures.topology == Topology::kHostGateway ? at.figures.links : own;
  return links * at.figures.bandwidth * at.figures.efficiency;
}

double Network::meeting(int level) const { return levels_[static_cast<size_t>(level)].figures.barrier; }

std::string Network::name(int64_t link) const {
  const Level& level = levels_[static_cast<size_t>(this->level(link))];
  const int64_t unit = (link - level.first) / level.slots, slot = (link - level.first) % level.slots;
  const int64_t base = unit / level.figures.group * level.figures.group, own = unit - base, size = level.figures.group;
  const auto between = [&](int64_t other) {
    return level.figures.name + " " + std::to_string(unit) + ">" + std::to_string(base + other);
  };
  switch (level.figures.topology) {
    case Topology::kLadder:
    case Topology::kRing: return between((own + (slot == 0 ? 1 : size - 1)) % size);
    case Topology::kTorus: {
      const int64_t columns = level.columns, rows = size / columns, row = own / columns, column = own % columns;
      if (slot < 2) return between(row * columns + (column + (slot == 0 ? 1 : columns - 1)) % columns);
      return between((row + (slot == 2 ? 1 : rows - 1)) % rows * columns + column);
    }
    case Topology::kFatTree: return level.figures.name + " " + std::to_string(unit) + (slot == 0 ? " up" : " down");
    case Topology::kAllToAll: return between(slot);
    case Topology::kHostGateway: return level.figures.name + " " + std::to_string(unit / size);
  }
  internal_error("Network::name", "no such topology");
}

void Network::check(int device) const {
  if (device >= 0 && device < devices_) return;
  throw Error({.what = "no such device",
               .where = "machine " + machine_,
               .found = "device " + std::to_string(device),
               .expected = "0 to " + std::to_string(devices_ - 1)});
}

int Network::meeting_level(int from, int to) const {
  for (size_t l = 0; l < levels_.size(); ++l) {
    const int64_t joined = levels_[l].unit * levels_[l].figures.group;
    if (from / joined == to / joined) return static_cast<int>(l);
  }
  internal_error("Network::meeting_level", "devices that no level joins");
}

void Network::walk_line(const Level& level, int64_t first_unit, int64_t stride, int64_t size, int64_t from, int64_t to,
                        bool closed, int64_t slot, std::vector<int64_t>& links) const {
  const int64_t ahead = (to - from + size) % size;
  const bool on = closed ? 2 * ahead <= size : to > from;
  for (int64_t at = from; at != to; at = (at + (on ? 1 : size - 1)) % size)
    links.push_back(level.first + (first_unit + at * stride) * level.slots + slot + (on ? 0 : 1));
}

void Network::walk(const Level& level, int64_t base, int64_t from, int64_t to, std::vector<int64_t>& links) const {
  const int64_t size = level.figures.group;
  switch (level.figures.topology) {
    case Topology::kLadder: return walk_line(level, base, 1, size, from, to, false, 0, links);
    case Topology::kRing: return walk_line(level, base, 1, size, from, to, true, 0, links);
    case Topology::kTorus: {
      const int64_t columns = level.columns, row = from / columns, column = to % columns;
      walk_line(level, base + row * columns, 1, columns, from % columns, column, true, 0, links);
      return walk_line(level, base + column, columns, size / columns, row, to / columns, true, 2, links);
    }
    case Topology::kFatTree:
      links.push_back(level.first + (base + from) * 2);
      links.push_back(level.first + (base + to) * 2 + 1);
      return;
    case Topology::kAllToAll: links.push_back(level.first + (base + from) * level.slots + to); return;
    case Topology::kHostGateway: links.push_back(level.first + base); return;
  }
}

std::vector<int64_t> Network::route(int from, int to) const {
  check(from);
  check(to);
  std::vector<int64_t> links;
  if (from == to) return links;
  const Level& level = levels_[static_cast<size_t>(meeting_level(from, to))];
  const int64_t size = level.figures.group, base = from / level.unit / size * size;
  walk(level, base, from / level.unit - base, to / level.unit - base, links);
  return links;
}

double Network::latency(int from, int to) const {
  const std::vector<int64_t> links = route(from, to);
  if (links.empty()) return 0;
  return static_cast<double>(links.size()) * levels_[static_cast<size_t>(level(links[0]))].figures.latency;
}

Traffic Network::send(int from, int to, double bytes) const {
  const NetworkStep step{.messages = {{from, to, bytes}}};
  return run(std::span(&step, 1));
}

Traffic Network::run(std::span<const NetworkStep> steps) const {
  Traffic traffic;
  traffic.link_bytes.assign(level_of_.size(), 0);
  std::vector<double> carried(level_of_.size(), 0);
  for (const NetworkStep& step : steps) {
    std::vector<int64_t> used;
    std::map<std::pair<int, int64_t>, double> ends;  // bytes of a device through the first or the last link of a way
    double latency = 0, moving = 0;
    for (const Message& message : step.messages) {
      const std::vector<int64_t> links = route(message.from, message.to);
      if (links.empty()) continue;
      const Level& at = levels_[static_cast<size_t>(level(links[0]))];
      latency = std::max(latency, static_cast<double>(links.size()) * at.figures.latency);
      for (const int64_t link : links) {
        double& bytes = carried[static_cast<size_t>(link)];
        if (bytes == 0) used.push_back(link);
        bytes += message.bytes;
      }
      if (at.unit == 1) continue;
      ends[{message.from, links.front()}] += message.bytes;
      ends[{message.to, links.back()}] += message.bytes;
    }
    for (const auto& [end, bytes] : ends) moving = std::max(moving, bytes / alone(level(end.second)));
    for (const int64_t link : used) {
      double& bytes = carried[static_cast<size_t>(link)];
      moving = std::max(moving, bytes / bandwidth(link));
      traffic.link_bytes[static_cast<size_t>(link)] += bytes * static_cast<double>(step.times);
      bytes = 0;
    }
    traffic.seconds += (latency + moving) * static_cast<double>(step.times);
    traffic.latency += latency * static_cast<double>(step.times);
  }
  return traffic;
}

}  // namespace ramet::machine
