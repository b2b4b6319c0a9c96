#include "ramet/text/tasks/treebank.h"

#include <algorithm>
#include <initializer_list>

#include "ramet/text/unicode.h"

namespace ramet::text {
namespace {

bool is_one_of(char32_t c, std::u32string_view set) { return set.find(c) != std::u32string_view::npos; }
bool is_word(char32_t c) { return c == '_' || is_unicode_letter(c) || is_unicode_number(c); }
bool is_blank(char32_t c) { return is_unicode_space(c) || (c >= 0x1C && c <= 0x1F); }
bool is_one_of_words(std::u32string_view word, std::initializer_list<std::u32string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }

/// Blanks on both sides of each character of `set`.
void set_apart(std::u32string& text, std::u32string_view set) {
  std::u32string result;
  for (const char32_t c : text)
    if (is_one_of(c, set))
      result += {U' ', c, U' '};
    else
      result += c;
  text = std::move(result);
}

/// Double quotation marks that open: at the beginning, behind a blank or an opening bracket.
void open_quotes(std::u32string& text) {
  std::u32string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool second = i == 1 && text[0] == '"';  // the first one stands apart by now
    const bool opens = i == 0 ? text[i] == '"' : second || is_one_of(text[i - 1], U" ([{<");
    if (opens && text[i] == '"') {
      result += U" `` ";
    } else if (opens && i > 0 && text.compare(i, 2, U"''") == 0) {
      result += U" `` ";
      ++i;
    } else {
      result += text[i];
    }
  }
  text = std::move(result);
}

/// The end of the letters and digits that begin at `begin`.
size_t word_end(std::u32string_view text, size_t begin) {
  while (begin < text.size() && is_word(text[begin])) ++begin;
  return begin;
}

/// A single quotation mark that opens: before a word that makes no contraction with it, behind none.
void part_opening_marks(std::u32string& text) {
  std::u32string result;
  for (size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] != '\'' || (i > 0 && is_word(text[i - 1]))) continue;
    const std::u32string_view word = std::u32string_view(text).substr(i + 1, word_end(text, i + 1) - i - 1);
    if (!word.empty() && !is_one_of_words(word, {U"re", U"ve", U"ll", U"m", U"t", U"s", U"d", U"n"})) result += U' ';
  }
  text = std::move(result);
}

/// The period of the sentence's end, which closing marks may follow.
void part_last_period(std::u32string& text) {
  size_t end = text.size();
  while (end > 0 && (is_blank(text[end - 1]) || is_one_of(text[end - 1], U"])}>\"'»”’"))) --end;
  if (end < 2 || text[end - 1] != '.' || text[end - 2] == '.') return;
  text.insert(end, U" ");
  text.insert(end - 1, U" ");
}

/// Commas and colons, but for those before a digit.
void part_commas(std::u32string& text) {
  std::u32string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool comma = text[i] == ',' || text[i] == ':';
    if (comma && i + 1 == text.size()) {
      result += {U' ', text[i], U' '};
    } else if (comma && !is_digit(text[i + 1])) {
      result += {U' ', text[i], U' ', text[i + 1]};
      ++i;  // what stands behind it was looked at: of two commas the second stays where it is
    } else {
      result += text[i];
    }
  }
  text = std::move(result);
}

void part_ellipses(std::u32string& text) {
  std::u32string result;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && text[end] == '.') ++end;
    if (end - i >= 2) result += U" " + text.substr(i, end - i) + U" ";
    else result += text.substr(i, std::max<size_t>(1, end - i));
    i = std::max(end, i + 1);
  }
  text = std::move(result);
}

/// A single quotation mark behind something and before a blank.
void part_closing_marks(std::u32string& text) {
  std::u32string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool closes = text[i] == '\'' && i > 0 && text[i - 1] != '\'' && i + 1 < text.size() && text[i + 1] == ' ';
    if (closes)
      result += U" ' ";
    else
      result += text[i];
  }
  text = std::move(result);
}

void close_quotes(std::u32string& text) {
  std::u32string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool twice = text.compare(i, 2, U"''") == 0;
    if (twice || text[i] == '"')
      result += U" '' ";
    else
      result += text[i];
    i += twice;
  }
  text = std::move(result);
}

std::vector<std::u32string> split_blanks(const std::u32string& text) {
  std::vector<std::u32string> words;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && !is_blank(text[end])) ++end;
    if (end > i) words.push_back(text.substr(i, end - i));
    i = end + 1;
  }
  return words;
}

/// A word's contractions, cut off: "it's" -> "it" "'s", "don't" -> "do" "n't".
void cut_contractions(std::u32string_view word, std::vector<std::u32string>& words) {
  const auto ending_of = [&](std::initializer_list<std::u32string_view> endings) {
    for (const std::u32string_view ending : endings)
      if (word.size() > ending.size() && word.ends_with(ending) && word[word.size() - ending.size() - 1] != '\'')
        return ending;
    return std::u32string_view();
  };
  const std::u32string_view last = ending_of({U"'s", U"'m", U"'d", U"'"});
  word.remove_suffix(last.size());
  const std::u32string_view before = ending_of({U"'ll", U"'re", U"'ve", U"n't"});
  word.remove_suffix(before.size());
  for (const std::u32string_view part : {word, before, last})
    if (!part.empty()) words.emplace_back(part);
}

/// Words written as one that the Treebank takes for two, with what touches them apart: "cannot." -> "can" "not" ".".
void cut_compounds(std::u32string_view word, std::vector<std::u32string>& words) {
  static constexpr std::pair<std::u32string_view, size_t> kCompounds[] = {
      {U"cannot", 3}, {U"d'ye", 1}, {U"gimme", 3}, {U"gonna", 3},
      {U"gotta", 3},  {U"lemme", 3}, {U"more'n", 4}, {U"wanna", 3}};
  size_t done = 0;
  for (size_t i = 0; i < word.size(); ++i) {
    if (!is_word(word[i]) || (i > 0 && is_word(word[i - 1]))) continue;
    for (const auto& [compound, cut] : kCompounds) {
      const size_t end = i + compound.size();
      if (!word.substr(i).starts_with(compound) || (end < word.size() && is_word(word[end]))) continue;
      if (compound == U"wanna" && end < word.size()) continue;
      if (i > done) words.emplace_back(word.substr(done, i - done));
      words.emplace_back(compound.substr(0, cut));
      words.emplace_back(compound.substr(cut));
      done = end;
      i = end - 1;
      break;
    }
  }
  if (done < word.size()) words.emplace_back(word.substr(done));
}

}  // namespace

std::vector<std::u32string> treebank_words(std::u32string_view given) {
  std::u32string text(given);
  set_apart(text, U"«“‘„`");
  open_quotes(text);
  part_opening_marks(text);
  part_last_period(text);
  part_commas(text);
  part_ellipses(text);
  set_apart(text, U";@#$%&?!*\u2012\u2013\u2014\u2015");
  part_closing_marks(text);
  set_apart(text, U"[](){}<>");
  set_apart(text, U"»”’");
  close_quotes(text);
  std::vector<std::u32string> parts, words;
  for (const std::u32string& word : split_blanks(text)) cut_contractions(word, parts);
  for (const std::u32string& part : parts) cut_compounds(part, words);
  return words;
}

}  // namespace ramet::text
