#pragma once

#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

#include "support/mpi.h"

namespace ramet::tests {

/// What a command of several processes came to.
struct RanksOutcome {
  int status = -1;
  std::string output;  ///< of all of them
  double seconds = 0;
};

inline RanksOutcome run_command(const std::string& command) {
  RanksOutcome outcome;
  const auto began = std::chrono::steady_clock::now();
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return outcome;
  std::array<char, 4096> part;
  while (const size_t bytes = std::fread(part.data(), 1, part.size(), pipe)) outcome.output.append(part.data(), bytes);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return outcome;
}

/// Runs tests/mpi/ranks.cc as `count` ranks, or without MPI where `count` is 0. `what`: its arguments, as a shell reads
/// them; `more`: further options of mpirun.
inline RanksOutcome run_ranks(int count, const std::string& what, const std::string& more = "") {
  std::string command = "timeout 120";
  if (count > 0) {
    for (const std::string& word : mpi_launcher(count)) command += " " + word;
    command += " " + more;
  }
  return run_command(command + " " RAMET_BINARY_DIR "/tests/test_mpi " + what + " </dev/null");
}

}  // namespace ramet::tests
