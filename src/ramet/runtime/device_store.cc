#include "ramet/runtime/device_store.h"

#include <algorithm>

#include "ramet/base/error.h"

namespace ramet::runtime {

DeviceStore::DeviceStore(std::unique_ptr<StreamingStore> store, Device& device, Queue& queue, Staging& staging)
    : store_(std::move(store)), device_(device), queue_(queue), staging_(staging), pinned_(store_->pinned()) {
  if (!pinned_) return;
  in_ = device.make_queue();
  out_ = device.make_queue();
}

Ticket DeviceStore::start_load(int64_t offset, std::byte* to, int64_t bytes) {
  Transfer& transfer = start(false, offset, to, bytes);
  if (pinned_) {
    start_copy(transfer);
  } else {
    transfer.host = staging_.incoming(to, bytes);
    transfer.inner = store_->start_load(offset, transfer.host, bytes);
  }
  return {transfer.ticket};
}

Ticket DeviceStore::start_store(int64_t offset, const std::byte* from, int64_t bytes) {
  Transfer& transfer = start(true, offset, const_cast<std::byte*>(from), bytes);
  if (pinned_) {
    start_copy(transfer);
  } else {
    transfer.host = staging_.outgoing(from, bytes);
    transfer.inner = store_->start_store(offset, transfer.host, bytes);
  }
  return {transfer.ticket};
}

DeviceStore::Transfer& DeviceStore::start(bool store, int64_t offset, std::byte* address, int64_t bytes) {
  if (offset < 0 || bytes < 0 || offset > store_->bytes() - bytes)
    internal_error("DeviceStore",
                   "range " + std::to_string(offset) + "+" + std::to_string(bytes) + " of " +
                       std::to_string(store_->bytes()));
  return transfers_.emplace_back(
      Transfer{.ticket = next_++, .store = store, .offset = offset, .bytes = bytes, .address = address});
}

/// Behind the program's queue, which made the bytes or has read them, and behind transfers of the same range of the
/// store.
void DeviceStore::start_copy(Transfer& transfer) {
  Queue& queue = transfer.store ? *out_ : *in_;
  queue.wait_for(queue_.record());
  for (const Transfer& other : transfers_)
    if (other.done.queue && (other.store || transfer.store) && other.offset < transfer.offset + transfer.bytes &&
        transfer.offset < other.offset + other.bytes)
      queue.wait_for(other.done);
  if (transfer.store)
    queue.copy_out(pinned_ + transfer.offset, transfer.address, transfer.bytes);
  else
    queue.copy_in(transfer.address, pinned_ + transfer.offset, transfer.bytes);
  transfer.done = queue.record();
}

void DeviceStore::wait(Ticket ticket) {
  const auto found = std::find_if(transfers_.begin(), transfers_.end(), [&](const Transfer& each) {
    return each.ticket == ticket.id && !each.waited;
  });
  if (found == transfers_.end()) internal_error("DeviceStore::wait", "no such ticket");
  found->waited = true;
  if (pinned_) {
    queue_.wait_for(found->done);
  } else {
    const Transfer transfer = *found;
    transfers_.erase(found);
    store_->wait(transfer.inner);
    if (transfer.store)
      staging_.release(transfer.host);
    else
      staging_.deliver(transfer.address, transfer.host, transfer.bytes);
  }
  std::erase_if(transfers_, [](const Transfer& each) { return each.waited && each.done.queue->done(each.done); });
}

void DeviceStore::load(int64_t offset, void* to, int64_t bytes) {
  settle();
  store_->load(offset, to, bytes);
}

void DeviceStore::store(int64_t offset, const void* from, int64_t bytes) {
  settle();
  store_->store(offset, from, bytes);
}

void DeviceStore::settle() {
  if (!pinned_) return;
  in_->wait();
  out_->wait();
}

}  // namespace ramet::runtime
