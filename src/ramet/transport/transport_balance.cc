#include "ramet/transport/transport_balance.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <iterator>
#include <map>
#include <vector>

#include "ramet/transport/process.h"

namespace ramet::transport {
namespace {

cpu_set_t set_of(const ProgressSlot& slot) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (size_t cpu = 0; cpu < 64 * std::size(slot.allowed); ++cpu)
    if (slot.allowed[cpu / 64].load(std::memory_order_relaxed) >> (cpu % 64) & 1) CPU_SET(cpu, &set);
  return set;
}

/// Takes a device's thread to a processor, and lets it then go where it may, as before.
void move_thread(ProgressSlot& slot, int processor) {
  const cpu_set_t allowed = set_of(slot);
  if (processor >= CPU_SETSIZE || !CPU_ISSET(static_cast<size_t>(processor), &allowed)) return;
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<size_t>(processor), &here);
  const int thread = slot.thread.load(std::memory_order_relaxed);
  if (sched_setaffinity(thread, sizeof(here), &here) != 0) return;
  sched_setaffinity(thread, sizeof(allowed), &allowed);
}

}  // namespace

int to_be_moved(std::span<const CrowdedDevice> neighbours, int processor) {
  std::map<int, int> crowds;
  for (const CrowdedDevice& neighbour : neighbours)
    if (neighbour.at_work) ++crowds[neighbour.processor];
  if (crowds.contains(processor)) return -1;
  int best = -1;
  for (size_t i = 0; i < neighbours.size(); ++i) {
    const CrowdedDevice& neighbour = neighbours[i];
    if (!neighbour.at_work || neighbour.processor < 0 || crowds[neighbour.processor] < 2) continue;
    if (neighbour.in_line) return static_cast<int>(i);
    if (best < 0) best = static_cast<int>(i);
  }
  return best;
}

bool stands_in_line(const SharedWorld& world, const ProgressSlot& slot) {
  const uint64_t offset = slot.sleeps_on.load(std::memory_order_relaxed);
  if (slot.waiting.load(std::memory_order_relaxed) == 0 || offset == 0) return false;
  const auto* awaited = reinterpret_cast<const WaitWord*>(world.region() + offset);
  return awaited->value.load(std::memory_order_acquire) != slot.seen.load(std::memory_order_relaxed);
}

Sleep::Sleep(SharedWorld& world, int device, const WaitWord& word, uint32_t seen)
    : world_(world), slot_(world.progress(device)), device_(device) {
  // Words of another kind (of messages to other hosts) lie elsewhere: whether they have come is not seen here.
  const auto at = reinterpret_cast<const std::byte*>(&word) - world.region();
  const bool inside = at >= 0 && static_cast<size_t>(at) < world.layout().bytes;
  slot_.seen.store(seen, std::memory_order_relaxed);
  slot_.sleeps_on.store(inside ? static_cast<uint64_t>(at) : 0, std::memory_order_relaxed);
  if (world.crowded()) leave_processor();
  slot_.waiting.store(1, std::memory_order_relaxed);
}

Sleep::~Sleep() { slot_.waiting.store(0, std::memory_order_relaxed); }

void Sleep::leave_processor() {
  thread_local const auto thread = static_cast<int32_t>(syscall(SYS_gettid));
  if (slot_.thread.load(std::memory_order_relaxed) != thread) {
    add_allowed_processors(slot_.allowed);
    slot_.thread.store(thread, std::memory_order_relaxed);
  }

  std::vector<CrowdedDevice> neighbours;
  std::vector<ProgressSlot*> slots;
  for (int local = 0; local < world_.layout().locals; ++local) {
    const int device = world_.device_of_local(local);
    ProgressSlot& slot = world_.progress(device);
    if (device == device_ || slot.thread.load(std::memory_order_relaxed) == 0) continue;
    CrowdedDevice its{.at_work = true};
    if (slot.waiting.load(std::memory_order_relaxed) != 0) its.at_work = its.in_line = stands_in_line(world_, slot);
    if (!its.at_work) continue;
    neighbours.push_back(its);
    slots.push_back(&slot);
  }
  if (neighbours.size() < 2) return;  // one alone has a processor
  for (size_t i = 0; i < neighbours.size(); ++i)
    neighbours[i].processor = processor_of_thread(slots[i]->process.load(std::memory_order_relaxed),
                                                  slots[i]->thread.load(std::memory_order_relaxed));
  const int processor = sched_getcpu(), moved = to_be_moved(neighbours, processor);
  if (moved >= 0) move_thread(*slots[static_cast<size_t>(moved)], processor);
}

}  // namespace ramet::transport
