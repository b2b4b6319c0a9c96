#include "fake_cuda/block.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <vector>

#include "fake_cuda/host_shim.h"
#include "fake_cuda/races.h"

#define RAMET_FAKE_EXPORT __attribute__((visibility("default")))

// What compiled kernels see.
RAMET_FAKE_EXPORT ramet_fake::Place threadIdx, blockIdx, blockDim, gridDim;
RAMET_FAKE_EXPORT unsigned long long fake_globaltimer() {
  return static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch() /
                                         std::chrono::nanoseconds(1));
}

namespace ramet_fake {

RAMET_FAKE_EXPORT unsigned long long block_number = 1;

namespace {

constexpr unsigned kWarp = 32, kMostThreads = 1024;
constexpr size_t kPage = 4096, kStackBytes = size_t{128} << 10;
constexpr unsigned kMostStaticShared = 48 << 10;
constexpr unsigned kMostDynamicShared = 227 << 10;
constexpr unsigned char kGarbage = 0xd5;  // as a float: a large negative number; as an index: out of range

/// Memory with a page that faults before and behind.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
    void* all = mmap(nullptr, bytes_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) std::abort();
    data_ = static_cast<unsigned char*>(all) + kPage;
    if (mprotect(data_, bytes_, PROT_READ | PROT_WRITE) != 0) std::abort();
  }
  ~Guarded() { munmap(data_ - kPage, bytes_ + 2 * kPage); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  unsigned char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  unsigned char* data_;
};

extern "C" void ramet_fake_switch(void** save, void* to);
#if defined(__x86_64__)
// Registers that a call keeps; the rest is the compiler's.
asm(R"(
.text
.local ramet_fake_switch
.type ramet_fake_switch, @function
ramet_fake_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size ramet_fake_switch, .-ramet_fake_switch
)");
#else
#error "the fake card switches between fibers by x86-64 code only"
#endif

struct Fiber {
  explicit Fiber(size_t number) : stack(kStackBytes), number(number) {}
  Guarded stack;
  size_t number;
  void* place = nullptr;  ///< its stack pointer while another one runs
  unsigned thread = 0;
};

struct Warp {
  unsigned came = 0, parity = 0;
  Meeting meeting{};
  Fiber* waiting[kWarp];
  uint64_t values[2][kWarp];
};

/// The block that runs, and the fibers of all blocks.
class Runner {
 public:
  std::string run(void (*run)(const void*), const void* arguments, const Grid& grid, Fault* fault);

  void meet_block();
  const uint64_t* meet_warp(Meeting meeting, uint64_t value, void (*last)(void*) = nullptr);
  void share(void* array, unsigned bytes);
  unsigned char* dynamic_shared() const { return dynamic_; }
  void* room() { return rooms_[current_->thread / kWarp]; }
  [[noreturn]] void fail(Fault fault, const std::string& why);
  unsigned static_bytes() const { return static_bytes_; }

 private:
  static void enter();
  void loop(Fiber* self);
  void run_block();
  void wait();
  Fiber* next();
  void go_to(Fiber* to, void** save);
  Fiber* idle_fiber();
  void prepare(Fiber* fiber);
  void forget_fibers();

  void (*run_)(const void*) = nullptr;
  const void* arguments_ = nullptr;
  unsigned threads_ = 0, started_ = 0, ended_ = 0, shared_now_ = 0, static_bytes_ = 0;
  bool backwards_ = false;
  Fiber* current_ = nullptr;
  void* home_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_, at_barrier_;
  std::deque<Fiber*> ready_;
  Warp warps_[kMostThreads / kWarp];
  unsigned warp_barriers_[kMostThreads / kWarp];
  alignas(64) unsigned char rooms_[kMostThreads / kWarp][kWarpRoom];
  Guarded dynamic_memory_{kMostDynamicShared + kPage};
  unsigned char* dynamic_ = nullptr;
  unsigned dynamic_bytes_ = 0;
  Fault fault_ = Fault::kNone;
  std::string why_;
};

Runner& runner() {
  static auto* one = new Runner;
  return *one;
}

// --- Fibers ---

void Runner::enter() {
  Runner& all = runner();
  all.loop(all.current_);
}

/// A fresh stack that starts in `enter`.
void Runner::prepare(Fiber* fiber) {
  // Stacks start at different places of a page, so that they do not share a few lines of the cache.
  const uintptr_t top = reinterpret_cast<uintptr_t>(fiber->stack.data()) + fiber->stack.bytes();
  auto* place = reinterpret_cast<void**>((top - fiber->number % 15 * 256 - 64) & ~uintptr_t{63});
  *--place = nullptr;  // where `enter` would return to; its stack is aligned as behind a call
  *--place = reinterpret_cast<void*>(&Runner::enter);
  for (int i = 0; i < 6; ++i) *--place = nullptr;
  fiber->place = place;
}

Fiber* Runner::idle_fiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(fibers_.size()));
    prepare(fibers_.back().get());
    return fibers_.back().get();
  }
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

void Runner::go_to(Fiber* to, void** save) {
  current_ = to;
  threadIdx.x = turn.thread = to->thread;
  turn.stack = reinterpret_cast<uintptr_t>(to->stack.data());
  turn.stack_end = turn.stack + to->stack.bytes();
  ramet_fake_switch(save, to->place);
}

/// Who runs while the current fiber waits.
Fiber* Runner::next() {
  if (!ready_.empty()) {
    Fiber* fiber = ready_.front();
    ready_.pop_front();
    return fiber;
  }
  return started_ < threads_ ? idle_fiber() : nullptr;
}

void Runner::wait() {
  Fiber* self = current_;
  Fiber* other = next();
  if (!other)
    fail(Fault::kNeverEnds,
         ended_ ? "threads wait for others that have ended" : "threads wait for each other at different places");
  go_to(other, &self->place);
}

/// Runs threads that have not started, one after the other, as long as nobody else could go on.
void Runner::loop(Fiber* self) {
  for (;;) {
    while (ready_.empty() && started_ < threads_) {
      const unsigned started = started_++;
      self->thread = backwards_ ? threads_ - 1 - started : started;
      threadIdx.x = turn.thread = self->thread;
      run_(arguments_);
      ++ended_;
    }
    if (ready_.empty()) {
      if (ended_ < threads_) fail(Fault::kNeverEnds, "threads wait for others that have ended");
      idle_.push_back(self);
      ramet_fake_switch(&self->place, home_);
    } else {
      idle_.push_back(self);
      go_to(next(), &self->place);
    }
  }
}

void Runner::forget_fibers() {
  ready_.clear();
  at_barrier_.clear();
  idle_.clear();
  for (auto& fiber : fibers_) {
    prepare(fiber.get());
    idle_.push_back(fiber.get());
  }
}

// --- Meetings ---

void Runner::meet_block() {
  at_barrier_.push_back(current_);
  if (at_barrier_.size() < threads_) return wait();
  ++turn.barriers;
  // The last to come goes on at once, and the others in the order in which they came.
  for (Fiber* fiber : at_barrier_)
    if (fiber != current_) ready_.push_back(fiber);
  at_barrier_.clear();
}

const uint64_t* Runner::meet_warp(Meeting meeting, uint64_t value, void (*last)(void*)) {
  const unsigned thread = current_->thread, lane = thread % kWarp, number = thread / kWarp;
  Warp& warp = warps_[number];
  if ((number + 1) * kWarp > threads_) fail(Fault::kTrap, "a warp operation in a warp of fewer than 32 threads");
  if (warp.came == 0) warp.meeting = meeting;
  if (warp.meeting != meeting) fail(Fault::kTrap, "the lanes of a warp meet at different operations");
  uint64_t* values = warp.values[warp.parity];
  values[lane] = value;
  warp.waiting[warp.came++] = current_;
  if (warp.came < kWarp) {
    wait();
    return values;
  }
  if (last) last(rooms_[number]);
  if (meeting == kSyncWarp) ++warp_barriers_[number];
  for (unsigned i = 0; i + 1 < kWarp; ++i) ready_.push_back(warp.waiting[i]);
  warp.came = 0;
  warp.parity ^= 1;
  return values;
}

void Runner::share(void* array, unsigned bytes) {
  std::memset(array, kGarbage, bytes);
  shared_now_ += bytes;
  static_bytes_ = std::max(static_bytes_, shared_now_);
  if (shared_now_ > kMostStaticShared) fail(Fault::kTrap, "more than 48 KiB of static shared memory");
}

// --- Faults ---

thread_local bool runs_block = false;
sigjmp_buf back;
struct sigaction earlier[NSIG];

void on_fault(int signal, siginfo_t* info, void* context) {
  if (!runs_block) {
    // Somebody else's: as if there were no handler here.
    if (earlier[signal].sa_flags & SA_SIGINFO) return earlier[signal].sa_sigaction(signal, info, context);
    sigaction(signal, &earlier[signal], nullptr);
    return;
  }
  siglongjmp(back, signal);
}

/// A stack for handlers, as a fiber's own may be full.
class SignalStack {
 public:
  ~SignalStack() {
    const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    if (room_) sigaltstack(&none, nullptr);
  }
  void use() {
    stack_t now{};
    sigaltstack(nullptr, &now);
    if (!(now.ss_flags & SS_DISABLE)) return;
    if (!room_) room_ = std::make_unique<unsigned char[]>(kBytes);
    const stack_t stack{.ss_sp = room_.get(), .ss_flags = 0, .ss_size = kBytes};
    sigaltstack(&stack, nullptr);
  }

 private:
  static constexpr size_t kBytes = size_t{64} << 10;
  std::unique_ptr<unsigned char[]> room_;
};

/// Handlers, once a process, and a stack for them, once a thread.
void watch_faults() {
  [[maybe_unused]] static const bool once = [] {
    struct sigaction action{};
    action.sa_sigaction = &on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(signal, &action, &earlier[signal]);
    return true;
  }();
  thread_local SignalStack stack;
  stack.use();
}

std::string text_of_signal(int signal) {
  if (signal == SIGFPE) return "an integer division by zero";
  return signal == SIGILL ? "a misaligned address, or an index outside an array"
                          : "an address outside the memory that the card knows";
}

void Runner::fail(Fault fault, const std::string& why) {
  fault_ = fault;
  why_ = why;
  siglongjmp(back, -1);
}

// --- Grids ---

/// Numbers below `count`, each once, in an order that is not 0, 1, 2 but is the same in every run.
class Order {
 public:
  explicit Order(uint64_t count) : count_(count), step_(count > 2 ? 0x9e3779b97f4a7c15u % count : 1) {
    if (const char* seed = std::getenv("RAMET_FAKE_CUDA_SEED")) first_ = std::strtoull(seed, nullptr, 10);
    step_ = std::max<uint64_t>(step_ ^ first_ % 64, 1) % count;
    while (std::gcd(step_, count) != 1) step_ = (step_ + 1) % count;
    first_ = (first_ + count - 1) % count;
  }
  uint64_t operator[](uint64_t turn) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(turn) * step_ + first_) % count_);
  }

 private:
  uint64_t count_, step_, first_ = 0;
};

void Runner::run_block() {
  ++block_number;
  started_ = ended_ = shared_now_ = 0;
  backwards_ = std::popcount(block_number) % 2 != 0;
  for (Warp& warp : warps_) warp.came = warp.parity = 0;
  std::fill(std::begin(warp_barriers_), std::end(warp_barriers_), 0u);
  turn = {.block = block_number, .warp_barriers = warp_barriers_};
  if (dynamic_bytes_) std::memset(dynamic_, kGarbage, (dynamic_bytes_ + 127) / 128 * 128);
  threadIdx = {};
  go_to(idle_fiber(), &home_);
  for (unsigned i = dynamic_bytes_; i % 128; ++i)
    if (dynamic_[i] != kGarbage) fail(Fault::kAddress, "a write behind the dynamic shared memory");
}

std::string Runner::run(void (*run)(const void*), const void* arguments, const Grid& grid, Fault* fault) {
  run_ = run;
  arguments_ = arguments;
  threads_ = grid.threads;
  dynamic_bytes_ = grid.dynamic_bytes;
  static_bytes_ = 0;
  // At the end of the memory, so that a write behind the block's part of it faults.
  dynamic_ = dynamic_memory_.data() + dynamic_memory_.bytes() - (grid.dynamic_bytes + 127) / 128 * 128;
  blockDim = {grid.threads, 1, 1};
  gridDim = {grid.x, grid.y, grid.z};
  watch_faults();
  fault_ = Fault::kNone;
  if (const int signal = sigsetjmp(back, 1); signal != 0) {
    runs_block = false;
    turn = {};
    const std::string block =
        std::to_string(blockIdx.x) + "," + std::to_string(blockIdx.y) + "," + std::to_string(blockIdx.z);
    *fault = signal > 0 ? Fault::kAddress : fault_;
    std::string text = (signal > 0 ? text_of_signal(signal) : why_) + " (block " + block + ", thread " +
                       std::to_string(threadIdx.x) + ")";
    forget_fibers();
    return text;
  }
  runs_block = true;
  const uint64_t count = uint64_t{grid.x} * grid.y * grid.z;
  const Order order(count);
  for (uint64_t number = 0; number < count; ++number) {
    const uint64_t block = order[number];
    blockIdx = {static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
                static_cast<unsigned>(block / grid.x / grid.y)};
    run_block();
  }
  runs_block = false;
  turn = {};
  *fault = Fault::kNone;
  return "";
}

}  // namespace

std::string run_grid(void (*run)(const void*), const void* arguments, const Grid& grid, Fault* fault) {
  return runner().run(run, arguments, grid, fault);
}
unsigned static_shared_bytes() { return runner().static_bytes(); }
void* warp_room() { return runner().room(); }
void meet_warp_and(unsigned meeting, void (*last)(void* room)) {
  runner().meet_warp(static_cast<Meeting>(meeting), 0, last);
}

RAMET_FAKE_EXPORT void meet_block() { runner().meet_block(); }
RAMET_FAKE_EXPORT const uint64_t* meet_warp(Meeting meeting, uint64_t value) {
  return runner().meet_warp(meeting, value);
}
RAMET_FAKE_EXPORT void fail(const char* why) { runner().fail(Fault::kTrap, why); }
RAMET_FAKE_EXPORT void share(void* array, unsigned bytes, unsigned long long* last_block) {
  *last_block = block_number;
  runner().share(array, bytes);
}
RAMET_FAKE_EXPORT unsigned char* dynamic_shared() { return runner().dynamic_shared(); }

}  // namespace ramet_fake
