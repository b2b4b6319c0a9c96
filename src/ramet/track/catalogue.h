#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ramet/track/annotations.h"

namespace ramet::track {

/// A value of a run's configuration, of a column, or of a query's row. monostate: none. A number that is NaN comes as
/// none, too.
using FieldValue = std::variant<std::monostate, bool, int64_t, double, std::string>;
/// As JSON: null, true, 3, 0.5, "text". An infinite number is null.
std::string field_json(const FieldValue& value);
/// As a person reads it: "", "true", "3", "0.5", "text".
std::string field_text(const FieldValue& value);

enum class Access {
  kRead,  ///< changes nothing on disk: answers from the catalogue that is there, as it was indexed last; where there is
          ///< none of this version, from one that it makes in memory
  kIndex,  ///< makes the catalogue where there is none, and `index` brings it up to date
};

/// What indexing found.
struct IndexReport {
  int64_t runs = 0;                   ///< folders of runs that are there
  std::vector<std::string> changed;   ///< ids of runs that were new or whose rows changed
  std::vector<std::string> removed;   ///< ids of runs whose folders are gone
  int64_t points = 0;                 ///< numbers taken out of logs
  int64_t bytes = 0;                  ///< of logs
  bool busy = false;                  ///< another process indexes at this moment: nothing was done
  std::vector<std::string> problems;  ///< one line each: a run that could not be read, a catalogue that was replaced
};
/// Runs that were looked at, and how many there are.
using IndexProgress = std::function<void(int64_t done, int64_t total)>;

/// Which runs to list.
struct RunQuery {
  std::string filter{};                ///< in the filter language (track/filter.h); "": all
  std::string sort = "-started";       ///< left sides of the filter language, separated by commas; '-': descending.
                                       ///< Runs without a value come last
  std::vector<std::string> columns{};  ///< left sides of the filter language
  int64_t limit = 100, offset = 0;     ///< limit < 0: all
};

/// A run as a row of a list.
struct RunRow {
  std::string id, name, status, started,
      ended;                               ///< started and ended: ISO 8601 with the offset; ended "" if it did not
  std::string group, note, colour, units;  ///< units: "tokens", of the axis; ""
  std::string recipe_name;                 ///< `name` where nobody gave another
  std::filesystem::path path;
  std::vector<std::string> tags;
  bool pinned = false, archived = false;
  int64_t steps = 0;
  double started_seconds = 0, ended_seconds = 0;  ///< since 1970; 0: not known
  std::vector<FieldValue> columns;                ///< in the order of RunQuery::columns
};
struct RunPage {
  int64_t total = 0;  ///< that the filter lets through
  std::vector<RunRow> runs;
};

/// A metric of a run, summed up. Metrics of log.ramet have the names that were logged; those of logs/STEM.ramet are
/// STEM/NAME, those of system/STEM.ramet are system/STEM/NAME.
struct MetricSummary {
  std::string name;
  int64_t points = 0, first_step = 0, last_step = 0;
  double first_time = 0, last_time = 0;  ///< seconds since 1970
  double min = 0, max = 0, mean = 0;     ///< of finite values; NaN where there are none
  double last = 0;                       ///< the last value, whatever it is
  int64_t not_finite = 0;                ///< NaN and infinite values
};

struct EventRow {
  int64_t number = 0;  ///< of the run's events, from 0, in the order in which they were indexed
  std::string kind;    ///< "start", "alert", ...
  std::string json;    ///< the whole event
};
/// A "logged" event.
struct MediaRow {
  std::string kind, name, artifact, type, caption;
  int64_t step = 0, bytes = 0;
  double time = 0;
};
struct AlertRow {
  std::string run, kind, level, title, text;
  int64_t step = 0;
  double time = 0;
};
/// An edge from a run to the one that it began with.
struct LineageRow {
  std::string run, kind, from, checkpoint, weights_hash;  ///< kind: "resumed", "forked", "fine_tuned"
};

/// All that is known of one run.
struct RunDetails : RunRow {
  std::string version, command, git, machine, kernel_class, problem;
  std::vector<std::pair<std::string, FieldValue>> config;  ///< by key, in alphabetical order
  std::vector<std::pair<std::string, std::string>> facts;  ///< of the last "start" and "end" events
  std::vector<MetricSummary> metrics;                      ///< by name
  std::vector<LineageRow> lineage;                         ///< to and from other runs
  std::vector<AlertRow> alerts;                            ///< oldest first
  std::vector<std::string> checkpoints;                    ///< names, oldest first
  int64_t events = 0, media = 0;
  int64_t skipped_bytes = 0;    ///< of logs, that belong to no whole frame
  int64_t replaced_points = 0;  ///< that a resumed run logged again
  int64_t dropped_metrics = 0;  ///< that the writers of the logs say they dropped
};

/// What stands on the horizontal axis. Time: seconds since 1970. Relative time: seconds since the run started. Samples
/// and units: by the run's "axis" event; where it has none, steps.
enum class SeriesAxis { kStep, kTime, kRelativeTime, kSamples, kUnits };
/// "step", "time", "relative_time", "samples", "units"
std::string_view name_of(SeriesAxis axis);
/// Throws Error for other names.
SeriesAxis parse_axis(std::string_view name);

struct SeriesRequest {
  std::string run{}, metric{};
  SeriesAxis axis = SeriesAxis::kStep;
  double from = -std::numeric_limits<double>::infinity();  ///< of x, inclusive
  double to = std::numeric_limits<double>::infinity();
  int64_t buckets = 600;  ///< equal parts of the range of x that has points, within [from, to]; 1 to 100,000
};
/// Points of a metric. `raw`: there are at most `buckets` of them, each is there: x and last. Else one entry for each
/// bucket that has points: min, max and last of its finite values (NaN where it has none), how many points it has, and
/// how many of them are not finite; x is that of its last point. Exact: as if from all points.
struct Series {
  bool raw = true;
  std::vector<double> x, min, max, last;
  std::vector<uint32_t> count, not_finite;
  int64_t points = 0;  ///< within [from, to]
};

struct SqlResult {
  std::vector<std::string> columns;
  std::vector<std::vector<FieldValue>> rows;
  bool truncated = false;  ///< there were more rows than the limit
};

/// A name, and how many runs have it.
struct KeyCount {
  std::string name;
  int64_t runs = 0;
};
struct CatalogueKeys {
  std::vector<KeyCount> config, metrics, tags, groups;
};

/// A line of a comparison: a value of each run.
struct ComparedRow {
  std::string name;
  std::vector<FieldValue> values;
  bool differs = false;
};
struct RunComparison {
  std::vector<std::string> runs;
  std::vector<ComparedRow> config;   ///< keys whose values differ, or that not all runs have
  std::vector<ComparedRow> facts;    ///< status, steps, seconds, planned bytes, ...: those that any run has
  std::vector<ComparedRow> metrics;  ///< last values of each metric
};

/// How a key of the configuration goes together with a metric, over runs.
struct KeyImportance {
  std::string key;
  int64_t runs = 0;        ///< that have the key and the metric
  double correlation = 0;  ///< Spearman's, of ranks, in [-1, 1]; NaN for text
  double importance = 0;   ///< share of the variance that a random forest explains with it; all keys sum to 1
};

/// The index of all runs in a folder: RUNS/catalogue.db (SQLite). The folders of runs are the truth, and the catalogue
/// can always be made from them again; training neither reads nor writes it.
///
/// One process at a time indexes (RUNS/catalogue.lock), any number read meanwhile. Where the folder cannot be written,
/// or its disk is full, the catalogue is in memory and `remark` says why. A damaged one is kept aside as
/// catalogue.db.damaged and made again. One of another version of the schema is made again.
///
/// Any thread may call any function; calls take turns. Runs are named by their ids, or by what find_run takes.
/// Functions throw Error for runs that are not there, for filters and queries that are wrong, and when a disk fails.
class Catalogue {
 public:
  /// Throws Error when there is no such folder; with kIndex makes the folder's catalogue, but indexes nothing yet.
  static Catalogue open(const std::filesystem::path& runs_folder, Access access);
  ~Catalogue();
  Catalogue(Catalogue&&) noexcept;
  Catalogue& operator=(Catalogue&&) noexcept;

  /// Takes in what has come since the last time: new runs, what logs have grown by, annotations. What a resumed run
  /// logs again replaces what came from that step on. Never fails for the sake of one run: see IndexReport::problems.
  IndexReport index(const IndexProgress& progress = {});
  /// Makes it from nothing; readers see the old one until the new one is complete.
  IndexReport rebuild(const IndexProgress& progress = {});
  /// Takes in one run alone: what a server does for runs that are going on.
  IndexReport index_run(const std::string& id);

  RunPage runs(const RunQuery& query) const;
  RunDetails run(const std::string& id) const;
  std::vector<std::pair<std::string, FieldValue>> config(const std::string& id) const;
  std::vector<MetricSummary> metrics(const std::string& id) const;
  /// Events of a kind, oldest first; "": of all kinds.
  std::vector<EventRow> events(const std::string& id, std::string_view kind = "") const;
  std::vector<MediaRow> media(const std::string& id) const;
  /// Of a run, or of all runs (""), newest first.
  std::vector<AlertRow> alerts(const std::string& id, int64_t limit = 1000) const;
  /// Edges of a run; of all runs (""): the whole graph.
  std::vector<LineageRow> lineage(const std::string& id) const;
  Series series(const SeriesRequest& request) const;

  CatalogueKeys keys() const;
  RunComparison compare(const std::vector<std::string>& ids) const;
  /// Of the metric's last values, over the runs that a filter lets through; most important first.
  std::vector<KeyImportance> importance(const std::string& metric, const std::string& filter = "") const;

  /// One SELECT over the catalogue's tables (docs/runs.md). Throws Error for anything that would write, for more than
  /// one statement, and after `seconds`.
  SqlResult sql(const std::string& text, int64_t limit = 1000, double seconds = 10) const;

  /// Changes the run's annotations.json, then takes it in.
  Annotations annotate(const std::string& id, const AnnotationChanges& changes);

  const std::filesystem::path& folder() const;
  /// Why the catalogue is in memory, or "".
  std::string remark() const;

 private:
  struct State;
  explicit Catalogue(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ramet::track
