#include "ramet/program/place.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/program/place_problem.h"

namespace ramet::program {
namespace {

int64_t align_up(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) & -alignment; }

/// Items in the order of keys, highest first; equal keys keep the order of time, so that the result is one.
template <typename Key>
std::vector<int32_t> ordered(const PlaceProblem& problem, Key key) {
  std::vector<int32_t> order(problem.items.size());
  std::iota(order.begin(), order.end(), 0);
  using Value = decltype(key(0));
  std::vector<Value> keys;
  keys.reserve(order.size());
  for (int32_t i : order) keys.push_back(key(i));
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return keys[static_cast<size_t>(a)] > keys[static_cast<size_t>(b)]; });
  return order;
}

struct NamedOrder {
  std::string name;
  std::vector<int32_t> order;
};

/// One order of the portfolio; built one at a time, because the first or second mostly ends the matter.
NamedOrder portfolio_order(const PlaceProblem& problem, int index) {
  using Key = std::array<int64_t, 3>;
  const auto size = [&](int32_t i) { return problem.items[static_cast<size_t>(i)].bytes; };
  const auto width = [&](int32_t i) {
    const auto& item = problem.items[static_cast<size_t>(i)];
    return static_cast<int64_t>(item.last) - item.first + 1;
  };
  const auto total = [&](int32_t i) { return problem.totals[static_cast<size_t>(i)]; };
  const auto area = [&](int32_t i) { return size(i) * width(i); };
  switch (index) {
    case 0: return {"total-width-area", ordered(problem, [&](int32_t i) { return Key{total(i), width(i), area(i)}; })};
    case 1: return {"size", ordered(problem, [&](int32_t i) { return Key{size(i), width(i), 0}; })};
    case 2: return {"area", ordered(problem, [&](int32_t i) { return Key{area(i), size(i), 0}; })};
    case 3: return {"width", ordered(problem, [&](int32_t i) { return Key{width(i), size(i), 0}; })};
    case 4: return {"total-area-width", ordered(problem, [&](int32_t i) { return Key{total(i), area(i), width(i)}; })};
    case 5: return {"width-area-total", ordered(problem, [&](int32_t i) { return Key{width(i), area(i), total(i)}; })};
    case 6:  // Items that live at the peak first, longest first, then outwards from the peak.
      return {"peak", ordered(problem, [&](int32_t i) {
                const auto& item = problem.items[static_cast<size_t>(i)];
                const int64_t away = std::max({0, item.first - problem.peak, problem.peak - item.last});
                return Key{-away, width(i), size(i)};
              })};
    case 7:
      return {"time",
              ordered(problem, [&](int32_t i) { return Key{-problem.items[static_cast<size_t>(i)].first, 0, 0}; })};
    default: return {};
  }
}
constexpr int kPortfolio = 8;

/// The search shares its work among so many of the best orders of the portfolio: where one leads to a height that no
/// small change lowers, another may not.
constexpr size_t kStarts = 4;

/// Solves one part: items that are connected in time.
Placement place_part(const PlaceProblem& problem, const PlaceOptions& options) {
  struct Start {
    int64_t height;
    NamedOrder from;
  };
  Placement best;
  best.bound = problem.bound;
  best.height = INT64_MAX;
  std::vector<Start> starts;
  FirstFit fit(problem);
  const int64_t good = problem.bound + static_cast<int64_t>(static_cast<double>(problem.bound) * options.tolerance);
  for (int i = 0; i < kPortfolio && best.height > good; ++i) {
    NamedOrder candidate = portfolio_order(problem, i);
    const int64_t height = fit.run(candidate.order);
    if (height < best.height) {
      best.height = height;
      best.offsets = fit.offsets();
      best.method = candidate.name;
    }
    starts.push_back({height, std::move(candidate)});
  }
  std::ranges::stable_sort(starts, {}, &Start::height);
  starts.resize(std::min(starts.size(), kStarts));
  const int64_t work = options.search_work / static_cast<int64_t>(kStarts);
  for (const Start& start : starts) {
    if (best.height <= good) break;
    const PlacementResult found = search_orders(problem, fit, start.from.order, start.height, good, work);
    if (found.height >= best.height) continue;
    best.height = found.height;
    best.offsets = found.offsets;
    best.method = "search from " + start.from.name;
  }
  best.work = fit.work();
  return best;
}

}  // namespace

int64_t live_bound(std::span<const PlaceItem> items, int64_t alignment, int32_t* instant) {
  std::vector<std::pair<int32_t, int64_t>> changes;
  changes.reserve(items.size() * 2);
  for (const PlaceItem& item : items) {
    const int64_t bytes = align_up(item.bytes, alignment);
    changes.emplace_back(item.first, bytes);
    changes.emplace_back(item.last + 1, -bytes);
  }
  std::sort(changes.begin(), changes.end());  // at one instant, what ends goes before what begins
  int64_t live = 0, most = 0;
  for (const auto& [when, bytes] : changes) {
    live += bytes;
    if (live > most) {
      most = live;
      if (instant) *instant = when;
    }
  }
  return most;
}

Placement place(std::span<const PlaceItem> items, const PlaceOptions& options) {
  if (options.alignment < 1 || !std::has_single_bit(static_cast<uint64_t>(options.alignment)))
    throw Error(
        {.what = "alignment of a placement", .found = std::to_string(options.alignment), .expected = "a power of two"});
  Placement placement;
  placement.offsets.assign(items.size(), 0);
  placement.bound = live_bound(items, options.alignment);
  std::vector<int32_t> by_time;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].bytes < 0 || items[i].last < items[i].first)
      internal_error("place", "item " + std::to_string(i) + " has a negative size or life");
    if (items[i].bytes > 0) by_time.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(by_time.begin(), by_time.end(), [&](int32_t a, int32_t b) {
    return items[static_cast<size_t>(a)].first < items[static_cast<size_t>(b)].first;
  });
  for (size_t begin = 0; begin < by_time.size();) {
    std::vector<PlaceItem> part;
    size_t end = begin;
    int32_t last = -1;
    for (; end < by_time.size(); ++end) {
      PlaceItem item = items[static_cast<size_t>(by_time[end])];
      if (end > begin && item.first > last) break;
      last = std::max(last, item.last);
      item.bytes = align_up(item.bytes, options.alignment);
      part.push_back(item);
    }
    const Placement solved = place_part(PlaceProblem(std::move(part)), options);
    for (size_t i = begin; i < end; ++i) placement.offsets[static_cast<size_t>(by_time[i])] = solved.offsets[i - begin];
    if (solved.height > placement.height || placement.method.empty()) placement.method = solved.method;
    placement.height = std::max(placement.height, solved.height);
    placement.work += solved.work;
    begin = end;
  }
  return placement;
}

}  // namespace ramet::program
