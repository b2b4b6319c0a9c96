#include "ramet/track/filter.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "ramet/base/error.h"

namespace ramet::track {
namespace {

constexpr size_t kMostText = 10'000;
constexpr int kMostDepth = 50, kMostComparisons = 200;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '/' || c == ':' || c == '-' || c == '+' ||
         static_cast<unsigned char>(c) >= 0x80;
}

struct Token {
  enum Kind { kEnd, kWord, kQuoted, kTicked, kOperator } kind = kEnd;
  std::string text;
  size_t at = 0;
};

class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) { next(); }

  const Token& now() const { return token_; }
  Token take() {
    Token taken = std::move(token_);
    next();
    return taken;
  }
  bool is_word(std::string_view word) const { return token_.kind == Token::kWord && token_.text == word; }
  bool is_operator(std::string_view text) const { return token_.kind == Token::kOperator && token_.text == text; }

  [[noreturn]] void fail(const std::string& what, const std::string& expected) const {
    fail_at(token_, what, expected);
  }
  [[noreturn]] static void fail_at(const Token& token, const std::string& what, const std::string& expected,
                                   const std::string& remedy = "") {
    throw Error({.what = what,
                 .where = "filter, column " + std::to_string(token.at + 1),
                 .found = token.kind == Token::kEnd ? "its end" : "'" + token.text.substr(0, 60) + "'",
                 .expected = expected,
                 .remedy = remedy});
  }

 private:
  void next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
    token_ = {.kind = Token::kEnd, .text = "", .at = at_};
    if (at_ == text_.size()) return;
    const char c = text_[at_];
    if (c == '"' || c == '\'' || c == '`') return quoted(c);
    if (is_name(c)) {
      token_.kind = Token::kWord;
      while (at_ < text_.size() && is_name(text_[at_])) token_.text += text_[at_++];
      return;
    }
    token_.kind = Token::kOperator;
    for (const std::string_view each : {"!=", "<=", ">=", "==", "=", "<", ">", "~", "(", ")", ","})
      if (text_.substr(at_).starts_with(each)) {
        token_.text = each == "==" ? "=" : each;
        at_ += each.size();
        return;
      }
    token_.text = c;
    fail_at(token_, "a character that means nothing here", "a name, a value, an operator or a parenthesis",
            "Names with odd characters stand in backticks, texts in quotes");
  }
  void quoted(char end) {
    token_.kind = end == '`' ? Token::kTicked : Token::kQuoted;
    size_t at = at_ + 1;
    for (; at < text_.size() && text_[at] != end; ++at) {
      if (text_[at] == '\\' && end != '`' && at + 1 < text_.size()) ++at;
      token_.text += text_[at];
    }
    if (at == text_.size()) fail_at(token_, "a quote without its end", std::string(1, end));
    at_ = at + 1;
  }

  std::string_view text_;
  size_t at_ = 0;
  Token token_;
};

/// What stands on a left side.
struct Field {
  enum Kind { kText, kNumber, kBool, kTag, kConfig, kMetric } kind = kText;
  std::string sql;                 ///< of all but tags and configuration
  std::vector<FieldValue> values;  ///< for its question marks
  std::string key;                 ///< of the configuration
};

struct NamedField {
  std::string_view name;
  Field::Kind kind;
  const char* sql;
};
constexpr NamedField kFields[] = {{"id", Field::kText, "r.id"},
                                  {"name", Field::kText, "r.name"},
                                  {"status", Field::kText, "r.status"},
                                  {"group", Field::kText, "r.group_name"},
                                  {"note", Field::kText, "r.note"},
                                  {"started", Field::kText, "r.started"},
                                  {"ended", Field::kText, "r.ended"},
                                  {"steps", Field::kNumber, "r.steps"},
                                  {"pinned", Field::kBool, "r.pinned"},
                                  {"archived", Field::kBool, "r.archived"},
                                  {"tag", Field::kTag, ""}};
struct MetricNumber {
  std::string_view prefix;
  const char* sql;
};
constexpr MetricNumber kNumbers[] = {{"min.", "s.min"},
                                     {"max.", "s.max"},
                                     {"mean.", "s.sum / NULLIF(s.points - s.not_finite, 0)"},
                                     {"points.", "s.points"},
                                     {"not_finite.", "s.not_finite"},
                                     {"last.", "s.last"}};

Field field_of(const std::string& name) {
  for (const auto& field : kFields)
    if (name == field.name) return {.kind = field.kind, .sql = field.sql, .values = {}, .key = ""};
  constexpr std::string_view kConfig = "config.";
  if (name.starts_with(kConfig) && name.size() > kConfig.size())
    return {.kind = Field::kConfig, .sql = "", .values = {}, .key = name.substr(kConfig.size())};
  std::string number = "s.last", metric = name;
  for (const auto& each : kNumbers)
    if (name.starts_with(each.prefix) && name.size() > each.prefix.size()) {
      number = each.sql, metric = name.substr(each.prefix.size());
      break;
    }
  return {.kind = Field::kMetric,
          .sql = "(SELECT " + number +
                 " FROM summaries s WHERE s.run = r.key AND s.metric = (SELECT id FROM metrics WHERE name = ?))",
          .values = {metric},
          .key = ""};
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const char* begin = text.data();
  if (text.starts_with('+')) ++begin;
  const auto read = std::from_chars(begin, text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

class FilterParser {
 public:
  explicit FilterParser(std::string_view text) : tokens_(text) {}

  SqlPiece parse() {
    SqlPiece piece = either(0);
    if (tokens_.now().kind != Token::kEnd) tokens_.fail("more than a filter", "and, or, or the end");
    return piece;
  }

 private:
  SqlPiece joined(const char* word, int depth, SqlPiece (FilterParser::*part)(int)) {
    SqlPiece piece = (this->*part)(depth);
    while (tokens_.is_word(word)) {
      tokens_.take();
      const SqlPiece next = (this->*part)(depth);
      piece.sql = "(" + piece.sql + (word[0] == 'o' ? " OR " : " AND ") + next.sql + ")";
      piece.values.insert(piece.values.end(), next.values.begin(), next.values.end());
    }
    return piece;
  }
  SqlPiece either(int depth) { return joined("or", depth, &FilterParser::both); }
  SqlPiece both(int depth) { return joined("and", depth, &FilterParser::one); }
  SqlPiece one(int depth) {
    if (depth > kMostDepth) tokens_.fail("too many parentheses in each other", "at most 50");
    if (tokens_.is_word("not")) {
      tokens_.take();
      SqlPiece piece = one(depth + 1);
      piece.sql = "(NOT " + piece.sql + ")";
      return piece;
    }
    if (tokens_.is_operator("(")) {
      tokens_.take();
      SqlPiece piece = either(depth + 1);
      if (!tokens_.is_operator(")")) tokens_.fail("a parenthesis without its end", "')'");
      tokens_.take();
      return piece;
    }
    return comparison();
  }

  SqlPiece comparison() {
    if (++comparisons_ > kMostComparisons) tokens_.fail("too many comparisons", "at most 200");
    const Token left = tokens_.take();
    if (left.kind != Token::kWord && left.kind != Token::kTicked)
      Tokens::fail_at(left, "a comparison needs a name on its left", "name, tag, config.KEY, a metric, ...");
    const Field field = field_of(left.text);
    const Token sign = tokens_.now();
    if (sign.kind != Token::kOperator || sign.text == "(" || sign.text == ")" || sign.text == ",") {
      if (field.kind == Field::kBool) return {.sql = "(" + field.sql + " = 1)", .values = {}};
      Tokens::fail_at(sign, "no operator behind '" + left.text.substr(0, 60) + "'", "one of = != < <= > >= ~");
    }
    tokens_.take();
    const Token right = tokens_.take();
    if (right.kind != Token::kWord && right.kind != Token::kQuoted)
      Tokens::fail_at(right, "a comparison needs a value on its right", "a number, a word, or a text in quotes");
    if (sign.text != "!=") return compare(field, left, sign.text, right);
    SqlPiece piece = compare(field, left, "=", right);
    piece.sql = "(NOT " + piece.sql + ")";
    return piece;
  }

  static SqlPiece compare(const Field& field, const Token& left, const std::string& sign, const Token& right) {
    // What is compared, as text and as a number.
    const auto test = [&](const std::string& text) {
      return sign == "~" ? "instr(lower(" + text + "), lower(?)) > 0" : text + " " + sign + " ?";
    };
    const std::optional<double> number = right.kind == Token::kWord ? number_of(right.text) : std::nullopt;
    const bool truth = right.kind == Token::kWord && (right.text == "true" || right.text == "false");
    switch (field.kind) {
      case Field::kText: return {.sql = "(" + test(field.sql) + ")", .values = {right.text}};
      case Field::kTag:
        return {.sql = "EXISTS (SELECT 1 FROM tags t WHERE t.run = r.key AND " + test("t.tag") + ")",
                .values = {right.text}};
      case Field::kConfig: {
        const std::string from = "EXISTS (SELECT 1 FROM config c WHERE c.run = r.key AND c.key = ? AND ";
        if (sign == "~" || (!number && !truth))
          return {.sql = from + test("c.text") + ")", .values = {field.key, right.text}};
        if (truth)
          return {.sql = from + "c.kind = 'bool' AND " + test("c.integer") + ")",
                  .values = {field.key, static_cast<int64_t>(right.text == "true")}};
        return {.sql = from + test("c.real") + ")", .values = {field.key, *number}};
      }
      case Field::kBool:
        if (!truth) Tokens::fail_at(right, "'" + left.text + "' is a yes or a no", "true or false");
        return {.sql = "(" + test(field.sql) + ")", .values = {static_cast<int64_t>(right.text == "true")}};
      case Field::kNumber:
      case Field::kMetric: break;
    }
    if (!number || sign == "~")
      Tokens::fail_at(right, "'" + left.text.substr(0, 60) + "' is a metric or a number",
                      "a number, and one of = != < <= > >=", "Configuration is config.KEY");
    SqlPiece piece{.sql = "COALESCE(" + test(field.sql) + ", 0)", .values = field.values};
    piece.values.emplace_back(*number);
    return piece;
  }

  Tokens tokens_;
  int comparisons_ = 0;
};

void check_length(std::string_view text) {
  if (text.size() > kMostText)
    throw Error({.what = "too long",
                 .where = "filter",
                 .found = std::to_string(text.size()) + " bytes",
                 .expected = "at most 10000"});
}

SqlPiece expression_of(const Field& field) {
  if (field.kind == Field::kTag)
    return {.sql = "(SELECT group_concat(t.tag, ', ') FROM tags t WHERE t.run = r.key)", .values = {}};
  if (field.kind == Field::kConfig)
    return {.sql =
                "(SELECT CASE c.kind WHEN 'bool' THEN c.text ELSE COALESCE(c.integer, c.real, c.text) END FROM config "
                "c WHERE c.run = r.key AND c.key = ?)",
            .values = {field.key}};
  if (field.sql == "r.started") return {.sql = "r.started_seconds", .values = {}};
  return {.sql = field.sql, .values = field.values};
}

}  // namespace

SqlPiece parse_filter(std::string_view text) {
  check_length(text);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return {.sql = "1", .values = {}};
  return FilterParser(text).parse();
}

SqlPiece parse_field(std::string_view text) {
  check_length(text);
  // A field alone may be any name, in backticks or not.
  std::string name(text);
  if (name.size() >= 2 && name.front() == '`' && name.back() == '`') name = name.substr(1, name.size() - 2);
  if (name.empty())
    throw Error({.what = "an empty name", .where = "columns", .expected = "name, config.KEY, a metric, ..."});
  const Field field = field_of(name);
  if (field.sql == "r.started") return {.sql = "r.started", .values = {}};
  return expression_of(field);
}

SqlPiece parse_sort(std::string_view text) {
  check_length(text);
  SqlPiece order;
  for (size_t at = 0; at <= text.size() && !text.empty();) {
    bool ticked = false;
    size_t end = at;
    for (; end < text.size() && (ticked || text[end] != ','); ++end) ticked ^= text[end] == '`';
    std::string name(text.substr(at, end - at));
    at = end + 1;
    while (name.starts_with(' ')) name.erase(0, 1);
    while (name.ends_with(' ')) name.pop_back();
    const bool down = name.starts_with('-');
    if (down || name.starts_with('+')) name.erase(0, 1);
    if (name.size() >= 2 && name.front() == '`' && name.back() == '`') name = name.substr(1, name.size() - 2);
    if (name.empty())
      throw Error({.what = "an empty name",
                   .where = "sort",
                   .found = "'" + std::string(text.substr(0, 60)) + "'",
                   .expected = "names, separated by commas; '-' before one: descending"});
    const SqlPiece piece = expression_of(field_of(name));
    order.sql += piece.sql + " IS NULL, " + piece.sql + (down ? " DESC, " : " ASC, ");
    for (int twice = 0; twice < 2; ++twice)
      order.values.insert(order.values.end(), piece.values.begin(), piece.values.end());
    if (order.values.size() > kMostComparisons)
      throw Error({.what = "too many names", .where = "sort", .expected = "at most 100"});
  }
  order.sql += "r.started_seconds DESC, r.key DESC";
  return order;
}

}  // namespace ramet::track
