#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "ramet/base/dtype.h"
#include "ramet/device/kernel_call.h"

// What the engine knows of a device: memory, and queues of work. A back end implements Device and Queue, and nothing
// above this folder knows which one runs. cpu_device.cc is the shortest implementation: all work is done before a call
// returns. loopback_device.cc is the one to read before writing a back end for an accelerator: its memory is hidden
// from the host, its queues are asynchronous, and comments say at each place what an accelerator does there.
//
// Three kinds of memory:
//   device memory   where kernels work. Its addresses are numbers with which the host counts (base + offset) but which
//                   host code must not read or write, unless Device::addressable says that it may
//   pinned memory   the host's, allocated by Device::take: copies between it and the device go on while the host works
//   plain memory    any other memory of the process
//
// The order of work: a queue does its work in the order in which it was given; only events order the work of different
// queues. Each method may be called from one thread at a time for a queue, and from any thread for a device.

namespace ramet::device {

class Device;
class Queue;

enum class Memory : uint8_t { kDevice, kPinned };

/// A block of a device's memory or of pinned memory, zero at first, aligned to at least 4096 bytes. Given back when
/// this is destroyed: then no queue may have work left that touches it.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  ~DeviceMemory() { reset(); }
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  void reset();

 private:
  friend class Device;
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// A place in a queue's work: everything that the queue was given before `record` made it. Plain data, to be copied and
/// thrown away at will; it means nothing any more when its queue is gone.
struct Event {
  Queue* queue = nullptr;
  uint64_t number = 0;
};

/// A list of work that a queue recorded, to be replayed any number of times on queues of the same device. Each device
/// has its own form of it: a plain list on the CPU, a graph on a GPU.
class CapturedProgram {
 public:
  virtual ~CapturedProgram() = default;

 protected:
  CapturedProgram() = default;
};

/// The operands of a kernel. Addresses are device memory; the caller may change the lists as soon as `launch` has
/// returned.
struct KernelOperands {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  void* scratch = nullptr;
};

/// Work in order. A method that gives work may return before the work is done or when it is done; each device decides.
///
/// Errors: arguments that cannot be right (a range outside the device's memory) throw Error at the call. When work
/// fails later, the queue drops the work behind it, or does it with what the failed work left (a GPU's kernels cannot
/// stop what stands behind them). The next wait for it, or for work behind it, throws the same exception, and a queue
/// that waits for it by an event fails in the same way. After the wait that threw, the queue works again, unless the
/// device itself is lost.
class Queue {
 public:
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// To device memory from host memory. Plain memory may be changed when the call returns (the call stages it, or
  /// waits); pinned memory not before the copy is done.
  virtual void copy_in(std::byte* to, const void* from, int64_t bytes) = 0;
  /// From device memory to host memory. Plain memory is set when the call returns; pinned memory when the copy is done.
  virtual void copy_out(void* to, const std::byte* from, int64_t bytes) = 0;
  /// Within the device's memory; the ranges are the same or do not overlap.
  virtual void copy(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  /// Copies from another device's memory to this one's. The caller must make sure by events that `from` is ready and
  /// stays until the copy is done.
  virtual void copy_from(std::byte* to, Device& other, const std::byte* from, int64_t bytes) = 0;
  virtual void fill(std::byte* to, uint8_t value, int64_t bytes) = 0;
  /// From [rows][columns] to [columns][rows] of runs of `bytes` each: how a tensor that is cut along an inner dimension
  /// is laid out to travel. The ranges do not overlap.
  virtual void transpose(std::byte* to, const std::byte* from, int64_t rows, int64_t columns, int64_t bytes) = 0;
  /// to[i] = to[i] + from[i], rounded to the type; f32, bf16, f16, i32 and i64 (integers wrap). The order of the
  /// operands is that of the text, which NaN can show.
  virtual void add(std::byte* to, const std::byte* from, DType dtype, int64_t count) = 0;
  /// Runs a kernel that the backend of this device's kind made; it must live until it is done.
  virtual void launch(const Kernel& kernel, const KernelOperands& operands) = 0;
  /// Writes the time at which the queue reaches this stamp, in seconds of the device's own clock, to a number in host
  /// memory, which must live until then. The difference of two stamps of one device is a duration. A stamp costs little
  /// beside a kernel.
  virtual void stamp(double* seconds) = 0;

  virtual Event record() = 0;
  /// Work given to this queue from now on is done after the event, which may be of another queue of this device. The
  /// host does not wait.
  virtual void wait_for(const Event& event) = 0;
  /// Whether `wait` would return (or throw) at once.
  virtual bool done(const Event& event) = 0;
  /// Blocks the host until the event of this queue has come, and throws when work before it has failed.
  virtual void wait(const Event& event) = 0;
  void wait() { wait(record()); }

  /// A few bytes for the host, without stopping the queue: they are at `to`, which is pinned, when the event has come.
  Event read(void* to, const std::byte* from, int64_t bytes);

  /// From now on work is recorded and not done: copies within the device, to and from pinned memory, fills,
  /// transpositions, sums and launches, with the addresses that they have now; all else throws Error. One recording at
  /// a time.
  virtual void begin_capture() = 0;
  virtual std::unique_ptr<CapturedProgram> end_capture() = 0;
  /// Does the recorded work, as if it were given to this queue now. The program must live until it is done.
  virtual void replay(const CapturedProgram& program) = 0;

 protected:
  Queue() = default;
};

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Of its kind: "cpu", "loopback".
  virtual std::string_view name() const = 0;
  /// Whether host code may use addresses of device memory as pointers, while no queue works on that memory.
  virtual bool addressable() const = 0;
  /// What `Backend::make` is given as its number of threads.
  virtual int threads() const = 0;
  /// Whether the replay of a recorded list costs less than giving its work once more.
  virtual bool gains_by_replay() const { return false; }
  virtual std::unique_ptr<Queue> make_queue() = 0;

  /// Throws Error (kFailure) when there is not so much; `what` is whose memory it is, in that message.
  DeviceMemory take(int64_t bytes, Memory kind, const char* what);
  /// Device memory that somebody else allocated and gives back, after this is gone: of addressable devices only.
  DeviceMemory adopt(std::byte* data, int64_t bytes);
  /// Bytes of that kind that are taken.
  int64_t taken(Memory kind) const;

 protected:
  Device() = default;
  /// Zeroed memory of at least `bytes`, or Error as `take` says. Never two of these calls at a time.
  virtual std::byte* allocate(int64_t bytes, Memory kind, const char* what) = 0;
  virtual void release(std::byte* data, Memory kind) noexcept = 0;

  /// Throws Error when [data, data + bytes) is not within one block of device memory; `method` is named in it.
  void check_range(const void* data, int64_t bytes, const char* method) const;
  /// Whether [data, data + bytes) is within one block of device memory.
  bool is_device(const void* data, int64_t bytes) const;
  /// Whether [data, data + bytes) is within one block of pinned memory.
  bool is_pinned(const void* data, int64_t bytes) const;

 private:
  friend class DeviceMemory;
  struct Block {
    const std::byte* data;
    int64_t bytes;
    Memory kind;
    bool owned;
  };
  DeviceMemory note(std::byte* data, int64_t bytes, Memory kind, bool owned);
  void give_back(std::byte* data) noexcept;
  const Block* find(const void* data, int64_t bytes, Memory kind) const;

  mutable std::mutex mutex_;
  std::vector<Block> blocks_;
};

}  // namespace ramet::device
