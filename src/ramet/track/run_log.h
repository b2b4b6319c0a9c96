#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::track {

/// A named number of one step.
using LoggedNumber = std::pair<std::string, double>;

/// Appends to a run's log without ever delaying training: entries are queued (at most `kMostQueued` bytes; beyond that
/// metrics are dropped and counted), and a background thread writes them. When the disk is full, the thread keeps the
/// queue and tries again. Entries written before the process is killed can be read afterwards.
///
/// The file is a row of frames: "RLF1", u32 length of the payload, u32 CRC-32C of the payload, payload (little-endian).
/// A payload is 'J' and a JSON object (an event), 'S', u32 id and names each ended by NUL (the names of metrics), or
/// 'M', u32 id, i64 step, f64 seconds since 1970 and one f64 a name.
class RunLogWriter {
 public:
  static constexpr size_t kMostQueued = 16 << 20;

  /// Opens or creates the file; existing entries stay.
  explicit RunLogWriter(const std::filesystem::path& path);
  /// Writes the queue and closes the file.
  ~RunLogWriter();
  RunLogWriter(const RunLogWriter&) = delete;
  RunLogWriter& operator=(const RunLogWriter&) = delete;

  void metrics(int64_t step, std::span<const LoggedNumber> values);
  /// `json` is the text of a JSON object; it should have "event".
  void event(std::string_view json);
  /// Waits until all that was given before is written and durable, or the disk has refused it. Returns whether it was.
  bool flush();
  /// Metrics that were dropped because the queue was full.
  int64_t dropped() const;
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

/// The contents of a log. A run that was resumed logs some steps again; the last entry of a step counts.
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

/// Reads a log from its bytes. Never fails: bytes that are no whole frame are skipped and counted.
RunLog parse_run_log(std::string_view bytes);
/// Throws Error when the file cannot be read.
RunLog read_run_log(const std::filesystem::path& path);

}  // namespace ramet::track
