#include <fmt/format.h>
#include <cmath>

#include "ramet/track/export.h"
#include "ramet/track/json_text.h"

namespace ramet::track {
namespace {

std::string label(std::string_view text) {
  std::string escaped;
  for (const char c : valid_utf8(text)) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n')
      escaped += "\\n";
    else
      escaped += c;
  }
  return escaped;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

/// A family of samples with its head.
class Family {
 public:
  Family(const char* name, const char* help) : name_(name) {
    text_ = fmt::format("# HELP {} {}\n# TYPE {} gauge\n", name, help, name);
  }
  void add(const RunGauges& run, double value, const std::string& more = "") {
    text_ += fmt::format("{}{{run=\"{}\"{}}} {}\n", name_, label(run.id), more, number(value));
    any_ = true;
  }
  std::string text() const { return any_ ? text_ : ""; }

 private:
  std::string name_, text_;
  bool any_ = false;
};

}  // namespace

RunGauges gauges_of(const RunRecord& run) {
  RunGauges gauges{.id = run.id,
                   .name = run.name,
                   .status = std::string(name_of(run.status)),
                   .steps = run.steps(),
                   .started = start_of(run),
                   .updated = end_of(run),
                   .last = {}};
  for (const std::string& name : run.log.names()) gauges.last.emplace_back(name, run.log.last(name));
  return gauges;
}

std::string prometheus_text(const std::vector<RunGauges>& runs) {
  Family info("ramet_run_info", "A run: its name and how it stands."),
      running("ramet_run_running", "1 while a process trains the run."),
      steps("ramet_run_steps", "Steps that the run has done."),
      started("ramet_run_start_time_seconds", "When the run began, in seconds since 1970."),
      updated("ramet_run_last_time_seconds", "When the run logged last, in seconds since 1970."),
      metrics("ramet_run_metric", "The last value of a metric of the run.");
  for (const RunGauges& run : runs) {
    info.add(run, 1, fmt::format(",name=\"{}\",status=\"{}\"", label(run.name), label(run.status)));
    running.add(run, run.status == "running" ? 1 : 0);
    steps.add(run, static_cast<double>(run.steps));
    if (run.started > 0) started.add(run, run.started);
    if (run.updated > 0) updated.add(run, run.updated);
    for (const auto& [name, value] : run.last) metrics.add(run, value, fmt::format(",metric=\"{}\"", label(name)));
  }
  return info.text() + running.text() + steps.text() + started.text() + updated.text() + metrics.text();
}

}  // namespace ramet::track
