#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::text {

/// A word to learn from: its symbols and how often it occurs.
struct TrainingWord {
  std::vector<int32_t> symbols;
  int64_t count = 0;
};

/// Learns merges by pair counts (Sennrich et al. 2016): the most frequent pair of neighbours becomes one symbol, until
/// `size` symbols are reached or no pair occurs `min_frequency` times. Equal counts go to the pair whose strings come
/// first in byte order. Counts are kept up to date by the words that a merge touches; a heap of counts, some out of
/// date, gives the next pair.
class MergeTrainer {
 public:
  /// `symbols`: strings of the first symbols; `join` makes the string of a merge.
  MergeTrainer(std::vector<std::string> symbols, std::vector<TrainingWord> words,
               std::function<std::string(const std::string&, const std::string&)> join);
  /// `progress(symbols so far, size)` is called now and then.
  void train(int64_t size, int64_t min_frequency, const std::function<void(int64_t, int64_t)>& progress);

  const std::vector<std::string>& symbols() const { return symbols_; }
  /// Pairs in the order in which they were merged. Two merges may spell the same symbol.
  const std::vector<std::pair<int32_t, int32_t>>& merges() const { return merges_; }

 private:
  std::vector<std::string> symbols_;
  std::vector<TrainingWord> words_;
  std::function<std::string(const std::string&, const std::string&)> join_;
  std::vector<std::pair<int32_t, int32_t>> merges_;
};

}  // namespace ramet::text
