#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fake_cuda/driver_types.h"

// The fake card: its memory, and streams that do their work in threads of their own, as a card does it behind the
// host's back.

namespace ramet_fake {

/// What the environment says of the card; read when the driver is initialised.
struct Settings {
  int devices = 1;           ///< RAMET_FAKE_CUDA_DEVICES
  size_t memory = 0;         ///< RAMET_FAKE_CUDA_MEMORY, bytes; 4 GiB
  int major = 9, minor = 0;  ///< RAMET_FAKE_CUDA_ARCHITECTURE, "9.0"
  int version = 13000;       ///< RAMET_FAKE_CUDA_VERSION, of the driver
  bool quiet = false;        ///< RAMET_FAKE_CUDA_QUIET: no line on stderr for a failed launch
};
const Settings& settings();

/// Device memory. Its addresses fault in the host's hands, but for the time in which the card works.
class CardMemory {
 public:
  static CardMemory& instance();

  Result allocate(size_t bytes, DevicePointer* address);
  Result release(DevicePointer address);
  /// Whether [address, address + bytes) lies in one block.
  bool holds(DevicePointer address, size_t bytes);
  size_t used();

  Result allocate_host(size_t bytes, void** data);
  Result release_host(void* data);
  Result register_host(void* data, size_t bytes);
  Result unregister_host(void* data);
  bool is_pinned(const void* data, size_t bytes);

  /// The card at work: one thread at a time, with the memory open.
  class Open {
   public:
    Open();
    ~Open();
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
  };

 private:
  struct Block {
    size_t bytes, mapped;
  };
  void protect(bool open);
  bool open_ = false;
  std::mutex mutex_, work_mutex_;
  std::map<DevicePointer, Block> blocks_;
  std::map<uintptr_t, size_t> pinned_, registered_;
  size_t used_ = 0;
};

/// The first failure of a launch: from then on the context gives nothing but it, as on a card.
Result lost();
void lose(Result result, const std::string& why);
/// What a process that ends its context and makes another one gets.
void forget_loss();

class Stream;

/// A moment in a stream's work.
struct Moment {
  Stream* stream = nullptr;  ///< lives until the moment has come
  bool come = false;
  double seconds = 0;
};

using Work = std::function<void()>;
struct Graph {
  std::vector<Work> nodes;
  std::vector<std::vector<size_t>> behind;  ///< of each node: those that it is done behind
  std::vector<size_t> next_behind;          ///< while it is recorded: what the next node will be done behind
  void add(Work work);
  /// All nodes, in an order that is not that of recording where their edges allow another.
  void run() const;
};

class Stream {
 public:
  explicit Stream(bool blocking);
  ~Stream();             ///< waits for its work
  void give(Work work);  ///< or records it
  void give_moment(std::shared_ptr<Moment> moment);
  void wait_for(std::shared_ptr<Moment> moment);
  void synchronize();
  bool idle();
  bool blocking() const { return blocking_; }

  std::unique_ptr<Graph> recording;
  bool strict = false;  ///< while recording: calls that wait or allocate are refused

  /// Of the card's clock.
  static double seconds();
  static void wait_for_host(const std::shared_ptr<Moment>& moment);  ///< for the host's threads
  static bool come(const std::shared_ptr<Moment>& moment);
  /// Whether this thread is a stream's: then it may call nothing of the driver.
  static bool in_stream();
  /// Whether any stream's recording forbids calls that wait or allocate.
  static int& strict_recordings();

 private:
  void run();
  void do_first(std::unique_lock<std::mutex>& lock);
  template <typename Done>
  void drive(std::unique_lock<std::mutex>& lock, const Done& done);
  const bool blocking_;
  std::condition_variable given_work_;
  std::deque<Work> waiting_;
  uint64_t given_ = 0, done_ = 0;
  bool closed_ = false, busy_ = false;
  std::thread thread_;
};
/// Waits for all streams that wait for the default stream, or for all.
void synchronize_streams(bool all);

}  // namespace ramet_fake
