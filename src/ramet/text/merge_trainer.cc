#include "ramet/text/merge_trainer.h"

#include <algorithm>
#include <unordered_map>

namespace ramet::text {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}
int32_t left_of(uint64_t pair) { return static_cast<int32_t>(pair >> 32); }
int32_t right_of(uint64_t pair) { return static_cast<int32_t>(pair & 0xFFFFFFFFu); }

struct PairHash {
  size_t operator()(uint64_t pair) const { return (pair ^ pair >> 31) * 0x9E3779B97F4A7C15ull >> 7; }
};

struct PairState {
  int64_t count = 0;
  std::vector<uint32_t> words;  // where the pair may be; some no longer have it
};

/// Counts of all pairs, and a heap of earlier counts.
class PairCounts {
 public:
  explicit PairCounts(const std::vector<std::string>& symbols) : symbols_(symbols) {}

  void add(const TrainingWord& word, uint32_t index, int64_t sign) {
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      const uint64_t pair = pair_key(word.symbols[i], word.symbols[i + 1]);
      PairState& state = pairs_[pair];
      state.count += sign * word.count;
      if (sign < 0) continue;
      if (state.words.empty() || state.words.back() != index) state.words.push_back(index);
      changed_.push_back(pair);
    }
  }

  /// Counts that grew go on the heap; those that shrank are found out when they come up.
  void settle() {
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const uint64_t pair : changed_) push({pairs_[pair].count, pair});
    changed_.clear();
  }

  /// The pair to merge next, if it occurs `least` times; its words are taken out.
  bool pop(int64_t least, uint64_t& pair, std::vector<uint32_t>& words) {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), [this](const Entry& a, const Entry& b) { return later(a, b); });
      const Entry entry = heap_.back();
      heap_.pop_back();
      const auto found = pairs_.find(entry.pair);
      if (found == pairs_.end() || found->second.count < least) continue;
      if (found->second.count != entry.count) {
        if (found->second.count < entry.count) push({found->second.count, entry.pair});
        continue;  // one that grew has an entry of its own
      }
      pair = entry.pair;
      words = std::move(found->second.words);
      found->second.words.clear();
      return true;
    }
    return false;
  }

 private:
  struct Entry {
    int64_t count;
    uint64_t pair;
  };
  /// Whether `b` is to be merged before `a`.
  bool later(const Entry& a, const Entry& b) const {
    if (a.count != b.count) return a.count < b.count;
    const auto &al = text(left_of(a.pair)), &bl = text(left_of(b.pair));
    if (al != bl) return al > bl;
    return text(right_of(a.pair)) > text(right_of(b.pair));
  }
  const std::string& text(int32_t symbol) const { return symbols_[static_cast<size_t>(symbol)]; }
  void push(Entry entry) {
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end(), [this](const Entry& a, const Entry& b) { return later(a, b); });
  }

  const std::vector<std::string>& symbols_;
  std::unordered_map<uint64_t, PairState, PairHash> pairs_;
  std::vector<Entry> heap_;
  std::vector<uint64_t> changed_;
};

bool has_pair(const std::vector<int32_t>& symbols, int32_t left, int32_t right) {
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    if (symbols[i] == left && symbols[i + 1] == right) return true;
  return false;
}

void merge_pair(std::vector<int32_t>& symbols, int32_t left, int32_t right, int32_t merged) {
  size_t out = 0;
  for (size_t i = 0; i < symbols.size(); ++i, ++out) {
    const bool here = i + 1 < symbols.size() && symbols[i] == left && symbols[i + 1] == right;
    symbols[out] = here ? merged : symbols[i];
    i += here;
  }
  symbols.resize(out);
}

}  // namespace

MergeTrainer::MergeTrainer(std::vector<std::string> symbols, std::vector<TrainingWord> words,
                           std::function<std::string(const std::string&, const std::string&)> join)
    : symbols_(std::move(symbols)), words_(std::move(words)), join_(std::move(join)) {}

void MergeTrainer::train(int64_t size, int64_t min_frequency, const std::function<void(int64_t, int64_t)>& progress) {
  std::unordered_map<std::string, int32_t> ids;
  for (size_t i = 0; i < symbols_.size(); ++i) ids.emplace(symbols_[i], static_cast<int32_t>(i));
  PairCounts counts(symbols_);
  for (size_t i = 0; i < words_.size(); ++i) counts.add(words_[i], static_cast<uint32_t>(i), 1);
  counts.settle();
  uint64_t pair;
  std::vector<uint32_t> touched;
  while (static_cast<int64_t>(symbols_.size()) < size &&
         counts.pop(std::max<int64_t>(min_frequency, 1), pair, touched)) {
    const int32_t left = left_of(pair), right = right_of(pair);
    std::string joined = join_(symbols_[static_cast<size_t>(left)], symbols_[static_cast<size_t>(right)]);
    const auto [place, is_new] = ids.emplace(joined, static_cast<int32_t>(symbols_.size()));
    if (is_new) symbols_.push_back(std::move(joined));
    merges_.emplace_back(left, right);
    for (const uint32_t index : touched) {
      TrainingWord& word = words_[index];
      if (!has_pair(word.symbols, left, right)) continue;
      counts.add(word, index, -1);
      merge_pair(word.symbols, left, right, place->second);
      counts.add(word, index, 1);
    }
    counts.settle();
    if (progress && merges_.size() % 256 == 0) progress(static_cast<int64_t>(symbols_.size()), size);
  }
  if (progress) progress(static_cast<int64_t>(symbols_.size()), size);
}

}  // namespace ramet::text
