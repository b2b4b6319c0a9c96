#include "ramet/track/event_file_writer.h"

#include <unistd.h>

#include <atomic>
#include <chrono>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"

namespace ramet::track {
namespace {

namespace fs = std::filesystem;

/// A name as TensorBoard's own writers give: time, host, process, and a number that is new in this process.
fs::path new_file(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Error({.what = "cannot make the folder of event files (" + error.message() + ")", .where = folder.string()},
                ErrorKind::kFailure);
  static std::atomic<int> number{0};
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return folder / ("events.out.tfevents." + std::to_string(static_cast<int64_t>(seconds_since_1970())) + "." +
                   (*host ? host : "localhost") + "." + std::to_string(::getpid()) + "." + std::to_string(number++));
}

}  // namespace

EventFileWriter::EventFileWriter(const fs::path& folder) : path_(new_file(folder)), file_(path_, "an event file") {
  file_.append(event_file::version(seconds_since_1970()), false);
}

void EventFileWriter::config(std::span<const ConfigValue> config) {
  file_.append(event_file::begin_session(seconds_since_1970(), config), false);
}

void EventFileWriter::restart(int64_t step) { file_.append(event_file::restart(seconds_since_1970(), step), false); }

void EventFileWriter::scalars(int64_t step, std::span<const LoggedNumber> values) {
  if (!file_.append(event_file::scalars(seconds_since_1970(), step, values), true)) ++dropped_;
}

void EventFileWriter::end(bool success) { file_.append(event_file::end_session(seconds_since_1970(), success), false); }

}  // namespace ramet::track
