#pragma once

// Words with labels: CoNLL's columns, JSON lists; and what predicted chunks are worth. Inside data/ and cli/ only.

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/text/tasks/metrics.h"

namespace ramet::text {

struct LabelledWords {
  int64_t line = 0;  ///< of the first word
  std::vector<std::string> words;
  std::vector<std::string> labels;  ///< as many, or none
};

struct ConllFile {
  std::string path;
  std::vector<LabelledWords> sentences;
  Hash hash;
};

/// A word a line in columns separated by blanks or tabs, sentences separated by empty lines; "-DOCSTART-" lines are
/// left out. Columns are counted from 0; from the end when negative (-1 the last). `label_column` may be kNoLabels.
/// Error for lines with fewer columns than the first, and for a file without words, with file and line.
inline constexpr int kNoLabels = INT32_MIN;
ConllFile read_conll(const std::filesystem::path& path, int word_column = 0, int label_column = -1);
/// JSON lines with a list of words and (unless `labels` is empty or the member is nowhere) a list of as many labels.
ConllFile read_word_lists(const std::filesystem::path& path, const std::string& words, const std::string& labels,
                          bool needs_labels);

/// A chunk: words [begin, end) of a type.
struct Chunk {
  size_t begin = 0, end = 0;
  std::string type;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

/// Chunks of a sentence by the rules of CoNLL's evaluation (conlleval): prefixes B, I, E, S, O, [ and ]; an I that
/// follows another type or O begins a chunk.
std::vector<Chunk> chunks_of(std::span<const std::string> labels);

/// Counts of chunks: in the right file, in the predictions, in both.
struct ChunkCounts {
  int64_t expected = 0, found = 0, both = 0;
  double precision() const { return found == 0 ? 0 : 100.0 * static_cast<double>(both) / static_cast<double>(found); }
  double recall() const {
    return expected == 0 ? 0 : 100.0 * static_cast<double>(both) / static_cast<double>(expected);
  }
  double f1() const {
    return expected + found == 0 ? 0 : 200.0 * static_cast<double>(both) / static_cast<double>(expected + found);
  }
};

struct ChunkScores {
  ChunkCounts all;
  std::map<std::string, ChunkCounts> types;
  int64_t words = 0, right_words = 0;
  void add(std::span<const std::string> expected, std::span<const std::string> found);
  /// "f1", "precision", "recall", "accuracy" (of words), in percent.
  Metrics metrics() const;
};

}  // namespace ramet::text
