#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/train/training.h"

namespace ramet::cli {

/// One JSON object, built key by key and printed on one line.
class JsonLine {
 public:
  JsonLine();
  ~JsonLine();
  JsonLine(JsonLine&&) noexcept;
  JsonLine& set(const std::string& key, const std::string& value);
  JsonLine& set(const std::string& key, const char* value) { return set(key, std::string(value)); }
  JsonLine& set(const std::string& key, double value);  ///< NaN and infinities as null
  JsonLine& set(const std::string& key, int64_t value);
  JsonLine& set(const std::string& key, bool value);
  JsonLine& set(const std::string& key, const std::vector<std::string>& values);
  JsonLine& set(const Numbers& numbers);
  JsonLine& set_json(const std::string& key, const std::string& json);  ///< a value that is JSON text already
  std::string text() const;
  void print() const;  ///< to stdout, with a line end, at once

 private:
  struct Value;
  std::unique_ptr<Value> value_;
};

/// Whether colours and a moving bar may be shown on stderr.
bool is_terminal();
bool may_colour();

/// Prints an error to stderr: one paragraph, or a JSON object. Returns the exit status.
int report(const Error& error, bool json);
/// A warning, and what is good to know: on stderr.
void warn(const std::string& text);
void note(const std::string& text);

/// "1m23s", "2h05m", "45s"
std::string duration_text(double seconds);
/// A number as people read it: "5.1234", "12,345", "1.2e-05".
std::string number_text(double value);
/// "loss 5.123  accuracy 12.3%": losses with four digits, accuracies as shares of a hundred, or as they are (the
/// metrics of a task are in percent already).
std::string numbers_text(const Numbers& numbers, bool shares = true);
/// Columns of text, aligned; the first row is the head. Numbers align right.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

/// A progress line. On a terminal it is drawn over, and the destructor removes it; elsewhere each change is a line of
/// its own.
class StatusLine {
 public:
  ~StatusLine() { clear(); }
  void show(const std::string& text);
  void clear();

 private:
  bool drawn_ = false;
};

/// Shows how far a run is: a bar with loss, speed and time left on a terminal; elsewhere a line every few seconds.
class StepProgress {
 public:
  /// `units`: the units of the speed, as "tokens".
  StepProgress(std::string name, std::string units, int64_t begin, int64_t end);
  ~StepProgress();
  void step(int64_t done, const Numbers& metrics);
  /// Prints a line above the bar.
  void line(const std::string& text);

 private:
  void draw(int64_t done);
  void clear();

  std::string name_, units_, tail_;
  int64_t begin_, end_;
  double started_, drawn_ = -1e9;
  double loss_ = 0, rate_ = 0, seconds_a_step_ = 0;
  std::string scale_;  ///< of an automatic loss scale
  bool shown_ = false;
};

/// The same for work counted in bytes, as reading text.
class ByteProgress {
 public:
  void show(std::string_view part, int64_t done, int64_t total);
  ~ByteProgress();

 private:
  std::string part_;
  double drawn_ = -1e9;
  bool shown_ = false;
};

/// Where the time of each device of this process went, on stderr: for a cluster that was opened with a profile. Times
/// are divided by `calls`: training steps, or runs of a program.
void print_profile(const Cluster& cluster, int64_t calls);

}  // namespace ramet::cli
