#include "ramet/device/host_reserve.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "ramet/device/host_memory.h"

namespace ramet::device {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20, kPage = 4096;

std::mutex mutex;  // of `current` below

}  // namespace

struct HostReserve::State {
  HostMapping memory;
  int64_t bytes = 0;
  std::atomic<bool> stops = false;
  std::atomic<int64_t> touched = 0;
  std::thread thread;

  /// Goes on behind what is touched, up to `bytes`.
  void begin() {
    madvise(memory.data, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
    stops = false;
    thread = std::thread([this] { run(); });
  }
  /// To `whole` bytes, of which `available` may still be taken.
  void grow(int64_t whole, int64_t available) {
    const int64_t room = static_cast<int64_t>(memory.mapped) - kHugePage;
    if (!memory.mapping || whole <= bytes || whole > room || whole - touched > available) return;
    end();
    bytes = whole;
    begin();
  }
  void run() {
    for (int64_t from = touched; from < bytes && !stops;) {
      const int64_t to = std::min(bytes, (from / kHugePage + 1) * kHugePage);
      touch_pages(memory.data, (from + kPage - 1) / kPage * kPage, to);
      touched = from = to;
    }
  }
  void end() {
    stops = true;
    if (thread.joinable()) thread.join();
    memory.touched = touched;
  }
  ~State() {
    end();
    if (memory.mapping) munmap(memory.mapping, memory.mapped);
  }
};

namespace {

// Of a class's private type: held as what it is to this file alone.
std::weak_ptr<void> current;

}  // namespace

void touch_pages(std::byte* data, int64_t from, int64_t to) {
  for (int64_t at = from; at < to; at += kPage) *reinterpret_cast<volatile char*>(data + at) = 0;
}

HostReserve::HostReserve(int64_t bytes) : state_(std::make_shared<State>()) {
  const int64_t available = available_memory();
  const std::lock_guard lock(mutex);
  if (bytes <= 0 || bytes > available || current.lock()) return;
  // Addresses for a memory of any size: only what is touched takes memory.
  constexpr int64_t kMost = int64_t{1} << 42;
  const auto mapped = static_cast<size_t>(std::min(available, kMost) + kHugePage);
  void* const mapping =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return;
  const auto address = reinterpret_cast<uintptr_t>(mapping);
  auto* const data = reinterpret_cast<std::byte*>((address + kHugePage - 1) / kHugePage * kHugePage);
  // A fork meanwhile has no use for it, and would make each page that is touched from then on a copy.
  madvise(mapping, mapped, MADV_DONTFORK);
  state_->memory = {mapping, mapped, data, 0};
  state_->bytes = bytes;
  state_->begin();
  current = state_;
}

HostReserve::~HostReserve() = default;

void HostReserve::grow(int64_t bytes) {
  const int64_t available = available_memory() - touched();
  const std::lock_guard lock(mutex);
  if (bytes > 0) state_->grow(state_->bytes + bytes, available);
}

void HostReserve::expect(int64_t bytes) {
  const int64_t available = available_memory() - touched();
  const std::lock_guard lock(mutex);
  if (const auto state = std::static_pointer_cast<State>(current.lock())) state->grow(bytes, available);
}

bool HostReserve::empty() const {
  const std::lock_guard lock(mutex);
  return !state_->memory.mapping;
}

HostMapping HostReserve::claim(int64_t bytes) {
  const std::lock_guard lock(mutex);
  const auto state = std::static_pointer_cast<State>(current.lock());
  if (!state || !state->memory.mapping || bytes < state->bytes / 2) return {};
  auto* const begin = static_cast<std::byte*>(state->memory.mapping);
  const int64_t before = state->memory.data - begin, end = (bytes + kPage - 1) / kPage * kPage;
  if (static_cast<size_t>(before + end) > state->memory.mapped) return {};
  state->end();
  state->memory.touched = std::min(state->memory.touched, bytes);
  munmap(state->memory.data + end, state->memory.mapped - static_cast<size_t>(before + end));
  state->memory.mapped = static_cast<size_t>(before + end);
  madvise(state->memory.mapping, state->memory.mapped, MADV_DOFORK);
  current.reset();
  return std::exchange(state->memory, {});
}

int64_t HostReserve::touched() {
  const std::lock_guard lock(mutex);
  const auto state = std::static_pointer_cast<State>(current.lock());
  return state ? state->touched.load() : 0;
}

void HostReserve::drop() {
  const std::lock_guard lock(mutex);
  const auto state = std::static_pointer_cast<State>(current.lock());
  if (!state) return;
  state->end();
  if (state->memory.mapping) munmap(state->memory.mapping, state->memory.mapped);
  state->memory = {};
  current.reset();
}

}  // namespace ramet::device
