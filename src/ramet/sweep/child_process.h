#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::sweep {

/// How a process ended.
struct ProcessEnd {
  int status = 0;  ///< exit status; -1 after a signal
  int signal = 0;  ///< that ended it; 0: none
};

/// A process that works for a sweep: in a process group of its own, so that Ctrl-C in a terminal reaches the sweep
/// alone; bound to processors; and asked to stop (SIGTERM) by the system when the sweep ends in any way.
class ChildProcess {
 public:
  /// `output`: file that both its outputs are appended to. `processors`: those that it may use; empty: all. Throws
  /// Error (kFailure) when the system starts no process.
  ChildProcess(const std::vector<std::string>& command, const std::filesystem::path& output,
               const std::vector<int>& processors);
  /// Kills the process if it still runs, and waits for its end.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// How it ended, once it has.
  std::optional<ProcessEnd> ended();
  /// Asks it to stop (SIGTERM): once, as a second time would end it at once.
  void ask_to_stop();

 private:
  pid_t pid_ = -1;
  bool asked_ = false;
  std::optional<ProcessEnd> end_;
};

/// The processors that this process may use, in ascending order.
std::vector<int> allowed_processors();

}  // namespace ramet::sweep
