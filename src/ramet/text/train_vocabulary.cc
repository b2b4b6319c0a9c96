#include "ramet/text/train_vocabulary.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <unordered_map>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/thread_team.h"
#include "ramet/text/basic_words.h"
#include "ramet/text/bpe_words.h"
#include "ramet/text/merge_trainer.h"

namespace ramet::text {
namespace {

namespace fs = std::filesystem;

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return hash64(text); }
};
using WordCounts = std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>>;
using SortedCounts = std::vector<std::pair<std::string, int64_t>>;

constexpr size_t kChunkBytes = 256 << 10;
constexpr size_t kLongestPiece = 1024;  // bytes; longer pieces of text (a picture in base 64) teach nothing

/// Pieces of the texts that can be counted apart: cut after a newline, before a character that is not white space.
std::vector<std::string_view> chunks_of(std::span<const std::string_view> texts) {
  std::vector<std::string_view> chunks;
  for (const std::string_view text : texts)
    for (size_t begin = 0; begin < text.size();) {
      size_t end = std::min(begin + kChunkBytes, text.size());
      while (end < text.size() && !(text[end - 1] == '\n' && static_cast<uint8_t>(text[end]) > ' ' &&
                                    static_cast<uint8_t>(text[end]) < 0x7F))
        ++end;
      chunks.push_back(text.substr(begin, end - begin));
      begin = end;
    }
  return chunks;
}

/// Counts words on all threads; the result is sorted by word. `scan(chunk, add)` calls add(word) for each.
template <typename Scan>
SortedCounts count_words(std::span<const std::string_view> texts, const TrainVocabularyOptions& options, Scan&& scan) {
  const auto chunks = chunks_of(texts);
  int64_t total = 0;
  for (const auto& chunk : chunks) total += static_cast<int64_t>(chunk.size());
  ThreadTeam team(options.threads > 0 ? options.threads : available_processors());
  std::vector<WordCounts> counts(static_cast<size_t>(team.size()));
  std::atomic<size_t> taken{0};
  std::atomic<int64_t> done{0};
  team.run([&](int rank) {
    WordCounts& mine = counts[static_cast<size_t>(rank)];
    const auto add = [&](std::string_view word) {
      if (const auto found = mine.find(word); found != mine.end())
        ++found->second;
      else
        mine.emplace(word, 1);
    };
    for (size_t i; (i = taken.fetch_add(1)) < chunks.size();) {
      scan(chunks[i], add);
      const int64_t so_far = done += static_cast<int64_t>(chunks[i].size());
      if (rank == 0 && options.progress) options.progress("count", so_far, total);
    }
  });
  for (size_t rank = 1; rank < counts.size(); ++rank) {
    for (const auto& [word, count] : counts[rank]) counts[0][word] += count;
    counts[rank].clear();
  }
  SortedCounts sorted(counts[0].begin(), counts[0].end());
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty())
    throw Error(
        {.what = "there is no word to learn a vocabulary from", .remedy = "Check that these are the right texts"});
  return sorted;
}

void check_size(int64_t size, int64_t least, const std::string& what, const std::string& remedy) {
  if (size < least)
    throw Error({.what = "the vocabulary is too small",
                 .found = std::to_string(size) + " tokens",
                 .expected = std::to_string(least) + " or more (" + what + ")",
                 .remedy = remedy});
}

std::function<void(int64_t, int64_t)> merge_progress(const TrainVocabularyOptions& options) {
  return [&options](int64_t done, int64_t total) {
    if (options.progress) options.progress("merge", done, total);
  };
}

/// Files mapped and checked, as texts.
template <typename Train>
auto with_files(const std::vector<fs::path>& files, const TrainVocabularyOptions& options, Train&& train) {
  if (files.empty()) throw Error({.what = "no text files given", .expected = "one or more"});
  std::vector<MappedFile> maps;
  std::vector<std::string_view> texts;
  int64_t total = 0, done = 0;
  for (const auto& file : files) total += static_cast<int64_t>(maps.emplace_back(file).size());
  for (size_t i = 0; i < files.size(); ++i) {
    require_utf8(maps[i].view(), files[i].string());
    texts.push_back(maps[i].view());
    done += static_cast<int64_t>(maps[i].size());
    if (options.progress) options.progress("read", done, total);
  }
  try {
    return train(std::span<const std::string_view>(texts));
  } catch (const Error& error) {
    ErrorParts parts = error.parts();
    if (parts.where.empty()) parts.where = files[0].string() + (files.size() > 1 ? " and others" : "");
    throw Error(parts, error.kind());
  }
}

/// The characters of the words, most frequent first, at most `limit`; equal counts by code point.
std::vector<std::string> choose_alphabet(const SortedCounts& words, int32_t limit) {
  std::map<std::string, int64_t> counts;
  for (const auto& [word, count] : words)
    for (size_t i = 0; i < word.size();) {
      const size_t begin = i;
      next_code_point(word, i);
      counts[word.substr(begin, i - begin)] += count;
    }
  std::vector<std::pair<std::string, int64_t>> ranked(counts.begin(), counts.end());
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (ranked.size() > static_cast<size_t>(limit)) ranked.resize(static_cast<size_t>(limit));
  std::vector<std::string> alphabet;
  for (const auto& [character, count] : ranked) alphabet.push_back(character);
  std::sort(alphabet.begin(), alphabet.end());
  return alphabet;
}

/// Whether the basic tokenizer leaves this character a word of its own, so that "##" before it would never be met.
bool stands_alone(const std::string& character, const WordPieceOptions& options) {
  size_t position = 0;
  const uint32_t c = next_code_point(character, position);
  return is_unicode_punctuation(c) || (options.split_cjk && is_cjk_ideograph(c));
}

}  // namespace

std::unique_ptr<WordPieceTokenizer> train_wordpiece_texts(std::span<const std::string_view> texts,
                                                          const TrainWordPieceOptions& options) {
  check_size(options.alphabet_limit, 1, "alphabet_limit", "Raise alphabet_limit");
  const AsciiRules rules(options.tokenizer);
  const SortedCounts counts = count_words(texts, options, [&](std::string_view chunk, auto&& add) {
    BasicWords<false> words(rules, options.tokenizer.max_word_characters);
    words.scan(chunk, 0, chunk.size(), [&] {
      if (words.characters() <= options.tokenizer.max_word_characters) add(words.view());
    });
  });
  std::vector<std::string> symbols = options.special_tokens;
  std::unordered_map<std::string, int32_t> first, rest;
  for (const std::string& character : choose_alphabet(counts, options.alphabet_limit)) {
    first[character] = static_cast<int32_t>(symbols.size());
    symbols.push_back(character);
  }
  const std::vector<std::string> alphabet(symbols.begin() + static_cast<std::ptrdiff_t>(options.special_tokens.size()),
                                          symbols.end());
  for (const std::string& character : alphabet)
    if (!stands_alone(character, options.tokenizer)) {
      rest[character] = static_cast<int32_t>(symbols.size());
      symbols.push_back("##" + character);
    }
  check_size(options.vocabulary_size, static_cast<int64_t>(symbols.size()), "special tokens and the alphabet",
             "Raise the size, or lower alphabet_limit");
  std::vector<TrainingWord> words;
  for (const auto& [text, count] : counts) {
    TrainingWord word{{}, count};
    bool known = true;
    for (size_t i = 0; i < text.size() && known;) {
      const size_t begin = i;
      next_code_point(text, i);
      const auto& table = begin == 0 ? first : rest;
      const auto found = table.find(text.substr(begin, i - begin));
      known = found != table.end();
      if (known) word.symbols.push_back(found->second);
    }
    if (known && word.symbols.size() > 1) words.push_back(std::move(word));
  }
  MergeTrainer trainer(std::move(symbols), std::move(words),
                       [](const std::string& left, const std::string& right) { return left + right.substr(2); });
  trainer.train(options.vocabulary_size, options.min_frequency, merge_progress(options));
  return std::make_unique<WordPieceTokenizer>(Vocabulary(trainer.symbols(), "the trained vocabulary"),
                                              options.tokenizer);
}

std::unique_ptr<BpeTokenizer> train_bpe_texts(std::span<const std::string_view> texts, const TrainBpeOptions& options) {
  const auto specials = static_cast<int64_t>(options.special_tokens.size());
  check_size(options.vocabulary_size, 256 + specials, "256 bytes and the special tokens", "Raise the size");
  const SortedCounts counts = count_words(texts, options, [](std::string_view chunk, auto&& add) {
    scan_bpe_words(chunk, [&](size_t begin, size_t end) {
      if (end - begin <= kLongestPiece) add(chunk.substr(begin, end - begin));
    });
  });
  // The letters' own order is GPT-2's order of ids.
  std::vector<std::pair<std::string, uint8_t>> letters;
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    letters.emplace_back(bytes_to_letters({&byte, 1}), static_cast<uint8_t>(b));
  }
  std::sort(letters.begin(), letters.end());
  std::vector<std::string> symbols;
  int32_t byte_ids[256];
  for (const auto& [letter, byte] : letters) {
    byte_ids[byte] = static_cast<int32_t>(symbols.size());
    symbols.push_back(letter);
  }
  std::vector<TrainingWord> words;
  for (const auto& [text, count] : counts) {
    if (text.size() < 2) continue;
    TrainingWord word{{}, count};
    for (const char byte : text) word.symbols.push_back(byte_ids[static_cast<uint8_t>(byte)]);
    words.push_back(std::move(word));
  }
  MergeTrainer trainer(std::move(symbols), std::move(words),
                       [](const std::string& left, const std::string& right) { return left + right; });
  trainer.train(options.vocabulary_size - specials, options.min_frequency, merge_progress(options));
  std::vector<std::string> tokens = trainer.symbols();
  BpeMerges merges;
  for (const auto& [left, right] : trainer.merges())
    merges.emplace_back(tokens[static_cast<size_t>(left)], tokens[static_cast<size_t>(right)]);
  tokens.insert(tokens.end(), options.special_tokens.begin(), options.special_tokens.end());
  return std::make_unique<BpeTokenizer>(Vocabulary(std::move(tokens), "the trained vocabulary"), std::move(merges),
                                        options.tokenizer);
}

std::unique_ptr<WordPieceTokenizer> train_wordpiece(const std::vector<fs::path>& files,
                                                    const TrainWordPieceOptions& options) {
  return with_files(files, options, [&](auto texts) { return train_wordpiece_texts(texts, options); });
}

std::unique_ptr<BpeTokenizer> train_bpe(const std::vector<fs::path>& files, const TrainBpeOptions& options) {
  return with_files(files, options, [&](auto texts) { return train_bpe_texts(texts, options); });
}

}  // namespace ramet::text
