#include "ramet/device/cuda/timeline.h"

#include <algorithm>

namespace ramet::device {

CuEvent CudaShared::take_event() {
  CuEvent event = nullptr;
  if (events_.empty()) {
    cuda_driver().event_create(&event, kCuEventDisableTiming);
    return event;
  }
  event = events_.back();
  events_.pop_back();
  return event;
}

void CudaShared::give_back(CuEvent event) { events_.push_back(event); }

CudaShared::~CudaShared() {
  for (CuEvent event : events_) cuda_driver().event_destroy.attempt(event);
}

CudaTimeline::~CudaTimeline() {
  const std::lock_guard lock(shared_->mutex);
  for (const Mark& mark : marks_) shared_->give_back(mark.event);
}

void CudaTimeline::note_reports(const std::shared_ptr<FaultBox>& box) {
  if (std::find(reporting_.begin(), reporting_.end(), box) == reporting_.end()) reporting_.push_back(box);
}

void CudaTimeline::note_stamp(double* seconds, std::unique_ptr<Slot> slot) {
  next_.stamps.push_back({seconds, std::move(slot)});
}

void CudaTimeline::follow(const std::shared_ptr<CudaTimeline>& other, uint64_t number) {
  is_new_ = true;
  const std::lock_guard lock(shared_->mutex);
  if (const Mark* mark = other->find(number))
    cuda_driver().stream_wait_event(stream_, mark->event, 0);
  else if (!other->failure_at(number))
    return;
  next_.followed.emplace_back(other, number);
}

uint64_t CudaTimeline::mark() {
  if (!is_new_ && marked_ > 0) return marked_;
  const CudaDriver& driver = cuda_driver();
  for (const auto& box : reporting_) {
    std::unique_ptr<FaultLook> look(new FaultLook{box, Slot(shared_->pinned_slots)});
    driver.memcpy_dtoh_async(look->seen.data(), box->address(), sizeof(CudaFault), stream_);
    next_.looks.push_back(std::move(look));
  }
  reporting_.clear();
  const std::lock_guard lock(shared_->mutex);
  while (!marks_.empty() && driver.event_query.attempt(marks_.front().event) == 0) settle_first();
  next_.event = shared_->take_event();
  driver.event_record(next_.event, stream_);
  next_.number = ++marked_;
  marks_.push_back(std::exchange(next_, {}));
  is_new_ = false;
  return marked_;
}

CudaTimeline::Mark* CudaTimeline::find(uint64_t number) {
  if (number <= settled_ || marks_.empty()) return nullptr;
  return &marks_[static_cast<size_t>(number - marks_.front().number)];
}

bool CudaTimeline::done(uint64_t number) {
  const std::lock_guard lock(shared_->mutex);
  const Mark* mark = find(number);
  if (!mark) return true;
  const CuResult result = cuda_driver().event_query.attempt(mark->event);
  if (result == kCuNotReady) return false;
  if (result) return true;  // the wait throws
  settle(number);
  return true;
}

void CudaTimeline::reach(uint64_t number) {
  CuEvent event = nullptr;
  {
    const std::lock_guard lock(shared_->mutex);
    if (const Mark* mark = find(number)) event = mark->event;
  }
  // Not under the lock. Where a follower settles the mark meanwhile, the event may serve again, and this waits longer.
  if (event) cuda_driver().event_synchronize(event);
}

void CudaTimeline::wait(uint64_t number) {
  reach(number);
  {
    const std::lock_guard lock(shared_->mutex);
    settle(number);
    if (!failure_ || failed_at_ > number) return;
  }
  mark();
  cuda_driver().stream_synchronize(stream_);
  const std::lock_guard lock(shared_->mutex);
  std::rethrow_exception(end_failure());
}

void CudaTimeline::close() {
  cuda_driver().stream_synchronize.attempt(stream_);
  const std::lock_guard lock(shared_->mutex);
  for (Mark& mark : marks_) mark.stamps.clear();  // nobody asks any more
  settle(marked_);
}

void CudaTimeline::settle(uint64_t number) {
  while (!marks_.empty() && marks_.front().number <= number) settle_first();
}

void CudaTimeline::settle_first() {
  const Mark mark = std::move(marks_.front());
  marks_.pop_front();
  settled_ = mark.number;
  shared_->give_back(mark.event);
  for (const Stamp& stamp : mark.stamps)
    *stamp.seconds = static_cast<double>(*reinterpret_cast<const uint64_t*>(stamp.slot->data())) * 1e-9;
  std::exception_ptr failure;
  for (const auto& look : mark.looks) {
    const auto& fault = *reinterpret_cast<const CudaFault*>(look->seen.data());
    if (fault.kernel == 0) continue;
    failed_boxes_.push_back(look->box);
    if (!failure) failure = look->box->failure_of(fault);
  }
  for (const auto& [other, number] : mark.followed) {
    other->settle(number);
    if (!failure) failure = other->failure_at(number);
  }
  if (!failure || failure_) return;
  failure_ = failure;
  failed_at_ = mark.number;
}

std::exception_ptr CudaTimeline::failure_at(uint64_t number) const {
  if (failure_ && failed_at_ <= number) return failure_;
  for (const auto& [first, last] : dropped_)
    if (first <= number && number <= last)
      return std::make_exception_ptr(
          Error({.what = "work that this queue waited for has failed", .where = "cuda device"}, ErrorKind::kFailure));
  return nullptr;
}

/// The queue works again.
std::exception_ptr CudaTimeline::end_failure() {
  settle(marked_);
  dropped_.emplace_back(failed_at_, marked_);
  for (const auto& box : std::exchange(failed_boxes_, {})) box->clear(stream_);
  is_new_ = true;
  return std::exchange(failure_, nullptr);
}

}  // namespace ramet::device
