#include "ramet/text/shard.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ramet/base/error.h"

namespace ramet::text {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

constexpr char kMagic[8] = {'R', 'A', 'M', 'E', 'T', 'S', 'H', 'D'};
constexpr uint32_t kVersion = 1, kFrameBytes = 1 << 18;
constexpr const char* kRebuild = "Build the corpus again, or copy it again from where it is whole";

struct Header {
  char magic[8];
  uint32_t version, token_bytes;
  uint64_t documents, sentences, tokens;
  uint32_t vocabulary_size, frame_bytes, frames, table_crc, zero, crc;
};
static_assert(sizeof(Header) == 64);

constexpr uint64_t round_up(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

[[noreturn]] void damaged(const std::filesystem::path& path, uint64_t offset, const std::string& what,
                          const std::string& found = "", const std::string& expected = "") {
  throw Error({.what = "damaged corpus shard: " + what,
               .where = path.string() + ", offset " + std::to_string(offset),
               .found = found,
               .expected = expected,
               .remedy = kRebuild});
}

}  // namespace

ShardBuilder::ShardBuilder(int32_t vocabulary_size)
    : vocabulary_size_(vocabulary_size), token_bytes_(vocabulary_size <= 65536 ? 2 : 4) {}

void ShardBuilder::add_document(const std::vector<int32_t>& tokens, const std::vector<uint32_t>& lengths) {
  if (token_count_ + tokens.size() > 0xFFFFFFFFull)
    throw Error({.what = "a shard cannot hold this document",
                 .found = std::to_string(tokens.size()) + " tokens",
                 .expected = "fewer than 2^32",
                 .remedy = "Separate documents by blank lines, or give smaller files"});
  const size_t before = tokens_.size();
  tokens_.resize(before + tokens.size() * token_bytes_);
  if (token_bytes_ == 4) {
    std::memcpy(tokens_.data() + before, tokens.data(), tokens.size() * 4);
  } else {
    char* out = tokens_.data() + before;
    for (const int32_t token : tokens) {
      const auto narrow = static_cast<uint16_t>(token);
      std::memcpy(out, &narrow, 2);
      out += 2;
    }
  }
  auto end = static_cast<uint32_t>(token_count_);
  for (const uint32_t length : lengths) sentence_ends_.push_back(end += length);
  document_ends_.push_back(static_cast<uint32_t>(sentence_ends_.size()));
  token_count_ += tokens.size();
}

CorpusCounts ShardBuilder::counts() const {
  return {static_cast<int64_t>(document_ends_.size()), static_cast<int64_t>(sentence_ends_.size()),
          static_cast<int64_t>(token_count_)};
}

Hash ShardBuilder::write(const std::filesystem::path& path) {
  tokens_.resize(round_up(tokens_.size()));
  const auto append = [&](const std::vector<uint32_t>& ends) {
    const size_t before = tokens_.size();
    tokens_.resize(round_up(before + ends.size() * 4));
    std::memcpy(tokens_.data() + before, ends.data(), ends.size() * 4);
  };
  append(sentence_ends_);
  append(document_ends_);
  std::vector<uint32_t> table;
  for (size_t at = 0; at < tokens_.size(); at += kFrameBytes)
    table.push_back(crc32c(tokens_.data() + at, std::min<size_t>(kFrameBytes, tokens_.size() - at)));
  Header header{};
  std::memcpy(header.magic, kMagic, 8);
  header.version = kVersion;
  header.token_bytes = token_bytes_;
  header.documents = document_ends_.size();
  header.sentences = sentence_ends_.size();
  header.tokens = token_count_;
  header.vocabulary_size = static_cast<uint32_t>(vocabulary_size_);
  header.frame_bytes = kFrameBytes;
  header.frames = static_cast<uint32_t>(table.size());
  table.resize((table.size() + 1) / 2 * 2);
  header.table_crc = crc32c(table.data(), table.size() * 4);
  header.crc = crc32c(&header, 60);
  FileWriter writer(path);
  Hasher hasher;
  const auto put = [&](const void* data, size_t size) {
    writer.write(data, size);
    hasher.update(data, size);
  };
  put(&header, sizeof header);
  put(table.data(), table.size() * 4);
  put(tokens_.data(), tokens_.size());
  writer.close();
  tokens_.clear();
  sentence_ends_.clear();
  document_ends_.clear();
  token_count_ = 0;
  return hasher.digest();
}

Shard::Shard(const std::filesystem::path& path, int32_t vocabulary_size, CorpusCheck check)
    : file_(path), path_(path), vocabulary_size_(vocabulary_size) {
  Header header;
  const uint64_t size = file_.size();
  if (size < sizeof header)
    damaged(path, size, "the file ends in its header", std::to_string(size) + " bytes", "64 or more");
  std::memcpy(&header, file_.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, 8) != 0) damaged(path, 0, "not a shard (no RAMETSHD)");
  if (header.version != kVersion)
    damaged(path, 8, "unknown version", std::to_string(header.version), std::to_string(kVersion));
  if (crc32c(&header, 60) != header.crc) damaged(path, 0, "the header's checksum is wrong");
  if ((header.token_bytes != 2 && header.token_bytes != 4) || header.frame_bytes == 0)
    damaged(path, 12, "a header that cannot be");
  if (header.vocabulary_size != static_cast<uint32_t>(vocabulary_size))
    damaged(path, 40, "another vocabulary", std::to_string(header.vocabulary_size) + " tokens",
            std::to_string(vocabulary_size));
  // Counts are bounded by the file before anything is multiplied.
  if (header.tokens > size || header.sentences > header.tokens || header.documents > header.sentences)
    damaged(path, 16, "counts that the file cannot hold");
  const uint64_t table_at = sizeof header, body_at = table_at + round_up(header.frames * uint64_t{4});
  const uint64_t sentences_at = body_at + round_up(header.tokens * header.token_bytes);
  const uint64_t documents_at = sentences_at + round_up(header.sentences * 4);
  const uint64_t end = documents_at + round_up(header.documents * 4);
  if (end != size)
    damaged(path, std::min(size, end), size < end ? "the file is cut short" : "bytes after the end",
            std::to_string(size) + " bytes", std::to_string(end));
  if ((end - body_at + header.frame_bytes - 1) / header.frame_bytes != header.frames)
    damaged(path, 48, "a frame table of the wrong length");
  if (crc32c(file_.data() + table_at, body_at - table_at) != header.table_crc)
    damaged(path, table_at, "the frame table's checksum is wrong");
  counts_ = {static_cast<int64_t>(header.documents), static_cast<int64_t>(header.sentences),
             static_cast<int64_t>(header.tokens)};
  // The map begins on a page and every part on a multiple of 8 bytes.
  const char* base = file_.data();
  if (header.token_bytes == 2)
    narrow_ = reinterpret_cast<const uint16_t*>(base + body_at);
  else
    wide_ = reinterpret_cast<const uint32_t*>(base + body_at);
  sentence_ends_ = reinterpret_cast<const uint32_t*>(base + sentences_at);
  document_ends_ = reinterpret_cast<const uint32_t*>(base + documents_at);
  if (check == CorpusCheck::kFull) check_frames(path, table_at, header.frames, header.frame_bytes, body_at);
  check_structure(path);
}

void Shard::check_frames(const std::filesystem::path& path, size_t table, uint32_t frames, uint32_t frame_bytes,
                         size_t body) {
  for (uint32_t frame = 0; frame < frames; ++frame) {
    const size_t at = body + size_t{frame} * frame_bytes;
    uint32_t expected;
    std::memcpy(&expected, file_.data() + table + size_t{frame} * 4, 4);
    if (crc32c(file_.data() + at, std::min<size_t>(frame_bytes, file_.size() - at)) != expected)
      damaged(path, at, "the checksum of frame " + std::to_string(frame) + " is wrong");
  }
  const auto outside = [&](const auto* ids) {
    for (int64_t i = 0; i < counts_.tokens; ++i)
      if (ids[i] >= static_cast<uint32_t>(vocabulary_size_))
        damaged(path, static_cast<uint64_t>(reinterpret_cast<const char*>(ids + i) - file_.data()),
                "a token outside the vocabulary", std::to_string(ids[i]), "below " + std::to_string(vocabulary_size_));
  };
  if (narrow_) outside(narrow_);
  if (wide_) outside(wide_);
}

void Shard::check_structure(const std::filesystem::path& path) const {
  const auto increasing = [&](const uint32_t* ends, int64_t count, int64_t total, const char* what) {
    uint32_t before = 0;
    for (int64_t i = 0; i < count; before = ends[i], ++i)
      if (ends[i] <= before || ends[i] > total)
        damaged(path, static_cast<uint64_t>(reinterpret_cast<const char*>(ends + i) - file_.data()),
                std::string("the end of a ") + what + " is out of order", std::to_string(ends[i]),
                std::to_string(before + 1) + " to " + std::to_string(total));
    if (before != total)
      damaged(path, static_cast<uint64_t>(reinterpret_cast<const char*>(ends + count) - file_.data()),
              std::string("the last ") + what + " does not end the shard", std::to_string(before),
              std::to_string(total));
  };
  increasing(sentence_ends_, counts_.sentences, counts_.tokens, "sentence");
  increasing(document_ends_, counts_.documents, counts_.sentences, "document");
}

int64_t Shard::document_of_sentence(int64_t sentence) const {
  return std::upper_bound(document_ends_, document_ends_ + counts_.documents, static_cast<uint32_t>(sentence)) -
         document_ends_;
}

void Shard::append(int64_t begin, int64_t end, std::vector<int32_t>& out) const {
  const auto copy = [&](const auto* ids) {
    for (int64_t i = begin; i < end; ++i) {
      if (ids[i] >= static_cast<uint32_t>(vocabulary_size_))
        damaged(path_, static_cast<uint64_t>(reinterpret_cast<const char*>(ids + i) - file_.data()),
                "a token outside the vocabulary", std::to_string(ids[i]), "below " + std::to_string(vocabulary_size_));
      out.push_back(static_cast<int32_t>(ids[i]));
    }
  };
  if (narrow_)
    copy(narrow_);
  else
    copy(wide_);
}

}  // namespace ramet::text
