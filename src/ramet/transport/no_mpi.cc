// Stands in for mpi_transport.cc in builds without MPI.
#include "ramet/base/error.h"
#include "ramet/transport/mpi_transport.h"

namespace ramet::transport {

struct MpiSession::State {};

bool mpi_built() { return false; }

MpiSession::MpiSession() {
  throw Error(
      {.what = "this build of Ramet has no MPI",
       .where = "mpi transport",
       .found = started_by_mpi() ? "a process started by mpirun" : "",
       .expected = "",
       .remedy = "Install libopenmpi-dev and openmpi-bin (scripts/setup.sh does), then configure and build again"});
}
MpiSession::~MpiSession() = default;
int MpiSession::rank() const { return 0; }
int MpiSession::ranks() const { return 1; }
void MpiSession::agree(const std::string&) const {}
Transports MpiSession::make_transports(int, const TransportOptions&, int) { return {}; }
bool MpiSession::stopped() const { return false; }
bool MpiSession::is_first_running() const { return true; }
bool MpiSession::leave() { return true; }

}  // namespace ramet::transport
