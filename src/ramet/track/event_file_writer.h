#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "ramet/track/background_file.h"
#include "ramet/track/event_file.h"

namespace ramet::track {

/// An event file of TensorBoard that grows as a run goes on. Like the run's log it never delays the caller: what the
/// disk cannot take in time is dropped and counted.
class EventFileWriter {
 public:
  /// Makes a new file in the folder, which is made too. Throws Error when it cannot.
  explicit EventFileWriter(const std::filesystem::path& folder);

  void config(std::span<const ConfigValue> config);
  /// The run goes back: values of this step and later ones, in earlier files of the folder, count no more.
  void restart(int64_t step);
  void scalars(int64_t step, std::span<const LoggedNumber> values);
  void end(bool success);

  /// Waits until all is durable, or the disk has refused it. Returns whether it was.
  bool flush() { return file_.flush(); }
  int64_t dropped() const { return dropped_; }
  std::string problem() const { return file_.problem(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  BackgroundFile file_;
  int64_t dropped_ = 0;
};

}  // namespace ramet::track
