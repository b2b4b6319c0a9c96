#include "ramet/runtime/staging.h"

#include <algorithm>

#include "ramet/base/error.h"

namespace ramet::runtime {

std::byte* Staging::outgoing(const std::byte* from, int64_t bytes) {
  if (device_.addressable()) {
    queue_.wait();
    return const_cast<std::byte*>(from);
  }
  std::byte* host = lend(bytes);
  queue_.wait(queue_.read(host, from, bytes));
  return host;
}

std::byte* Staging::incoming(std::byte* to, int64_t bytes) {
  if (!device_.addressable()) return lend(bytes);
  queue_.wait();
  return to;
}

void Staging::deliver(std::byte* to, std::byte* host, int64_t bytes) {
  if (device_.addressable()) return;
  queue_.copy_in(to, host, bytes);
  Block& block = block_of(host);
  block.lent = false;
  block.free_after = queue_.record();
}

void Staging::release(std::byte* host) {
  if (!device_.addressable()) block_of(host).lent = false;
}

int64_t Staging::bytes() const {
  int64_t bytes = 0;
  for (const Block& block : blocks_) bytes += block.memory.bytes();
  return bytes;
}

/// The smallest free block that is large enough, or a new one.
std::byte* Staging::lend(int64_t bytes) {
  Block* best = nullptr;
  for (Block& block : blocks_) {
    const bool is_free = !block.lent && (!block.free_after.queue || queue_.done(block.free_after));
    if (is_free && block.memory.bytes() >= bytes && (!best || block.memory.bytes() < best->memory.bytes()))
      best = &block;
  }
  if (!best) {
    blocks_.push_back({.memory = device_.take(bytes, Memory::kPinned, "memory for exchanges")});
    best = &blocks_.back();
  }
  best->lent = true;
  best->free_after = {};
  return best->memory.data();
}

Staging::Block& Staging::block_of(const std::byte* host) {
  const auto block =
      std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& each) { return each.memory.data() == host; });
  if (block == blocks_.end()) internal_error("Staging", "memory that was not lent");
  return *block;
}

}  // namespace ramet::runtime
