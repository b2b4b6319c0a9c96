#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::graphs {

/// The lines of a text file, without their ends (LF or CR LF). Errors name the file and the line; before the first
/// line, the source alone.
class Lines {
 public:
  Lines(std::string_view text, std::string source) : rest_(text), source_(std::move(source)) {}

  /// Moves to the next line; false at the end of the text.
  bool next();
  std::string_view line() const { return line_; }
  int64_t number() const { return number_; }
  [[noreturn]] void fail(const std::string& what, std::string_view found = {}, const std::string& expected = "",
                         const std::string& remedy = "") const;

  /// A whole number in [low, high], or a finite number, alone in `word` but for blanks around it.
  int64_t whole(std::string_view word, int64_t low, int64_t high) const;
  double real(std::string_view word, const std::string& remedy = "") const;

 private:
  std::string_view rest_, line_;
  std::string source_;
  int64_t number_ = 0;
};

/// `text` without blanks around it.
std::string_view trimmed(std::string_view text);
/// The words between separators; empty words count.
std::vector<std::string_view> split_at(std::string_view text, char separator);
/// The words between blanks.
std::vector<std::string_view> words_of(std::string_view text);

/// A table of comma-separated values with a header line (RFC 4180: quoted cells may hold commas, quotes and lines).
struct CsvTable {
  std::string source;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  ///< each as long as the header
  std::vector<int64_t> lines;                  ///< on which each row begins

  /// Position of a column, or -1.
  int64_t find(std::string_view column) const;
  /// Position of a column; Error naming those there are.
  size_t at(std::string_view column) const;
};
CsvTable parse_csv(std::string_view text, const std::string& source);

/// Numbers for names, in the order in which the names appear first.
class Names {
 public:
  int32_t number_of(std::string_view name);
  const std::vector<std::string>& all() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int32_t> numbers_;
};

}  // namespace ramet::graphs
