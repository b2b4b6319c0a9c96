#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ramet/error.h"

namespace ramet::v0 {

/// A number, a yes or no, or a text: of a configuration, or in a cell of a table.
using LogValue = std::variant<bool, int64_t, double, std::string>;

/// An image of 8 bits a channel: height rows of width x channels bytes, from the top. Channels: 1 grey, 2 grey with
/// alpha, 3 RGB, 4 RGBA.
struct LogImage {
  int64_t width = 0, height = 0, channels = 3;
  std::span<const uint8_t> pixels{};
  std::string caption{};
};

/// counts[i] values lie between edges[i] and edges[i + 1].
struct LogHistogram {
  std::vector<double> edges{}, counts{};
  /// Of values, in as many equal parts between the least and the greatest finite one.
  RAMET_API static LogHistogram of(std::span<const float> values, int64_t parts = 64);
};

struct LogTable {
  std::vector<std::string> columns{};
  std::vector<std::vector<LogValue>> rows{};  ///< each with a value of every column
};

enum class AlertLevel { kInfo, kWarning, kError };

struct RunOptions {
  std::string folder = "runs";  ///< of runs; the run gets a folder of its own in it
  std::string name = "run";
  std::string exactly{};  ///< this folder instead of a new one below `folder`
  std::string group{}, note{};
  std::vector<std::string> tags{};
  std::map<std::string, LogValue> config{};
};

/// A run that a program logs to: numbers by step, images, histograms, tables, texts, files, alerts, configuration.
/// `ramet runs` and the catalogue know it as they know the runs of `ramet train`.
///
/// Logging waits for no disk: it copies what it is given, and threads write it. When a disk is slower than the program,
/// entries are dropped, and counted (`dropped`). What `flush` returned true for survives a kill of the process. Any
/// thread may call any function.
class RAMET_API Run {
 public:
  /// A new run. Throws Error when its folder cannot be made, or holds a run already.
  explicit Run(const RunOptions& options = {});
  /// One more writer to a run that another process keeps, or that is over: a rank, an evaluation. Its numbers are named
  /// WRITER/NAME, and are in logs/WRITER.ramet. Throws Error when there is no such run.
  static Run join(const std::string& run, const std::string& writer);
  /// Ends the run as done, unless `finish` did before; a writer that joined only writes what waits.
  ~Run();
  Run(Run&&) noexcept;
  Run& operator=(Run&&) noexcept;

  /// Numbers of a step. Steps rise: numbers of a step that was logged before replace those from that step on.
  void log(int64_t step, std::initializer_list<std::pair<std::string, double>> numbers);
  void log(int64_t step, std::span<const std::pair<std::string, double>> numbers);
  void log(int64_t step, const std::string& name, double number);

  /// Throws Error when sizes do not fit each other.
  void log_image(int64_t step, const std::string& name, const LogImage& image);
  void log_histogram(int64_t step, const std::string& name, const LogHistogram& histogram);
  void log_table(int64_t step, const std::string& name, const LogTable& table);
  void log_text(int64_t step, const std::string& name, const std::string& text);
  /// Keeps a copy of a file, which must stay as it is until `flush`. Throws Error when there is none.
  void log_file(int64_t step, const std::string& name, const std::string& path);

  void alert(AlertLevel level, const std::string& title, const std::string& text = "", int64_t step = 0);
  /// More configuration, or other values for keys that are there.
  void config(const std::map<std::string, LogValue>& values);
  /// Adds a tag. Unlike the others, this writes a file at once; throws Error when it cannot.
  void tag(const std::string& tag);
  /// What a step is in samples and in units (as "tokens"), for axes of curves.
  void axis(double samples_per_step, double units_per_step = 0, const std::string& units = "");

  /// Waits until all that was logged is durable; false when a disk refused it, or something was dropped meanwhile.
  bool flush();
  /// Entries, events and artifacts that were dropped so far.
  int64_t dropped() const;
  /// Why the last write failed, or "".
  std::string problem() const;
  /// Ends the run: as done, or with an error as failed. Afterwards nothing is logged.
  void finish(const std::string& error = "");

  /// The run's folder.
  const std::string& path() const;
  /// The last part of the path: what `ramet runs show` takes.
  std::string id() const;

 private:
  friend class Training;
  struct RAMET_PRIVATE State;
  explicit Run(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ramet::v0
