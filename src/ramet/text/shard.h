#pragma once

// The file of one shard of a corpus. All numbers are little-endian.
//
//   offset  size
//   0       8     "RAMETSHD"
//   8       4     version (1)
//   12      4     bytes of a token id (2 or 4)
//   16      8     documents
//   24      8     sentences
//   32      8     tokens
//   40      4     vocabulary size
//   44      4     bytes of a frame
//   48      4     number of frames
//   52      4     CRC-32C of the frame table
//   56      4     zero
//   60      4     CRC-32C of bytes 0 to 59
//   64            frame table: CRC-32C of each frame of the body; to a multiple of 8
//   ...           body: token ids; ends of sentences, in tokens (u32); ends of documents, in sentences (u32); each to a
//                 multiple of 8 bytes with zeros. Frames are pieces of equal size of the body, the last may be shorter.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/text/corpus.h"

namespace ramet::text {

/// Collects documents, then writes them as one file.
class ShardBuilder {
 public:
  explicit ShardBuilder(int32_t vocabulary_size);
  /// Adds a document of sentences of these lengths (each > 0).
  void add_document(const std::vector<int32_t>& tokens, const std::vector<uint32_t>& lengths);
  int64_t bytes() const { return static_cast<int64_t>(tokens_.size()); }
  CorpusCounts counts() const;
  /// Writes and empties; returns the hash of the file.
  Hash write(const std::filesystem::path& path);

 private:
  int32_t vocabulary_size_;
  uint32_t token_bytes_;
  std::vector<char> tokens_;
  std::vector<uint32_t> sentence_ends_, document_ends_;
  uint64_t token_count_ = 0;
};

/// A shard, mapped and checked.
class Shard {
 public:
  /// Error names the file and the offset of the damage.
  Shard(const std::filesystem::path& path, int32_t vocabulary_size, CorpusCheck check);

  const CorpusCounts& counts() const { return counts_; }
  size_t file_bytes() const { return file_.size(); }
  /// First token of sentence `i` (i == sentences: the end), and first sentence of document `i` likewise.
  uint32_t sentence_begin(int64_t i) const { return i == 0 ? 0 : sentence_ends_[i - 1]; }
  uint32_t document_begin(int64_t i) const { return i == 0 ? 0 : document_ends_[i - 1]; }
  int64_t document_of_sentence(int64_t sentence) const;
  /// Appends tokens [begin, end). An id outside the vocabulary (a shard opened without checksums) is an Error.
  void append(int64_t begin, int64_t end, std::vector<int32_t>& out) const;

 private:
  void check_frames(const std::filesystem::path& path, size_t table, uint32_t frames, uint32_t frame_bytes,
                    size_t body);
  void check_structure(const std::filesystem::path& path) const;

  MappedFile file_;
  std::filesystem::path path_;
  CorpusCounts counts_;
  int32_t vocabulary_size_;
  const uint16_t* narrow_ = nullptr;
  const uint32_t* wide_ = nullptr;
  const uint32_t* sentence_ends_ = nullptr;
  const uint32_t* document_ends_ = nullptr;
};

}  // namespace ramet::text
