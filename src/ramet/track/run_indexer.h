#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "ramet/track/sqlite.h"

namespace ramet::track {

/// What the catalogue knows of a run: enough to tell whether its folder has changed.
struct KnownRun {
  int64_t key = 0;
  std::string stamp, status;
  std::map<std::string, int64_t> logs;  ///< sizes, by path below the run's folder
};

/// What taking in a run gave.
struct RunIndexed {
  bool changed = false;
  int64_t points = 0, bytes = 0;
};

/// Takes folders of runs into the tables. The caller holds the transaction.
class RunIndexer {
 public:
  RunIndexer(Database& database, std::filesystem::path runs_folder);
  ~RunIndexer();
  RunIndexer(const RunIndexer&) = delete;
  RunIndexer& operator=(const RunIndexer&) = delete;

  /// All runs of the catalogue, by id.
  std::unordered_map<std::string, KnownRun> known_runs();
  /// Whether a run's folder differs from what is known of it.
  bool has_changed(const std::string& id, const KnownRun& known) const;
  /// Takes in what has changed. A log that is shorter than what was read of it, or another one, is read anew: then the
  /// whole run is.
  RunIndexed index(const std::string& id, const KnownRun* known);
  void remove(int64_t key);
  /// The caller rolled back: ids that were given since may not be there.
  void forget_ids() { metric_ids_.clear(); }

 private:
  int64_t metric_id(const std::string& name);
  void index_facts(int64_t key, const std::filesystem::path& run);

  Database& database_;
  const std::filesystem::path folder_;
  int root_ = -1;
  std::unordered_map<std::string, int64_t> metric_ids_;
};

/// Ids of the runs in a folder.
std::vector<std::string> run_ids(const std::filesystem::path& runs_folder);

/// Adds or changes a configuration's value. `source`: "recipe" or "log".
void put_config(Database& database, int64_t run, const std::string& key, const FieldValue& value,
                const std::string& source);
/// A value of a recipe's line, typed: 3, 0.5, true, "text".
FieldValue typed_value(const std::string& text);

}  // namespace ramet::track
