#include <algorithm>
#include <cmath>
#include <cstdio>

#include "ramet/base/file.h"
#include "ramet/train/alerts.h"

namespace ramet::train {
namespace {

constexpr size_t kLeastValues = 20;     // before a spike is told from noise
constexpr size_t kRecentSteps = 20;     // whose median is the speed now
constexpr size_t kLeastSteps = 50;      // before them, whose median is the run's own speed
constexpr size_t kMostSteps = 500;      // that are remembered
constexpr double kLeastSpread = 0.005;  // of the median: a loss that hardly moves has no spike of a hair's breadth
constexpr double kRelief = 0.8;         // an alert has gone once its reason is this much weaker

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}
double median_of(const std::deque<double>& values) {
  return median_of(std::vector<double>(values.begin(), values.end()));
}

/// 1.4826 times the median absolute deviation: the standard deviation of normal numbers, whatever the outliers.
double spread_of(const std::deque<double>& values, double median) {
  std::vector<double> deviations;
  for (const double value : values) deviations.push_back(std::fabs(value - median));
  return 1.4826 * median_of(std::move(deviations));
}

void push(std::deque<double>& values, double value, size_t most) {
  values.push_back(value);
  while (values.size() > most) values.pop_front();
}

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}
std::string percent_of(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f%%", 100 * share);
  return text;
}

}  // namespace

AlertRules::AlertRules(const AlertOptions& options)
    : options_(options),
      least_disk_(options.disk.empty() ? 0 : parse_size(options.disk)),
      least_memory_(options.memory.empty() ? 0 : parse_size(options.memory)) {}

/// `bad`: the alert's reason holds; `good`: it has gone, with some distance.
void AlertRules::judge(std::vector<Alert>& alerts, bool bad, bool good, Alert alert) {
  Watch& watch = watches_[alert.kind];
  if (good) watch.raised = false;
  if (!bad || (watch.raised && alert.step - watch.at < options_.repeat)) return;
  watch = {true, alert.step};
  alerts.push_back(std::move(alert));
}

std::vector<Alert> AlertRules::on_step(int64_t step, const Numbers& numbers) {
  std::vector<Alert> alerts;
  if (!options_.on) return alerts;
  double seconds = 0, waited = 0;
  for (const auto& [name, value] : numbers) {
    if (name == options_.metric) watch_metric(alerts, step, value);
    if (name == "step_seconds") seconds = value;
    if (name == "data_seconds") waited = value;
  }
  if (seconds > 0 && !first_) watch_speed(alerts, step, seconds, waited);  // the first step meets cold caches
  first_ = false;
  return alerts;
}

void AlertRules::watch_metric(std::vector<Alert>& alerts, int64_t step, double value) {
  if (std::isnan(value)) return;  // not defined in this step
  const bool finite = std::isfinite(value);
  judge(alerts, !finite, finite,
        {.kind = "not_finite",
         .level = "error",
         .step = step,
         .title = options_.metric + " is not finite",
         .text = options_.metric + " of step " + std::to_string(step) + " is infinite"});
  if (!finite) return;
  if (options_.spike > 0 && values_.size() >= std::min(kLeastValues, static_cast<size_t>(options_.window))) {
    const double median = median_of(values_);
    const double spread = std::max({spread_of(values_, median), kLeastSpread * std::fabs(median), 1e-300});
    const double score = (value - median) / spread;
    judge(alerts, score > options_.spike, score < options_.spike * kRelief,
          {.kind = "spike",
           .level = "warn",
           .step = step,
           .title = options_.metric + " has a spike",
           .text = options_.metric + " of step " + std::to_string(step) + " is " + text_of(value) + ", " +
                   text_of(score) + " robust standard deviations above the median of the last " +
                   std::to_string(values_.size()) + " steps, " + text_of(median)});
  }
  push(values_, value, static_cast<size_t>(options_.window));
  if (options_.flat > 0) watch_flat(alerts, step, value);
}

/// The median of the newest half of twice `flat` steps against that of the half before.
void AlertRules::watch_flat(std::vector<Alert>& alerts, int64_t step, double value) {
  const auto half = static_cast<size_t>(options_.flat);
  push(flat_, value, 2 * half);
  if (flat_.size() < 2 * half || step % std::max<int64_t>(options_.flat / 10, 1) != 0) return;
  const auto middle = flat_.begin() + static_cast<int64_t>(half);
  const double before = median_of(std::vector<double>(flat_.begin(), middle));
  const double now = median_of(std::vector<double>(middle, flat_.end()));
  const double least = options_.flat_change * std::fabs(before);
  judge(alerts, before - now < least, before - now >= least,
        {.kind = "flat",
         .level = "warn",
         .step = step,
         .title = options_.metric + " does not improve",
         .text = "the median of " + options_.metric + " over the last " + std::to_string(options_.flat) + " steps is " +
                 text_of(now) + ", over those before it was " + text_of(before)});
}

void AlertRules::watch_speed(std::vector<Alert>& alerts, int64_t step, double seconds, double waited) {
  push(waits_, waited, kRecentSteps);
  if (recent_.size() == kRecentSteps) push(seconds_, recent_.front(), kMostSteps);
  push(recent_, seconds, kRecentSteps);
  if (recent_.size() < kRecentSteps) return;
  if (options_.slow > 0 && seconds_.size() >= kLeastSteps) {
    const double own = median_of(seconds_), now = median_of(recent_), share = own / now;
    judge(alerts, share<options_.slow, share> options_.slow / kRelief,
          {.kind = "slow",
           .level = "warn",
           .step = step,
           .title = "training is slow",
           .text = "the last " + std::to_string(kRecentSteps) + " steps took " + text_of(now) +
                   " s in the median, those before " + text_of(own) + " s: " + percent_of(share) +
                   " of the run's own speed"});
  }
  if (options_.starved > 0) {
    double all = 0, waiting = 0;
    for (const double each : recent_) all += each;
    for (const double each : waits_) waiting += each;
    const double share = all > 0 ? waiting / all : 0;
    judge(alerts, share > options_.starved, share < options_.starved * kRelief,
          {.kind = "starved",
           .level = "warn",
           .step = step,
           .title = "training waits for data",
           .text = percent_of(share) + " of the time of the last " + std::to_string(kRecentSteps) +
                   " steps went by waiting for data; more data.prefetch, faster storage or more processors may help"});
  }
}

std::vector<Alert> AlertRules::on_host(int64_t step, const HostState& host) {
  std::vector<Alert> alerts;
  if (!options_.on) return alerts;
  if (least_disk_ > 0 && host.disk_free >= 0) {
    const int64_t wanted = std::max(least_disk_, host.checkpoint_bytes);
    judge(alerts, host.disk_free<wanted, static_cast<double>(host.disk_free) * kRelief> static_cast<double>(wanted),
          {.kind = "disk",
           .level = host.disk_free < host.checkpoint_bytes ? "error" : "warn",
           .step = step,
           .title = "the disk is nearly full",
           .text = format_size(host.disk_free) + " are free where the run is kept" +
                   (host.checkpoint_bytes > 0 ? "; a checkpoint takes " + format_size(host.checkpoint_bytes) : "")});
  }
  if (least_memory_ > 0 && host.memory_free >= 0)
    judge(alerts,
          host.memory_free<least_memory_, static_cast<double>(host.memory_free) * kRelief> static_cast<double>(
              least_memory_),
          {.kind = "memory",
           .level = "warn",
           .step = step,
           .title = "the host's memory is nearly used up",
           .text = format_size(host.memory_free) + " can still be taken"});
  return alerts;
}

}  // namespace ramet::train
