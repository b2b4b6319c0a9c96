#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ramet/serve/store.h"

namespace ramet::serve {

/// A value of the catalogue as JSON.
nlohmann::json json_value(const FieldValue& value);
/// A text as an SQL literal.
std::string sql_text(std::string_view text);

/// Rows of a list with the columns of these names, as GET /api/v1/runs has them.
nlohmann::json rows_json(const Catalogue& catalogue, const std::vector<RunRow>& rows,
                         const std::vector<std::string>& columns);
/// One row, without columns. Throws Error when there is no such run.
nlohmann::json row_json(const Catalogue& catalogue, const std::string& id);
/// All that is known of a run: the row's keys and more. `folder` is the run's.
nlohmann::json details_json(const Catalogue& catalogue, const std::string& id, const std::filesystem::path& folder);
/// Summaries of a run's metrics.
nlohmann::json metrics_json(const Catalogue& catalogue, const std::string& id, const std::filesystem::path& folder);
/// Events of a run, oldest first, the last `limit` of them.
nlohmann::json events_json(const Catalogue& catalogue, const std::string& id, const std::string& kind, int64_t limit);
nlohmann::json media_json(const Catalogue& catalogue, const std::string& id);

/// Names of the files of a run that GET /api/v1/runs/{id}/files has.
std::vector<std::string> run_files(const std::filesystem::path& folder);
/// The path of one of them; empty for another name. `numerics/STEP` with the number of a step.
std::filesystem::path run_file(const std::filesystem::path& folder, std::string_view name);

}  // namespace ramet::serve
