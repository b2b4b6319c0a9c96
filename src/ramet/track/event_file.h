#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/track/run_log.h"

namespace ramet::track {

/// Counts of values by ranges: `counts[i]` values between `edges[i]` and `edges[i + 1]`.
struct Histogram {
  std::vector<double> edges, counts;  ///< edges: one more than counts, ascending
};
/// {"edges": [...], "counts": [...]}: the form in which runs keep histograms (type application/json).
std::string json_of(const Histogram& histogram);
/// Nothing where the text is not of that form.
std::optional<Histogram> parse_histogram(std::string_view json);

/// One key of a configuration and its value as JSON text.
using ConfigValue = std::pair<std::string, std::string>;

/// TensorBoard's event files are TensorFlow records (track/tf_record.h), each with a message `Event`. The functions
/// below make a whole record each; times are seconds since 1970. Of the messages in tensorboard/compat/proto/ they
/// write, by number,
///   Event: wall_time 1, step 2, file_version 3, summary 5, session_log 7 (status 1)
///   Summary: value 1; Value: tag 1, simple_value 2, tensor 8, metadata 9; SummaryMetadata: plugin_data 1 (plugin_name
///     1, content 2), data_class 4
///   TensorProto: dtype 1, tensor_shape 2 (dim 2 (size 1)), tensor_content 4, string_val 8
/// and of tensorboard/plugins/hparams/plugin_data.proto: version 1, session_start_info 3 (hparams 1, group_name 4,
/// start_time_secs 5), session_end_info 4 (status 1, end_time_secs 2).
namespace event_file {

/// The first record of every file.
std::string version(double time);
/// Says that all earlier values of this step and later ones count no more: the run went back to its step.
std::string restart(double time, int64_t step);
/// Scalars are single precision: that is what the format has room for.
std::string scalars(double time, int64_t step, std::span<const LoggedNumber> values);
/// `text` is Markdown.
std::string text(double time, int64_t step, const std::string& tag, const std::string& text);
/// `encoded`: a PNG or another kind of image that browsers know. Width and height may be 0 where they are not known.
std::string image(double time, int64_t step, const std::string& tag, std::string_view encoded, int64_t width,
                  int64_t height);
std::string histogram(double time, int64_t step, const std::string& tag, const Histogram& histogram);
/// The configuration, for the tab HPARAMS. Values that are no number, bool or text appear as JSON text.
std::string begin_session(double time, std::span<const ConfigValue> config);
std::string end_session(double time, bool success);

}  // namespace event_file

/// One value of an event, as far as a run can hold it.
struct EventValue {
  enum class Kind { kScalar, kText, kImage, kHistogram, kSession, kOther };
  Kind kind = Kind::kOther;
  std::string tag;
  double scalar = 0;
  std::vector<std::string> parts;  ///< texts, or encoded images
  Histogram histogram;
  std::string session;  ///< bytes of a HParamsPluginData
};

/// One event of a file.
struct FileEvent {
  double time = 0;  ///< seconds since 1970
  int64_t step = 0;
  std::string file_version;
  bool restart = false;
  std::vector<EventValue> values;
  bool damaged = false;  ///< a part of the message could not be read
};
FileEvent parse_event(std::string_view payload);

/// What the hparams plugin keeps of a run.
struct EventSession {
  std::vector<ConfigValue> config;
  std::string group;
  double started = 0, ended = 0;  ///< seconds since 1970; 0 where it says nothing
  int64_t status = 0;             ///< 0 unknown, 1 success, 2 failure, 3 running
};
EventSession parse_session(std::string_view bytes);

}  // namespace ramet::track
