#pragma once

#include <mpi.h>

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ramet/transport/transport_shared.h"

namespace ramet::transport {

/// A message to or from a device of another host.
struct MpiMessage {
  enum : uint32_t { kUnderWay, kDone, kFailed };
  bool sends = false;
  int rank = 0, mpi_tag = 0;
  std::byte* data = nullptr;
  size_t bytes = 0;
  WaitWord state;
  std::string failure;                ///< set before kFailed
  std::vector<MPI_Request> requests;  ///< the courier's own
};

/// The only thread of a rank that calls MPI once the run has started. It carries the messages of all devices of this
/// process to other hosts, sends the devices' progress there, and passes on that the world was stopped. So no device
/// ever hangs inside MPI, and transfers go on while devices compute.
class MpiCourier {
 public:
  /// `own`: the devices of this process. `leaders`: the ranks of other hosts that hear of progress; `others`: all ranks
  /// elsewhere.
  MpiCourier(MPI_Comm messages, MPI_Comm control, std::shared_ptr<SharedWorld> world, std::vector<int> own,
             std::vector<int> leaders, std::vector<int> others);
  /// Ends the thread. Transfers under way stay so: after a fault only.
  ~MpiCourier();
  MpiCourier(const MpiCourier&) = delete;
  MpiCourier& operator=(const MpiCourier&) = delete;

  void carry(std::shared_ptr<MpiMessage> transfer);
  /// Lets the thread end when the peers have no more to say; all ranks call it after an orderly run.
  void finish();

 private:
  struct Control {
    int32_t stop = 0, device = 0, label = -1, waiting = 0;
    uint64_t finished = 0;
    char reason[1024] = {};
  };
  struct Outgoing {
    Control control;
    MPI_Request request;
  };
  void loop();
  void begin(MpiMessage& transfer);
  bool advance(MpiMessage& transfer);
  void hear();
  void tell();
  void post(int rank, const Control& control);

  MPI_Comm messages_, control_;
  std::shared_ptr<SharedWorld> world_;
  std::vector<int> own_, leaders_, others_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<MpiMessage>> queue_;
  bool ending_ = false;
  std::list<std::shared_ptr<MpiMessage>> active_;
  std::list<Outgoing> outgoing_;
  Control incoming_;
  MPI_Request listening_ = MPI_REQUEST_NULL;
  std::vector<Control> told_;
  bool told_stop_ = false;
  SteadyClock::time_point next_tell_{};
  std::thread thread_;
};

}  // namespace ramet::transport
