#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/thread_team.h"
#include "ramet/text/corpus.h"
#include "ramet/text/corpus_manifest.h"
#include "ramet/text/sentences.h"
#include "ramet/text/shard.h"
#include "ramet/text/unicode.h"

namespace ramet::text {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPartBytes = 64 << 10;   // what one thread takes at a time
constexpr size_t kRoundBytes = 16 << 20;  // text whose tokens are held before they go to shards, in order

struct Document {
  size_t file = 0;
  TextRange range;
  double draw = 0;  // uniform in [0, 1), by hash of its text
  bool heldout = false;
};

struct Part {
  size_t document = 0;
  TextRange range;
  std::vector<int32_t> tokens;
  std::vector<uint32_t> lengths;
};

/// A folder made aside and put in its place whole; removed when something fails before.
class FolderAside {
 public:
  FolderAside(const fs::path& place, bool replace)
      : place_(place.has_filename() ? place : place.parent_path()),
        aside_(place_.string() + ".tmp" + std::to_string(::getpid())) {
    std::error_code ignored;
    if (fs::exists(place_, ignored)) {
      if (!replace)
        throw Error({.what = "there is something here already",
                     .where = place_.string(),
                     .remedy = "Give another folder, or ask to replace the corpus"});
      if (!fs::exists(place_ / "manifest.json", ignored) && !fs::is_empty(place_, ignored))
        throw Error({.what = "this is not a corpus, so it is not replaced",
                     .where = place_.string(),
                     .remedy = "Give another folder, or move what is there"});
    }
    fs::remove_all(aside_, ignored);
    std::error_code failed;
    fs::create_directories(aside_, failed);
    if (failed)
      throw Error({.what = "cannot make the folder (" + failed.message() + ")", .where = aside_.string()},
                  ErrorKind::kFailure);
  }
  ~FolderAside() {
    std::error_code ignored;
    fs::remove_all(aside_, ignored);
  }
  const fs::path& path() const { return aside_; }
  void put_in_place() {
    sync_directory(aside_);
    std::error_code failed;
    if (fs::exists(place_, failed)) {
      // Exchanged in one move: there is no moment without a whole corpus. The old corpus is then removed.
      if (::renameat2(AT_FDCWD, aside_.c_str(), AT_FDCWD, place_.c_str(), RENAME_EXCHANGE) != 0)
        failed = std::error_code(errno, std::generic_category());
    } else {
      fs::rename(aside_, place_, failed);
    }
    if (failed)
      throw Error({.what = "cannot put the corpus in place (" + failed.message() + ")", .where = place_.string()},
                  ErrorKind::kFailure);
    sync_directory(place_.has_parent_path() ? place_.parent_path() : fs::path("."));
  }

 private:
  fs::path place_, aside_;
};

/// Shards of one split, numbered as they fill.
class SplitWriter {
 public:
  SplitWriter(std::string name, const fs::path& folder, int32_t vocabulary_size, int64_t shard_bytes)
      : name_(std::move(name)), folder_(folder), shard_(vocabulary_size), shard_bytes_(shard_bytes) {}

  void add(const std::vector<int32_t>& tokens, const std::vector<uint32_t>& lengths) {
    shard_.add_document(tokens, lengths);
    if (shard_.bytes() >= shard_bytes_) flush();
  }

  void flush() {
    const CorpusCounts counts = shard_.counts();
    if (counts.documents == 0) return;
    char file[64];
    std::snprintf(file, sizeof file, "%s-%05zu.bin", name_.c_str(), hashes_.size());
    const Hash hash = shard_.write(folder_ / file);
    hashes_.push_back(hash.hex());
    nlohmann::ordered_json entry;
    entry["file"] = file;
    put_counts(entry, counts);
    entry["hash"] = hash.hex();
    shards_.push_back(entry);
    totals_.documents += counts.documents;
    totals_.sentences += counts.sentences;
    totals_.tokens += counts.tokens;
  }

  const CorpusCounts& totals() const { return totals_; }
  const std::vector<std::string>& hashes() const { return hashes_; }
  nlohmann::ordered_json manifest(std::string_view tokenizer_hash) const {
    nlohmann::ordered_json json;
    put_counts(json, totals_);
    json["hash"] = corpus_hash(tokenizer_hash, hashes_).hex();
    json["shards"] = shards_;
    return json;
  }

 private:
  static void put_counts(nlohmann::ordered_json& json, const CorpusCounts& counts) {
    json["documents"] = counts.documents;
    json["sentences"] = counts.sentences;
    json["tokens"] = counts.tokens;
  }
  std::string name_;
  fs::path folder_;
  ShardBuilder shard_;
  int64_t shard_bytes_;
  CorpusCounts totals_;
  std::vector<std::string> hashes_;
  nlohmann::ordered_json shards_ = nlohmann::ordered_json::array();
};

const char* name_of(SentenceRule rule) {
  return rule == SentenceRule::kLines ? "lines" : rule == SentenceRule::kSplitLines ? "split-lines" : "prose";
}

/// A file's name for JSON: bytes that are not UTF-8 become question marks.
std::string printable(std::string name) {
  for (size_t bad; (bad = find_invalid_utf8(name)) != std::string::npos;) name[bad] = '?';
  return name;
}

/// The way from text files to a corpus folder, one method a part of it.
class Builder {
 public:
  Builder(const std::vector<fs::path>& files, const Tokenizer& tokenizer, const BuildCorpusOptions& options)
      : tokenizer_(tokenizer),
        options_(options),
        team_(options.threads > 0 ? options.threads : available_processors()) {
    if (files.empty()) throw Error({.what = "no text files given", .expected = "one or more"});
    if (!(options.heldout >= 0 && options.heldout < 1))
      throw Error({.what = "the held-out share is out of range",
                   .found = std::to_string(options.heldout),
                   .expected = "0 or more, below 1"});
    if (options.shard_bytes < 1 || options.shard_bytes > (int64_t{4} << 30))
      throw Error({.what = "the size of a shard is out of range",
                   .found = format_size(options.shard_bytes),
                   .expected = "up to 4 GiB"});
    if (options.document_blank_lines < 0)
      throw Error({.what = "document_blank_lines is negative", .found = std::to_string(options.document_blank_lines)});
    for (const fs::path& file : files) {
      files_.emplace_back(file);
      names_.push_back(file);
      text_bytes_ += static_cast<int64_t>(files_.back().size());
    }
  }

  CorpusSummary build(const fs::path& folder) {
    FolderAside aside(folder, options_.replace);
    find();
    hold_out();
    SplitWriter train("train", aside.path(), tokenizer_.vocabulary_size(), options_.shard_bytes);
    SplitWriter heldout("heldout", aside.path(), tokenizer_.vocabulary_size(), options_.shard_bytes);
    tokenize(train, heldout);
    train.flush();
    heldout.flush();
    if (train.totals().documents == 0) no_text("no document gave a token");
    tokenizer_.save(aside.path() / "tokenizer");
    sync_directory(aside.path() / "tokenizer");
    write_manifest(aside.path(), train, heldout);
    aside.put_in_place();
    std::vector<std::string> hashes = train.hashes();
    hashes.insert(hashes.end(), heldout.hashes().begin(), heldout.hashes().end());
    return {.train = train.totals(),
            .heldout = heldout.totals(),
            .text_bytes = text_bytes_,
            .unknown_tokens = unknown_,
            .hash = corpus_hash(tokenizer_.hash().hex(), hashes)};
  }

 private:
  [[noreturn]] void no_text(const std::string& what) const {
    std::string where = names_.front().string();
    if (names_.size() > 1) where += " and " + std::to_string(names_.size() - 1) + " more";
    throw Error({.what = "the corpus is empty: " + what,
                 .where = where,
                 .found = format_size(text_bytes_) + " of text",
                 .expected = "UTF-8 text, documents separated by blank lines",
                 .remedy = "Check that these are the right files"});
  }

  void report(const char* part, int64_t done) const {
    if (options_.progress) options_.progress(part, done, text_bytes_);
  }

  /// Checks the encoding of every file and finds its documents, before any work is done on them.
  void find() {
    int64_t done = 0;
    for (size_t file = 0; file < files_.size(); ++file) {
      require_utf8(files_[file].view(), names_[file].string());
      for (const TextRange range : find_documents(files_[file].view(), options_.document_blank_lines))
        documents_.push_back({file, range});
      report("read", done += static_cast<int64_t>(files_[file].size()));
    }
    if (documents_.empty()) no_text("no visible character in it");
  }

  void hold_out() {
    if (options_.heldout == 0) return;
    team_.split(static_cast<int64_t>(documents_.size()), 64, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        Document& document = documents_[static_cast<size_t>(i)];
        const std::string_view text =
            files_[document.file].view().substr(document.range.begin, document.range.end - document.range.begin);
        uint64_t mixed[2] = {options_.heldout_seed, hash64(text)};
        document.draw = static_cast<double>(hash_bytes(mixed, sizeof mixed).low >> 11) * 0x1p-53;
        document.heldout = document.draw < options_.heldout;
      }
    });
    const auto by_draw = [](const Document& a, const Document& b) { return a.draw < b.draw; };
    const auto held = std::count_if(documents_.begin(), documents_.end(), [](const Document& d) { return d.heldout; });
    if (documents_.size() < 2)
      throw Error({.what = "one document cannot be split into training and held-out text",
                   .where = names_.front().string(),
                   .remedy = "Separate documents by blank lines, or ask for no held-out share"});
    if (held == 0) std::min_element(documents_.begin(), documents_.end(), by_draw)->heldout = true;
    if (held == static_cast<int64_t>(documents_.size()))
      std::max_element(documents_.begin(), documents_.end(), by_draw)->heldout = false;
  }

  void tokenize(SplitWriter& train, SplitWriter& heldout) {
    int64_t done = 0;
    for (size_t next = 0; next < documents_.size();) {
      std::vector<Part> parts;
      size_t bytes = 0;
      for (; next < documents_.size() && bytes < kRoundBytes; ++next) {
        const Document& document = documents_[next];
        bytes += document.range.end - document.range.begin;
        for (const TextRange range :
             cut_document(files_[document.file].view(), document.range, options_.sentences, kPartBytes))
          parts.push_back({.document = next, .range = range, .tokens = {}, .lengths = {}});
      }
      encode(parts);
      append(parts, train, heldout);
      report("tokenize", std::min(done += static_cast<int64_t>(bytes), text_bytes_));
    }
    report("tokenize", text_bytes_);
  }

  void encode(std::vector<Part>& parts) {
    std::atomic<size_t> taken{0};
    // A byte-level tokenizer must see the blanks between sentences, or they could not be put back.
    const bool keep_space = tokenizer_.kind() == "bpe";
    team_.run([&](int) {
      SentenceSplitter splitter;
      for (size_t i; (i = taken.fetch_add(1)) < parts.size();) {
        Part& part = parts[i];
        const Document& document = documents_[part.document];
        for_each_sentence(files_[document.file].view(), document.range, part.range, options_.sentences, keep_space,
                          splitter, [&](std::string_view sentence) {
                            const size_t before = part.tokens.size();
                            tokenizer_.encode_into(sentence, part.tokens, nullptr, SpecialText::kAsText);
                            if (part.tokens.size() > before)
                              part.lengths.push_back(static_cast<uint32_t>(part.tokens.size() - before));
                          });
      }
    });
  }

  /// Parts back to documents, in order; documents without a token are left out.
  void append(std::vector<Part>& parts, SplitWriter& train, SplitWriter& heldout) {
    const int32_t unknown = tokenizer_.special().unknown;
    for (size_t i = 0; i < parts.size();) {
      Part whole = std::move(parts[i]);
      for (++i; i < parts.size() && parts[i].document == whole.document; ++i) {
        whole.tokens.insert(whole.tokens.end(), parts[i].tokens.begin(), parts[i].tokens.end());
        whole.lengths.insert(whole.lengths.end(), parts[i].lengths.begin(), parts[i].lengths.end());
      }
      if (unknown >= 0) unknown_ += std::count(whole.tokens.begin(), whole.tokens.end(), unknown);
      if (!whole.tokens.empty())
        (documents_[whole.document].heldout ? heldout : train).add(whole.tokens, whole.lengths);
    }
  }

  void write_manifest(const fs::path& folder, const SplitWriter& train, const SplitWriter& heldout) const {
    nlohmann::ordered_json json;
    json["format"] = "ramet-corpus";
    json["version"] = 1;
    json["tokenizer"] = {{"kind", tokenizer_.kind()},
                         {"hash", tokenizer_.hash().hex()},
                         {"vocabulary_size", tokenizer_.vocabulary_size()}};
    json["options"] = {{"sentences", name_of(options_.sentences)},
                       {"document_blank_lines", options_.document_blank_lines},
                       {"heldout", options_.heldout},
                       {"heldout_seed", options_.heldout_seed},
                       {"shard_bytes", options_.shard_bytes}};
    json["text_bytes"] = text_bytes_;
    json["unknown_tokens"] = unknown_;
    for (size_t i = 0; i < files_.size(); ++i)
      json["sources"].push_back({{"file", printable(names_[i].filename().string())},
                                 {"bytes", files_[i].size()},
                                 {"hash", hash_text(files_[i].view()).hex()}});
    json["splits"]["train"] = train.manifest(tokenizer_.hash().hex());
    if (heldout.totals().documents > 0) json["splits"]["heldout"] = heldout.manifest(tokenizer_.hash().hex());
    json["checksum"] = manifest_checksum(json);
    write_file_atomic(folder / "manifest.json", json.dump(2) + "\n");
  }

  const Tokenizer& tokenizer_;
  const BuildCorpusOptions& options_;
  ThreadTeam team_;
  std::vector<MappedFile> files_;
  std::vector<fs::path> names_;
  std::vector<Document> documents_;
  int64_t text_bytes_ = 0, unknown_ = 0;
};

}  // namespace

CorpusSummary build_corpus(const std::vector<fs::path>& files, const Tokenizer& tokenizer, const fs::path& folder,
                           const BuildCorpusOptions& options) {
  return Builder(files, tokenizer, options).build(folder);
}

}  // namespace ramet::text
