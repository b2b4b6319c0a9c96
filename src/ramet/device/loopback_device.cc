#include "ramet/device/loopback_device.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "ramet/base/error.h"
#include "ramet/device/host_memory.h"
#include "ramet/device/host_work.h"

// To write a back end for an accelerator, copy this file and replace what the comments that begin with "An accelerator"
// speak of. tests/device/ holds both this device and the CPU to what device.h says; run the new one through it.

namespace ramet::device {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

/// What a queue has done, shared with the queues that wait for it. An accelerator has events for this: CUDA's
/// cuEventRecord and cuStreamWaitEvent, taken from a pool; or a number in memory that the queue writes and others poll.
class Timeline {
 public:
  /// The number of the last work that was given.
  uint64_t given() const {
    const std::lock_guard lock(mutex_);
    return given_;
  }
  void give(std::function<void(ThreadTeam&)> work) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(work));
      ++given_;
    }
    changed_.notify_all();
  }

  /// The queue's thread: does the work that it is given, until `close`.
  void run(int threads) {
    ThreadTeam team(threads);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
      if (closed_) return;
      auto work = std::move(waiting_.front());
      waiting_.pop_front();
      const bool drops = failure_ != nullptr;
      lock.unlock();
      std::exception_ptr thrown;
      if (!drops) try {
          work(team);
        } catch (...) {
          thrown = std::current_exception();
        }
      work = nullptr;  // its resources are released before its end is reported
      lock.lock();
      ++done_;
      if (thrown) {
        failure_ = thrown;
        dropped_.push_back({done_, UINT64_MAX});
      }
      changed_.notify_all();
    }
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

  bool done(uint64_t number) const {
    const std::lock_guard lock(mutex_);
    return done_ >= number;
  }

  /// For the host: what failed at or before `number` is thrown once, and with it all that was given until now is
  /// dropped.
  void wait(uint64_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= number; });
    if (!failure_ || dropped_.back().first > number) return;
    changed_.wait(lock, [&] { return done_ == given_; });
    dropped_.back().second = given_;
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  /// For another queue's thread: as `wait`, but the failure stays for the host.
  void follow(uint64_t number, const Timeline& follower) const {
    std::unique_lock lock(mutex_);
    // The follower's queue may be closed while it waits here: looked at now and then.
    while (!closed_ && done_ < number && !follower.closed_) changed_.wait_for(lock, std::chrono::milliseconds(10));
    if (failure_ && dropped_.back().first <= number) std::rethrow_exception(failure_);
    for (const auto& [first, last] : dropped_)
      if (first <= number && number <= last)
        throw Error({.what = "work that this queue waited for has failed", .where = "loopback device"},
                    ErrorKind::kFailure);
    if (done_ < number)
      throw Error({.what = "a queue is gone that another one waits for", .where = "loopback device"},
                  ErrorKind::kFailure);
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::function<void(ThreadTeam&)>> waiting_;
  uint64_t given_ = 0, done_ = 0;
  std::exception_ptr failure_;                          // not yet thrown to the host
  std::vector<std::pair<uint64_t, uint64_t>> dropped_;  // numbers of work that failed or stood behind it
  std::atomic<bool> closed_{false};
};

class LoopbackProgram final : public CapturedProgram {
 public:
  std::vector<std::function<void(ThreadTeam&)>> work;
};

class LoopbackDevice final : public Device {
 public:
  explicit LoopbackDevice(int threads) : threads_(threads), team_(1) {}

  std::string_view name() const override { return "loopback"; }
  // An accelerator says false too, even where the driver maps its memory into the host's addresses: reads over the bus
  // are slow, and do not wait for its queues.
  bool addressable() const override { return false; }
  int threads() const override { return threads_; }
  bool gains_by_replay() const override { return true; }
  std::unique_ptr<Queue> make_queue() override;

  using Device::check_range;
  using Device::is_pinned;

  /// The true address of a hidden one. An accelerator needs nothing like this: its queues know its addresses.
  std::byte* true_address(const void* hidden, const char* method) const {
    if (!hidden) return nullptr;
    const std::lock_guard lock(regions_mutex_);
    const auto address = reinterpret_cast<uintptr_t>(hidden);
    for (const auto& [begin, region] : regions_) {
      const auto first = reinterpret_cast<uintptr_t>(begin);
      if (region.hidden && address >= first && address - first <= static_cast<uintptr_t>(region.memory.bytes()))
        return region.memory.data() + (address - first);
    }
    throw Error({.what = "an address is not in the device's memory",
                 .where = std::string("loopback device, ") + method,
                 .found = std::to_string(address)},
                ErrorKind::kFailure);
  }

 protected:
  // An accelerator: cuMemAlloc and cuMemsetD8 for device memory, cuMemHostAlloc for pinned memory.
  std::byte* allocate(int64_t bytes, Memory kind, const char* what) override {
    Region region{.memory = HostMemory(bytes, team_, what)};
    std::byte* address = region.memory.data();
    if (kind == Memory::kDevice) {
      // Pages that fault, as many as the true ones and one more, so that blocks never touch each other.
      region.hidden_bytes = (static_cast<size_t>(bytes) / kHugePage + 3) * kHugePage;
      region.hidden = mmap(nullptr, region.hidden_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (region.hidden == MAP_FAILED)
        throw Error({.what = "no addresses are left for hidden memory", .where = what, .found = std::strerror(errno)},
                    ErrorKind::kFailure);
      address = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(region.hidden) + kHugePage - 1) / kHugePage *
                                             kHugePage);
    }
    const std::lock_guard lock(regions_mutex_);
    regions_.emplace(address, std::move(region));
    return address;
  }
  void release(std::byte* data, Memory) noexcept override {
    const std::lock_guard lock(regions_mutex_);
    const auto region = regions_.find(data);
    if (region->second.hidden) munmap(region->second.hidden, region->second.hidden_bytes);
    regions_.erase(region);
  }

 private:
  struct Region {
    HostMemory memory;
    void* hidden = nullptr;  ///< null: pinned memory
    size_t hidden_bytes = 0;
  };

  const int threads_;
  ThreadTeam team_;  // touches new memory
  mutable std::mutex regions_mutex_;
  std::map<const std::byte*, Region> regions_;
};

class LoopbackQueue final : public Queue {
 public:
  explicit LoopbackQueue(LoopbackDevice& device) : device_(device), timeline_(std::make_shared<Timeline>()) {
    // An accelerator: cuStreamCreate.
    thread_ = std::thread([timeline = timeline_, threads = device.threads()] { timeline->run(threads); });
  }
  ~LoopbackQueue() override {
    timeline_->close();
    thread_.join();
  }

  // An accelerator: cuMemcpyHtoDAsync. The driver stages plain memory itself; small copies go well through a ring of
  // pinned memory of one's own.
  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    device_.check_range(to, bytes, "copy_in");
    std::byte* place = device_.true_address(to, "copy_in");
    if (device_.is_pinned(from, bytes))
      return give([place, from, bytes](ThreadTeam& team) { copy_bytes(team, place, from, bytes); });
    refuse_in_capture("copy_in from plain memory");
    const auto* first = static_cast<const std::byte*>(from);
    give([place, staged = std::vector<std::byte>(first, first + bytes)](ThreadTeam& team) {
      copy_bytes(team, place, staged.data(), static_cast<int64_t>(staged.size()));
    });
  }
  // An accelerator: cuMemcpyDtoHAsync.
  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    device_.check_range(from, bytes, "copy_out");
    const std::byte* place = device_.true_address(from, "copy_out");
    const bool pinned = device_.is_pinned(to, bytes);
    if (!pinned) refuse_in_capture("copy_out to plain memory");
    give([place, to, bytes](ThreadTeam& team) { copy_bytes(team, to, place, bytes); });
    if (!pinned) Queue::wait();
  }
  // An accelerator: cuMemcpyDtoDAsync.
  void copy(std::byte* to, const std::byte* from, int64_t bytes) override {
    device_.check_range(to, bytes, "copy");
    device_.check_range(from, bytes, "copy");
    give([to = device_.true_address(to, "copy"), from = device_.true_address(from, "copy"), bytes](ThreadTeam& team) {
      copy_bytes(team, to, from, bytes);
    });
  }
  // An accelerator: cuMemcpyPeerAsync where the two reach each other; else, as here, by way of the host.
  void copy_from(std::byte* to, Device& other, const std::byte* from, int64_t bytes) override {
    refuse_in_capture("copy_from");
    device_.check_range(to, bytes, "copy_from");
    std::vector<std::byte> room(static_cast<size_t>(bytes));
    other.make_queue()->copy_out(room.data(), from, bytes);
    copy_in(to, room.data(), bytes);
  }
  // An accelerator: cuMemsetD8Async.
  void fill(std::byte* to, uint8_t value, int64_t bytes) override {
    device_.check_range(to, bytes, "fill");
    give([to = device_.true_address(to, "fill"), value, bytes](ThreadTeam& team) {
      fill_bytes(team, to, value, bytes);
    });
  }
  // An accelerator: cuMemcpy3DAsync, or a kernel of its own where runs are short.
  void transpose(std::byte* to, const std::byte* from, int64_t rows, int64_t columns, int64_t bytes) override {
    device_.check_range(to, rows * columns * bytes, "transpose");
    device_.check_range(from, rows * columns * bytes, "transpose");
    give([to = device_.true_address(to, "transpose"), from = device_.true_address(from, "transpose"), rows, columns,
          bytes](ThreadTeam& team) { transpose_runs(team, to, from, rows, columns, bytes); });
  }
  // An accelerator: a kernel of its own, with IEEE additions and no contraction.
  void add(std::byte* to, const std::byte* from, DType dtype, int64_t count) override {
    check_sum_type(dtype);
    const int64_t bytes = count * static_cast<int64_t>(size_of(dtype));
    device_.check_range(to, bytes, "add");
    device_.check_range(from, bytes, "add");
    give([to = device_.true_address(to, "add"), from = device_.true_address(from, "add"), dtype,
          count](ThreadTeam& team) { add_elements(team, to, from, dtype, count); });
  }
  // An accelerator: casts the kernel to the class that its backend makes, and that class calls cuLaunchKernel on this
  // queue's stream with the operands' addresses as arguments. Arguments are copied at the call there, as they are here.
  void launch(const Kernel& kernel, const KernelOperands& operands) override {
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (const void* input : operands.inputs) inputs.push_back(device_.true_address(input, "launch"));
    for (void* output : operands.outputs) outputs.push_back(device_.true_address(output, "launch"));
    void* scratch = device_.true_address(operands.scratch, "launch");
    give([&kernel, inputs = std::move(inputs), outputs = std::move(outputs), scratch](ThreadTeam& team) {
      kernel.run({inputs, outputs, scratch, team});
    });
  }
  // An accelerator: a kernel of one thread that writes its clock (%globaltimer) to pinned memory.
  void stamp(double* seconds) override {
    refuse_in_capture("stamp");
    give([seconds](ThreadTeam&) { *seconds = host_seconds(); });
  }

  Event record() override {
    refuse_in_capture("record");
    return {this, timeline_->given()};
  }
  void wait_for(const Event& event) override {
    refuse_in_capture("wait_for");
    if (event.queue == this || !event.queue) return;  // earlier work is done first
    const auto* other = dynamic_cast<const LoopbackQueue*>(event.queue);
    if (!other) internal_error("Queue::wait_for", "an event of another kind of device");
    timeline_->give([theirs = other->timeline_, mine = timeline_.get(), number = event.number](ThreadTeam&) {
      theirs->follow(number, *mine);
    });
  }
  bool done(const Event& event) override { return timeline_->done(event.number); }
  void wait(const Event& event) override {
    refuse_in_capture("wait");
    if (event.queue && event.queue != this) internal_error("Queue::wait", "an event of another queue");
    timeline_->wait(event.number);
  }

  // An accelerator: cuStreamBeginCapture, cuStreamEndCapture and cuGraphInstantiate, cuGraphLaunch.
  void begin_capture() override {
    refuse_in_capture("begin_capture");
    program_ = std::make_unique<LoopbackProgram>();
  }
  std::unique_ptr<CapturedProgram> end_capture() override {
    if (!program_) internal_error("Queue::end_capture", "nothing is being recorded");
    return std::move(program_);
  }
  void replay(const CapturedProgram& program) override {
    refuse_in_capture("replay");
    timeline_->give([&program](ThreadTeam& team) {
      for (const auto& work : static_cast<const LoopbackProgram&>(program).work) work(team);
    });
  }

 private:
  template <typename Work>
  void give(Work&& work) {
    if (program_)
      program_->work.emplace_back(std::forward<Work>(work));
    else
      timeline_->give(std::forward<Work>(work));
  }
  void refuse_in_capture(const char* method) const {
    if (program_)
      throw Error({.what = "this cannot be recorded", .where = std::string("loopback device, ") + method},
                  ErrorKind::kFailure);
  }

  LoopbackDevice& device_;
  std::shared_ptr<Timeline> timeline_;
  std::unique_ptr<LoopbackProgram> program_;  // while recording
  std::thread thread_;
};

std::unique_ptr<Queue> LoopbackDevice::make_queue() { return std::make_unique<LoopbackQueue>(*this); }

}  // namespace

std::unique_ptr<Device> make_loopback_device(int threads) { return std::make_unique<LoopbackDevice>(threads); }

}  // namespace ramet::device
