#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "ramet/track/run_log.h"

namespace ramet::track {

/// Makes the bytes of a log's entries, in the form of RunLogWriter.
class RunLogFrames {
 public:
  /// At most 4096 values, whose names are not empty and hold no NUL. `time`: seconds since 1970.
  std::string metrics(int64_t step, double time, std::span<const LoggedNumber> values);
  /// `json` is the text of a JSON object of less than 1 MiB; it should have "event".
  std::string event(std::string_view json);
  /// Says that frames with these names did not reach the file: their names are written again.
  void forget(std::span<const LoggedNumber> values);

 private:
  static std::string joined(std::span<const LoggedNumber> values);
  std::map<std::string, uint32_t> schemas_;  ///< names joined -> id
  uint32_t next_ = 0;
};

}  // namespace ramet::track
