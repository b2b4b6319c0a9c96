#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::track {

/// A named number of one step.
using LoggedNumber = std::pair<std::string, double>;

/// Appends to a run's log without ever delaying training: entries are queued (at most 16 MiB, track/background_file.h;
/// beyond that metrics are dropped and counted), and a background thread writes them. When the disk is full, the thread
/// keeps the queue and tries again. Entries written before the process is killed can be read afterwards: the thread
/// writes what has come every few milliseconds. Any number of threads may log.
///
/// The file is a row of frames: "RLF1", u32 length of the payload, u32 CRC-32C of the payload, payload (little-endian).
/// A payload is 'J' and a JSON object (an event), 'S', u32 id and names each ended by NUL (the names of metrics), or
/// 'M', u32 id, i64 step, f64 seconds since 1970 and one f64 a name.
class RunLogWriter {
 public:
  /// Opens or creates the file; existing entries stay.
  explicit RunLogWriter(const std::filesystem::path& path);
  /// Writes the queue and closes the file.
  ~RunLogWriter();
  RunLogWriter(const RunLogWriter&) = delete;
  RunLogWriter& operator=(const RunLogWriter&) = delete;

  void metrics(int64_t step, std::span<const LoggedNumber> values);
  /// `json` is the text of a JSON object; it should have "event".
  void event(std::string_view json);
  /// An event that may be dropped, and is counted then: when the queue is full, or the text is too long for a frame.
  /// Returns whether it was taken.
  bool offer(std::string_view json);
  /// Waits until all that was given before is written and durable, or the disk has refused it. Returns whether it was.
  bool flush();
  /// Metrics that were dropped because the queue was full: entries, each with all of its numbers.
  int64_t dropped() const;
  /// Events that were offered and dropped.
  int64_t dropped_events() const;
  /// Why the last write failed; empty when it did not.
  std::string problem() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Metrics of one step, in the order in which they were logged.
struct LoggedStep {
  int64_t step = 0;
  double time = 0;  ///< seconds since 1970
  std::vector<LoggedNumber> values;
};

/// The contents of a log. A run that was resumed logs some steps again: its "start" event takes away all steps behind
/// the one that it begins from, and the last entry of a step counts.
struct RunLog {
  std::map<int64_t, std::vector<LoggedStep>> steps;  ///< entries of each step, one for each set of names
  std::vector<std::string> events;                   ///< JSON objects as text, in order
  int64_t skipped_bytes = 0;                         ///< that belong to no whole frame: a kill's torn end, or damage

  /// The value of a metric by step.
  std::vector<std::pair<int64_t, double>> series(std::string_view name) const;
  /// The last value of a metric, or NaN.
  double last(std::string_view name) const;
  /// All names, in alphabetical order.
  std::vector<std::string> names() const;
};

/// Hears what is in a log, in order.
class RunLogVisitor {
 public:
  virtual ~RunLogVisitor() = default;
  /// From here on, entries of `id` have these names. A resumed run numbers anew.
  virtual void on_names(uint32_t id, const std::vector<std::string>& names) = 0;
  /// `values`: as many as `id` has names.
  virtual void on_metrics(uint32_t id, int64_t step, double time, std::span<const double> values) = 0;
  /// `json` is a JSON object, which nests at most 64 deep.
  virtual void on_event(std::string_view json) = 0;
};

/// Takes frames out of the bytes of a log, as they come. Bytes that are no whole frame are skipped.
class RunLogScanner {
 public:
  explicit RunLogScanner(RunLogVisitor& visitor) : visitor_(visitor) {}

  /// Takes all whole frames and returns the number of bytes that are done with: the caller gives the others again, and
  /// those behind them. `at_end`: nothing is known to follow, so a frame that claims more is torn, and what stands
  /// behind it is looked at; but if no whole frame does, the torn one is not done with: its rest may yet come.
  size_t scan(std::string_view bytes, bool at_end);
  /// Bytes that were done with and belong to no whole frame.
  int64_t skipped_bytes() const { return skipped_; }

  /// The names of metrics that are known by now, for a scanner that goes on later. `restore` calls on_names for each;
  /// it returns false, and knows none, for bytes that `saved_names` did not give.
  std::string saved_names() const;
  bool restore(std::string_view saved);

 private:
  bool take(std::string_view payload);
  bool take_names(std::string_view payload);
  bool take_metrics(std::string_view payload);

  RunLogVisitor& visitor_;
  std::map<uint32_t, std::vector<std::string>> names_;
  std::vector<double> values_;
  int64_t skipped_ = 0;
};

/// The step that a "start" event begins from; none for other events.
std::optional<int64_t> resumed_from(std::string_view event);

/// Reads a log from its bytes. Never fails: bytes that are no whole frame are skipped and counted.
RunLog parse_run_log(std::string_view bytes);
/// Throws Error when the file cannot be read.
RunLog read_run_log(const std::filesystem::path& path);

}  // namespace ramet::track
