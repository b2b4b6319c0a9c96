#include "fake_cuda/card.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <utility>

namespace ramet_fake {
namespace {

constexpr size_t kPage = 4096, kHugePage = 512 * kPage;
constexpr size_t kGuard = 16 * kPage;
constexpr int kGarbage = 0xc7;  // fresh memory; as a float: -102,286

long long number_from(const char* variable, long long otherwise) {
  const char* text = std::getenv(variable);
  return text && *text ? std::atoll(text) : otherwise;
}

Settings read_settings() {
  Settings all;
  all.devices = static_cast<int>(number_from("RAMET_FAKE_CUDA_DEVICES", 1));
  all.memory = static_cast<size_t>(number_from("RAMET_FAKE_CUDA_MEMORY", 4ll << 30));
  all.version = static_cast<int>(number_from("RAMET_FAKE_CUDA_VERSION", 13000));
  all.quiet = number_from("RAMET_FAKE_CUDA_QUIET", 0) != 0;
  if (const char* text = std::getenv("RAMET_FAKE_CUDA_ARCHITECTURE"))
    std::sscanf(text, "%d.%d", &all.major, &all.minor);
  return all;
}

size_t round_up(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// Whether [address, address + bytes) is within one of the blocks.
bool within(const std::map<uintptr_t, size_t>& blocks, uintptr_t address, size_t bytes) {
  auto next = blocks.upper_bound(address);
  if (next == blocks.begin()) return false;
  const auto& [begin, size] = *std::prev(next);
  return address - begin <= size && bytes <= size - (address - begin);
}

/// Pages between guards, closed; null where there are none. Large blocks lie on huge pages, of which there are few to
/// open and close.
unsigned char* map_guarded(size_t mapped) {
  const size_t alignment = mapped < kHugePage ? kPage : kHugePage, room = mapped + 2 * kGuard + alignment;
  void* all = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  const auto first = reinterpret_cast<uintptr_t>(all);
  const uintptr_t data = (first + kGuard + alignment - 1) / alignment * alignment, end = data + mapped + kGuard;
  if (data - kGuard > first) munmap(all, data - kGuard - first);
  if (first + room > end) munmap(reinterpret_cast<void*>(end), first + room - end);
  if (alignment == kHugePage) madvise(reinterpret_cast<void*>(data), mapped, MADV_HUGEPAGE);
  return reinterpret_cast<unsigned char*>(data);
}

}  // namespace

const Settings& settings() {
  static const Settings all = read_settings();
  return all;
}

// --- Memory ---

CardMemory& CardMemory::instance() {
  static auto* one = new CardMemory;
  return *one;
}

Result CardMemory::allocate(size_t bytes, DevicePointer* address) {
  if (bytes == 0) return kInvalidValue;
  const Open open;
  const std::lock_guard lock(mutex_);
  if (bytes > settings().memory || used_ > settings().memory - bytes) return kOutOfMemory;
  const size_t mapped = round_up(bytes);
  unsigned char* data = map_guarded(mapped);
  if (!data) return kOutOfMemory;
  mprotect(data, mapped, PROT_READ | PROT_WRITE);
  std::memset(data, kGarbage, mapped);
  *address = reinterpret_cast<DevicePointer>(data);
  blocks_.emplace(*address, Block{bytes, mapped});
  used_ += bytes;
  return kSuccess;
}

Result CardMemory::release(DevicePointer address) {
  const Open open;
  bool damaged = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) return kInvalidValue;
    auto* data = reinterpret_cast<unsigned char*>(address);
    for (size_t i = found->second.bytes; i < found->second.mapped; ++i) damaged = damaged || data[i] != kGarbage;
    munmap(data - kGuard, found->second.mapped + 2 * kGuard);
    used_ -= found->second.bytes;
    blocks_.erase(found);
  }
  if (damaged) lose(kIllegalAddress, "something was written behind a block of device memory");
  return kSuccess;
}

bool CardMemory::holds(DevicePointer address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return false;
  const auto& [begin, block] = *std::prev(next);
  return address - begin <= block.bytes && bytes <= block.bytes - (address - begin);
}

size_t CardMemory::used() {
  const std::lock_guard lock(mutex_);
  return used_;
}

Result CardMemory::allocate_host(size_t bytes, void** data) {
  if (bytes == 0 || bytes > size_t{1} << 46) return bytes ? kOutOfMemory : kInvalidValue;
  void* all =
      mmap(nullptr, round_up(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return kOutOfMemory;
  const std::lock_guard lock(mutex_);
  pinned_.emplace(reinterpret_cast<uintptr_t>(all), bytes);
  *data = all;
  return kSuccess;
}

Result CardMemory::release_host(void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = pinned_.find(reinterpret_cast<uintptr_t>(data));
  if (found == pinned_.end()) return kInvalidValue;
  munmap(data, round_up(found->second));
  pinned_.erase(found);
  return kSuccess;
}

Result CardMemory::register_host(void* data, size_t bytes) {
  if (!data || bytes == 0) return kInvalidValue;
  if (is_pinned(data, 1)) return kHostMemoryAlreadyRegistered;
  const std::lock_guard lock(mutex_);
  registered_.emplace(reinterpret_cast<uintptr_t>(data), bytes);
  return kSuccess;
}

Result CardMemory::unregister_host(void* data) {
  const std::lock_guard lock(mutex_);
  return registered_.erase(reinterpret_cast<uintptr_t>(data)) ? kSuccess : kHostMemoryNotRegistered;
}

bool CardMemory::is_pinned(const void* data, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<uintptr_t>(data);
  return within(pinned_, address, bytes) || within(registered_, address, bytes);
}

void CardMemory::protect(bool open) {
  const std::lock_guard lock(mutex_);
  for (const auto& [address, block] : blocks_)
    mprotect(reinterpret_cast<void*>(address), block.mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

CardMemory::Open::Open() {
  instance().work_mutex_.lock();
  instance().protect(true);
}
CardMemory::Open::~Open() {
  instance().protect(false);
  instance().work_mutex_.unlock();
}

// --- Failures ---

namespace {
std::mutex loss_mutex;
Result loss = kSuccess;
}  // namespace

Result lost() {
  const std::lock_guard lock(loss_mutex);
  return loss;
}
void lose(Result result, const std::string& why) {
  const std::lock_guard lock(loss_mutex);
  if (loss == kSuccess) loss = result;
  if (!settings().quiet) std::fprintf(stderr, "fake card: %s\n", why.c_str());
}
void forget_loss() {
  const std::lock_guard lock(loss_mutex);
  loss = kSuccess;
}

// --- Streams ---

namespace {

// All streams share one lock, and one condition variable that is notified when a stream has done some work. That is
// slow, which the fake card may be.
std::mutex stream_mutex;
std::condition_variable stream_changed;
std::set<Stream*>& streams() {
  static auto* all = new std::set<Stream*>;
  return *all;
}
thread_local bool is_stream = false;

}  // namespace

Stream::Stream(bool blocking) : blocking_(blocking), thread_([this] { run(); }) {
  const std::lock_guard lock(stream_mutex);
  streams().insert(this);
}

Stream::~Stream() {
  {
    const std::lock_guard lock(stream_mutex);
    closed_ = true;
    streams().erase(this);
  }
  given_work_.notify_one();
  thread_.join();
}

/// Does the first work of the queue, in whichever thread.
void Stream::do_first(std::unique_lock<std::mutex>& lock) {
  Work work = std::move(waiting_.front());
  waiting_.pop_front();
  busy_ = true;
  lock.unlock();
  const bool was_stream = std::exchange(is_stream, true);
  work();
  work = nullptr;
  is_stream = was_stream;
  lock.lock();
  busy_ = false;
  ++done_;
  stream_changed.notify_all();
  if (!waiting_.empty() || closed_) given_work_.notify_one();
}

void Stream::run() {
  std::unique_lock lock(stream_mutex);
  for (;;) {
    given_work_.wait(lock, [&] { return !busy_ && (closed_ || !waiting_.empty()); });
    if (waiting_.empty()) return;
    do_first(lock);
  }
}

/// Until `done`: a thread that waits does the stream's work itself, which saves handing over to the stream's thread.
template <typename Done>
void Stream::drive(std::unique_lock<std::mutex>& lock, const Done& done) {
  while (!done())
    if (!busy_ && !waiting_.empty())
      do_first(lock);
    else
      stream_changed.wait(lock);
}

void Graph::add(Work work) {
  behind.push_back(std::move(next_behind));
  next_behind = {nodes.size()};
  nodes.push_back(std::move(work));
}

void Graph::run() const {
  static std::atomic<uint64_t> runs = 0;
  std::mt19937_64 draw(static_cast<uint64_t>(number_from("RAMET_FAKE_CUDA_SEED", 1)) + ++runs);
  std::vector<std::vector<size_t>> before(nodes.size());
  std::vector<size_t> waits(nodes.size()), free;
  for (size_t node = 0; node < nodes.size(); ++node) {
    waits[node] = behind[node].size();
    if (waits[node] == 0) free.push_back(node);
    for (const size_t other : behind[node]) before[other].push_back(node);
  }
  while (!free.empty()) {
    std::swap(free[draw() % free.size()], free.back());
    const size_t node = free.back();
    free.pop_back();
    nodes[node]();
    for (const size_t other : before[node])
      if (--waits[other] == 0) free.push_back(other);
  }
}

void Stream::give(Work work) {
  if (recording) {
    recording->add(std::move(work));
    return;
  }
  {
    const std::lock_guard lock(stream_mutex);
    waiting_.push_back(std::move(work));
    ++given_;
  }
  given_work_.notify_one();
}

void Stream::give_moment(std::shared_ptr<Moment> moment) {
  moment->stream = this;
  give([moment = std::move(moment)] {
    const std::lock_guard lock(stream_mutex);
    moment->come = true;
    moment->seconds = seconds();
  });
}

void Stream::wait_for(std::shared_ptr<Moment> moment) {
  give([moment = std::move(moment)] {
    std::unique_lock lock(stream_mutex);
    stream_changed.wait(lock, [&] { return moment->come; });
  });
}

void Stream::synchronize() {
  std::unique_lock lock(stream_mutex);
  const uint64_t number = given_;
  drive(lock, [&] { return done_ >= number; });
}

bool Stream::idle() {
  const std::lock_guard lock(stream_mutex);
  return done_ == given_;
}

double Stream::seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
void Stream::wait_for_host(const std::shared_ptr<Moment>& moment) {
  std::unique_lock lock(stream_mutex);
  if (!moment->come) moment->stream->drive(lock, [&] { return moment->come; });
}
bool Stream::come(const std::shared_ptr<Moment>& moment) {
  const std::lock_guard lock(stream_mutex);
  return moment->come;
}
bool Stream::in_stream() { return is_stream; }
int& Stream::strict_recordings() {
  static int count = 0;
  return count;
}

void synchronize_streams(bool all) {
  std::unique_lock lock(stream_mutex);
  for (Stream* stream : std::set<Stream*>(streams()))
    if (all || stream->blocking()) {
      lock.unlock();
      stream->synchronize();
      lock.lock();
    }
}

}  // namespace ramet_fake
