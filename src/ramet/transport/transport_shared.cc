#include "ramet/transport/transport_shared.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <thread>

#include "ramet/base/error.h"
#include "ramet/base/thread_team.h"
#include "ramet/transport/transport_balance.h"

namespace ramet::transport {

namespace {

// How long a wait spins before it sleeps: about the cost of a sleep and a wake. While it spins it yields to runnable
// threads, one of which may be the thread that it waits for.
constexpr int kYields = 16;
constexpr int kSpinsBetween = 64;
// Longest sleep between two looks at whether the world was stopped or a peer has ended.
constexpr std::chrono::milliseconds kSlice{20};

std::vector<int> devices_of_host(const WorldMembers& members, int host) {
  std::vector<int> devices;
  for (size_t device = 0; device < members.hosts.size(); ++device)
    if (members.hosts[device] == host) devices.push_back(static_cast<int>(device));
  return devices;
}

RegionLayout region_layout(const WorldMembers& members, std::span<const int> locals) {
  return {static_cast<int>(members.hosts.size()), static_cast<int>(locals.size()), members.options.messages};
}

}  // namespace

std::string_view name_of(Operation operation) {
  constexpr std::string_view kNames[] = {"barrier",   "all-reduce", "reduce-scatter", "all-gather", "all-to-all",
                                         "broadcast", "reduce",     "gather",         "scatter"};
  return kNames[static_cast<size_t>(operation)];
}

// ---- SharedWorld

SharedWorld::SharedWorld(WorldMembers members)
    : members_(std::move(members)),
      locals_(devices_of_host(members_, 0)),
      layout_(region_layout(members_, locals_)),
      memory_(false),
      processors_(available_processors()) {
  number_locals(0);
  region_.bytes = layout_.bytes;
  region_.data = memory_.allocate(layout_.bytes);
  layout_.initialize(region_.data);
  for (const int device : locals_) progress(device).process.store(getpid());
}

SharedWorld::SharedWorld(WorldMembers members, int host, SharedFile region, std::span<const int> own)
    : members_(std::move(members)),
      locals_(devices_of_host(members_, host)),
      layout_(region_layout(members_, locals_)),
      region_(region),
      attached_(true),
      memory_(true),
      processors_(available_processors()) {
  number_locals(host);
  if (region_.bytes != layout_.bytes || header().magic != RegionHeader::kMagic)
    internal_error("SharedWorld", "the shared region is of another layout");
  for (const int device : own) progress(device).process.store(getpid());
  add_allowed_processors(header().processors);
}

SharedWorld::~SharedWorld() {
  for (const int watched : watch_)
    if (watched >= 0) close(watched);
  if (attached_) region_.close();  // otherwise it is an allocation of memory_
}

void SharedWorld::number_locals(int host) {
  local_of_.assign(members_.hosts.size(), -1);
  for (size_t local = 0; local < locals_.size(); ++local)
    local_of_[static_cast<size_t>(locals_[local])] = static_cast<int>(local);
  crowded_ = static_cast<int>(locals_.size()) > processors_;
  if (locals_.empty()) internal_error("SharedWorld", fmt::format("host {} has no devices", host));
}

SharedFile SharedWorld::make_region(const WorldMembers& members, int host) {
  const RegionLayout layout = region_layout(members, devices_of_host(members, host));
  SharedFile file = SharedFile::make(layout.bytes, "ramet-world");
  layout.initialize(file.data);
  return file;
}

void SharedWorld::watch_peers() {
  for (const int device : locals_) {
    const int process = progress(device).process.load();
    watch_.push_back(process == getpid() ? -1 : static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  }
  // Launchers tie each process to processors of its own; together they have all of these.
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  if (processors_ < CPU_COUNT(&allowed)) return;  // a share of time decides
  processors_ = 0;
  for (const auto& word : header().processors) processors_ += std::popcount(word.load());
  crowded_ = static_cast<int>(locals_.size()) > processors_;
}

std::string SharedWorld::text_of(int device) const {
  return fmt::format("{} {}", members_.ranks ? "rank" : "device", device);
}

std::string SharedWorld::text_of(std::span<const int> devices) const {
  const std::string noun = members_.ranks ? "rank" : "device";
  if (devices.size() == 1) return fmt::format("{} {}", noun, devices[0]);
  bool consecutive = devices.size() > 2;
  for (size_t i = 1; i < devices.size(); ++i) consecutive &= devices[i] == devices[i - 1] + 1;
  if (consecutive) return fmt::format("{}s {}..{}", noun, devices.front(), devices.back());
  return fmt::format("{}s {}", noun, fmt::join(devices.begin(), devices.end(), ", "));
}

int SharedWorld::ended(std::span<const int> devices) const {
  if (watch_.empty()) return -1;
  for (const int device : devices) {
    const int local = local_of(device);
    if (local < 0 || watch_[static_cast<size_t>(local)] < 0) continue;
    pollfd watched{watch_[static_cast<size_t>(local)], POLLIN, 0};
    if (poll(&watched, 1, 0) == 1 && (watched.revents & POLLIN)) return device;
  }
  return -1;
}

namespace {

/// Whether a process is stopped without having ended (SIGSTOP).
bool is_halted(int process) {
  char path[64], status[512] = {};
  std::snprintf(path, sizeof(path), "/proc/%d/stat", process);
  if (std::FILE* file = std::fopen(path, "r")) {
    const size_t read = std::fread(status, 1, sizeof(status) - 1, file);
    std::fclose(file);
    status[read] = 0;
  }
  // "PID (NAME) STATE ...", and the name may hold anything.
  const char* name_end = std::strrchr(status, ')');
  return name_end && name_end[1] == ' ' && name_end[2] == 'T';
}

}  // namespace

bool SharedWorld::runs(int device) const {
  const int local = local_of(device);
  if (local < 0 || watch_.empty() || watch_[static_cast<size_t>(local)] < 0) return true;
  return ended(std::span(&device, 1)) < 0 && !is_halted(progress(device).process.load());
}

void SharedWorld::end_halted_peers() noexcept {
  for (size_t local = 0; local < watch_.size(); ++local)
    if (watch_[local] >= 0 && is_halted(progress(locals_[local]).process.load()))
      syscall(SYS_pidfd_send_signal, watch_[local], SIGKILL, nullptr, 0);
}

void SharedWorld::stop(int device, std::string_view reason) noexcept {
  RegionHeader& head = header();
  uint32_t running = 0;
  if (!head.stop_state.compare_exchange_strong(running, 1, std::memory_order_acq_rel)) return;
  head.stop_device = device;
  const size_t length = std::min(reason.size(), sizeof(head.reason) - 1);
  std::memcpy(head.reason, reason.data(), length);
  head.reason[length] = 0;
  head.stop_state.store(2, std::memory_order_release);
}

std::pair<int, std::string> SharedWorld::stop_reason() const {
  const RegionHeader& head = header();
  for (int tries = 0; head.stop_state.load(std::memory_order_acquire) == 1 && tries < 100; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (head.stop_state.load(std::memory_order_acquire) != 2) return {-1, "a device stopped it and ended"};
  return {head.stop_device, head.reason};
}

// ---- SharedEndpoint

SharedEndpoint::SharedEndpoint(std::shared_ptr<SharedWorld> world, int device)
    : Transport(device, world->devices()), world_(std::move(world)) {}

SharedEndpoint::~SharedEndpoint() {
  for (std::byte* memory : allocations_) world_->memory().release(memory);
}

std::byte* SharedEndpoint::allocate(size_t bytes) {
  allocations_.push_back(world_->memory().allocate(bytes));
  return allocations_.back();
}

void SharedEndpoint::release(std::byte* memory) {
  if (std::erase(allocations_, memory) == 0)
    internal_error("Transport::release", "memory that `allocate` of this endpoint did not give");
  world_->memory().release(memory);
}

SharedGroup* SharedEndpoint::shared_group(std::span<const int> members) {
  for (const auto& group : groups_)
    if (std::ranges::equal(group->members(), members)) return group.get();
  for (const int member : members)
    if (world_->local_of(member) < 0) return nullptr;
  groups_.push_back(std::make_unique<SharedGroup>(*this, members));
  return groups_.back().get();
}

void SharedEndpoint::finish_superstep(uint64_t number, int label) {
  ProgressSlot& mine = world_->progress(device());
  mine.label.store(label, std::memory_order_relaxed);
  mine.finished.store(number, std::memory_order_release);
}

Progress SharedEndpoint::progress_of(int device) const {
  const ProgressSlot& slot = world_->progress(device);
  Progress progress;
  progress.finished = slot.finished.load(std::memory_order_acquire);
  progress.label = slot.label.load(std::memory_order_relaxed);
  // A device that does not take its message holds the others up: it may have been halted while it slept.
  progress.waiting = slot.waiting.load(std::memory_order_relaxed) != 0 && !stands_in_line(*world_, slot);
  return progress;
}

void SharedEndpoint::check() const {
  if (world_->stopped()) throw_stopped(text_of(device()));
}

void SharedEndpoint::throw_stopped(const std::string& where) const {
  const auto [cause, reason] = world_->stop_reason();
  throw Error({.what = cause < 0 ? "the run was stopped" : fmt::format("the run was stopped by {}", text_of(cause)),
               .where = where,
               .found = reason},
              ErrorKind::kFailure);
}

void SharedEndpoint::fail(const std::string& where, const std::string& what, const std::string& found,
                          const std::string& remedy) {
  const Error error({.what = what, .where = where, .found = found, .expected = "", .remedy = remedy},
                    ErrorKind::kFailure);
  world_->stop(device(), error.what());
  throw error;
}

void SharedEndpoint::wait_while(WaitWord& word, uint32_t seen, const WaitReason& reason) {
  const auto unchanged = [&] { return word.value.load(std::memory_order_acquire) == seen; };
  const int spins = world_->crowded() ? 1 : kSpinsBetween;
  for (int i = 0; i < kYields; ++i, sched_yield())
    for (int j = 0; j < spins; ++j, spin_pause())
      if (!unchanged()) return;
  const Sleep sleep(*world_, device(), word, seen);  // peers see that this device is not the one that holds them up
  const auto where = [&] { return fmt::format("{}, on {}", reason.text(), text_of(device())); };
  const auto& options = world_->members().options;
  const auto deadline = SteadyClock::now() + options.time_limit;
  bool long_wait = false;
  while (unchanged()) {
    if (world_->stopped()) throw_stopped(where());
    if (long_wait) {
      const std::vector<int> awaited = reason.awaited();
      const int gone = world_->ended(awaited);
      if (gone >= 0 && unchanged())
        fail(where(), fmt::format("{} has ended (process {})", text_of(gone), world_->progress(gone).process.load()),
             progress_text(*this, std::span(&gone, 1), options.label_text), "Resume from the last checkpoint");
    }
    const auto now = SteadyClock::now();
    if (now >= deadline)
      fail(where(), fmt::format("no answer within {:g} s", std::chrono::duration<double>(options.time_limit).count()),
           progress_text(*this, reason.awaited(), options.label_text),
           "See what holds that device up, then resume from the last checkpoint");
    sleep_on(word, seen, std::min<std::chrono::nanoseconds>(kSlice, deadline - now));
    long_wait = true;
  }
}

void SharedEndpoint::check_peer(int peer, int tag, const char* what) const {
  if (peer < 0 || peer >= devices())
    throw Error({.what = fmt::format("{} a device that there is not", what),
                 .where = text_of(device()),
                 .found = fmt::format("device {}", peer),
                 .expected = fmt::format("0 to {}", devices() - 1)});
  if (tag < 0) throw Error({.what = "negative tag", .where = text_of(device()), .found = std::to_string(tag)});
}

}  // namespace ramet::transport
