#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ramet/track/catalogue.h"

namespace ramet::track {

/// A piece of SQL over the catalogue's table `runs r`, with the values for its question marks.
struct SqlPiece {
  std::string sql;
  std::vector<FieldValue> values;
};

/// The filter language, in one line:
///
///     config.train.seed = 3 and loss < 2.5 and (tag = "baseline" or not name ~ bert)
///
/// Left sides: id, name, status, group, tag, note, started, ended, steps, pinned, archived; config.KEY; METRIC (its
/// last value), last.METRIC (the same), min.METRIC, max.METRIC, mean.METRIC, points.METRIC, not_finite.METRIC. A name
/// with other characters than letters, digits and _ . / : - stands in backticks, as `config.a b`. Operators: = != < <=
/// > >= and ~, which asks whether a text contains another, whatever the case. Right sides: numbers, true, false, words,
/// and texts in double or single quotes, where a backslash takes the next character as it is. `pinned` and `archived`
/// may stand alone. Times compare as text: started >= "2026-11-01".
///
/// A comparison with something absent is false; a != b is not (a = b). An empty filter lets all through. Throws Error
/// that names the column of the fault.
SqlPiece parse_filter(std::string_view text);

/// A left side as an expression, for columns. Throws Error.
SqlPiece parse_field(std::string_view text);

/// "-started,loss" as what stands behind ORDER BY: runs without a value come last, and equal ones the newest first.
SqlPiece parse_sort(std::string_view text);

}  // namespace ramet::track
