#include <filesystem>

#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/track/catalogue.h"
#include "ramet/track/catalogue_schema.h"
#include "ramet/track/filter.h"

using namespace ramet::tests;

// A filter, behind 's' names to sort by, behind 'c' a column. What is accepted must be SQL that a database takes.
RAMET_FUZZ_TARGET(filter, std::string_view input) {
  static Database* const database = [] {
    auto* const made = new Database("", Database::Mode::kMemory);  // for as long as the process lives
    make_schema(*made);
    made->execute("INSERT INTO runs(id, name) VALUES ('a', 'b')");
    return made;
  }();
  if (input.empty()) return;
  const std::string_view text = input.substr(1);
  SqlPiece piece;
  std::string sql = "SELECT r.id FROM runs r WHERE ";
  if (input[0] == 's') {
    piece = parse_sort(text);
    sql = "SELECT r.id FROM runs r ORDER BY " + piece.sql;
  } else if (input[0] == 'c') {
    piece = parse_field(text);
    sql = "SELECT " + piece.sql + " FROM runs r";
  } else {
    piece = parse_filter(text);
    sql += piece.sql;
  }
  Statement rows = database->prepare_once(sql);
  for (const auto& value : piece.values) rows.bind_value(value);
  int64_t found = 0;
  while (rows.step()) ++found;
  if (found > 1) internal_error("filter", "more runs than there are");
}

RAMET_FUZZ_SEEDS(filter) {
  return {.inputs = {"fconfig.train.seed = 3 and loss < 2.5 and tag = \"base\\\"line\" and not name ~ 'bert'",
                     "f(pinned or archived) and (min.loss <= -1e-3 or `odd name` != 7) and started >= 2026-11-01",
                     "fconfig.a = true or config.b != word or not_finite.x > 0 and steps >= 10",
                     "s-started,+loss,`config.a,b`", "cconfig.train.seed", "ctag"},
          .words = {" and ", " or ", "not ", "(",   ")",      "config.", "min.",  "mean.", "`", "\"", "\\",
                    "!=",    "<=",   "~",    "tag", "pinned", "true",    "1e308", "nan",   ",", "-"}};
}
