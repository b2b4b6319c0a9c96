#include "ramet/data/tasks/treebank.h"

#include <algorithm>

#include "ramet/data/unicode.h"

namespace ramet {
namespace {

bool is_one_of(char32_t c, std::u32string_view set) { return set.find(c) != std::u32string_view::npos; }
bool is_word(char32_t c) { return c == '_' || is_unicode_letter(c) || is_unicode_number(c); }
bool is_blank(char32_t c) { return is_unicode_space(c) || (c >= 0x1C && c <= 0x1F); }
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
    const bool opens = i == 0 ? text[i] == '"' : is_one_of(text[i - 1], U" ([{<");
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

/// A single quotation mark before a lone letter that makes no contraction with it.
void part_lone_letters(std::u32string& text) {
  std::u32string result;
  for (size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] != '\'' || i + 1 >= text.size() || !is_word(text[i + 1])) continue;
    if (i + 2 < text.size() && is_word(text[i + 2])) continue;
    if (!is_one_of(text[i + 1], U"mtsdnMTSDN")) result += U' ';
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

/// A word's contraction, cut off: "it's" -> "it" "'s", "don't" -> "do" "n't".
void cut_contraction(std::u32string_view word, std::vector<std::u32string>& words) {
  const auto cut = [&](std::u32string_view ending) {
    if (word.size() <= ending.size() || !word.ends_with(ending)) return false;
    const char32_t before = word[word.size() - ending.size() - 1];
    if (before == '\'') return false;
    words.emplace_back(word.substr(0, word.size() - ending.size()));
    words.emplace_back(ending);
    return true;
  };
  for (const std::u32string_view ending : {U"'s", U"'m", U"'d", U"'", U"'ll", U"'re", U"'ve", U"n't"})
    if (cut(ending)) return;
  words.emplace_back(word);
}

/// Words written as one that the Treebank takes for two.
void cut_compounds(std::vector<std::u32string>& words) {
  static const std::vector<std::pair<std::u32string, std::u32string>> kCompounds = {
      {U"can", U"not"}, {U"gim", U"me"}, {U"gon", U"na"}, {U"got", U"ta"},
      {U"lem", U"me"},  {U"wan", U"na"}, {U"'t", U"is"},  {U"'t", U"was"}};
  std::vector<std::u32string> result;
  for (const std::u32string& word : words) {
    const auto compound = std::find_if(kCompounds.begin(), kCompounds.end(),
                                       [&](const auto& pair) { return word == pair.first + pair.second; });
    if (compound == kCompounds.end()) {
      result.push_back(word);
    } else {
      result.push_back(compound->first);
      result.push_back(compound->second);
    }
  }
  words = std::move(result);
}

}  // namespace

std::vector<std::u32string> treebank_words(std::u32string_view given) {
  std::u32string text(given);
  set_apart(text, U"«“‘„`");
  open_quotes(text);
  part_lone_letters(text);
  part_last_period(text);
  part_commas(text);
  part_ellipses(text);
  set_apart(text, U";@#$%&?!*");
  part_closing_marks(text);
  set_apart(text, U"[](){}<>");
  set_apart(text, U"»”’");
  close_quotes(text);
  std::vector<std::u32string> words;
  for (const std::u32string& word : split_blanks(text)) {
    if (word == U"''" || word == U"``")
      words.push_back(word);
    else
      cut_contraction(word, words);
  }
  cut_compounds(words);
  return words;
}

}  // namespace ramet
