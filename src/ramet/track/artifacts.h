#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "ramet/track/run_log.h"

namespace ramet::track {

/// Something that a run logs beside numbers.
struct Artifact {
  std::string kind;                 ///< "image", "table", "text", "histogram", "file"
  std::string name, type, caption;  ///< type: "image/png", "application/json", "text/plain", ...
  int64_t step = 0;
  std::string more{};  ///< further keys of the event: a JSON object as text, or ""
};

/// Keeps artifacts of a run as RUN/artifacts/HASH, once each however often they are logged, and tells the log of each
/// with a "logged" event. A thread of its own makes and writes them: who offers one waits for nothing. At most
/// `kMostQueued` bytes and `kMostWaiting` artifacts wait; more are dropped and counted.
class ArtifactWriter {
 public:
  static constexpr size_t kMostQueued = 256 << 20, kMostWaiting = 10'000;

  /// `log` outlives it.
  ArtifactWriter(std::filesystem::path run, RunLogWriter& log);
  /// Writes what waits.
  ~ArtifactWriter();
  ArtifactWriter(const ArtifactWriter&) = delete;
  ArtifactWriter& operator=(const ArtifactWriter&) = delete;

  /// `contents` is called by the thread, and gives the bytes; `bytes` is the memory that it holds meanwhile. Returns
  /// whether it was taken.
  bool offer(Artifact artifact, size_t bytes, std::function<std::string()> contents);
  /// A copy of a file, made by the thread: the file must stay as it is until `flush`.
  bool offer_file(Artifact artifact, std::filesystem::path file);
  /// Waits until all that was offered before is written and durable. Returns whether all of it was.
  bool flush();
  /// That were refused because too much waited, or could not be written.
  int64_t dropped() const;
  /// Why the last one could not be written; empty when it could.
  std::string problem() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::track
