// Facts about MPI that need no call of MPI.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "ramet/transport/mpi_transport.h"

namespace ramet::transport {

bool started_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (const char* value = std::getenv(name); value && *value) return true;
  return false;
}

void exit_after_fault(int status) {
  spdlog::shutdown();
  std::fflush(nullptr);
  _exit(status);
}

}  // namespace ramet::transport
