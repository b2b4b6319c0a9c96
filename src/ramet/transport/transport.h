#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::transport {

class SharedGroup;

/// What all endpoints of one world agree on.
struct TransportOptions {
  /// Longest time that any wait may take. A wait that takes longer stops the world and throws.
  std::chrono::milliseconds time_limit{60'000};
  /// The most messages from one device to another of which a side has come and not both have left. A side that comes
  /// while so many are under way waits until one of them has ended.
  int messages = 64;
  /// Text of a superstep's label, as "layer 7 forward, all-gather": (device, label) as given to `finish_superstep`.
  std::function<std::string(int device, int label)> label_text{};
};

/// A message under way, as `start_send` and `start_receive` give it. To be waited for exactly once, by the same
/// endpoint.
struct Ticket {
  int64_t id = -1;
  bool valid() const { return id >= 0; }
};

/// How far a device has come, as its peers see it.
struct Progress {
  static constexpr uint64_t kNone = UINT64_MAX;
  uint64_t finished = kNone;  ///< number of the superstep that it finished last; kNone before the first
  int label = -1;             ///< its label
  bool waiting = false;       ///< blocked in a wait right now
};

/// The endpoint of one device among `devices()`, through which it meets the others. One thread drives an endpoint;
/// endpoints of one process are driven by different threads at the same time, and may block.
///
/// Every message is known beforehand: sends and receives match by peer, tag and order, collectives by group and order.
/// Every wait ends: with the awaited message, at the time limit, when a peer's process has ended, or when a device
/// calls `stop`. In the last three cases the wait throws Error (kFailure), the world is stopped for good, and every
/// other wait of every device throws too, naming the first cause.
class Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Tags of callers are below this; those above belong to the collectives.
  static constexpr int kUserTags = 1 << 16;

  virtual std::string_view name() const = 0;  ///< "threads", "mpi", "null"
  int device() const { return device_; }
  int devices() const { return devices_; }
  /// Number of the host that a device is on, from 0 in order of first device. Devices of one host share memory.
  virtual int host_of(int device) const = 0;
  /// How the device is called in messages: "device 5", or "rank 5" where each rank has one device.
  virtual std::string text_of(int device) const = 0;

  /// `bytes` of zeroed memory, aligned to 2 MiB where the system can, that the peers of this host read and write in
  /// place. Collectives and messages take any memory; from other memory between processes they copy once more.
  /// `release` takes back memory of `allocate` that no exchange uses any more; the endpoint's destructor releases the
  /// rest.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void release(std::byte* memory) = 0;

  /// Starts to send `bytes` of `data` to device `to`, which must start a receive of as many bytes from here with the
  /// same tag; the k-th send of a tag meets the k-th receive. `data` must stay as it is until the ticket has been
  /// waited for. Copies at once when the receiver waits already. Throws Error when sizes differ.
  virtual Ticket start_send(int to, int tag, const void* data, size_t bytes) = 0;
  /// Starts to receive into `data`, which belongs to the transport until the ticket has been waited for.
  virtual Ticket start_receive(int from, int tag, void* data, size_t bytes) = 0;
  /// Whether `wait` would return at once. Never blocks.
  virtual bool arrived(Ticket ticket) = 0;
  /// Blocks until the message has left (its buffer may be changed) or come. The ticket is spent.
  virtual void wait(Ticket ticket) = 0;
  void send(int to, int tag, const void* data, size_t bytes) { wait(start_send(to, tag, data, bytes)); }
  void receive(int from, int tag, void* data, size_t bytes) { wait(start_receive(from, tag, data, bytes)); }

  /// The meeting place of devices that share memory (transport/transport_shared.h), or null when these do not.
  /// `members` in order of their positions, this device among them. Lives as long as the endpoint; the same list gives
  /// the same group.
  virtual SharedGroup* shared_group(std::span<const int> members) = 0;

  /// Announces to the peers that superstep `number` is done. Costs a few stores.
  virtual void finish_superstep(uint64_t number, int label) = 0;
  /// A device's progress, as known here; for devices of other hosts, as last received.
  virtual Progress progress_of(int device) const = 0;

  /// Ends the world: all waits of all devices throw Error soon, naming this device and `reason`; so does every later
  /// call that would wait. The first call counts. Never blocks, never throws.
  virtual void stop(std::string_view reason) noexcept = 0;
  /// Whether the world was stopped, by `stop` or by a fault.
  virtual bool stopped() const = 0;
  /// Throws the error of a stopped world; returns otherwise.
  virtual void check() const = 0;

 protected:
  Transport(int device, int devices) : device_(device), devices_(devices) {}

 private:
  int device_, devices_;
};

/// Endpoints of the devices that this process runs, by device.
using Transports = std::vector<std::unique_ptr<Transport>>;

/// "rank 5 last finished superstep 812 (layer 7 forward, all-gather); others wait in 813": the device that the others
/// wait for, found from the progress of `awaited` (all devices when empty) and of the devices that those wait for in
/// turn, as `transport` sees it.
std::string progress_text(const Transport& transport, std::span<const int> awaited,
                          const std::function<std::string(int device, int label)>& label_text);

}  // namespace ramet::transport
