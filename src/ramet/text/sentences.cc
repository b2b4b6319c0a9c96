#include "ramet/text/sentences.h"

#include "ramet/text/unicode.h"

namespace ramet::text {
namespace {

bool is_blank(char c) { return c == ' ' || (c >= 9 && c <= 13); }

TextRange trim(std::string_view text, TextRange range) {
  while (range.begin < range.end && is_blank(text[range.begin])) ++range.begin;
  while (range.end > range.begin && is_blank(text[range.end - 1])) --range.end;
  return range;
}

/// Calls `line(range)` for each line in text[begin, end), without its newline, while it returns true.
template <typename Line>
void for_each_line(std::string_view text, TextRange range, Line&& line) {
  for (size_t at = range.begin; at < range.end;) {
    const size_t end = std::min(text.find('\n', at), range.end);
    line(TextRange{at, end});
    at = end + 1;
  }
}

}  // namespace

struct SentenceSplitter::State {
  SentenceBreaks breaks;
};

SentenceSplitter::SentenceSplitter() : state_(std::make_unique<State>()) {}
SentenceSplitter::~SentenceSplitter() = default;

void SentenceSplitter::split(std::string_view text, const std::function<void(size_t, size_t)>& sentence) {
  state_->breaks.each(text, [&](size_t begin, size_t end) {
    const TextRange range = trim(text, {begin, end});
    if (range.begin < range.end) sentence(range.begin, range.end);
  });
}

std::vector<TextRange> find_documents(std::string_view text, int blank_lines) {
  std::vector<TextRange> documents;
  TextRange document;
  bool open = false;
  int blanks = 0;
  const size_t start = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;  // a byte order mark is no text
  for_each_line(text, {start, text.size()}, [&](TextRange line) {
    const TextRange words = trim(text, line);
    if (words.begin == words.end) {
      if (++blanks == blank_lines && open) {
        documents.push_back(document);
        open = false;
      }
      return;
    }
    blanks = 0;
    if (!open) document.begin = words.begin;
    document.end = words.end;
    open = true;
  });
  if (open) documents.push_back(document);
  return documents;
}

std::vector<TextRange> cut_document(std::string_view text, TextRange document, SentenceRule rule, size_t target) {
  std::vector<TextRange> parts;
  TextRange part{document.begin, document.begin};
  for_each_line(text, document, [&](TextRange line) {
    const TextRange words = trim(text, line);
    // Prose goes on over a line's end, but not over an empty line.
    const bool may_cut = rule != SentenceRule::kProse || words.begin == words.end;
    part.end = std::min(line.end + 1, document.end);
    if (!may_cut || part.end - part.begin < target) return;
    parts.push_back(part);
    part.begin = part.end;
  });
  if (part.begin < document.end) parts.push_back({part.begin, document.end});
  return parts;
}

namespace {

/// One paragraph or line on its way to sentences.
class BlockSplitter {
 public:
  BlockSplitter(bool split, bool keep_space, SentenceSplitter& splitter,
                const std::function<void(std::string_view)>& sentence)
      : split_(split), keep_space_(keep_space), splitter_(splitter), sentence_(sentence) {}

  /// `space`: what stands between the sentence before and this block.
  void block(std::string_view text, std::string_view space) {
    size_t before = 0;
    const auto one = [&](size_t begin, size_t end) {
      if (!keep_space_) return sentence_(text.substr(begin, end - begin));
      joined_.assign(before == 0 ? space : text.substr(before, begin - before));
      joined_ += text.substr(begin, end - begin);
      before = end;
      sentence_(joined_);
    };
    if (split_)
      splitter_.split(text, one);
    else
      one(0, text.size());
  }

 private:
  bool split_, keep_space_;
  SentenceSplitter& splitter_;
  const std::function<void(std::string_view)>& sentence_;
  std::string joined_;
};

}  // namespace

void for_each_sentence(std::string_view text, TextRange document, TextRange part, SentenceRule rule, bool keep_space,
                       SentenceSplitter& splitter, const std::function<void(std::string_view)>& sentence) {
  BlockSplitter blocks(rule != SentenceRule::kLines, keep_space, splitter, sentence);
  if (rule != SentenceRule::kProse) {
    for_each_line(text, part, [&](TextRange line) {
      const TextRange words = trim(text, line);
      if (words.begin == words.end) return;
      size_t space = words.begin;
      while (space > document.begin && is_blank(text[space - 1])) --space;
      blocks.block(text.substr(words.begin, words.end - words.begin), text.substr(space, words.begin - space));
    });
    return;
  }
  std::string paragraph;
  bool first = part.begin == document.begin;
  const auto flush = [&] {
    if (paragraph.empty()) return;
    blocks.block(paragraph, first ? "" : "\n\n");
    paragraph.clear();
    first = false;
  };
  for_each_line(text, part, [&](TextRange line) {
    const TextRange words = trim(text, line);
    if (words.begin == words.end) return flush();
    if (!paragraph.empty()) paragraph += ' ';
    paragraph += text.substr(words.begin, words.end - words.begin);
  });
  flush();
}

}  // namespace ramet::text
