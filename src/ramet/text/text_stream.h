#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/text/tokenizer.h"

namespace ramet::text {

/// A text that grows token by token, for showing it as it comes: it gives out whole characters, and holds back text
/// that may be the beginning of a stop word, so that no text is ever taken back.
class TextStream {
 public:
  /// The text ends before the first of `stop_words`. The tokenizer outlives the stream.
  TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop_words);

  /// Adds a token; returns the text that is new and sure.
  std::string add(int32_t token);
  /// The text that `add` held back, at the end.
  std::string rest();
  /// Whether a stop word has been met: further tokens change nothing.
  bool stopped() const { return stopped_; }
  /// The whole text, without the stop word.
  const std::string& text() const { return text_; }

 private:
  std::string give(size_t end);

  const Tokenizer& tokenizer_;
  std::vector<std::string> stop_words_;
  std::vector<int32_t> tokens_;
  std::string text_;
  size_t given_ = 0, longest_ = 0;
  bool stopped_ = false;
};

}  // namespace ramet::text
