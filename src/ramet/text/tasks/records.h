#pragma once

// Tables of named columns: TSV and JSON lines. Inside data/ and cli/ only.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ramet/base/hash.h"

namespace ramet::text {

/// A column that a reader wants.
struct ColumnWish {
  /// Its name, or names in order of preference. A number counts columns from 0 (TSV). In JSON a dot leads into an
  /// object: "target.span1_text".
  std::vector<std::string> names;
  bool required = true;
};

/// How a file is laid out.
struct RecordFormat {
  /// TSV without a head: the names of its columns. Empty: the first line is the head, unless all columns that are
  /// required are asked for by number.
  std::vector<std::string> columns;
  /// TSV: rows with other than the head's number of columns are left out and counted, not an error (QQP has some).
  bool skip_other_widths = false;
};

/// One row: for each wish its value; a JSON list gives several, a missing column that is not required none.
struct Record {
  int64_t line = 0;
  std::vector<std::vector<std::string>> values;
  bool has(size_t wish) const { return !values[wish].empty(); }
  const std::string& at(size_t wish) const { return values[wish].front(); }
};

struct RecordFile {
  std::string path;
  std::vector<Record> records;
  std::vector<bool> present;  ///< by wish: whether the file has the column (JSON: in any row)
  int64_t skipped = 0;
  Hash hash;
  std::string where(const Record& record) const { return path + ":" + std::to_string(record.line); }
};

/// Tab-separated values as GLUE publishes them: UTF-8, a mark of byte order allowed, no quoting (a quotation mark is a
/// character), lines ending in LF or CRLF; empty lines at the end are left out. Error for missing columns and rows of
/// another width, with file and line.
RecordFile read_tsv(const std::filesystem::path& path, const std::vector<ColumnWish>& wishes,
                    const RecordFormat& format = {});
/// A JSON object a line, empty lines left out. Error for lines that are none and for missing members.
RecordFile read_json_lines(const std::filesystem::path& path, const std::vector<ColumnWish>& wishes);
/// JSON lines when the first character that is not blank is '{', else TSV.
RecordFile read_records(const std::filesystem::path& path, const std::vector<ColumnWish>& wishes,
                        const RecordFormat& format = {});

/// "'a', 'b' or 'c'", of long lists the first ones and how many there are.
std::string list_of(const std::vector<std::string>& names, const char* last = "or");

}  // namespace ramet::text
