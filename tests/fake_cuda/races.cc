#include "fake_cuda/races.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "fake_cuda/card.h"
#include "fake_cuda/host_shim.h"

namespace ramet_fake {

Turn turn{};

namespace {

constexpr size_t kPage = 4096;

/// An access to a byte.
struct Access {
  uint64_t block = 0;
  uint16_t thread = 0, warp_barriers = 0;
  uint32_t barriers = 0;
};
/// The last write of a byte, and the last reads of two warps.
struct Byte {
  Access write, read, other_read;
};
struct Page {
  Byte bytes[kPage];
};

const char* kernel = "";
uint64_t first_block = 0;
bool watching = false, reported = false;
int races = 0;
std::unordered_map<uintptr_t, std::unique_ptr<Page>>& pages() {
  static auto* all = new std::unordered_map<uintptr_t, std::unique_ptr<Page>>;
  return *all;
}

Page& page_of(uintptr_t address) {
  struct Known {
    uintptr_t number = 0;
    Page* page = nullptr;
  };
  static Known known[256];  // the last pages, by the ends of their numbers
  const uintptr_t number = address / kPage;
  Known& last = known[number % 256];
  if (last.number == number) return *last.page;
  std::unique_ptr<Page>& page = pages()[number];
  if (!page) page = std::make_unique<Page>();
  last = {number, page.get()};
  return *page;
}

/// Whether nothing orders an earlier access before this one.
bool unordered(uintptr_t address, const Access& before, const Access& now) {
  if (before.block < first_block) return false;  // of an earlier launch, or none at all
  // Shared memory is the same bytes for every block here, and others on a card.
  if (before.block != now.block) return CardMemory::instance().holds(address, 1);
  if (before.thread == now.thread || before.barriers != now.barriers) return false;
  return before.thread / 32 != now.thread / 32 || before.warp_barriers == now.warp_barriers;
}

void report(uintptr_t address, const char* what, const Access& before, const Access& now, const void* place) {
  ++races;
  if (std::exchange(reported, true)) return;  // one a launch
  std::fprintf(
      stderr,
      "fake card: kernel %s: a race at %p: %s, by thread %u of block %llu after %u barriers and by thread %u of "
      "block %llu after %u; code at %p\n",
      kernel, reinterpret_cast<void*>(address), what, before.thread,
      static_cast<unsigned long long>(before.block - first_block), before.barriers, now.thread,
      static_cast<unsigned long long>(now.block - first_block), now.barriers, place);
}

void watch(const void* data, size_t bytes, bool writes, const void* place) {
  if (!watching || turn.block == 0) return;
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (address >= turn.stack && address < turn.stack_end) return;
  const Access now{.block = turn.block,
                   .thread = static_cast<uint16_t>(turn.thread),
                   .warp_barriers = static_cast<uint16_t>(turn.warp_barriers[turn.thread / 32]),
                   .barriers = turn.barriers};
  for (uintptr_t at = address; at < address + bytes; ++at) {
    Byte& byte = page_of(at).bytes[at % kPage];
    if (unordered(at, byte.write, now))
      report(at, writes ? "two writes" : "a write and a read", byte.write, now, place);
    if (writes) {
      for (const Access* read : {&byte.read, &byte.other_read})
        if (unordered(at, *read, now)) report(at, "a read and a write", *read, now, place);
      byte.write = now;
    } else {
      if (byte.read.block == now.block && byte.read.thread / 32 != now.thread / 32) byte.other_read = byte.read;
      byte.read = now;
    }
  }
}

}  // namespace

bool watches_races() {
  static const bool asked = [] {
    const char* text = std::getenv("RAMET_FAKE_CUDA_RACES");
    return text && std::string(text) == "1";
  }();
  return asked;
}

void begin_watch(const char* name, uint64_t block) {
  kernel = name;
  first_block = block;
  watching = watches_races();
  reported = false;
}
void end_watch() { watching = false; }

}  // namespace ramet_fake

#pragma GCC visibility push(default)
extern "C" {

/// Races that were found so far.
int fake_cuda_races() { return ramet_fake::races; }

// What -fsanitize=thread calls.
void __tsan_init() {}
#define RAMET_FAKE_WATCH(bytes)                                                                                     \
  void __tsan_read##bytes(void* at) { ramet_fake::watch(at, bytes, false, __builtin_return_address(0)); }           \
  void __tsan_write##bytes(void* at) { ramet_fake::watch(at, bytes, true, __builtin_return_address(0)); }           \
  void __tsan_unaligned_read##bytes(void* at) { ramet_fake::watch(at, bytes, false, __builtin_return_address(0)); } \
  void __tsan_unaligned_write##bytes(void* at) { ramet_fake::watch(at, bytes, true, __builtin_return_address(0)); } \
  void __tsan_volatile_read##bytes(void*) {}                                                                        \
  void __tsan_volatile_write##bytes(void*) {}
RAMET_FAKE_WATCH(1)
RAMET_FAKE_WATCH(2)
RAMET_FAKE_WATCH(4)
RAMET_FAKE_WATCH(8)
RAMET_FAKE_WATCH(16)
#undef RAMET_FAKE_WATCH
void __tsan_read_range(void* at, size_t bytes) { ramet_fake::watch(at, bytes, false, __builtin_return_address(0)); }
void __tsan_write_range(void* at, size_t bytes) { ramet_fake::watch(at, bytes, true, __builtin_return_address(0)); }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}

}  // extern "C"
#pragma GCC visibility pop
