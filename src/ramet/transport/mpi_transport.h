#pragma once

#include <string>

#include "ramet/transport/transport.h"

namespace ramet::transport {

/// Whether this build can speak MPI.
bool mpi_built();
/// Whether this process was started by mpirun (or srun with PMIx), so that `MpiSession` finds its peers.
bool started_by_mpi();

/// This process as a rank of an MPI job. One at a time in a process, made and destroyed by the main thread; it outlives
/// its endpoints.
///
/// Ranks of one host meet in shared memory of their own (anonymous files, which vanish with their processes), not
/// through MPI; MPI starts them, finds hosts, and carries messages between hosts, on one thread of its own.
///
/// After a fault a peer may be gone, and MPI_Finalize would wait for it for ever. So save first, then call `leave` (or
/// destroy the session, which does it) once all endpoints' threads have ended, then `exit_after_fault`. When the world
/// was stopped, `leave` skips MPI_Finalize and ends peers of this host that are halted (SIGSTOP), and
/// `exit_after_fault` ends the process without destructors and exit handlers that would wait for peers. mpirun ends all
/// ranks about a second after one was killed or failed; start a job with `mpirun --enable-recovery` when saving takes
/// longer than that.
class MpiSession {
 public:
  /// Starts MPI. Throws Error when this build has none.
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const;
  int ranks() const;
  /// Shares failures of single ranks before there are transports; otherwise the other ranks would wait for ever. All
  /// ranks call it together, each with the text of its failure, or with "". When a rank failed, it throws Error on
  /// every rank that did not, naming the first failed rank and its failure.
  void agree(const std::string& fault) const;
  /// Endpoints of this rank's devices: device = rank * devices_per_rank + index. All ranks call it together, once, with
  /// the same numbers. `pretend_hosts` > 1 treats equal shares of the ranks as hosts of their own, for tests of
  /// messages between hosts. Throws Error when ranks disagree or memory cannot be shared.
  Transports make_transports(int devices_per_rank, const TransportOptions& options = {}, int pretend_hosts = 1);
  /// Whether the world of its transports was stopped, by a fault or by anyone's `stop`.
  bool stopped() const;
  /// Whether all ranks before this one have ended or are halted, as far as this host can see: it is then the one to
  /// tell what happened. False before `make_transports`, but for rank 0.
  bool is_first_running() const;
  /// Ends MPI: in order when all went well, at once after a fault. True when it was in order.
  bool leave();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Ends this process with `status` after output is flushed, without destructors and without MPI_Finalize, which may
/// wait for peers that are gone.
[[noreturn]] void exit_after_fault(int status);

}  // namespace ramet::transport
