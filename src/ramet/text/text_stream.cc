#include "ramet/text/text_stream.h"

#include <algorithm>
#include <string_view>

#include "ramet/base/error.h"

namespace ramet::text {
namespace {

/// Bytes at the end of the text that begin a UTF-8 character and do not end it.
size_t unfinished_bytes(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;  // within a character
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop_words)
    : tokenizer_(tokenizer), stop_words_(std::move(stop_words)) {
  for (const std::string& word : stop_words_) {
    if (word.empty()) throw Error({.what = "a stop word is empty", .where = "stop words", .remedy = "Leave it out"});
    longest_ = std::max(longest_, word.size());
  }
}

std::string TextStream::give(size_t end) {
  const size_t begin = given_;
  given_ = std::max(given_, end);
  return text_.substr(begin, given_ - begin);
}

std::string TextStream::add(int32_t token) {
  if (stopped_) return "";
  tokens_.push_back(token);
  const size_t before = text_.size();
  text_ = tokenizer_.decode(tokens_);
  // A stop word that ends in the new part may begin before it.
  const size_t from = before - std::min(before, longest_);
  size_t stop = std::string::npos;
  for (const std::string& word : stop_words_) stop = std::min(stop, text_.find(word, from));
  if (stop != std::string::npos) {
    stopped_ = true;
    text_.resize(stop);
    return give(stop);
  }
  size_t held = unfinished_bytes(text_);
  for (const std::string& word : stop_words_)
    for (size_t length = std::min(word.size() - 1, text_.size()); length > held; --length)
      if (std::string_view(text_).substr(text_.size() - length) == std::string_view(word).substr(0, length))
        held = length;
  return give(text_.size() - held);
}

std::string TextStream::rest() { return give(text_.size()); }

}  // namespace ramet::text
