#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ramet/track/run_log.h"

namespace ramet::track {

/// Makes the bytes of a log's entries, in the form of RunLogWriter.
class RunLogFrames {
 public:
  /// Appends an entry of at most kMostNames values to `to`, and before it their names where these are new. `time`:
  /// seconds since 1970. False, and nothing is appended, where a frame cannot hold the names.
  bool metrics(std::string& to, int64_t step, double time, std::span<const LoggedNumber> values);
  /// The last entry did not reach the file: names that it brought are written again with the next one.
  void take_back();
  /// Appends an event: `json` is the text of a JSON object of less than 1 MiB; it should have "event".
  static void event(std::string& to, std::string_view json);

 private:
  struct Set {
    std::vector<std::string> names;
    size_t next;  ///< the set that followed this one last time
  };
  std::pair<uint32_t, bool> id_of(std::span<const LoggedNumber> values);
  bool matches(size_t set, std::span<const LoggedNumber> values) const;
  void follow(size_t set);

  std::vector<Set> sets_;                        ///< by id
  std::unordered_map<std::string, size_t> ids_;  ///< names joined -> id
  size_t last_ = 0;
  bool added_ = false;  ///< whether the last entry brought a new set
};

}  // namespace ramet::track
