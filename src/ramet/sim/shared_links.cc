#include "ramet/sim/shared_links.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ramet/base/error.h"

namespace ramet::sim {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kRest = 1e-12;  // of an amount: what rounding may leave of a move that has ended

}  // namespace

SharedLinks::SharedLinks(std::vector<double> bandwidths) : bandwidths_(std::move(bandwidths)), next_(kNever) {}

int SharedLinks::add_kind(double latency, std::vector<LinkBytes> loads, double own_bytes, double seconds) {
  if (prepared_) internal_error("SharedLinks", "a kind after the first move");
  Kind kind;
  kind.latency = latency;
  kind.loads = std::move(loads);
  std::erase_if(kind.loads, [](const LinkBytes& load) { return load.bytes <= 0; });
  double longest = 0;
  for (const LinkBytes& load : kind.loads) {
    const double takes = load.bytes / bandwidths_[static_cast<size_t>(load.link)];
    if (takes > longest && own_bytes <= 0) kind.own = load.bytes;
    longest = std::max(longest, takes);
  }
  if (own_bytes > 0) kind.own = own_bytes;
  kind.all = longest > 0 ? 1 / longest : kNever;
  kind.most = seconds > 0 ? 1 / seconds : kNever;
  kind.alone = std::min(kind.all, kind.most);
  if (kind.alone == kNever) kind.alone = 0;
  kinds_.push_back(std::move(kind));
  return static_cast<int>(kinds_.size()) - 1;
}

double SharedLinks::seconds_alone(int kind, double amount) const {
  const Kind& of_kind = kinds_[static_cast<size_t>(kind)];
  return of_kind.latency + (of_kind.alone > 0 ? amount / of_kind.alone : 0);
}

/// Leaves out links that never bind: of links that the same kinds load in the same proportions, only the slowest
/// counts.
void SharedLinks::prepare() {
  prepared_ = true;
  std::vector<std::vector<std::pair<int, double>>> columns(bandwidths_.size());
  for (size_t k = 0; k < kinds_.size(); ++k)
    for (const LinkBytes& load : kinds_[k].loads)
      columns[static_cast<size_t>(load.link)].emplace_back(static_cast<int>(k), load.bytes);
  std::map<std::vector<std::pair<int, int64_t>>, size_t> slowest;  // shape of the column to link
  const auto seconds = [&](size_t link) { return columns[link][0].second / bandwidths_[link]; };
  for (size_t link = 0; link < columns.size(); ++link) {
    if (columns[link].empty()) continue;
    std::vector<std::pair<int, int64_t>> shape;
    for (const auto& [kind, bytes] : columns[link])
      shape.emplace_back(kind, std::llround(bytes / columns[link][0].second * 1e12));
    const auto [found, fresh] = slowest.emplace(std::move(shape), link);
    if (!fresh && seconds(link) > seconds(found->second)) found->second = link;
  }
  std::vector<bool> counts(bandwidths_.size(), false);
  for (const auto& [shape, link] : slowest) counts[link] = true;
  for (Kind& kind : kinds_)
    std::erase_if(kind.loads, [&](const LinkBytes& load) { return !counts[static_cast<size_t>(load.link)]; });
  room_.resize(bandwidths_.size());
  weight_.resize(bandwidths_.size());
  users_.assign(bandwidths_.size(), 0);
  kind_rates_.assign(kinds_.size(), 0);
}

int SharedLinks::start(int kind, double now, double amount) {
  if (!prepared_) prepare();
  const Kind& of_kind = kinds_[static_cast<size_t>(kind)];
  int number = 0;
  if (free_.empty()) {
    number = static_cast<int>(moves_.size());
    moves_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  Move& move = moves_[static_cast<size_t>(number)];
  move = {
      .kind = kind, .begins = now + of_kind.latency, .left = of_kind.alone > 0 ? amount : 0, .ends = now + of_kind.latency};
  live_.push_back(number);
  if (of_kind.latency <= 0 && move.left > 0) {
    move.flows = true;
    ++kinds_[static_cast<size_t>(kind)].under_way;
    set_rates(now);
  } else {
    next_ = std::min(next_, move.begins);
  }
  return number;
}

void SharedLinks::advance(double now, std::vector<int>& ended) {
  ended.clear();
  free_.insert(free_.end(), released_.begin(), released_.end());
  released_.clear();
  if (now < next_) {
    return;  // rates stay, and so does when each ends
  }
  bool changed = false;
  std::vector<int> still;
  for (const int number : live_) {
    Move& move = moves_[static_cast<size_t>(number)];
    if (move.flows ? move.ends <= now : move.begins <= now && move.left <= 0) {
      if (move.flows) {
        --kinds_[static_cast<size_t>(move.kind)].under_way;
        changed = true;
      }
      ended.push_back(number);
      released_.push_back(number);
      continue;
    }
    still.push_back(number);
  }
  live_.swap(still);
  // A move that has just begun has all of its amount left; the others lose the amount moved since rates were set.
  if (changed || std::any_of(live_.begin(), live_.end(), [&](int number) {
        const Move& move = moves_[static_cast<size_t>(number)];
        return !move.flows && move.begins <= now;
      }))
    set_rates(now);
  else
    find_next();
}

void SharedLinks::set_rates(double now) {
  for (const int number : live_) {
    Move& move = moves_[static_cast<size_t>(number)];
    Kind& kind = kinds_[static_cast<size_t>(move.kind)];
    if (move.flows) {
      move.left = std::max(0.0, move.left - std::max(0.0, now - std::max(now_, move.begins)) * kind.rate);
    } else if (move.begins <= now) {
      move.flows = true;
      ++kind.under_way;
    }
  }
  now_ = now;
  share();
  for (const int number : live_) {
    Move& move = moves_[static_cast<size_t>(number)];
    if (!move.flows) continue;
    const Kind& kind = kinds_[static_cast<size_t>(move.kind)];
    move.ends = move.left <= kRest ? now : now + move.left / kind.rate;
  }
  find_next();
}

void SharedLinks::find_next() {
  next_ = kNever;
  for (const int number : live_) {
    const Move& move = moves_[static_cast<size_t>(number)];
    next_ = std::min(next_, move.flows ? move.ends : move.begins);
  }
}

/// What each kind gets of the links, at this time.
void SharedLinks::share() {
  for (const int k : active_) kind_rates_[static_cast<size_t>(k)] = 0;
  active_.clear();
  for (const int number : live_) {
    const Move& move = moves_[static_cast<size_t>(number)];
    Kind& kind = kinds_[static_cast<size_t>(move.kind)];
    if (!move.flows || kind.listed) continue;
    kind.listed = true;
    active_.push_back(move.kind);
  }
  std::sort(active_.begin(), active_.end());
  touched_.clear();
  bool together = false;
  for (const int k : active_) {
    Kind& kind = kinds_[static_cast<size_t>(k)];
    kind.listed = false;
    kind.rate = std::min(kind.most, kind.all / kind.under_way);
    for (const LinkBytes& load : kind.loads) {
      const auto link = static_cast<size_t>(load.link);
      if (users_[link]++ == 0)
        touched_.push_back(load.link);
      else
        together = true;
    }
  }
  for (const int link : touched_) users_[static_cast<size_t>(link)] = 0;
  if (together) raise();
  for (const int k : active_) {
    const Kind& kind = kinds_[static_cast<size_t>(k)];
    kind_rates_[static_cast<size_t>(k)] = kind.rate * kind.under_way;
  }
}

/// Raises the throughput of all kinds together until a link is full; those on it stay so, the others go on.
void SharedLinks::raise() {
  for (const int link : touched_) room_[static_cast<size_t>(link)] = bandwidths_[static_cast<size_t>(link)];
  rising_ = active_;
  while (!rising_.empty()) {
    for (const int link : touched_) weight_[static_cast<size_t>(link)] = 0;
    for (const int k : rising_) {
      const Kind& kind = kinds_[static_cast<size_t>(k)];
      for (const LinkBytes& load : kind.loads)
        weight_[static_cast<size_t>(load.link)] += kind.under_way * load.bytes / kind.own;
    }
    double level = kNever;  // bytes a second of one move over its slowest link
    for (const int link : touched_)
      if (const auto l = static_cast<size_t>(link); weight_[l] > 0) level = std::min(level, room_[l] / weight_[l]);
    for (const int k : rising_) {
      const Kind& kind = kinds_[static_cast<size_t>(k)];
      level = std::min(level, kind.most * kind.own);
    }
    const auto is_full = [&](const LinkBytes& load) {
      const auto l = static_cast<size_t>(load.link);
      return room_[l] <= level * weight_[l] * (1 + kRest);
    };
    const auto stay = std::stable_partition(rising_.begin(), rising_.end(), [&](int k) {
      const Kind& kind = kinds_[static_cast<size_t>(k)];
      return kind.most * kind.own > level * (1 + kRest) && std::none_of(kind.loads.begin(), kind.loads.end(), is_full);
    });
    for (auto k = stay; k != rising_.end(); ++k) {
      Kind& kind = kinds_[static_cast<size_t>(*k)];
      kind.rate = level / kind.own;
    }
    for (auto k = stay; k != rising_.end(); ++k) {
      const Kind& kind = kinds_[static_cast<size_t>(*k)];
      for (const LinkBytes& load : kind.loads)
        room_[static_cast<size_t>(load.link)] -= kind.under_way * load.bytes * kind.rate;
    }
    rising_.erase(stay, rising_.end());
  }
}

}  // namespace ramet::sim
