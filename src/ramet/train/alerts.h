#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ramet/train/alert_options.h"
#include "ramet/train/training_loop.h"

namespace ramet::train {

/// Something that a person should look at.
struct Alert {
  std::string kind;   ///< "not_finite", "spike", "flat", "slow", "disk", "starved", "memory", "user"
  std::string level;  ///< "info", "warn", "error"
  int64_t step = 0;
  double time = 0;  ///< seconds since 1970
  std::string title, text;
};

/// The event of a run's log: {"event":"alert","kind":...,"level":...,"step":...,"time":...,"title":...,"text":...}
std::string json_of(const Alert& alert);

/// The state of the host, as far as a run may suffer from it. -1: not known.
struct HostState {
  int64_t disk_free = -1;         ///< bytes, of the run's file system
  int64_t memory_free = -1;       ///< bytes that the process can still take
  int64_t checkpoint_bytes = -1;  ///< of the last checkpoint: the next one needs as much
};

/// The rules: which steps and which states of the host raise an alert. Not more than one alert of a kind is raised
/// until its reason has gone, or `repeat` steps have passed.
class AlertRules {
 public:
  explicit AlertRules(const AlertOptions& options);
  /// Alerts of one step; their time is not set. Costs microseconds.
  std::vector<Alert> on_step(int64_t step, const Numbers& numbers);
  std::vector<Alert> on_host(int64_t step, const HostState& host);

 private:
  struct Watch {
    bool raised = false;
    int64_t at = 0;
  };
  void judge(std::vector<Alert>& alerts, bool bad, bool good, Alert alert);
  void watch_metric(std::vector<Alert>& alerts, int64_t step, double value);
  void watch_flat(std::vector<Alert>& alerts, int64_t step, double value);
  void watch_speed(std::vector<Alert>& alerts, int64_t step, double seconds, double waited);

  AlertOptions options_;
  int64_t least_disk_ = 0, least_memory_ = 0;
  std::map<std::string, Watch> watches_;         ///< by kind
  std::deque<double> values_, flat_;             ///< of the metric, newest last
  std::deque<double> seconds_, recent_, waits_;  ///< of steps: older ones, and the newest with their waits for data
  bool first_ = true;
};

/// The run that alerts speak of, for commands and webhooks.
struct AlertedRun {
  std::string id, name;
  std::filesystem::path folder;
};

/// Raises alerts while a run trains, and brings each of them to `tell` (on the training thread, which it must not hold
/// up), to a command and to a webhook. The host is looked at, and commands and webhooks run, in a thread of its own;
/// at most `kMostWaiting` alerts wait for them, and more are left out and counted. The end of a run waits for the last
/// ones, at most four times options.time_limit.
class AlertObserver final : public TrainingObserver {
 public:
  static constexpr size_t kMostWaiting = 64;

  /// `warn` gets, on the training thread, what went wrong with a command or a webhook. Throws Error for a webhook in a
  /// build without libcurl.
  AlertObserver(const AlertOptions& options, const AlertedRun& run, std::function<void(const Alert&)> tell,
                std::function<void(const std::string&)> warn = {});
  ~AlertObserver() override;

  void on_start(const Training& training, const RunStart& start) override;
  void on_step(int64_t done, const Numbers& metrics) override;
  void on_checkpoint(int64_t done, const std::filesystem::path& path) override;
  void on_end(const Training& training, const TrainingResult& result) override;
  void on_failure(const Training& training, const std::string& error) override;

  /// Waits for the alerts that are under way; further ones are only told. A run's end calls it.
  void finish();
  /// An alert of one's own ("user"), from the training thread.
  void raise(const std::string& level, const std::string& title, const std::string& text);

 private:
  struct Background;
  void send(Alert alert);

  AlertOptions options_;
  AlertRules rules_;
  std::function<void(const Alert&)> tell_;
  std::function<void(const std::string&)> warn_;
  std::shared_ptr<Background> background_;
  int64_t step_ = 0;
};

}  // namespace ramet::train
