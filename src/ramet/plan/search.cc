#include "ramet/plan/search.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <tuple>

#include "ramet/base/file.h"

namespace ramet::plan {
namespace {

/// An estimate of memory this far above what there is waits behind all others: before and after some were compiled.
constexpr double kSurelyTooLarge = 1.4, kProbablyTooLarge = 1.1;
constexpr int64_t kOftenEnough = 4096;  ///< layouts between two looks at `stop`

std::string key_of(const Candidate& candidate) {
  return std::to_string(candidate.batch) + " " + print_layout(candidate.layout);
}

class Search {
 public:
  Search(const SearchSpace& space, CostModel& model, const std::function<Outcome(const Candidate&)>& evaluate,
         const SearchOptions& options, const std::function<void(const SearchProgress&)>& progress,
         const std::function<bool()>& stop)
      : space_(space), model_(model), evaluate_(evaluate), options_(options), progress_(progress), stop_(stop) {}

  SearchResult run() {
    for (Candidate& mesh : mesh_candidates(space_))
      push({model_.least_estimate(mesh), 0, false, std::move(mesh), {}, {}});
    const int all = options_.evaluations, for_front = all > 0 ? all / std::max(options_.front_share, 1) : 0;
    const int for_speed = all > 0 ? all - for_front : 0;
    look_for_speed(for_speed);
    if (result_.fitting.empty() && !result_.refused.empty()) {
      look_for_any(all);
      look_for_speed(for_speed);
    }
    if (!stopped() && !result_.fitting.empty() && for_front > 0) look_for_front(all);
    finish();
    return std::move(result_);
  }

 private:
  /// A mesh whose layouts are not unfolded yet, or a layout.
  struct Item {
    double seconds = 0;  ///< estimate, corrected
    int64_t number = 0;  ///< for ties: the first one first
    bool is_layout = false;
    Candidate candidate;
    CostEstimate estimate;
    LowerBound bound;
    bool relieved = false;    ///< made of a layout that was refused: it is tried at once
    int relieved_stage = -1;  ///< that layers were moved away from
  };
  struct Later {
    bool operator()(const Item& a, const Item& b) const {
      return std::tie(a.seconds, a.number) > std::tie(b.seconds, b.number);
    }
  };
  using Queue = std::priority_queue<Item, std::vector<Item>, Later>;
  using Shards = std::tuple<int, int, int, bool>;  ///< what estimates of time are wrong by together
  using Kind = std::tuple<bool, bool, bool, int>;  ///< what estimates of memory are wrong by together
  struct Correction {
    double sum = 0;
    int count = 0;
    void add(double ratio) { sum += ratio, ++count; }
    double factor() const { return count == 0 ? 1 : sum / count; }
  };

  bool stopped() {
    if (!result_.stopped && stop_ && stop_()) result_.stopped = true;
    return result_.stopped;
  }

  static Shards shards_of(const Candidate& c) { return {c.batch, c.layout.t1, c.layout.t2, c.layout.sequence}; }

  static Kind kind_of(const Candidate& c) {
    return {c.layout.phases > 1, c.layout.offload.activations, c.layout.p > 1,
            c.layout.recompute ? 1 + static_cast<int>(c.layout.recompute->mode) : 0};
  }

  /// Bytes, of which those of layouts of the same kind that were compiled tell more than the estimate alone.
  double bytes_of(const Candidate& candidate, const CostEstimate& estimate) const {
    const auto known = memory_.find(kind_of(candidate));
    return estimate.bytes * (known != memory_.end() ? known->second.factor() : 1);
  }

  double corrected(const Candidate& candidate, double seconds) const {
    const auto known = time_.find(shards_of(candidate));
    return seconds * (known != time_.end() ? known->second.factor() : all_time_.factor());
  }
  bool doubtful(const Item& item) const {
    if (item.relieved) return false;
    const double most = memory_.count(kind_of(item.candidate)) == 0 ? kSurelyTooLarge : kProbablyTooLarge;
    return options_.device_memory > 0 &&
           bytes_of(item.candidate, item.estimate) > most * static_cast<double>(options_.device_memory);
  }

  void push(Item item) {
    item.number = ++numbered_;
    const bool wait = item.is_layout && doubtful(item);
    (wait ? doubtful_ : queue_).push(std::move(item));
  }

  void unfold(const Candidate& mesh) {
    for (Candidate& candidate : layout_candidates(space_, mesh)) {
      if (++result_.considered % kOftenEnough == 0) {
        if (stopped()) return;
        tell(nullptr);
      }
      Item item{0, 0, true, std::move(candidate), {}, {}};
      item.bound = model_.bound(item.candidate);
      if (!may_fit(item)) continue;
      item.estimate = model_.estimate(item.candidate);
      item.estimate.seconds = std::max(item.estimate.seconds, item.bound.seconds);
      item.estimate.bytes = std::max(item.estimate.bytes, item.bound.bytes);
      item.seconds = corrected(item.candidate, item.estimate.seconds);
      push(std::move(item));
    }
  }

  bool may_fit(const Item& item) {
    if (options_.device_memory == 0 || item.bound.bytes <= static_cast<double>(options_.device_memory)) return true;
    ++result_.too_large;
    note_smallest(item.candidate, static_cast<int64_t>(item.bound.bytes), false);
    return false;
  }

  /// A compiled layout gives better figures than any bound.
  void note_smallest(const Candidate& candidate, int64_t bytes, bool exact) {
    if (bytes <= 0) return;
    const bool better = result_.smallest_bytes == 0 || (exact && !result_.smallest_is_exact) ||
                        (exact == result_.smallest_is_exact && bytes < result_.smallest_bytes);
    if (better) result_.smallest = candidate, result_.smallest_bytes = bytes, result_.smallest_is_exact = exact;
  }

  bool may_be_faster(const LowerBound& bound) const { return best_ < 0 || bound.seconds < best_; }

  /// The next layout in order of estimates; false when there is none that may be the fastest.
  bool next(Item& item) {
    for (Queue* queue : {&queue_, &doubtful_}) {
      // Where nothing fits yet, those that seem too large are looked through for the smallest, not for the fastest.
      if (queue == &doubtful_ && result_.fitting.empty() && !result_.refused.empty()) return false;
      while (!queue->empty() && !stopped()) {
        item = queue->top();
        queue->pop();
        if (!item.is_layout) {
          unfold(item.candidate);
          continue;
        }
        if (queue == &queue_ && doubtful(item)) {
          doubtful_.push(item);
          continue;
        }
        // The estimate has grown by more than 2% since this item was queued: queue it again. It grows by at least 2%
        // each time, so this terminates.
        const double now = corrected(item.candidate, item.estimate.seconds);
        if (now > 1.02 * item.seconds && !item.relieved) {
          item.seconds = now;
          queue->push(item);
          continue;
        }
        if (may_be_faster(item.bound)) return true;
        slower_.push_back(item);
      }
    }
    return false;
  }

  void look_for_speed(int most) {
    Item item;
    while (most == 0 || spent_ < most) {
      if (!next(item)) {
        result_.proven = !result_.stopped && doubtful_.empty();
        return;
      }
      take(item);
    }
    result_.proven = rest_is_slower();
  }

  /// Whether bounds alone rule out all remaining layouts; never while a mesh is not unfolded.
  bool rest_is_slower() {
    if (best_ < 0) return false;
    for (Queue queue : {queue_, doubtful_})
      for (; !queue.empty(); queue.pop())
        if (!queue.top().is_layout || may_be_faster(queue.top().bound)) return false;
    return true;
  }

  /// Where nothing fits yet: the layouts that need the least, whatever their time.
  void look_for_any(int most) {
    std::vector<Item> rest;
    for (Queue* queue : {&queue_, &doubtful_})
      while (!queue->empty() && !stopped()) {
        const Item item = queue->top();
        queue->pop();
        if (item.is_layout)
          rest.push_back(item);
        else
          unfold(item.candidate);
      }
    for (; !queue_.empty(); queue_.pop()) rest.push_back(queue_.top());
    while (!rest.empty() && spent_ < most && !stopped() && result_.fitting.empty()) {
      const auto smallest = std::min_element(rest.begin(), rest.end(), [&](const Item& a, const Item& b) {
        return std::make_pair(bytes_of(a.candidate, a.estimate), a.seconds) <
               std::make_pair(bytes_of(b.candidate, b.estimate), b.seconds);
      });
      take(*smallest);
      rest.erase(smallest);
    }
    for (Item& item : rest) push(std::move(item));
  }

  /// Layouts whose estimates say that nothing evaluated is both faster and smaller.
  void look_for_front(int most) {
    std::vector<Item> rest = slower_;
    for (; !queue_.empty(); queue_.pop())
      if (queue_.top().is_layout) rest.push_back(queue_.top());
    while (spent_ < most && !stopped()) {
      const Item* chosen = nullptr;
      double gain = 1;
      for (const Item& item : rest) {
        const double bytes = bytes_of(item.candidate, item.estimate);
        double smallest = 0;  // among layouts that are about as fast
        for (const Evaluated& each : result_.fitting)
          if (each.outcome.seconds <= corrected(item.candidate, item.estimate.seconds))
            if (smallest == 0 || static_cast<double>(each.outcome.bytes) < smallest)
              smallest = static_cast<double>(each.outcome.bytes);
        if (smallest > 0 && bytes > 0 && smallest / bytes > 1.1 * gain && !seen_.count(key_of(item.candidate)))
          gain = smallest / bytes, chosen = &item;
      }
      if (!chosen) return;
      take(*chosen);
    }
  }

  void tell(const Candidate* now) {
    if (!progress_) return;
    const Evaluated* best = nullptr;
    for (const Evaluated& each : result_.fitting)
      if (!best || each.outcome.seconds < best->outcome.seconds) best = &each;
    progress_({result_.considered, result_.too_large, spent_, options_.evaluations, now, best});
  }

  void take(const Item& item) {
    if (!seen_.insert(key_of(item.candidate)).second) return;
    tell(&item.candidate);
    Evaluated done{item.candidate, item.estimate, item.bound, evaluate_(item.candidate)};
    ++(item.relieved && result_.fitting.empty() && relieving_ < options_.evaluations ? relieving_ : spent_);
    if (done.outcome.bytes > 0 && item.estimate.bytes > 0 && !item.relieved)
      memory_[kind_of(item.candidate)].add(static_cast<double>(done.outcome.bytes) / item.estimate.bytes);
    if (!done.outcome.fits) {
      note_smallest(item.candidate, done.outcome.bytes, true);
      relieve(item, done);
      result_.refused.push_back(std::move(done));
      return;
    }
    if (item.estimate.seconds > 0)
      for (Correction* each : {&time_[shards_of(item.candidate)], &all_time_})
        each->add(done.outcome.seconds / item.estimate.seconds);
    if (best_ < 0 || done.outcome.seconds < best_) best_ = done.outcome.seconds;
    result_.fitting.push_back(std::move(done));
    tell(nullptr);
  }

  /// A layout that nearly fits may fit with one change: first the schedule that keeps the fewest activations, then the
  /// cut, since other stages may have room for some layers of a stage that is short of memory.
  void relieve(const Item& origin, const Evaluated& refused) {
    constexpr double kMost = 2;  // times the memory: beyond that, neither change is enough
    const int stage = refused.outcome.refused_stage;
    const auto memory = static_cast<double>(options_.device_memory);
    if (stage < 0 || memory == 0 || static_cast<double>(refused.outcome.bytes) > kMost * memory) return;
    std::optional<Candidate> other;
    if (refused.candidate.layout.schedule != PipelineSchedule::kOneFOneB && !space_.fixed.count("schedule")) {
      other = refused.candidate;
      other->layout.schedule = PipelineSchedule::kOneFOneB, other->layout.interleave = 1;
    } else if (!space_.fixed.count("layers") && (origin.relieved_stage < 0 || origin.relieved_stage == stage)) {
      other = model_.relieved(refused.candidate, stage);
    }
    if (!other || seen_.count(key_of(*other))) return;
    Item item{0, 0, true, std::move(*other), {}, {}};
    item.bound = model_.bound(item.candidate);
    item.estimate = model_.estimate(item.candidate);
    item.estimate.seconds = std::max(item.estimate.seconds, item.bound.seconds);
    item.relieved = true;
    if (!item.candidate.layout.layers.empty()) item.relieved_stage = stage;
    // As long as nothing fits, what nearly did is the best that is known.
    item.seconds = result_.fitting.empty() ? std::min(origin.seconds, item.estimate.seconds)
                                           : corrected(item.candidate, item.estimate.seconds);
    push(std::move(item));
  }

  void finish() {
    auto& fitting = result_.fitting;
    std::stable_sort(fitting.begin(), fitting.end(), [](const Evaluated& a, const Evaluated& b) {
      const std::string first = print_layout(a.candidate.layout), second = print_layout(b.candidate.layout);
      return std::make_tuple(a.outcome.seconds, a.outcome.bytes, first.size(), first) <
             std::make_tuple(b.outcome.seconds, b.outcome.bytes, second.size(), second);
    });
    int64_t least = 0;
    for (size_t i = 0; i < fitting.size(); ++i)
      if (i == 0 || fitting[i].outcome.bytes < least) least = fitting[i].outcome.bytes, result_.front.push_back(i);
    if (!fitting.empty()) tell_neighbours(fitting.front());
  }

  void tell_neighbours(const Evaluated& best) {
    for (Candidate& candidate : neighbours(space_, best.candidate)) {
      Neighbour neighbour{candidate, change_of(best.candidate, candidate), "", false};
      judge(neighbour, best);
      result_.neighbours.push_back(std::move(neighbour));
    }
  }

  void judge(Neighbour& neighbour, const Evaluated& best) {
    neighbour.why = why_invalid(space_, neighbour.candidate);
    neighbour.refused = !neighbour.why.empty();
    if (neighbour.refused) return;
    const LowerBound bound = model_.bound(neighbour.candidate);
    if (options_.device_memory > 0 && bound.bytes > static_cast<double>(options_.device_memory)) {
      neighbour.refused = true;
      neighbour.why = bound.holds() + " alone do not fit into " + format_size(options_.device_memory);
      return;
    }
    const Evaluated* known = find(neighbour.candidate);
    Evaluated made;
    if (!known && options_.explain && !stopped()) {
      tell(&neighbour.candidate);
      made.outcome = evaluate_(neighbour.candidate);
      known = &made;
    }
    if (known && !known->outcome.fits) {
      neighbour.refused = true;
      neighbour.why = known->outcome.refused;
    } else if (known) {
      neighbour.why = text_of_seconds(known->outcome.seconds, best.outcome.seconds) + ", " +
                      format_size(known->outcome.bytes) + "; " + known->outcome.limit;
    } else {
      const CostEstimate estimate = model_.estimate(neighbour.candidate);
      neighbour.why = "not compiled: estimated " +
                      text_of_seconds(corrected(neighbour.candidate, estimate.seconds), best.outcome.seconds) + ", " +
                      format_size(static_cast<int64_t>(bytes_of(neighbour.candidate, estimate)));
    }
  }

  const Evaluated* find(const Candidate& candidate) const {
    for (const auto* all : {&result_.fitting, &result_.refused})
      for (const Evaluated& each : *all)
        if (key_of(each.candidate) == key_of(candidate)) return &each;
    return nullptr;
  }

  static std::string text_of_seconds(double seconds, double best) {
    char text[64];
    std::snprintf(text, sizeof text, "%.3g s a step (%+.1f%%)", seconds, 100 * (seconds / best - 1));
    return text;
  }

  std::string change_of(const Candidate& from, const Candidate& to) const {
    if (from.batch != to.batch) return "micro_batch=" + std::to_string(space_.batch_of(to).micro_batch);
    return change_text(from.layout, to.layout);
  }
  static std::string change_text(const Layout& from, const Layout& to);

  const SearchSpace& space_;
  CostModel& model_;
  const std::function<Outcome(const Candidate&)>& evaluate_;
  const SearchOptions options_;
  const std::function<void(const SearchProgress&)>& progress_;
  const std::function<bool()>& stop_;
  SearchResult result_;
  Queue queue_, doubtful_;
  std::vector<Item> slower_;  ///< that bounds rule out as the fastest
  std::map<Shards, Correction> time_;
  Correction all_time_;
  std::map<Kind, Correction> memory_;
  std::set<std::string> seen_;
  int64_t numbered_ = 0;
  int spent_ = 0, relieving_ = 0;  ///< layouts compiled; those that only try to make one fit count apart
  double best_ = -1;
};

/// The keys in which `to` differs, with its values: "p=8 r=2", "recompute=none".
std::string Search::change_text(const Layout& from, const Layout& to) {
  const auto words_of = [](const Layout& layout) {
    std::vector<std::string> words;
    const std::string text = print_layout(layout) + " ";
    for (size_t at = 0, end; (end = text.find(' ', at)) != text.npos; at = end + 1)
      words.push_back(text.substr(at, end - at));
    return words;
  };
  const auto before = words_of(from), after = words_of(to);
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  for (const auto& word : after)
    if (std::find(before.begin(), before.end(), word) == before.end()) add(word);
  for (const auto& word : before) {
    const std::string key = word.substr(0, word.find('=') + 1);
    if (std::none_of(after.begin(), after.end(), [&](const std::string& other) { return other.starts_with(key); }))
      add("no " + word);
  }
  return text;
}

}  // namespace

SearchResult search_layouts(const SearchSpace& space, CostModel& model,
                            const std::function<Outcome(const Candidate&)>& evaluate, const SearchOptions& options,
                            const std::function<void(const SearchProgress&)>& progress,
                            const std::function<bool()>& stop) {
  return Search(space, model, evaluate, options, progress, stop).run();
}

}  // namespace ramet::plan
