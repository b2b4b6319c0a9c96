#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ramet/base/house.h"

// The memory that the devices of one host share: progress, meeting places of groups, mailboxes. It lies in the memory
// of one process (threads) or in an anonymous file that several processes map (MPI). So it holds indices and no
// pointers, and every field that two devices may touch at a time is atomic or guarded by a lock of the region itself.

namespace ramet::transport {

using SteadyClock = std::chrono::steady_clock;

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free,
              "atomics in shared memory must not use locks of a process");

/// The place of bytes, in a form with which another process can find them. Own memory of a process has file -1 and
/// `offset` is its address.
struct SharedAddress {
  int32_t process = 0;  ///< process id of the owner; 0: no bytes at all
  int32_t file = -1;    ///< its descriptor of the anonymous file
  uint64_t serial = 0;  ///< distinguishes files that had the same descriptor one after another
  uint64_t offset = 0;
};

/// A word to sleep on, with the number of sleepers, so that no thread makes a system call when there is no sleeper to
/// wake.
struct WaitWord {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};
};

/// Sets the word and wakes at most `most` sleepers.
void set_and_wake(WaitWord& word, uint32_t value, int most = INT32_MAX);
/// Sleeps until the word differs from `seen`, somebody wakes it, or `limit` has passed. May return early.
void sleep_on(WaitWord& word, uint32_t seen, std::chrono::nanoseconds limit);
/// A bit for each processor.
using ProcessorBits = std::atomic<uint64_t>[16];
/// Adds the processors that the calling thread may run on.
void add_allowed_processors(ProcessorBits& bits);
/// A pause of a spinning processor.
void spin_pause();

/// The progress of a device, written by that device alone (for a device of another host, by the thread that receives
/// it).
struct alignas(64) ProgressSlot {
  std::atomic<uint64_t> finished{UINT64_MAX};
  std::atomic<int32_t> label{-1};
  std::atomic<uint32_t> waiting{0};
  std::atomic<int32_t> process{0};
  std::atomic<uint32_t> seen{0};       ///< while it waits: the word that it sleeps on changes from this
  std::atomic<uint64_t> sleeps_on{0};  ///< offset of that word in the region; 0: it lies elsewhere
  // Of crowded hosts (transport_balance.h), from a device's first sleep on:
  std::atomic<int32_t> thread{0};  ///< its thread's id; 0: not known
  ProcessorBits allowed{};         ///< the processors that the thread may run on
};

/// A member's arguments for a round of its group. All but the addresses must be equal on all members.
struct RoundCall {
  uint8_t operation = 0, dtype = 0, reduction = 0;
  int32_t root = -1;
  int64_t count = 0;
  bool operator==(const RoundCall&) const = default;
};
struct alignas(64) RoundPost {
  std::atomic<uint64_t> rounds{0};  ///< rounds that this member has joined
  RoundCall call;
  SharedAddress in, out;
  /// First piece of this member's share that no member has taken.
  alignas(64) std::atomic<int64_t> next{0};
};

/// Outcome of opening a round.
enum class RoundVerdict : uint32_t { kGo, kStage, kMismatch };

/// The meeting place of a group. Rounds follow one another: each member posts its arguments and arrives; the last
/// member to arrive opens the round; each member does the pieces of its own share first, then pieces that others have
/// not begun; the member that finishes the last piece closes the round.
struct GroupSlot {
  std::atomic<uint32_t> state{0};  ///< 0 free, 1 being taken, 2 taken
  uint32_t size = 0;
  alignas(64) WaitWord phase;  ///< 2k: round k not open; 2k+1: open; 2k+2: closed
  alignas(64) std::atomic<uint64_t> arrivals{0};
  alignas(64) std::atomic<int64_t> done{0};
  std::atomic<int64_t> pieces{0};
  std::atomic<RoundVerdict> verdict{RoundVerdict::kGo};
  // Behind it: RoundPost[local devices], uint32_t members[local devices].
};

/// One message of a mailbox, from when its first side came until both have left.
struct MessageSlot {
  enum : uint32_t { kOpen, kCopying, kPull, kDone, kMismatch };
  WaitWord state;
  uint32_t used = 0, sides_left = 0, has_send = 0, has_receive = 0;
  int32_t tag = 0;
  uint64_t order = 0;
  uint64_t send_bytes = 0, receive_bytes = 0;
  SharedAddress source, target;
};

/// Messages from one device to another. Behind it: its MessageSlots (RegionLayout::messages).
struct alignas(64) Mailbox {
  WaitWord lock;   ///< 0 free, 1 held, 2 held and waited for
  WaitWord freed;  ///< counts slots that became free
  uint64_t orders = 0;
};

struct RegionHeader {
  static constexpr uint64_t kMagic = 0x72616d6574783031;  // "rametx01"
  static constexpr int kReasonBytes = 2048;
  uint64_t magic = 0, bytes = 0;
  int32_t devices = 0, locals = 0, groups = 0;
  ProcessorBits processors{};                       ///< those that some process here may run on
  alignas(64) std::atomic<uint32_t> stop_state{0};  ///< 0 running, 1 reason being written, 2 stopped
  int32_t stop_device = -1;
  char reason[kReasonBytes] = {};
};

/// Offsets of the parts of a region for so many devices, `locals` of them on this host, with mailboxes that hold
/// `messages`.
struct RegionLayout {
  RegionLayout(int devices, int locals, int messages);
  int devices, locals, messages, groups;
  size_t group_bytes, mailbox_bytes;
  size_t progress_at, groups_at, mailboxes_at, bytes;

  RegionHeader& header(std::byte* base) const { return *reinterpret_cast<RegionHeader*>(base); }
  ProgressSlot& progress(std::byte* base, int device) const {
    return reinterpret_cast<ProgressSlot*>(base + progress_at)[device];
  }
  GroupSlot& group(std::byte* base, int index) const {
    return *reinterpret_cast<GroupSlot*>(base + groups_at + group_bytes * static_cast<size_t>(index));
  }
  RoundPost* posts(GroupSlot& group) const {
    return reinterpret_cast<RoundPost*>(reinterpret_cast<std::byte*>(&group) + sizeof(GroupSlot));
  }
  uint32_t* members(GroupSlot& group) const { return reinterpret_cast<uint32_t*>(posts(group) + locals); }
  Mailbox& mailbox(std::byte* base, int from_local, int to_local) const {
    return *reinterpret_cast<Mailbox*>(base + mailboxes_at +
                                       mailbox_bytes * static_cast<size_t>(from_local * locals + to_local));
  }
  std::span<MessageSlot> slots(Mailbox& mailbox) const {
    return {reinterpret_cast<MessageSlot*>(reinterpret_cast<std::byte*>(&mailbox) + sizeof(Mailbox)),
            static_cast<size_t>(messages)};
  }
  /// Makes the parts that zeroed memory does not already hold.
  void initialize(std::byte* base) const;
};

}  // namespace ramet::transport
