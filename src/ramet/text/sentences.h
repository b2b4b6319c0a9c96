#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/text/corpus.h"

namespace ramet::text {

/// Cuts running prose into sentences by Unicode's rules (UAX 29, ICU) with English abbreviations ("Mr.", "etc.") kept
/// together. One object a thread.
class SentenceSplitter {
 public:
  SentenceSplitter();
  ~SentenceSplitter();
  /// Calls `sentence(begin, end)` for each, without the white space around it.
  void split(std::string_view text, const std::function<void(size_t begin, size_t end)>& sentence);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Bytes [begin, end) of a file.
struct TextRange {
  size_t begin = 0, end = 0;
};

/// The documents of a text: ranges between `blank_lines` or more blank lines (0: the whole text), without blank lines
/// at their ends. A text without a visible character has none.
std::vector<TextRange> find_documents(std::string_view text, int blank_lines);

/// Cuts a document into parts of about `target` bytes where a sentence must end, so that parts can be worked on apart.
std::vector<TextRange> cut_document(std::string_view text, TextRange document, SentenceRule rule, size_t target);

/// Calls `sentence(text)` for each sentence of part `part` of `document`. With `keep_space` each sentence but the
/// document's first brings the white space before it, so that joined they are the document (byte-level tokenizers);
/// prose has one blank for a line's end, and an empty line between paragraphs.
void for_each_sentence(std::string_view text, TextRange document, TextRange part, SentenceRule rule, bool keep_space,
                       SentenceSplitter& splitter, const std::function<void(std::string_view)>& sentence);

}  // namespace ramet::text
