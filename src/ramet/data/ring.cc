#include "ramet/data/ring.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/base/thread_team.h"

namespace ramet::data {
namespace {

/// A place of the sequence of all reads of one reader, over all rounds.
struct Position {
  int64_t round = 0;
  size_t index = 0;
};

/// Number of different micro-batches of a round that the readers read.
int64_t different(std::span<const RingReads> reads) {
  std::set<int32_t> all;
  for (const RingReads& each : reads) all.insert(each.begin(), each.end());
  return static_cast<int64_t>(all.size());
}

/// Whether one reader reads each micro-batch once, in order: then one that was read is never needed again.
bool in_order(std::span<const RingReads> reads) {
  const RingReads* only = nullptr;
  for (const RingReads& each : reads)
    if (!each.empty() && std::exchange(only, &each)) return false;
  return !only || std::adjacent_find(only->begin(), only->end(), std::greater_equal<>()) == only->end();
}

/// Different micro-batches that are held for each reader.
int64_t depth_of(std::span<const RingReads> reads, const RingOptions& options, bool repeatable) {
  return repeatable || in_order(reads) ? options.ahead : std::max(options.ahead, different(reads));
}

void check(const RingOptions& options, std::span<const RingReads> reads) {
  const auto refuse = [](const char* what, int64_t found, const std::string& expected) {
    throw Error({.what = what, .found = std::to_string(found), .expected = expected});
  };
  if (options.batch < 1) refuse("a batch needs samples", options.batch, "1 or more");
  if (options.round < 1) refuse("a round needs micro-batches", options.round, "1 or more");
  if (options.ahead < 1 || options.ahead > RingOptions::kMostHeld)
    refuse("the micro-batches held for a reader are out of range", options.ahead,
           "1 to " + std::to_string(RingOptions::kMostHeld));
  for (const RingReads& each : reads)
    for (const int32_t micro : each)
      if (micro < 0 || micro >= options.round)
        internal_error("BatchRing", "a read of micro-batch " + std::to_string(micro));
}

/// One micro-batch in memory.
struct Slot {
  enum class Condition { kEmpty, kMaking, kReady, kFailed };
  explicit Slot(const Signature& signature) : memory(signature) {}
  BatchMemory memory;
  int64_t number = -1;
  Condition condition = Condition::kEmpty;
  int64_t count = 0;
  std::exception_ptr error;
};

/// What one reader reads, and how far it is.
struct Reader {
  RingReads reads;
  std::vector<int64_t> before;  ///< of each read, the last earlier one of the same micro-batch in the round; -1: none
  Position at;
  double waited = 0;
};

}  // namespace

struct BatchRing::State {
  std::shared_ptr<const Source> source;
  RingOptions options;
  bool repeatable = true, by_step = false;
  int64_t depth = 1;
  std::vector<Reader> readers;
  std::vector<std::unique_ptr<Slot>> slots;
  std::unordered_map<int64_t, Slot*> by_number;  // of slots that are not empty
  mutable std::mutex mutex;
  std::condition_variable_any wanted, ready;  // work for the makers; a slot for a reader
  bool begun = false;
  int64_t last_round = -1;  // of a source that is not repeatable: the latest that was begun
  std::vector<bool> seen;   // micro-batches of the round whose count is in `sum`
  int64_t seen_count = 0, sum = 0, held = 0, most = 0;
  std::vector<std::jthread> threads;  // last: they end before the members that they use

  int64_t number_of(int64_t round, int64_t micro) const {
    const int64_t number = round * options.round + micro;
    return options.batches < 0 ? number : std::min(number, options.batches - 1);
  }
  int64_t number_of(const Position& place, const Reader& reader) const {
    return number_of(place.round, reader.reads[place.index]);
  }
  bool exists(int64_t round) const { return options.batches < 0 || round * options.round < options.batches; }

  /// Calls visit(number) for the next different micro-batches that a reader reads, `depth` at most, until `visit` says
  /// false.
  template <typename Visit>
  void each_next(const Reader& reader, const Visit& visit) const {
    if (reader.reads.empty()) return;
    Position place = reader.at;
    auto first = static_cast<int64_t>(place.index);  // micro-batches read before it in this round may be read again
    int64_t last = -1;
    for (int64_t found = 0; found < depth;) {
      if (place.index == reader.reads.size()) {
        if (by_step) return;  // the next step's samples are not there yet
        place = {place.round + 1, 0}, first = 0;
      }
      if (!exists(place.round)) return;
      const int64_t number = number_of(place, reader);
      // At the end of the data several micro-batches may be one.
      if (reader.before[place.index] < first && number != last) {
        ++found;
        if (!visit(number)) return;
        last = number;
      }
      ++place.index;
    }
  }

  Slot* find(int64_t number) const {
    const auto found = by_number.find(number);
    return found == by_number.end() ? nullptr : found->second;
  }

  /// A slot for another micro-batch: an empty one, or one whose micro-batch no reader is about to read.
  Slot* free_slot() const {
    for (const auto& slot : slots)
      if (slot->condition == Slot::Condition::kEmpty) return slot.get();
    std::unordered_set<int64_t> next;
    for (const Reader& reader : readers)
      each_next(reader, [&](int64_t number) {
        next.insert(number);
        return true;
      });
    for (const auto& slot : slots)
      if (slot->condition != Slot::Condition::kMaking && !next.contains(slot->number)) return slot.get();
    return nullptr;
  }

  /// The micro-batch to make next: the one that a reader needs soonest, or, where samples come in order, the first of
  /// those that any reader needs. -1: none.
  int64_t pick() const {
    int64_t best = -1, soonest = INT64_MAX;
    for (const Reader& reader : readers) {
      int64_t distance = 0;
      each_next(reader, [&](int64_t number) {
        const int64_t urgency = repeatable ? distance++ : number;
        if (urgency < soonest && !find(number)) soonest = urgency, best = number;
        return !repeatable || best != number;
      });
    }
    return best;
  }

  /// The micro-batch to make next, and a slot for it; nothing where none is wanted or there is no room.
  std::optional<std::pair<int64_t, Slot*>> next_work() const {
    const int64_t number = begun ? pick() : -1;
    Slot* const slot = number < 0 ? nullptr : free_slot();
    return slot ? std::optional(std::pair(number, slot)) : std::nullopt;
  }
  /// Wakes one maker, if there is work: a processor that is taken from a kernel for nothing costs both of them time.
  void wake_maker() {
    if (next_work()) wanted.notify_one();
  }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    for (;;) {
      std::optional<std::pair<int64_t, Slot*>> next;
      wanted.wait(lock, stop, [&] { return (next = next_work()).has_value(); });
      if (stop.stop_requested()) return;
      const auto [number, slot] = *next;
      if (slot->condition == Slot::Condition::kEmpty)
        most = std::max(most, ++held);
      else
        by_number.erase(slot->number);
      slot->number = number;
      by_number[number] = slot;
      slot->condition = Slot::Condition::kMaking;
      slot->error = nullptr;
      wake_maker();  // for what is left
      lock.unlock();
      make(*slot, stop);
      lock.lock();
      slot->condition = slot->error ? Slot::Condition::kFailed : Slot::Condition::kReady;
      ready.notify_all();
    }
  }

  void make(Slot& slot, const std::stop_token& stop) const {
    try {
      source->fill(slot.number * options.batch, options.batch, {.tensors = slot.memory.tensors(), .stop = stop});
      if (options.count) slot.count = options.count(slot.memory.tensors());
    } catch (...) {
      slot.error = std::current_exception();
    }
  }

  /// Empties all slots: the samples are others now, whatever their numbers.
  void forget(std::unique_lock<std::mutex>& lock) {
    begun = false;  // nothing more is made of the old ones
    ready.wait(lock, [&] {
      return std::none_of(slots.begin(), slots.end(),
                          [](const auto& slot) { return slot->condition == Slot::Condition::kMaking; });
    });
    for (const auto& slot : slots) slot->condition = Slot::Condition::kEmpty;
    by_number.clear();
    held = 0;
  }

  void note(int64_t micro, const Slot& slot) {
    if (!options.count || seen[static_cast<size_t>(micro)]) return;
    seen[static_cast<size_t>(micro)] = true;
    ++seen_count;
    sum += slot.count;
  }
};

BatchRing::BatchRing(std::shared_ptr<const Source> source, std::vector<RingReads> reads, RingOptions options)
    : state_(std::make_unique<State>()) {
  check(options, reads);
  State& state = *state_;
  const int64_t slots = planned_slots(reads, options, source->repeatable());
  state.repeatable = source->repeatable();
  state.by_step = source->by_step();
  state.depth = depth_of(reads, options, state.repeatable);
  for (RingReads& each : reads) {
    Reader& reader = state.readers.emplace_back();
    std::vector<int64_t> last(static_cast<size_t>(options.round), -1);
    for (size_t i = 0; i < each.size(); ++i)
      reader.before.push_back(std::exchange(last[static_cast<size_t>(each[i])], static_cast<int64_t>(i)));
    reader.reads = std::move(each);
  }
  const Signature signature = source->signature(options.batch);
  for (int64_t i = 0; i < slots; ++i) state.slots.push_back(std::make_unique<Slot>(signature));
  state.seen.assign(static_cast<size_t>(options.round), false);
  state.source = std::move(source);
  constexpr int kProcessorsEach = 4, kMost = 8;
  int threads = options.threads > 0 ? options.threads : std::clamp(available_processors() / kProcessorsEach, 2, kMost);
  threads =
      state.repeatable ? static_cast<int>(std::min<int64_t>(threads, slots)) : std::min(1, static_cast<int>(slots));
  state.options = std::move(options);
  for (int i = 0; i < threads; ++i)
    state.threads.emplace_back([&state](const std::stop_token& stop) { state.work(stop); });
}

BatchRing::~BatchRing() {
  for (std::jthread& thread : state_->threads) thread.request_stop();
}

void BatchRing::begin(int64_t round) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (!state.repeatable && round <= state.last_round)
    throw Error({.what = "samples of a stream cannot be read again",
                 .found = "step " + std::to_string(round + 1) + " for the second time",
                 .remedy = "Train from a source that can make its samples again"});
  state.last_round = round;
  if (state.by_step) state.forget(lock);
  for (Reader& reader : state.readers) reader.at = {round, 0}, reader.waited = 0;
  for (const auto& slot : state.slots)
    if (slot->condition == Slot::Condition::kFailed) {
      slot->condition = Slot::Condition::kEmpty;
      state.by_number.erase(slot->number);
      --state.held;
    }
  state.seen.assign(state.seen.size(), false);
  state.seen_count = state.sum = 0;
  state.begun = true;
  state.wake_maker();
}

void BatchRing::read(size_t reader_number, int64_t micro,
                     const std::function<void(std::span<std::byte* const>)>& visit) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  Reader& reader = state.readers.at(reader_number);
  const bool more = state.begun && reader.at.index < reader.reads.size();
  const int64_t number = more ? state.number_of(reader.at, reader) : -1;
  if (!more || number != state.number_of(reader.at.round, micro))
    internal_error("BatchRing", "reader " + std::to_string(reader_number) + " reads micro-batch " +
                                    std::to_string(micro) + " out of its order");
  Slot* slot = nullptr;
  const auto there = [&] {
    slot = state.find(number);
    return slot && slot->condition != Slot::Condition::kMaking;
  };
  if (!there()) {
    const auto start = Clock::now();
    state.ready.wait(lock, there);
    reader.waited += seconds_since(start);
  }
  if (slot->error) std::rethrow_exception(slot->error);
  lock.unlock();
  visit(slot->memory.tensors());  // it stays as long as it is this reader's next
  lock.lock();
  state.note(micro, *slot);
  ++reader.at.index;
  state.wake_maker();
}

double BatchRing::waited_seconds() const {
  const std::lock_guard lock(state_->mutex);
  double most = 0;
  for (const Reader& reader : state_->readers) most = std::max(most, reader.waited);
  return most;
}

std::optional<int64_t> BatchRing::counted() const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->options.count || state_->seen_count < state_->options.round) return std::nullopt;
  return state_->sum;
}

int64_t BatchRing::used_bytes() const {
  int64_t bytes = 0;
  for (const auto& slot : state_->slots) bytes += slot->memory.bytes();
  for (const Reader& reader : state_->readers)
    bytes += std::ssize(reader.reads) * static_cast<int64_t>(sizeof(int32_t)) +
             std::ssize(reader.before) * static_cast<int64_t>(sizeof(int64_t));
  return bytes;
}

int64_t BatchRing::most_held() const {
  const std::lock_guard lock(state_->mutex);
  return state_->most;
}

int64_t BatchRing::slots() const { return std::ssize(state_->slots); }

int64_t BatchRing::planned_slots(std::span<const RingReads> reads, const RingOptions& options, bool repeatable) {
  const int64_t depth = depth_of(reads, options, repeatable);
  int64_t slots = 0;
  for (const RingReads& each : reads)
    if (!each.empty()) slots += depth;
  if (!repeatable) slots = std::min(slots, depth);  // readers of a stream share one window
  return options.batches < 0 ? slots : std::min(slots, options.batches);
}

int64_t BatchRing::planned_bytes(const Source& source, std::span<const RingReads> reads, const RingOptions& options) {
  int64_t count = 0;
  for (const RingReads& each : reads) count += std::ssize(each);
  return planned_slots(reads, options, source.repeatable()) * place_bytes(source.signature(options.batch)) +
         count * static_cast<int64_t>(sizeof(int32_t) + sizeof(int64_t));
}

}  // namespace ramet::data
