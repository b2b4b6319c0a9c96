#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace ramet::tests::fuzz {

/// Changes inputs at random, the same way for the same seed on every machine: flipped, changed, inserted, deleted,
/// repeated and moved bytes, numbers changed to their neighbours and to extremes, pieces of other inputs and words of
/// the format put in, and cuts.
class Mutator {
 public:
  /// `words` are what the format is made of (keys, keywords, magic numbers); may be empty.
  explicit Mutator(uint64_t seed, std::vector<std::string> words = {}) : random_(seed), words_(std::move(words)) {}

  /// One input made from `seeds[k]` for a random k by 1 to 8 changes; at most `most` bytes.
  std::string mutate(const std::vector<std::string>& seeds, size_t most = 1 << 16);

 private:
  size_t below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }
  void change(std::string& input, const std::vector<std::string>& seeds);
  void change_number(std::string& input);
  void change_binary_number(std::string& input);
  void insert(std::string& input, std::string_view piece);

  std::mt19937_64 random_;
  std::vector<std::string> words_;
};

}  // namespace ramet::tests::fuzz
