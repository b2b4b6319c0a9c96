#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <unordered_map>

#include "ramet/track/metric_appender.h"
#include "ramet/track/run_log.h"

namespace ramet::track {

/// Takes what one run's logs say into the tables. First `begin` a log, then it hears the log as a visitor; `finish` in
/// the end writes what is left.
class LogIndexer final : public RunLogVisitor {
 public:
  using MetricIds = std::function<int64_t(const std::string& name)>;
  LogIndexer(Database& database, int64_t run, MetricIds metric_ids);

  /// A log below the run's folder: "log.ramet", "logs/3.ramet", "system/HOST-0.ramet".
  void begin(const std::string& file);
  void finish();

  void on_names(uint32_t id, const std::vector<std::string>& names) override;
  void on_metrics(uint32_t id, int64_t step, double time, std::span<const double> values) override;
  void on_event(std::string_view json) override;

  int64_t points() const { return points_; }

 private:
  using Json = nlohmann::json;
  MetricAppender& appender(const std::string& name);
  void rewind(int64_t from_step);
  /// Prefixes of the metrics of other logs than the leading one.
  std::set<std::string> other_prefixes();
  /// The last step of the leading log's metrics.
  int64_t last_step();
  void take_facts(const Json& event, const std::string& kind);
  void take_axis(const Json& event);
  void take_dropped(const Json& event);
  void take_logged(const Json& event);
  void take_alert(const Json& event);
  void take_lineage(const Json& event);

  Database& database_;
  const int64_t run_;
  const MetricIds metric_ids_;
  std::string prefix_;  ///< of the metrics' names
  bool leads_ = false;  ///< the log is the leading one
  std::unordered_map<uint32_t, std::vector<MetricAppender*>> schemas_;
  std::unordered_map<std::string, std::unique_ptr<MetricAppender>> appenders_;
  int64_t events_ = 0, first_event_ = 0, steps_ = 0, points_ = 0;
  bool knows_units_ = false, steps_changed_ = false;
};

/// The name of a log below the run's folder, as part of the names of its metrics: "", "3/", "system/HOST-0/".
std::string metric_prefix(const std::string& file);

}  // namespace ramet::track
