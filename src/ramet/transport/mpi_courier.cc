#include "ramet/transport/mpi_courier.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

namespace ramet::transport {

namespace {

constexpr int kControlTag = 1;
constexpr size_t kMostBytes = size_t{1} << 30;  // MPI counts in int
constexpr std::chrono::milliseconds kTellEvery{50};
constexpr std::chrono::milliseconds kIdle{5};
constexpr int kBusyRounds = 200;

std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<size_t>(length)};
}

}  // namespace

MpiCourier::MpiCourier(MPI_Comm messages, MPI_Comm control, std::shared_ptr<SharedWorld> world, std::vector<int> own,
                       std::vector<int> leaders, std::vector<int> others)
    : messages_(messages),
      control_(control),
      world_(std::move(world)),
      own_(std::move(own)),
      leaders_(std::move(leaders)),
      others_(std::move(others)),
      told_(own_.size()) {
  for (Control& told : told_) told.finished = Progress::kNone;
  thread_ = std::thread([this] { loop(); });
}

MpiCourier::~MpiCourier() { finish(); }

void MpiCourier::finish() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void MpiCourier::carry(std::shared_ptr<MpiMessage> transfer) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(transfer));
  }
  wake_.notify_one();
}

void MpiCourier::begin(MpiMessage& transfer) {
  size_t done = 0;
  do {
    const size_t part = std::min(kMostBytes, transfer.bytes - done);
    transfer.requests.push_back(MPI_REQUEST_NULL);
    const int code = transfer.sends ? MPI_Isend(transfer.data + done, static_cast<int>(part), MPI_BYTE, transfer.rank,
                                                transfer.mpi_tag, messages_, &transfer.requests.back())
                                    : MPI_Irecv(transfer.data + done, static_cast<int>(part), MPI_BYTE, transfer.rank,
                                                transfer.mpi_tag, messages_, &transfer.requests.back());
    if (code != MPI_SUCCESS) {
      transfer.failure = error_text(code);
      set_and_wake(transfer.state, MpiMessage::kFailed);
      return;
    }
    done += part;
  } while (done < transfer.bytes);
}

/// Whether the transfer is over, well or not.
bool MpiCourier::advance(MpiMessage& transfer) {
  if (transfer.state.value.load(std::memory_order_relaxed) != MpiMessage::kUnderWay) return true;
  size_t begin = 0;
  for (MPI_Request& request : transfer.requests) {
    const auto expected = static_cast<int>(std::min(kMostBytes, transfer.bytes - begin));
    begin += static_cast<size_t>(expected);
    if (request == MPI_REQUEST_NULL) continue;
    int over = 0, count = expected;
    MPI_Status status;
    const int code = MPI_Test(&request, &over, &status);
    if (code == MPI_SUCCESS && !over) return false;
    if (code == MPI_SUCCESS && !transfer.sends) MPI_Get_count(&status, MPI_BYTE, &count);
    if (code != MPI_SUCCESS || count != expected) {
      transfer.failure = code != MPI_SUCCESS
                             ? error_text(code)
                             : fmt::format("{} bytes came, {} bytes were to be received", count, expected);
      set_and_wake(transfer.state, MpiMessage::kFailed);
      return true;
    }
  }
  set_and_wake(transfer.state, MpiMessage::kDone);
  return true;
}

/// Takes what other hosts tell.
void MpiCourier::hear() {
  for (;;) {
    if (listening_ == MPI_REQUEST_NULL)
      MPI_Irecv(&incoming_, sizeof(incoming_), MPI_BYTE, MPI_ANY_SOURCE, kControlTag, control_, &listening_);
    int come = 0;
    if (MPI_Test(&listening_, &come, MPI_STATUS_IGNORE) != MPI_SUCCESS || !come) return;
    if (incoming_.stop) {
      incoming_.reason[sizeof(incoming_.reason) - 1] = 0;
      world_->stop(incoming_.device, incoming_.reason);
    } else {
      ProgressSlot& slot = world_->progress(incoming_.device);
      slot.label.store(incoming_.label, std::memory_order_relaxed);
      slot.waiting.store(static_cast<uint32_t>(incoming_.waiting), std::memory_order_relaxed);
      slot.finished.store(incoming_.finished, std::memory_order_release);
    }
  }
}

void MpiCourier::post(int rank, const Control& control) {
  Outgoing& sent = outgoing_.emplace_back(Outgoing{control, MPI_REQUEST_NULL});
  MPI_Isend(&sent.control, sizeof(Control), MPI_BYTE, rank, kControlTag, control_, &sent.request);
}

void MpiCourier::tell() {
  for (auto sent = outgoing_.begin(); sent != outgoing_.end();) {
    int over = 0;
    const int code = MPI_Test(&sent->request, &over, MPI_STATUS_IGNORE);
    sent = over || code != MPI_SUCCESS ? outgoing_.erase(sent) : std::next(sent);
  }
  if (world_->stopped() && !told_stop_) {
    told_stop_ = true;
    const auto [device, reason] = world_->stop_reason();
    Control control;
    control.stop = 1;
    control.device = device;
    std::memcpy(control.reason, reason.data(), std::min(reason.size(), sizeof(control.reason) - 1));
    for (const int rank : others_) post(rank, control);
  }
  const auto now = SteadyClock::now();
  if (now < next_tell_ || outgoing_.size() > 4 * leaders_.size() * own_.size()) return;
  next_tell_ = now + kTellEvery;
  for (size_t i = 0; i < own_.size(); ++i) {
    const ProgressSlot& slot = world_->progress(own_[i]);
    Control control;
    control.device = own_[i];
    control.finished = slot.finished.load(std::memory_order_acquire);
    control.label = slot.label.load(std::memory_order_relaxed);
    control.waiting = static_cast<int32_t>(slot.waiting.load(std::memory_order_relaxed));
    Control& last = told_[i];
    if (control.finished == last.finished && control.waiting == last.waiting) continue;
    last = control;
    for (const int rank : leaders_) post(rank, control);
  }
}

void MpiCourier::loop() {
  int quiet = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (active_.empty() && queue_.empty() && !ending_) wake_.wait_for(lock, kIdle);
      // Its transfers are over or, after a fault, never will be.
      if (ending_ && (queue_.empty() || world_->stopped()) && (active_.empty() || world_->stopped())) break;
      for (; !queue_.empty(); queue_.pop_front()) {
        begin(*queue_.front());
        active_.push_back(queue_.front());
        quiet = 0;
      }
    }
    for (auto transfer = active_.begin(); transfer != active_.end();) {
      if (!advance(**transfer)) {
        ++transfer;
        continue;
      }
      transfer = active_.erase(transfer);
      quiet = 0;
    }
    hear();
    tell();
    if (++quiet < kBusyRounds)
      sched_yield();
    else if (!active_.empty())
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  // Peers on other hosts must get the message of a fault; their own messages do not matter any more.
  const auto deadline = SteadyClock::now() + std::chrono::seconds(2);
  tell();
  while (!outgoing_.empty() && SteadyClock::now() < deadline) {
    hear();
    tell();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (listening_ != MPI_REQUEST_NULL && !world_->stopped()) {
    MPI_Cancel(&listening_);
    MPI_Wait(&listening_, MPI_STATUS_IGNORE);
  }
}

}  // namespace ramet::transport
