#include "ramet/text/bpe.h"

#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <queue>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/text/bpe_words.h"
#include "ramet/text/word_cache.h"

namespace ramet::text {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";

/// GPT-2's printable letter of each byte: itself for printable Latin-1, else 256 and up in order.
constexpr std::array<uint32_t, 256> make_letters() {
  std::array<uint32_t, 256> letters{};
  uint32_t next = 256;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    letters[b] = printable ? b : next++;
  }
  return letters;
}
constexpr auto kLetters = make_letters();

constexpr std::array<int, 324> make_bytes() {
  std::array<int, 324> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (int b = 0; b < 256; ++b) bytes[kLetters[static_cast<size_t>(b)]] = b;
  return bytes;
}
constexpr auto kBytes = make_bytes();

/// The bytes that `letters` spells, or false.
bool spell(std::string_view letters, std::string& bytes) {
  bytes.clear();
  for (size_t i = 0; i < letters.size();) {
    bool invalid = false;
    const uint32_t c = next_code_point(letters, i, &invalid);
    if (invalid || c >= kBytes.size() || kBytes[c] < 0) return false;
    bytes += static_cast<char>(kBytes[c]);
  }
  return true;
}

/// Merge rules by pair of token ids.
class PairTable {
 public:
  struct Rule {
    uint64_t pair = ~0ull;
    int32_t rank = 0, result = 0;
  };
  explicit PairTable(size_t count) : rules_(std::bit_ceil(count * 2 + 2)) {}
  static uint64_t pair(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  /// False when the pair has a rule already.
  bool insert(Rule rule) {
    Rule& place = rules_[probe(rule.pair)];
    if (place.pair == rule.pair) return false;
    place = rule;
    return true;
  }
  const Rule* find(int32_t left, int32_t right) const {
    const Rule& rule = rules_[probe(pair(left, right))];
    return rule.pair == ~0ull ? nullptr : &rule;
  }

 private:
  size_t probe(uint64_t wanted) const {
    const size_t mask = rules_.size() - 1;
    uint64_t h = (wanted ^ wanted >> 29) * 0x9E3779B97F4A7C15ull;
    size_t slot = (h >> 32) & mask;
    while (rules_[slot].pair != wanted && rules_[slot].pair != ~0ull) slot = (slot + 1) & mask;
    return slot;
  }
  std::vector<Rule> rules_;
};

/// Symbols of a word as a list: `next` skips merged symbols.
struct Symbol {
  int32_t id, previous, next;
  const PairTable::Rule* rule;  // of this symbol and the next
};

}  // namespace

struct BpeTokenizer::Tables {
  explicit Tables(size_t merges) : rules(merges) {}

  std::array<int32_t, 256> byte_ids{};
  PairTable rules;
  std::vector<std::string> bytes;  // of each token
  uint32_t owner = WordCache::new_owner();

  /// Merges one word: `emit(id)` for each token in order.
  template <typename Emit>
  void merge(std::string_view word, Emit&& emit) const {
    if (word.size() <= 48)
      merge_short(word, emit);
    else
      merge_long(word, emit);
  }

  /// Scans all pairs for the lowest rank: best for words as they are.
  template <typename Emit>
  void merge_short(std::string_view word, Emit&& emit) const {
    std::array<int32_t, 48> ids;
    std::array<const PairTable::Rule*, 48> pair_rules;
    size_t count = word.size();
    for (size_t i = 0; i < count; ++i) ids[i] = byte_ids[static_cast<uint8_t>(word[i])];
    for (size_t i = 0; i + 1 < count; ++i) pair_rules[i] = rules.find(ids[i], ids[i + 1]);
    for (;;) {
      size_t best = count;
      for (size_t i = 0; i + 1 < count; ++i)
        if (pair_rules[i] && (best == count || pair_rules[i]->rank < pair_rules[best]->rank)) best = i;
      if (best == count) break;
      ids[best] = pair_rules[best]->result;
      --count;
      for (size_t i = best + 1; i < count; ++i) ids[i] = ids[i + 1], pair_rules[i - 1] = pair_rules[i];
      if (best + 1 < count) pair_rules[best] = rules.find(ids[best], ids[best + 1]);
      if (best > 0) pair_rules[best - 1] = rules.find(ids[best - 1], ids[best]);
    }
    for (size_t i = 0; i < count; ++i) emit(ids[i]);
  }

  /// The same by a heap, for a long run without a blank: n log n rather than n squared.
  template <typename Emit>
  void merge_long(std::string_view word, Emit&& emit) const {
    const auto count = static_cast<int32_t>(word.size());
    std::vector<Symbol> symbols(word.size());
    using Candidate = std::pair<int32_t, int32_t>;  // rank, position: lowest rank first, then leftmost
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
    for (int32_t i = 0; i < count; ++i)
      symbols[static_cast<size_t>(i)] = {byte_ids[static_cast<uint8_t>(word[static_cast<size_t>(i)])], i - 1,
                                         i + 1 < count ? i + 1 : -1, nullptr};
    const auto look = [&](int32_t i) {
      Symbol& symbol = symbols[static_cast<size_t>(i)];
      symbol.rule = symbol.next < 0 ? nullptr : rules.find(symbol.id, symbols[static_cast<size_t>(symbol.next)].id);
      if (symbol.rule) queue.emplace(symbol.rule->rank, i);
    };
    for (int32_t i = 0; i < count; ++i) look(i);
    while (!queue.empty()) {
      const auto [rank, i] = queue.top();
      queue.pop();
      Symbol& left = symbols[static_cast<size_t>(i)];
      if (left.id < 0 || !left.rule || left.rule->rank != rank) continue;  // out of date
      Symbol& right = symbols[static_cast<size_t>(left.next)];
      left.id = left.rule->result;
      left.next = right.next;
      right.id = -1;
      if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = i;
      look(i);
      if (left.previous >= 0) look(left.previous);
    }
    for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) emit(symbols[static_cast<size_t>(i)].id);
  }
};

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary, BpeMerges merges, BpeOptions options)
    : Tokenizer(std::move(vocabulary)), merges_(std::move(merges)), options_(options) {
  auto tables = std::make_unique<Tables>(merges_.size());
  Hasher hasher;
  hasher.update("bpe").update(std::to_string(options_.add_prefix_space));
  for (int b = 0; b < 256; ++b) {
    std::string letter;
    append_utf8(kLetters[static_cast<size_t>(b)], letter);
    tables->byte_ids[static_cast<size_t>(b)] =
        require_special(letter, "byte-level BPE (the letter of byte " + std::to_string(b) + ")");
  }
  for (const auto& token : vocabulary_.tokens()) {
    // A token outside the byte alphabet (an added one) stands for its own text.
    std::string bytes;
    tables->bytes.push_back(spell(token, bytes) ? bytes : token);
    hasher.update(token).update("\n");
  }
  for (size_t rank = 0; rank < merges_.size(); ++rank) {
    const auto& [left, right] = merges_[rank];
    const int32_t a = vocabulary_.find(left), b = vocabulary_.find(right), result = vocabulary_.find(left + right);
    if (a < 0 || b < 0 || result < 0)
      throw Error({.what = "merge " + std::to_string(rank) + " ('" + left + "' '" + right + "') needs token '" +
                           (a < 0   ? left
                            : b < 0 ? right
                                    : left + right) +
                           "', which the vocabulary lacks",
                   .remedy = "Take vocabulary and merges from the same model"});
    tables->rules.insert({PairTable::pair(a, b), static_cast<int32_t>(rank), result});
    hasher.update(left).update(" ").update(right).update("\n");
  }
  special_.end_of_text = vocabulary_.find(kEndOfText);
  special_.padding = vocabulary_.find("<pad>");
  special_.mask = vocabulary_.find("<mask>");
  special_.unknown = vocabulary_.find("<unk>");
  hash_ = hasher.digest();
  tables_ = std::move(tables);
}

BpeTokenizer::~BpeTokenizer() = default;

std::unique_ptr<BpeTokenizer> BpeTokenizer::load(const std::filesystem::path& vocab_json,
                                                 const std::filesystem::path& merges_txt, BpeOptions options) {
  Vocabulary vocabulary = read_vocabulary_json(vocab_json);
  const std::string text = read_file(merges_txt);
  BpeMerges merges;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    begin = end + 1;
    ++number;
    if ((number == 1 && line.starts_with("#version")) || line.empty()) continue;
    const size_t blank = line.find(' ');
    if (blank == 0 || blank == std::string_view::npos || blank + 1 == line.size() ||
        line.find(' ', blank + 1) != std::string_view::npos)
      throw Error({.what = "not a merge",
                   .where = merges_txt.string() + ":" + std::to_string(number),
                   .found = "'" + std::string(line.substr(0, 80)) + "'",
                   .expected = "two tokens with one blank between"});
    merges.emplace_back(line.substr(0, blank), line.substr(blank + 1));
  }
  try {
    return std::make_unique<BpeTokenizer>(std::move(vocabulary), std::move(merges), options);
  } catch (const Error& error) {
    ErrorParts parts = error.parts();
    parts.where = vocab_json.string() + " with " + merges_txt.string();
    throw Error(parts, error.kind());
  }
}

void BpeTokenizer::encode_into(std::string_view text, std::vector<int32_t>& ids, std::vector<TokenSpan>* spans,
                               SpecialText special) const {
  const Tables& tables = *tables_;
  WordCache& cache = WordCache::of_thread();
  const auto place = [&](size_t first, size_t at) {
    if (!spans) return;
    for (size_t i = first; i < ids.size(); ++i) {
      const size_t length = tables.bytes[static_cast<size_t>(ids[i])].size();
      spans->push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + length)});
      at += length;
    }
  };
  const auto one = [&](std::string_view part, size_t begin, size_t end) {
    const std::string_view word = part.substr(begin, end - begin);
    const size_t first = ids.size();
    WordCache::Entry* entry = nullptr;
    std::array<uint64_t, 3> key;
    if (word.size() <= WordCache::kMaxBytes) {
      key = WordCache::key(word.data(), word.size(), part.size() - begin);
      entry = &cache.slot(key);
      if (entry->owner == tables.owner && entry->word == key && entry->size == word.size()) {
        ids.insert(ids.end(), entry->ids.begin(), entry->ids.begin() + entry->count);
        return first;
      }
    }
    tables.merge(word, [&](int32_t id) { ids.push_back(id); });
    const size_t count = ids.size() - first;
    if (entry && count <= WordCache::kMaxTokens) {
      *entry = {key, tables.owner, static_cast<uint16_t>(word.size()), static_cast<uint16_t>(count), {}};
      std::copy(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), entry->ids.begin());
    }
    return first;
  };
  const auto part = [&](size_t begin, size_t end) {
    if (begin == end) return;
    const std::string_view piece = text.substr(begin, end - begin);
    if (options_.add_prefix_space && !is_unicode_space(static_cast<uint8_t>(piece[0]))) {
      const std::string prefixed = " " + std::string(piece);
      const size_t first_of_part = spans ? spans->size() : 0;
      scan_bpe_words(prefixed, [&](size_t b, size_t e) { place(one(prefixed, b, e), begin + b); });
      // The blank was not in the text: places are one byte too far, but for the first, which begins there.
      for (size_t i = first_of_part; spans && i < spans->size(); ++i) {
        TokenSpan& span = (*spans)[i];
        span.begin -= span.begin > begin;
        span.end -= 1;
      }
      return;
    }
    scan_bpe_words(piece, [&](size_t b, size_t e) { place(one(piece, b, e), begin + b); });
  };
  size_t begin = 0;
  if (special == SpecialText::kAsTokens && special_.end_of_text >= 0)
    for (size_t at; (at = text.find(kEndOfText, begin)) != std::string_view::npos; begin = at + kEndOfText.size()) {
      part(begin, at);
      ids.push_back(special_.end_of_text);
      place(ids.size() - 1, at);
    }
  part(begin, text.size());
}

std::string BpeTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    checked_token(id);
    text += tables_->bytes[static_cast<size_t>(id)];
  }
  return text;
}

bool BpeTokenizer::starts_word(int32_t id) const {
  const std::string& bytes = tables_->bytes[static_cast<size_t>(id)];
  return bytes.empty() || id == special_.end_of_text || static_cast<uint8_t>(bytes[0]) <= 0x20;
}

void BpeTokenizer::save(const std::filesystem::path& folder) const {
  std::filesystem::create_directories(folder);
  write_vocabulary_json(folder / "vocab.json", vocabulary_);
  std::string text = "#version: 0.2\n";
  for (const auto& [left, right] : merges_) text += left + " " + right + "\n";
  write_file_atomic(folder / "merges.txt", text);
  nlohmann::ordered_json config;
  config["tokenizer_class"] = "GPT2Tokenizer";
  config["add_prefix_space"] = options_.add_prefix_space;
  write_file_atomic(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

void for_each_bpe_word(std::string_view text, const std::function<void(std::string_view)>& word) {
  scan_bpe_words(text, [&](size_t begin, size_t end) { word(text.substr(begin, end - begin)); });
}

std::string bytes_to_letters(std::string_view bytes) {
  std::string letters;
  for (const char byte : bytes) append_utf8(kLetters[static_cast<uint8_t>(byte)], letters);
  return letters;
}

std::string letters_to_bytes(std::string_view letters) {
  std::string bytes;
  if (!spell(letters, bytes))
    throw Error({.what = "not spelt in the byte alphabet", .found = "'" + std::string(letters) + "'"});
  return bytes;
}

}  // namespace ramet::text
