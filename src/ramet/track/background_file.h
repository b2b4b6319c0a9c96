#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::track {

/// Appends to a file without ever delaying the caller: bytes are queued, and a background thread writes them. When the
/// disk is full, the thread keeps the queue and tries again. Bytes written before the process is killed stay.
class BackgroundFile {
 public:
  /// Bytes that may wait; beyond them what may be dropped is refused.
  static constexpr size_t kMostQueued = 16 << 20;

  /// Opens or creates the file; existing bytes stay. `what` names the file in the error: "the run's log".
  BackgroundFile(const std::filesystem::path& path, const std::string& what);
  /// Writes the queue and closes the file.
  ~BackgroundFile();
  BackgroundFile(const BackgroundFile&) = delete;
  BackgroundFile& operator=(const BackgroundFile&) = delete;

  /// Queues bytes; false when they may be dropped and the queue is full. Of one call all bytes are queued, or none.
  bool append(std::string_view bytes, bool may_drop);
  /// Waits until all that was given before is written and durable, or the disk has refused it. Returns whether it was.
  bool flush();
  /// Why the last write failed; empty when it did not.
  std::string problem() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::track
