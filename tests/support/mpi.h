#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "ramet/transport/mpi_transport.h"

namespace ramet::tests {

/// Why tests of MPI ranks cannot run here, or "".
inline std::string why_no_mpi() {
#ifdef __SANITIZE_THREAD__
  return "Open MPI itself is not built for ThreadSanitizer";
#else
  if (!mpi_built()) return "this build has no MPI (libopenmpi-dev, openmpi-bin)";
  if (std::system("command -v mpirun >/dev/null") != 0) return "no mpirun (openmpi-bin)";
  return "";
#endif
}

/// What starts a program as `ranks` ranks. Open MPI leaves memory to the end of the process: no leak of ours.
inline std::vector<std::string> mpi_launcher(int ranks) {
  std::vector<std::string> words = {
      "env", "ASAN_OPTIONS=detect_leaks=0", "mpirun", "--oversubscribe", "--bind-to", "none",
      "-n",  std::to_string(ranks)};
  if (::geteuid() == 0) words.push_back("--allow-run-as-root");
  return words;
}

}  // namespace ramet::tests
