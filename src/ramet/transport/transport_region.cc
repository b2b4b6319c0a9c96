#include "ramet/transport/transport_region.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <iterator>
#include <new>

namespace ramet::transport {

namespace {

// Never FUTEX_PRIVATE: the word may be shared by processes.
long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* limit) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, limit, nullptr, 0);
}

constexpr size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

void set_and_wake(WaitWord& word, uint32_t value, int most) {
  word.value.store(value, std::memory_order_seq_cst);
  if (most > 0 && word.sleepers.load(std::memory_order_seq_cst) > 0)
    futex(word.value, FUTEX_WAKE, static_cast<uint32_t>(most), nullptr);
}

void sleep_on(WaitWord& word, uint32_t seen, std::chrono::nanoseconds limit) {
  const timespec time{static_cast<time_t>(limit.count() / 1'000'000'000),
                      static_cast<long>(limit.count() % 1'000'000'000)};
  word.sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (word.value.load(std::memory_order_seq_cst) == seen) futex(word.value, FUTEX_WAIT, seen, &time);
  word.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void add_allowed_processors(ProcessorBits& bits) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  for (size_t cpu = 0; cpu < 64 * std::size(bits); ++cpu)
    if (CPU_ISSET(cpu, &allowed)) bits[cpu / 64].fetch_or(uint64_t{1} << (cpu % 64));
}

void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

RegionLayout::RegionLayout(int devices_, int locals_, int messages_)
    : devices(devices_), locals(locals_), messages(messages_) {
  const size_t local = static_cast<size_t>(locals);
  // A layout has a handful of groups a device; the table is virtual memory until a group is used.
  groups = 64 + 32 * locals;
  group_bytes = round_up(sizeof(GroupSlot) + local * (sizeof(RoundPost) + sizeof(uint32_t)), 128);
  progress_at = round_up(sizeof(RegionHeader), 128);
  groups_at = round_up(progress_at + sizeof(ProgressSlot) * static_cast<size_t>(devices), 4096);
  mailboxes_at = round_up(groups_at + group_bytes * static_cast<size_t>(groups), 4096);
  mailbox_bytes = round_up(sizeof(Mailbox) + sizeof(MessageSlot) * static_cast<size_t>(messages), 64);
  bytes = round_up(mailboxes_at + mailbox_bytes * local * local, 4096);
}

void RegionLayout::initialize(std::byte* base) const {
  RegionHeader& head = *new (base) RegionHeader;
  head.bytes = bytes;
  head.devices = devices;
  head.locals = locals;
  head.groups = groups;
  head.magic = RegionHeader::kMagic;
  for (int device = 0; device < devices; ++device) new (&progress(base, device)) ProgressSlot;
}

}  // namespace ramet::transport
