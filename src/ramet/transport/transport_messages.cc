// Messages between devices of one host: the second side to come copies straight from buffer to buffer. Between
// processes a sender's own memory is copied once more, to a staging block, and a receiver's own memory is filled by
// itself when it waits.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/transport/transport_shared.h"

namespace ramet::transport {

/// Guards a mailbox; held for tens of instructions.
class SharedEndpoint::MailboxLock {
 public:
  MailboxLock(SharedEndpoint& endpoint, Mailbox& box, const WaitReason& reason) : box_(box) {
    for (;;) {
      uint32_t free = 0;
      if (box_.lock.value.compare_exchange_strong(free, 1, std::memory_order_acquire)) return;
      endpoint.wait_while(box_.lock, 1, reason);
    }
  }
  ~MailboxLock() { set_and_wake(box_.lock, 0, 1); }
  MailboxLock(const MailboxLock&) = delete;

 private:
  Mailbox& box_;
};

WaitReason SharedEndpoint::message_reason(const Pending& pending) const {
  const Pending* message = &pending;
  return {[this, message] {
            return fmt::format("{} of {} bytes {} {} (tag {})", message->sends ? "send" : "receive", message->bytes,
                               message->sends ? "to" : "from", text_of(message->peer), message->tag);
          },
          [message] { return std::vector<int>{message->peer}; }};
}

Ticket SharedEndpoint::start_send(int to, int tag, const void* data, size_t bytes) {
  check_peer(to, tag, "send to");
  Pending pending;
  pending.box = &world_->layout().mailbox(world_->region(), world_->local_of(device()), world_->local_of(to));
  pending.sends = true;
  pending.peer = to;
  pending.tag = tag;
  pending.data = static_cast<std::byte*>(const_cast<void*>(data));
  pending.bytes = bytes;
  return start(pending);
}

Ticket SharedEndpoint::start_receive(int from, int tag, void* data, size_t bytes) {
  check_peer(from, tag, "receive from");
  Pending pending;
  pending.box = &world_->layout().mailbox(world_->region(), world_->local_of(from), world_->local_of(device()));
  pending.peer = from;
  pending.tag = tag;
  pending.data = static_cast<std::byte*>(data);
  pending.bytes = bytes;
  return start(pending);
}

Ticket SharedEndpoint::start(Pending pending) {
  check();
  if (pending.sends) stage(pending);
  const SharedAddress address =
      world_->memory().address_of(pending.block ? pending.block : pending.data, std::max<size_t>(pending.bytes, 1));
  meet(pending, address);
  if (free_pending_.empty()) {
    free_pending_.push_back(static_cast<int64_t>(pending_.size()));
    pending_.emplace_back();
  }
  const Ticket ticket{free_pending_.back()};
  free_pending_.pop_back();
  pending_[static_cast<size_t>(ticket.id)] = pending;
  return ticket;
}

/// The oldest message of this tag for which only the other side has come, or null. Under the lock.
MessageSlot* SharedEndpoint::partner(const Pending& pending) const {
  MessageSlot* oldest = nullptr;
  for (MessageSlot& slot : world_->layout().slots(*pending.box)) {
    if (!slot.used || slot.tag != pending.tag || (pending.sends ? slot.has_send : slot.has_receive)) continue;
    if (!oldest || slot.order < oldest->order) oldest = &slot;
  }
  return oldest;
}

MessageSlot* SharedEndpoint::free_slot(Mailbox& box) const {
  for (MessageSlot& slot : world_->layout().slots(box))
    if (!slot.used) return &slot;
  return nullptr;
}

/// Joins the partner's slot and moves the bytes, or takes a slot and leaves word.
void SharedEndpoint::meet(Pending& pending, const SharedAddress& address) {
  Mailbox& box = *pending.box;
  const WaitReason reason = message_reason(pending);
  for (;;) {
    uint32_t freed;
    {
      const MailboxLock lock(*this, box, reason);
      MessageSlot* slot = partner(pending);
      const bool joined = slot != nullptr;
      if (!joined) slot = free_slot(box);
      freed = box.freed.value.load(std::memory_order_relaxed);
      if (slot) {
        if (!joined) {
          slot->used = 1;
          slot->sides_left = 2;
          slot->has_send = slot->has_receive = 0;
          slot->tag = pending.tag;
          slot->order = box.orders++;
          slot->state.value.store(MessageSlot::kOpen, std::memory_order_relaxed);
        }
        (pending.sends ? slot->has_send : slot->has_receive) = 1;
        (pending.sends ? slot->send_bytes : slot->receive_bytes) = pending.bytes;
        (pending.sends ? slot->source : slot->target) = address;
        pending.slot = slot;
        if (!joined) return;
      }
    }
    if (pending.slot) break;
    wait_while(box.freed, freed, reason);  // as many messages as a mailbox holds are under way
  }
  MessageSlot& slot = *pending.slot;
  if (slot.send_bytes != slot.receive_bytes) {
    set_and_wake(slot.state, MessageSlot::kMismatch);
    throw_sizes(pending);
  }
  if (pending.sends && pending.bytes > 0 && world_->memory().resolve(slot.target) == nullptr) {
    set_and_wake(slot.state, MessageSlot::kPull);
    return;
  }
  copy(slot);
}

void SharedEndpoint::copy(MessageSlot& slot) {
  if (slot.send_bytes > 0) {
    std::byte* source = world_->memory().resolve(slot.source);
    std::byte* target = world_->memory().resolve(slot.target);
    if (!source || !target) internal_error("SharedEndpoint::copy", "a buffer of another process that is not shared");
    std::memcpy(target, source, slot.send_bytes);
  }
  set_and_wake(slot.state, MessageSlot::kDone);
}

void SharedEndpoint::throw_sizes(const Pending& pending) {
  const MessageSlot& slot = *pending.slot;
  const int from = pending.sends ? device() : pending.peer, to = pending.sends ? pending.peer : device();
  fail(fmt::format("message from {} to {} (tag {})", text_of(from), text_of(to), pending.tag), "sizes differ",
       fmt::format("{} bytes sent, {} bytes to be received", slot.send_bytes, slot.receive_bytes), "");
}

SharedEndpoint::Pending& SharedEndpoint::pending_of(Ticket ticket) {
  if (ticket.id < 0 || ticket.id >= static_cast<int64_t>(pending_.size()) ||
      pending_[static_cast<size_t>(ticket.id)].slot == nullptr)
    internal_error("Transport::wait", fmt::format("ticket {} is not under way on {}", ticket.id, text_of(device())));
  return pending_[static_cast<size_t>(ticket.id)];
}

bool SharedEndpoint::arrived(Ticket ticket) {
  const Pending& pending = pending_of(ticket);
  const uint32_t state = pending.slot->state.value.load(std::memory_order_acquire);
  return state == MessageSlot::kDone || state == MessageSlot::kMismatch ||
         (state == MessageSlot::kPull && !pending.sends) || world_->stopped();
}

void SharedEndpoint::wait(Ticket ticket) {
  Pending& pending = pending_of(ticket);
  MessageSlot& slot = *pending.slot;
  const WaitReason reason = message_reason(pending);
  for (;;) {
    const uint32_t state = slot.state.value.load(std::memory_order_acquire);
    if (state == MessageSlot::kDone) break;
    if (state == MessageSlot::kMismatch) throw_sizes(pending);
    if (state == MessageSlot::kPull && !pending.sends)
      copy(slot);
    else
      wait_while(slot.state, state, reason);
  }
  leave_slot(pending);
  if (pending.block) free_blocks_.emplace_back(pending.block_bytes, pending.block);
  pending = {};
  free_pending_.push_back(ticket.id);
}

void SharedEndpoint::leave_slot(const Pending& pending) {
  const MailboxLock lock(*this, *pending.box, message_reason(pending));
  if (--pending.slot->sides_left > 0) return;
  pending.slot->used = 0;
  set_and_wake(pending.box->freed, pending.box->freed.value.load(std::memory_order_relaxed) + 1);
}

/// Copies what another process cannot reach to where it can.
void SharedEndpoint::stage(Pending& pending) {
  const int other = world_->members().processes[static_cast<size_t>(pending.peer)];
  if (other == world_->members().processes[static_cast<size_t>(device())] || pending.bytes == 0) return;
  if (world_->memory().address_of(pending.data, pending.bytes).file >= 0) return;
  const size_t wanted = std::max<size_t>(std::bit_ceil(pending.bytes), 4096);
  const auto fits =
      std::find_if(free_blocks_.begin(), free_blocks_.end(), [&](const auto& block) { return block.first == wanted; });
  if (fits != free_blocks_.end()) {
    pending.block = fits->second;
    free_blocks_.erase(fits);
  } else {
    pending.block = allocate(wanted);
  }
  pending.block_bytes = wanted;
  std::memcpy(pending.block, pending.data, pending.bytes);
}

}  // namespace ramet::transport
