#pragma once

#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ramet/device/cuda/driver.h"
#include "ramet/device/cuda/faults.h"

namespace ramet::device {

/// What the queues of a device share: events and places for small numbers, and the lock of all their timelines.
struct CudaShared {
  std::shared_ptr<SlotPool> device_slots, pinned_slots;
  std::mutex mutex;
  CuEvent take_event();  ///< under the lock, as the next
  void give_back(CuEvent event);
  ~CudaShared();

 private:
  std::vector<CuEvent> events_;
};

/// The places in a queue's work that the host can ask for, by number, and what came to light when it got there. Shared
/// by the queue and those that wait for it, which may outlive it.
class CudaTimeline {
 public:
  CudaTimeline(std::shared_ptr<CudaShared> shared, CuStream stream) : shared_(std::move(shared)), stream_(stream) {}
  ~CudaTimeline();
  CudaTimeline(const CudaTimeline&) = delete;
  CudaTimeline& operator=(const CudaTimeline&) = delete;

  /// The queue was given work.
  void note_work() { is_new_ = true; }
  /// The queue was given kernels that may report faults into `box`.
  void note_reports(const std::shared_ptr<FaultBox>& box);
  /// `*seconds` is to be what a stamp writes to `slot`.
  void note_stamp(double* seconds, std::unique_ptr<Slot> slot);
  /// The queue is to wait for another one's place, on the card, and to fail with it.
  void follow(const std::shared_ptr<CudaTimeline>& other, uint64_t number);

  /// The number of the place behind all work that was given.
  uint64_t mark();
  bool done(uint64_t number);
  /// Blocks the host until the place has come.
  void reach(uint64_t number);
  /// The same, and throws what failed at it or before it, once.
  void wait(uint64_t number);
  /// Waits for the stream, before it goes.
  void close();

 private:
  struct Stamp {
    double* seconds;
    std::unique_ptr<Slot> slot;
  };
  /// What the host has to see to when a place has come.
  struct Mark {
    uint64_t number = 0;
    CuEvent event = nullptr;
    std::vector<std::unique_ptr<FaultLook>> looks;
    std::vector<Stamp> stamps;
    std::vector<std::pair<std::shared_ptr<CudaTimeline>, uint64_t>> followed;
  };
  Mark* find(uint64_t number);
  /// The places up to `number` have come.
  void settle(uint64_t number);
  void settle_first();
  std::exception_ptr failure_at(uint64_t number) const;
  std::exception_ptr end_failure();

  const std::shared_ptr<CudaShared> shared_;
  const CuStream stream_;
  bool is_new_ = true;                                // work was given since the last mark
  Mark next_;                                         // what the next mark will see to
  std::vector<std::shared_ptr<FaultBox>> reporting_;  // since the last mark
  uint64_t marked_ = 0, settled_ = 0;
  std::deque<Mark> marks_;      // not yet settled
  std::exception_ptr failure_;  // not yet thrown to the host
  uint64_t failed_at_ = 0;
  std::vector<std::shared_ptr<FaultBox>> failed_boxes_;
  std::vector<std::pair<uint64_t, uint64_t>> dropped_;  // places at and behind failures that were thrown
};

}  // namespace ramet::device
