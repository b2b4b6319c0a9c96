// Rounds of a group. On a crowded host (more devices than processors) the cost is waking and switching threads. So the
// pieces of a round belong to no member: the last member to arrive starts on them at once, and members that sleep wake
// when the work is done.
#include <fmt/format.h>

#include <algorithm>

#include "ramet/base/dtype.h"
#include "ramet/base/error.h"
#include "ramet/transport/transport_shared.h"

namespace ramet::transport {

std::string round_call_text(const RoundCall& call) {
  const auto operation = static_cast<Operation>(call.operation);
  if (operation == Operation::kBarrier) return "barrier";
  std::string text =
      fmt::format("{} of {} {}", name_of(operation), call.count, name_of(static_cast<DType>(call.dtype)));
  constexpr std::string_view kKinds[] = {"sum", "max", "min"};
  if (operation == Operation::kAllReduce || operation == Operation::kReduceScatter || operation == Operation::kReduce)
    text += fmt::format(" by {}", kKinds[call.reduction % 3]);
  if (call.root >= 0) text += fmt::format(" with root {}", call.root);
  return text;
}

SharedGroup::SharedGroup(SharedEndpoint& endpoint, std::span<const int> members)
    : endpoint_(endpoint),
      members_(members.begin(), members.end()),
      position_(static_cast<int>(std::ranges::find(members_, endpoint.device()) - members_.begin())),
      slot_(find_slot()),
      posts_(endpoint.world().layout().posts(slot_)) {
  const auto& processes = endpoint.world().members().processes;
  one_process_ = std::ranges::all_of(members_, [&](int member) {
    return processes[static_cast<size_t>(member)] == processes[static_cast<size_t>(members_[0])];
  });
  peers_.in.resize(members_.size());
  peers_.out.resize(members_.size());
}

/// Finds the group's place in the region by its list of members, or takes a free one.
GroupSlot& SharedGroup::find_slot() {
  SharedWorld& world = endpoint_.world();
  const RegionLayout& layout = world.layout();
  if (position_ == size()) internal_error("SharedGroup", "the device is not a member");
  uint64_t hash = members_.size();
  for (const int member : members_) hash = (hash ^ static_cast<uint64_t>(world.local_of(member))) * 0x9e3779b97f4a7c15u;
  const auto same = [&](GroupSlot& slot) {
    if (slot.size != members_.size()) return false;
    for (size_t i = 0; i < members_.size(); ++i)
      if (layout.members(slot)[i] != static_cast<uint32_t>(world.local_of(members_[i]))) return false;
    return true;
  };
  for (int probe = 0; probe < layout.groups; ++probe) {
    GroupSlot& slot = layout.group(
        world.region(), static_cast<int>((hash + static_cast<uint64_t>(probe)) % static_cast<uint64_t>(layout.groups)));
    uint32_t free = 0;
    if (slot.state.compare_exchange_strong(free, 1, std::memory_order_acquire)) {
      slot.size = static_cast<uint32_t>(members_.size());
      for (size_t i = 0; i < members_.size(); ++i)
        layout.members(slot)[i] = static_cast<uint32_t>(world.local_of(members_[i]));
      slot.state.store(2, std::memory_order_release);
      return slot;
    }
    const auto deadline = SteadyClock::now() + world.members().options.time_limit;
    while (slot.state.load(std::memory_order_acquire) != 2) {
      if (world.stopped() || SteadyClock::now() > deadline)
        endpoint_.fail("meeting place of a group", "a device ended while it was made", "", "Start again");
      spin_pause();
    }
    if (same(slot)) return slot;
  }
  throw Error({.what = "too many groups of devices",
               .where = endpoint_.text_of(endpoint_.device()),
               .found = fmt::format("more than {} on one host", layout.groups),
               .expected = "at most 64 and 32 a device"});
}

WaitReason SharedGroup::wait_reason() const {
  return {[this] { return fmt::format("{} among {}", round_call_text(call_), endpoint_.world().text_of(members_)); },
          [this] {
            std::vector<int> missing;
            for (int i = 0; i < size(); ++i)
              if (posts_[i].rounds.load(std::memory_order_acquire) <= round_)
                missing.push_back(members_[static_cast<size_t>(i)]);
            // When all have come, one of them holds the last piece.
            return missing.empty() ? members_ : missing;
          }};
}

bool SharedGroup::reachable(const SharedAddress& address) const {
  return one_process_ || address.file >= 0 || address.process == 0;
}

RoundVerdict SharedGroup::judge() const {
  bool all_reachable = true;
  for (int i = 0; i < size(); ++i) {
    if (posts_[i].call != posts_[0].call) return RoundVerdict::kMismatch;
    all_reachable &= reachable(posts_[i].in) && reachable(posts_[i].out);
  }
  return all_reachable ? RoundVerdict::kGo : RoundVerdict::kStage;
}

void SharedGroup::open_round(uint32_t open, int64_t pieces, bool heavy) {
  const RoundVerdict verdict = judge();
  slot_.verdict.store(verdict, std::memory_order_relaxed);
  if (verdict != RoundVerdict::kGo || pieces == 0) {
    set_and_wake(slot_.phase, open + 1);
    return;
  }
  for (int i = 0; i < size(); ++i) posts_[i].next.store(share_begin(pieces, i), std::memory_order_relaxed);
  slot_.done.store(0, std::memory_order_relaxed);
  slot_.pieces.store(pieces, std::memory_order_relaxed);
  set_and_wake(slot_.phase, open, heavy ? endpoint_.world().processors() - 1 : 0);
}

void SharedGroup::do_pieces(uint32_t closed, const Work& work) {
  // A member that comes late may find the round closed and the next about to be posted: nothing but the counters may be
  // read before a piece is held, which keeps the round open.
  const int64_t pieces = slot_.pieces.load(std::memory_order_relaxed);
  bool resolved = false;
  // The own share first: what this member wrote or read last time may still be in its caches.
  for (int step = 0; step < size(); ++step) {
    const int owner = (position_ + step) % size();
    const int64_t end = share_begin(pieces, owner + 1);
    std::atomic<int64_t>& next = posts_[owner].next;
    while (next.load(std::memory_order_relaxed) < end) {
      const int64_t piece = next.fetch_add(1, std::memory_order_relaxed);
      if (piece >= end) break;
      if (!resolved) resolve_peers();
      resolved = true;
      work(piece, peers_);
      if (slot_.done.fetch_add(1, std::memory_order_acq_rel) + 1 == pieces) return set_and_wake(slot_.phase, closed);
    }
  }
}

void SharedGroup::resolve_peers() {
  SharedMemory& memory = endpoint_.world().memory();
  for (size_t i = 0; i < members_.size(); ++i) {
    peers_.in[i] = memory.resolve(posts_[i].in);
    peers_.out[i] = memory.resolve(posts_[i].out);
  }
}

bool SharedGroup::run(const RoundCall& call, const void* in, size_t in_bytes, void* out, size_t out_bytes,
                      int64_t pieces, bool heavy, const Work& work) {
  endpoint_.check();
  const uint32_t before = static_cast<uint32_t>(2 * round_), open = before + 1, closed = before + 2;
  call_ = call;
  RoundPost& mine = posts_[position_];
  mine.call = call;
  SharedMemory& memory = endpoint_.world().memory();
  mine.in = in_bytes ? memory.address_of(in, in_bytes) : SharedAddress{};
  mine.out = out_bytes ? memory.address_of(out, out_bytes) : SharedAddress{};
  mine.rounds.store(round_ + 1, std::memory_order_release);
  const uint64_t all = static_cast<uint64_t>(size()) * (round_ + 1);
  if (slot_.arrivals.fetch_add(1, std::memory_order_acq_rel) + 1 == all) {
    open_round(open, pieces, heavy);
  } else {
    endpoint_.wait_while(slot_.phase, before, wait_reason());
  }
  if (slot_.phase.value.load(std::memory_order_acquire) == open) {
    try {
      do_pieces(closed, work);
    } catch (const std::exception& error) {
      endpoint_.stop(error.what());
      throw;
    }
    endpoint_.wait_while(slot_.phase, open, wait_reason());
  }
  const RoundVerdict verdict = slot_.verdict.load(std::memory_order_relaxed);
  if (verdict == RoundVerdict::kMismatch) throw_mismatch();
  ++round_;
  return verdict == RoundVerdict::kGo;
}

void SharedGroup::throw_mismatch() {
  std::string found;
  for (int i = 0; i < size(); ++i) {
    if (i > 0 && posts_[i].call == posts_[0].call) continue;
    found += fmt::format("{}{} calls {}", i ? ", " : "", endpoint_.text_of(members_[static_cast<size_t>(i)]),
                         round_call_text(posts_[i].call));
    if (i > 0) break;
  }
  endpoint_.fail(fmt::format("collective among {}, on {}", endpoint_.world().text_of(members_),
                             endpoint_.text_of(endpoint_.device())),
                 "members' calls differ", found, "");
}

std::byte* SharedGroup::staging(size_t bytes) {
  if (staging_bytes_ < bytes) {
    if (staging_) endpoint_.release(staging_);
    staging_ = endpoint_.allocate(bytes);
    staging_bytes_ = bytes;
  }
  return staging_;
}

}  // namespace ramet::transport
