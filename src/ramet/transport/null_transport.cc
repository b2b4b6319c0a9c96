// The skeleton of a transport, in a world of one device. Copy it, and do what each comment asks; then add the new
// transport to the conformance tests (tests/transport/collectives_conformance_test.cc), which check all of it.
#include "ramet/transport/null_transport.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <mutex>

#include "ramet/base/error.h"
#include "ramet/transport/transport_memory.h"

namespace ramet::transport {

namespace {

class NullTransport final : public Transport {
 public:
  // Pass on the device's number and how many there are. All endpoints of a process may share an object (SharedWorld is
  // one).
  NullTransport() : Transport(0, 1), memory_(false) {}

  // A word for reports and tests.
  std::string_view name() const override { return "null"; }

  // Devices that reach each other's memory must have the same number here; hierarchical collectives trust it.
  int host_of(int) const override { return 0; }
  std::string text_of(int device) const override { return fmt::format("device {}", device); }

  // Memory for arenas: what peers of this host can reach in place. Zeroed, aligned to 2 MiB, throws Error when there is
  // none. Must be callable at any time, by the thread of this endpoint.
  std::byte* allocate(size_t bytes) override { return memory_.allocate(bytes); }
  void release(std::byte* memory) override { memory_.release(memory); }

  // A send: check peer and tag (Error), throw when the world is stopped, then take note of the buffer and start the
  // transfer. It may block only while a bounded queue is full, and then within the time limit. The k-th send of a
  // (peer, tag) must meet the k-th receive, whatever other tags do meanwhile. Sizes that differ are an Error on both
  // sides. Here a device can only send to itself; the same rules hold.
  Ticket start_send(int to, int tag, const void* data, size_t bytes) override {
    return start(to, tag, {const_cast<void*>(data), bytes, true});
  }
  Ticket start_receive(int from, int tag, void* data, size_t bytes) override {
    return start(from, tag, {data, bytes, false});
  }

  // True when `wait` would not block: also when it would throw. Drives the transfer on, if no thread does that.
  bool arrived(Ticket ticket) override { return message(ticket).done || stopped(); }

  // Blocks: spin for microseconds, then sleep, waking when the transfer ends, when the world is stopped, when a peer is
  // known to be gone, or at the time limit; the last two stop the world. A transfer that is done is no error even in a
  // stopped world. The wait of a world of one can never end by somebody else, so it fails at once instead of at the
  // time limit.
  void wait(Ticket ticket) override {
    if (!message(ticket).done) {
      check();
      const Message& waiting = message(ticket);
      const std::string text = fmt::format("{} of {} bytes on device 0 itself: its other side was never started",
                                           waiting.sends ? "send" : "receive", waiting.bytes);
      stop(text);
      throw Error({.what = text, .where = "null transport"}, ErrorKind::kFailure);
    }
    messages_.erase(ticket.id);
  }

  // A SharedGroup for members that share memory, or null: then collectives go by messages.
  SharedGroup* shared_group(std::span<const int>) override { return nullptr; }

  // Publish (number, label) so that peers see them when they wait in vain; and keep a flag "waiting" while blocked.
  void finish_superstep(uint64_t number, int label) override { progress_ = {number, label, false}; }
  Progress progress_of(int) const override { return progress_; }

  // Any thread may call it, also in a signal-free emergency: no blocking, no exceptions. The first reason stays.
  void stop(std::string_view reason) noexcept override {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
    try {
      reason_ = reason;
    } catch (...) {  // no memory for the words; being stopped is what matters
    }
  }
  bool stopped() const override {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }
  // Name the device that stopped the world, and its reason.
  void check() const override {
    const std::lock_guard lock(mutex_);
    if (stopped_)
      throw Error({.what = "the run was stopped by device 0", .where = "device 0", .found = reason_},
                  ErrorKind::kFailure);
  }

 private:
  struct Message {
    void* data = nullptr;
    size_t bytes = 0;
    bool sends = false, done = false;
    int tag = 0;
  };

  Ticket start(int peer, int tag, Message message) {
    if (peer != 0)
      throw Error({.what = fmt::format("{} a device that there is not", message.sends ? "send to" : "receive from"),
                   .where = "device 0",
                   .found = fmt::format("device {}", peer),
                   .expected = "0 to 0"});
    if (tag < 0) throw Error({.what = "negative tag", .where = "device 0", .found = std::to_string(tag)});
    check();
    message.tag = tag;
    for (auto& [id, other] : messages_) {
      if (other.done || other.sends == message.sends || other.tag != tag) continue;
      const Message &sender = message.sends ? message : other, &receiver = message.sends ? other : message;
      if (sender.bytes != receiver.bytes) {
        const Error error(
            {.what = "sizes differ",
             .where = fmt::format("message from device 0 to device 0 (tag {})", tag),
             .found = fmt::format("{} bytes sent, {} bytes to be received", sender.bytes, receiver.bytes)},
            ErrorKind::kFailure);
        stop(error.what());
        throw error;
      }
      if (sender.bytes > 0) std::memcpy(receiver.data, sender.data, sender.bytes);
      message.done = other.done = true;
      break;
    }
    messages_[next_] = message;
    return {next_++};
  }

  Message& message(Ticket ticket) {
    const auto found = messages_.find(ticket.id);
    if (found == messages_.end())
      internal_error("Transport::wait", fmt::format("ticket {} is not under way", ticket.id));
    return found->second;
  }

  SharedMemory memory_;
  std::map<int64_t, Message> messages_;  // in order
  int64_t next_ = 0;
  Progress progress_;
  mutable std::mutex mutex_;
  bool stopped_ = false;
  std::string reason_;
};

}  // namespace

Transports make_null_transport() {
  Transports endpoints;
  endpoints.push_back(std::make_unique<NullTransport>());
  return endpoints;
}

}  // namespace ramet::transport
