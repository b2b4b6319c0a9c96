#include "ramet/program/place_problem.h"

#include <algorithm>
#include <bit>

namespace ramet::program {
namespace {

/// Renumbers instants so that only those at which some item begins remain: every set of items that are live together is
/// live at such an instant.
int32_t compact_instants(std::vector<PlaceItem>& items) {
  std::vector<int32_t> begins;
  begins.reserve(items.size());
  for (const PlaceItem& item : items) begins.push_back(item.first);
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  const auto count_up_to = [&](int32_t instant) {
    return static_cast<int32_t>(std::upper_bound(begins.begin(), begins.end(), instant) - begins.begin());
  };
  for (PlaceItem& item : items) {
    item.first = count_up_to(item.first) - 1;
    item.last = count_up_to(item.last) - 1;
  }
  return static_cast<int32_t>(begins.size());
}

/// Maximum over ranges of a fixed array, by a table of powers of two.
class RangeMaximum {
 public:
  explicit RangeMaximum(const std::vector<int64_t>& values) : levels_{values} {
    for (size_t step = 1; step * 2 <= values.size(); step *= 2) {
      const auto& below = levels_.back();
      std::vector<int64_t> level(below.size() - step);
      for (size_t i = 0; i < level.size(); ++i) level[i] = std::max(below[i], below[i + step]);
      levels_.push_back(std::move(level));
    }
  }
  int64_t operator()(int32_t first, int32_t last) const {
    const auto width = static_cast<size_t>(last - first) + 1;
    size_t level = 0;
    while ((size_t{2} << level) <= width) ++level;
    const auto& row = levels_[level];
    return std::max(row[static_cast<size_t>(first)], row[static_cast<size_t>(last) + 1 - (size_t{1} << level)]);
  }

 private:
  std::vector<std::vector<int64_t>> levels_;
};

}  // namespace

PlaceProblem::PlaceProblem(std::vector<PlaceItem> given) : items(std::move(given)) {
  instants = compact_instants(items);
  live.assign(static_cast<size_t>(instants) + 1, 0);
  for (const PlaceItem& item : items) {
    live[static_cast<size_t>(item.first)] += item.bytes;
    live[static_cast<size_t>(item.last) + 1] -= item.bytes;
  }
  for (size_t i = 1; i < live.size(); ++i) live[i] += live[i - 1];
  live.pop_back();
  for (int32_t i = 0; i < instants; ++i) {
    if (live[static_cast<size_t>(i)] <= bound) continue;
    bound = live[static_cast<size_t>(i)];
    peak = i;
  }
  const RangeMaximum most(live);
  for (const PlaceItem& item : items) totals.push_back(most(item.first, item.last));

  // Items come in order of `first`: an item that is still live when another begins overlaps it.
  std::vector<std::pair<int32_t, int32_t>> pairs;
  std::vector<int32_t> alive;
  std::vector<size_t> counts(items.size(), 0);
  for (int32_t i = 0; i < static_cast<int32_t>(items.size()); ++i) {
    const int32_t now = items[static_cast<size_t>(i)].first;
    std::erase_if(alive, [&](int32_t other) { return items[static_cast<size_t>(other)].last < now; });
    for (int32_t other : alive) {
      pairs.emplace_back(i, other);
      ++counts[static_cast<size_t>(other)];
    }
    counts[static_cast<size_t>(i)] += alive.size();
    alive.push_back(i);
  }
  starts.assign(items.size() + 1, 0);
  for (size_t i = 0; i < items.size(); ++i) starts[i + 1] = starts[i] + counts[i];
  overlaps.resize(starts.back());
  std::vector<size_t> next(starts.begin(), starts.end() - 1);
  for (const auto& [a, b] : pairs) {
    overlaps[next[static_cast<size_t>(a)]++] = b;
    overlaps[next[static_cast<size_t>(b)]++] = a;
  }
}

FirstFit::FirstFit(const PlaceProblem& problem) : problem_(problem), offsets_(problem.items.size(), -1) {}

int64_t FirstFit::run(std::span<const int32_t> order, int64_t limit) {
  std::fill(offsets_.begin(), offsets_.end(), -1);
  int64_t height = 0;
  for (int32_t item : order) {
    taken_.clear();
    const auto neighbours = problem_.neighbours(item);
    for (int32_t other : neighbours) {
      const int64_t offset = offsets_[static_cast<size_t>(other)];
      if (offset >= 0) taken_.emplace_back(offset, offset + problem_.items[static_cast<size_t>(other)].bytes);
    }
    work_ +=
        static_cast<int64_t>(neighbours.size()) + static_cast<int64_t>(taken_.size()) * std::bit_width(taken_.size());
    std::sort(taken_.begin(), taken_.end());
    const int64_t bytes = problem_.items[static_cast<size_t>(item)].bytes;
    int64_t lowest = 0;
    for (const auto& [begin, end] : taken_) {
      if (begin - lowest >= bytes) break;
      lowest = std::max(lowest, end);
    }
    offsets_[static_cast<size_t>(item)] = lowest;
    height = std::max(height, lowest + bytes);
    if (height >= limit) return height;
  }
  return height;
}

PlacementResult search_orders(const PlaceProblem& problem, FirstFit& fit, const std::vector<int32_t>& start,
                              int64_t height, int64_t good, int64_t work) {
  PlacementResult best{height, {}};
  std::vector<int32_t> order = start, trial;
  uint64_t random = 0x9E3779B97F4A7C15u;
  const auto draw = [&](size_t below) {  // xorshift64*: any fixed sequence will do
    random ^= random >> 12, random ^= random << 25, random ^= random >> 27;
    return static_cast<size_t>((random * 0x2545F4914F6CDD1Du >> 33) % below);
  };
  fit.run(order);
  std::vector<int64_t> offsets = fit.offsets();
  const int64_t end = fit.work() + work;
  int64_t current = height;
  std::vector<size_t> high;  // positions in the order of the items that reach into the last part above `good`
  const auto find_high = [&] {
    high.clear();
    for (size_t p = 0; p < order.size(); ++p) {
      const auto item = static_cast<size_t>(order[p]);
      if (offsets[item] + problem.items[item].bytes > good) high.push_back(p);
    }
  };
  find_high();
  while (fit.work() < end && best.height > good && !high.empty()) {
    // An item that stands too high goes before some other, mostly one that is live at the same time.
    trial = order;
    const size_t from = high[draw(high.size())];
    const int32_t item = trial[from];
    size_t to = draw(from + 1);
    if (draw(4) == 0) to /= 4;
    trial.erase(trial.begin() + static_cast<std::ptrdiff_t>(from));
    trial.insert(trial.begin() + static_cast<std::ptrdiff_t>(to), item);
    const int64_t reached = fit.run(trial, current + 1);
    if (reached > current) continue;
    order.swap(trial);
    offsets = fit.offsets();
    current = reached;
    find_high();
    if (current < best.height) best = {current, offsets};
  }
  return best;
}

}  // namespace ramet::program
