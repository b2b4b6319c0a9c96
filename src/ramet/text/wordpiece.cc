#include "ramet/text/wordpiece.h"

#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/text/basic_words.h"
#include "ramet/text/byte_trie.h"
#include "ramet/text/word_cache.h"

namespace ramet::text {

AsciiRules::AsciiRules(const WordPieceOptions& options)
    : lower(options.lower_case),
      strip(options.strip_accents.value_or(options.lower_case)),
      clean(options.clean_text),
      cjk(options.split_cjk) {
  for (int c = 0; c < 256; ++c) {
    const bool blank = clean ? c == ' ' || c == '\t' || c == '\n' || c == '\r' : c == ' ' || (c >= 9 && c <= 13);
    kind[static_cast<size_t>(c)] = c >= 0x80                                          ? kHigh
                                   : blank                                            ? kSpace
                                   : clean && (c < 0x20 || c == 0x7F)                 ? kDrop
                                   : is_unicode_punctuation(static_cast<uint32_t>(c)) ? kPunctuation
                                                                                      : kLetter;
    letter[static_cast<size_t>(c)] = static_cast<char>(lower && c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
}

struct WordPieceTokenizer::Tables {
  explicit Tables(const WordPieceOptions& options, size_t edges) : rules(options), trie(edges, 2) {}

  AsciiRules rules;
  ByteTrie trie;  // root 0: pieces that begin a word; root 1: the rest of "##" pieces
  std::vector<bool> continues;
  std::vector<std::pair<std::string, int32_t>> specials;
  uint32_t owner = WordCache::new_owner();

  /// Greedy longest match of one word; false when some part of it is not in the vocabulary.
  template <typename Emit>
  bool match(std::string_view word, Emit&& emit) const {
    for (size_t begin = 0; begin < word.size();) {
      uint32_t node = begin == 0 ? 0 : 1;
      int32_t best = -1;
      size_t best_end = begin;
      for (size_t i = begin; i < word.size(); ++i) {
        node = trie.step(node, static_cast<uint8_t>(word[i]));
        if (node == 0) break;
        if (trie.value(node) >= 0) best = trie.value(node), best_end = i + 1;
      }
      if (best < 0) return false;
      emit(best, begin, best_end);
      begin = best_end;
    }
    return true;
  }

  /// The special token that stands at `position`, or null.
  const std::pair<std::string, int32_t>* special_at(std::string_view text, size_t position) const {
    for (const auto& special : specials)
      if (text.substr(position, special.first.size()) == special.first) return &special;
    return nullptr;
  }
};

WordPieceTokenizer::WordPieceTokenizer(Vocabulary vocabulary, WordPieceOptions options)
    : Tokenizer(std::move(vocabulary)), options_(options) {
  if (options_.max_word_characters < 1)
    throw Error({.what = "max_word_characters is too small",
                 .found = std::to_string(options_.max_word_characters),
                 .expected = "1 or more"});
  special_.unknown = require_special("[UNK]", "WordPiece");
  special_.padding = vocabulary_.find("[PAD]");
  special_.classify = vocabulary_.find("[CLS]");
  special_.separator = vocabulary_.find("[SEP]");
  special_.mask = vocabulary_.find("[MASK]");
  size_t bytes = 0;
  for (const auto& token : vocabulary_.tokens()) bytes += token.size() * 2;
  auto tables = std::make_unique<Tables>(options_, bytes);
  tables->continues.resize(static_cast<size_t>(vocabulary_size()));
  Hasher hasher;
  hasher.update("wordpiece")
      .update(std::to_string(tables->rules.lower) + std::to_string(tables->rules.strip) +
              std::to_string(options_.clean_text) + std::to_string(options_.split_cjk) +
              std::to_string(options_.max_word_characters));
  for (int32_t id = 0; id < vocabulary_size(); ++id) {
    const std::string& token = vocabulary_.token(id);
    tables->trie.insert(0, token, id);
    if (token.size() > 2 && token.starts_with("##")) {
      tables->trie.insert(1, std::string_view(token).substr(2), id);
      tables->continues[static_cast<size_t>(id)] = true;
    }
    hasher.update(token).update("\n");
  }
  for (const char* name : {"[UNK]", "[SEP]", "[CLS]", "[PAD]", "[MASK]"})
    if (const int32_t id = vocabulary_.find(name); id >= 0) tables->specials.emplace_back(name, id);
  hash_ = hasher.digest();
  tables_ = std::move(tables);
}

WordPieceTokenizer::~WordPieceTokenizer() = default;

std::unique_ptr<WordPieceTokenizer> WordPieceTokenizer::load(const std::filesystem::path& vocab_txt,
                                                             WordPieceOptions options) {
  return std::make_unique<WordPieceTokenizer>(read_vocabulary_text(vocab_txt), options);
}

namespace {

/// Calls `part(begin, end)` for text between special tokens and `token(special, begin)` for each of them.
template <typename Tables, typename Part, typename Token>
void split_specials(const Tables& tables, std::string_view text, SpecialText mode, Part&& part, Token&& token) {
  size_t begin = 0;
  if (mode == SpecialText::kAsTokens && !tables.specials.empty())
    for (size_t at = text.find('['); at != std::string_view::npos;) {
      const auto* special = tables.special_at(text, at);
      if (!special) {
        at = text.find('[', at + 1);
        continue;
      }
      part(begin, at);
      token(*special, at);
      begin = at + special->first.size();
      at = text.find('[', begin);
    }
  part(begin, text.size());
}

}  // namespace

void WordPieceTokenizer::encode_into(std::string_view text, std::vector<int32_t>& ids, std::vector<TokenSpan>* spans,
                                     SpecialText special) const {
  const Tables& tables = *tables_;
  const auto too_long = [&](const auto& words) { return words.characters() > options_.max_word_characters; };
  if (spans) {
    BasicWords<true> words(tables.rules, options_.max_word_characters);
    const auto one = [&] {
      const size_t first = ids.size();
      const auto emit = [&](int32_t id, size_t begin, size_t end) {
        ids.push_back(id);
        spans->push_back({words.sources()[begin].begin, words.sources()[end - 1].end});
      };
      if (!too_long(words) && tables.match(words.view(), emit)) return;
      ids.resize(first);
      spans->resize(first);
      ids.push_back(special_.unknown);
      spans->push_back(words.whole());
    };
    split_specials(
        tables, text, special, [&](size_t begin, size_t end) { words.scan(text, begin, end, one); },
        [&](const auto& token, size_t at) {
          ids.push_back(token.second);
          spans->push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + token.first.size())});
        });
    return;
  }
  BasicWords<false> words(tables.rules, options_.max_word_characters);
  WordCache& cache = WordCache::of_thread();
  const auto one = [&] {
    const std::string_view word = words.view();
    const size_t first = ids.size();
    WordCache::Entry* entry = nullptr;
    std::array<uint64_t, 3> key;
    if (word.size() <= WordCache::kMaxBytes) {
      key = WordCache::key(words.data(), word.size(), words.readable());
      entry = &cache.slot(key);
      if (entry->owner == tables.owner && entry->word == key && entry->size == word.size()) {
        ids.insert(ids.end(), entry->ids.begin(), entry->ids.begin() + entry->count);
        return;
      }
    }
    const auto emit = [&](int32_t id, size_t, size_t) { ids.push_back(id); };
    if (too_long(words) || !tables.match(word, emit)) {
      ids.resize(first);
      ids.push_back(special_.unknown);
    }
    const size_t count = ids.size() - first;
    if (!entry || count > WordCache::kMaxTokens || too_long(words)) return;
    *entry = {key, tables.owner, static_cast<uint16_t>(word.size()), static_cast<uint16_t>(count), {}};
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end(), entry->ids.begin());
  };
  split_specials(
      tables, text, special, [&](size_t begin, size_t end) { words.scan(text, begin, end, one); },
      [&](const auto& token, size_t) { ids.push_back(token.second); });
}

std::string WordPieceTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    const std::string_view token = checked_token(id);
    if (!starts_word(id)) {
      text += token.substr(2);
      continue;
    }
    if (!text.empty()) text += ' ';
    text += token;
  }
  return text;
}

bool WordPieceTokenizer::starts_word(int32_t id) const { return !tables_->continues[static_cast<size_t>(id)]; }

void WordPieceTokenizer::save(const std::filesystem::path& folder) const {
  std::filesystem::create_directories(folder);
  write_vocabulary_text(folder / "vocab.txt", vocabulary_);
  nlohmann::ordered_json config;
  config["tokenizer_class"] = "BertTokenizer";
  config["do_lower_case"] = options_.lower_case;
  config["strip_accents"] = options_.strip_accents ? nlohmann::ordered_json(*options_.strip_accents) : nullptr;
  config["clean_text"] = options_.clean_text;
  config["tokenize_chinese_chars"] = options_.split_cjk;
  config["max_input_chars_per_word"] = options_.max_word_characters;
  write_file_atomic(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

void for_each_basic_word(std::string_view text, const WordPieceOptions& options,
                         const std::function<void(std::string_view)>& word) {
  const AsciiRules rules(options);
  BasicWords<false> words(rules, options.max_word_characters);
  words.scan(text, 0, text.size(), [&] {
    if (words.characters() <= options.max_word_characters) word(words.view());
  });
}

}  // namespace ramet::text
