// A label for each word: CoNLL's files, and one's own.
#include <algorithm>
#include <charconv>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/text/tasks/conll.h"
#include "ramet/text/tasks/json_file.h"
#include "ramet/text/tasks/row_builder.h"
#include "ramet/text/tasks/task_kinds.h"

namespace ramet::text {
namespace {

struct TokenKind {
  const char* name;
  int label_column;
  std::vector<std::string> train, dev, test;
};

const std::vector<TokenKind>& kinds() {
  // CoNLL-2000 publishes no development set: its test set stands in. CoNLL-2003: the last column is the name's.
  static const std::vector<TokenKind> all = {
      {"conll", -1, {"train.txt"}, {"dev.txt", "valid.txt"}, {"test.txt"}},
      {"conll2000", 2, {"train.txt"}, {"test.txt"}, {"test.txt"}},
      {"conll2003", 3, {"eng.train", "train.txt"}, {"eng.testa", "valid.txt", "dev.txt"}, {"eng.testb", "test.txt"}},
      {"tokens", -1, {}, {}, {}}};
  return all;
}

struct TokenSetting {
  TaskOptions options;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> labels;
};

/// The column that an option names, or `otherwise`.
int column_of(const TaskOptions& options, const char* option, const std::string& text, int otherwise) {
  if (text.empty()) return otherwise;
  int column = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), column);
  if (status != std::errc() || end != text.data() + text.size() || std::abs(column) > 1000)
    throw Error({.what = "not a column's number",
                 .where = option_place(options, option),
                 .found = in_quotes(text),
                 .expected = "0 for the first, -1 for the last: such files have no head"});
  return column;
}

bool is_json(const std::filesystem::path& path) {
  const MappedFile file(path);
  const size_t first = file.view().substr(0, 4096).find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return first != std::string_view::npos && file.view()[first] == '{';
}

ConllFile read_sentences(const TaskOptions& options, int label_column, const std::filesystem::path& path,
                         bool needs_labels) {
  if (is_json(path))
    return read_word_lists(path, options.text.empty() ? "tokens" : options.text,
                           options.label.empty() ? "tags" : options.label, needs_labels);
  const int words = column_of(options, "text", options.text, 0);
  const int labels = column_of(options, "label", options.label, label_column);
  if (needs_labels) return read_conll(path, words, labels);
  ConllFile file = read_conll(path, words, kNoLabels);
  try {  // a test file may have the column or not
    ConllFile labelled = read_conll(path, words, labels);
    const auto differs = [](const LabelledWords& s) { return s.labels != s.words; };
    if (std::any_of(labelled.sentences.begin(), labelled.sentences.end(), differs)) file = std::move(labelled);
  } catch (const Error&) {
  }
  return file;
}

class TokenSplit final : public TaskSplit {
 public:
  TokenSplit(std::shared_ptr<const TokenSetting> setting, ConllFile data, int64_t limit)
      : setting_(std::move(setting)), data_(std::move(data)) {
    if (limit > 0 && static_cast<size_t>(limit) < data_.sentences.size())
      data_.sentences.resize(static_cast<size_t>(limit));
    for (size_t s = 0; s < data_.sentences.size(); ++s) add_sentence(s);
  }

  int64_t examples() const override { return static_cast<int64_t>(data_.sentences.size()); }
  int64_t features() const override { return static_cast<int64_t>(pieces_.size()); }
  bool labelled() const override { return !data_.sentences.front().labels.empty(); }

  TaskFeature feature(int64_t index) const override {
    if (index < 0 || index >= features())
      internal_error("TokenSplit::feature", "index " + std::to_string(index) + " of " + std::to_string(features()));
    const Piece& piece = pieces_[static_cast<size_t>(index)];
    TaskFeature feature;
    feature.rows.push_back(
        single_row(setting_->options.frame, piece.ids, static_cast<size_t>(setting_->options.max_length)));
    feature.token_labels.assign(feature.rows.front().input_ids.size(), -1);
    for (size_t w = 0; w < piece.starts.size(); ++w)
      feature.token_labels[1 + piece.starts[w]] =
          labels_[piece.sentence].empty() ? -1 : labels_[piece.sentence][piece.first_word + w];
    return feature;
  }

  std::vector<std::pair<std::string, double>> score(std::span<const TaskOutputs> runs) const override {
    if (!labelled()) refuse_score(data_.path);
    const auto found = predict(runs);
    ChunkScores scores;
    for (size_t s = 0; s < found.size(); ++s) scores.add(data_.sentences[s].labels, found[s]);
    return scores.metrics();
  }

  void write_predictions(std::span<const TaskOutputs> runs, const std::filesystem::path& path) const override {
    const auto found = predict(runs);
    std::string text;
    for (size_t s = 0; s < found.size(); ++s) {
      const LabelledWords& sentence = data_.sentences[s];
      for (size_t w = 0; w < found[s].size(); ++w)
        text += sentence.words[w] + " " + (labelled() ? sentence.labels[w] + " " : "") + found[s][w] + "\n";
      text += "\n";
    }
    write_file_atomic(path, text);
  }

 private:
  /// As many words of a sentence as fit into one row.
  struct Piece {
    size_t sentence, first_word;
    std::vector<int32_t> ids;
    std::vector<size_t> starts;  // of each word, in `ids`
  };

  void add_sentence(size_t number) {
    const LabelledWords& sentence = data_.sentences[number];
    const Tokenizer& tokenizer = *setting_->tokenizer;
    const size_t room =
        static_cast<size_t>(setting_->options.max_length) - special_tokens(setting_->options.frame, false);
    const bool blanks = tokenizer.kind() == "bpe";  // a word's tokens hold the blank before it
    auto& classes = labels_.emplace_back();
    for (size_t w = 0; w < sentence.labels.size(); ++w) classes.push_back(class_of(sentence, w));
    for (size_t w = 0; w < sentence.words.size(); ++w) {
      std::vector<int32_t> ids = plain_ids(tokenizer, (blanks && w > 0 ? " " : "") + sentence.words[w]);
      if (ids.empty()) ids.push_back(std::max(0, tokenizer.special().unknown));  // a word of control characters alone
      ids.resize(std::min(ids.size(), room));
      if (w == 0 || pieces_.back().ids.size() + ids.size() > room) pieces_.push_back({number, w, {}, {}});
      Piece& piece = pieces_.back();
      piece.starts.push_back(piece.ids.size());
      piece.ids.insert(piece.ids.end(), ids.begin(), ids.end());
    }
  }

  int32_t class_of(const LabelledWords& sentence, size_t word) const {
    const auto& names = setting_->labels;
    const auto at = std::find(names.begin(), names.end(), sentence.labels[word]);
    if (at == names.end())
      throw Error({.what = "a label outside the set",
                   .where = data_.path + ":" + std::to_string(sentence.line) + " (the sentence that begins there)",
                   .found = in_quotes(sentence.labels[word]) + " of " + in_quotes(sentence.words[word]),
                   .expected = list_of(names)});
    return static_cast<int32_t>(at - names.begin());
  }

  /// A label for every word of every sentence.
  std::vector<std::vector<std::string>> predict(std::span<const TaskOutputs> runs) const {
    const auto classes = setting_->labels.size();
    check_outputs(runs, features(), setting_->options.max_length * static_cast<int64_t>(classes));
    const TaskOutputs mean = average(runs, features());
    std::vector<std::vector<std::string>> found(data_.sentences.size());
    for (size_t p = 0; p < pieces_.size(); ++p) {
      const std::span<const float> logits = mean.of(static_cast<int64_t>(p));
      for (const size_t start : pieces_[p].starts) {
        const auto row = logits.subspan((1 + start) * classes, classes);
        const auto best = static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
        found[pieces_[p].sentence].push_back(setting_->labels[best]);
      }
    }
    return found;
  }

  std::shared_ptr<const TokenSetting> setting_;
  ConllFile data_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<int32_t>> labels_;  // by sentence and word
};

class TokenTask final : public TaskSet {
 public:
  TokenTask(const TokenKind& kind, const TaskOptions& options, std::shared_ptr<const Tokenizer> tokenizer)
      : setting_(std::make_shared<TokenSetting>(TokenSetting{options, std::move(tokenizer), options.labels})) {
    check_frame(options, false);
    const auto train = find_split(options, "train", options.train, kind.name, kind.train);
    const auto dev = find_split(options, "dev", options.dev, kind.name, kind.dev);
    const auto test = find_split(options, "test", options.test, kind.name, kind.test);
    require_files(options, !(train.empty() && dev.empty() && test.empty()), kind.train);
    Hasher hasher;
    hash_options(hasher, options, *setting_->tokenizer);
    std::vector<ConllFile> files;
    std::set<std::string> names;
    for (const auto* path : {&train, &dev, &test}) {
      files.emplace_back();
      if (path->empty()) continue;
      files.back() = read_sentences(options, kind.label_column, *path, path != &test);
      hasher.update(files.back().hash.hex());
      for (const LabelledWords& sentence : files.back().sentences)
        names.insert(sentence.labels.begin(), sentence.labels.end());
    }
    // Test sets have labels that training sets lack (CoNLL-2000: I-LST), so that all files say what the classes are.
    if (setting_->labels.empty()) setting_->labels.assign(names.begin(), names.end());
    if (setting_->labels.empty())
      throw Error({.what = "no labels", .where = option_place(options, "labels"), .expected = "names of classes"});
    const auto open = [&](ConllFile& file, int64_t limit) -> std::shared_ptr<const TaskSplit> {
      if (file.sentences.empty()) return nullptr;
      return std::make_shared<TokenSplit>(setting_, std::move(file), limit);
    };
    train_ = open(files[0], options.limit_train);
    dev_ = open(files[1], options.limit_dev);
    test_ = open(files[2], 0);
    hash_ = hasher.digest().hex();
  }

  TaskHead head() const override { return TaskHead::kTokens; }
  const std::vector<std::string>& labels() const override { return setting_->labels; }
  int64_t choices() const override { return 1; }
  std::string metric() const override { return "f1"; }
  std::shared_ptr<const TaskSplit> train() const override { return train_; }
  std::shared_ptr<const TaskSplit> dev() const override { return dev_; }
  std::shared_ptr<const TaskSplit> test() const override { return test_; }
  std::string hash() const override { return hash_; }

 private:
  std::shared_ptr<TokenSetting> setting_;
  std::shared_ptr<const TaskSplit> train_, dev_, test_;
  std::string hash_;
};

}  // namespace

const std::vector<std::string>& token_kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const TokenKind& kind : kinds()) list.emplace_back(kind.name);
    return list;
  }();
  return names;
}

std::unique_ptr<TaskSet> open_token_task(const TaskOptions& options, std::shared_ptr<const Tokenizer> tokenizer) {
  const auto kind =
      std::find_if(kinds().begin(), kinds().end(), [&](const TokenKind& one) { return one.name == options.kind; });
  return std::make_unique<TokenTask>(*kind, options, std::move(tokenizer));
}

}  // namespace ramet::text
