#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <system_error>
#include <thread>

#include "ramet/base/error.h"
#include "ramet/runtime/file_io.h"
#include "ramet/runtime/streaming_file.h"

namespace ramet::runtime {
namespace {

constexpr int64_t kPiece = 512 << 10;  // bytes of one transfer: large enough for a disk's full speed
constexpr int kDepth = 16;             // transfers under way

/// One load or store as it was asked for, carried out in pieces by the worker.
struct Request {
  int64_t ticket = 0;
  bool store = false;
  int64_t offset = 0, bytes = 0;
  std::byte* memory = nullptr;
  int64_t next = 0;   ///< bytes of it that have been given to pieces
  int in_flight = 0;  ///< pieces under way
  std::string problem{};

  bool issued() const { return next == bytes; }
};

/// A piece under way. One that is not made of whole blocks goes through memory of the worker; a store of such a piece
/// reads the blocks first.
struct Piece {
  Request* request = nullptr;
  int64_t offset = 0, bytes = 0;  ///< of the request's range
  std::byte* memory = nullptr;
  int64_t block_offset = 0, block_bytes = 0;
  bool bounce = false, reading = false;
  FileTransfer transfer;
};

class FileStore final : public StreamingStore {
 public:
  FileStore(int64_t bytes, const FileStoreOptions& options)
      : bytes_(bytes), file_(make_streaming_file(bytes, options)) {
    if (options.uring) io_ = make_uring_io(file_.file, kDepth);
    uring_ = io_ != nullptr;
    if (!io_) io_ = make_plain_io(file_.file);
    pieces_.resize(kDepth);
    bounces_.resize(kDepth);
    worker_ = std::thread([this] { work(); });
  }

  ~FileStore() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    worker_.join();
    io_.reset();
    ::close(file_.file);
  }

  std::string_view name() const override { return uring_ ? "file" : "file (no io_uring)"; }
  int64_t bytes() const override { return bytes_; }
  int64_t scratch_bytes() const override { return kDepth * (kPiece + 2 * file_.block); }

  Ticket start_load(int64_t offset, void* to, int64_t bytes) override {
    return ask(false, offset, static_cast<std::byte*>(to), bytes);
  }
  Ticket start_store(int64_t offset, const void* from, int64_t bytes) override {
    return ask(true, offset, const_cast<std::byte*>(static_cast<const std::byte*>(from)), bytes);
  }

  void wait(Ticket ticket) override {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return ticket.id < 0 || ticket.id >= next_ticket_ || open_.count(ticket.id) == 0; });
    const auto problem = problems_.find(ticket.id);
    if (problem == problems_.end()) return;
    const std::string text = problem->second;
    problems_.erase(problem);
    throw Error({.what = text,
                 .where = file_.where,
                 .remedy = "The run can go on from its last checkpoint; streaming=FOLDER names another folder"},
                ErrorKind::kFailure);
  }

 private:
  Ticket ask(bool store, int64_t offset, std::byte* memory, int64_t bytes) {
    if (offset < 0 || bytes < 0 || offset > bytes_ - bytes)
      internal_error("FileStore",
                     "range " + std::to_string(offset) + "+" + std::to_string(bytes) + " of " + std::to_string(bytes_));
    const std::lock_guard lock(mutex_);
    const int64_t ticket = next_ticket_++;
    if (bytes == 0) return {ticket};
    open_.insert(ticket);
    Request& request = asked_.emplace_back();
    request.ticket = ticket;
    request.store = store;
    request.offset = offset;
    request.bytes = bytes;
    request.memory = memory;
    wake_.notify_one();
    return {ticket};
  }

  // The worker's.

  void work() {
    std::vector<FileTransfer> done;
    while (admit()) {
      issue();
      done.clear();
      if (in_flight_ > 0) io_->finish(done);
      for (const FileTransfer& transfer : done) advance(transfer);
      retire();
    }
  }

  /// Takes requests in order, up to the first that must wait for a transfer under way; false at the end. Sleeps when
  /// there is none.
  bool admit() {
    std::unique_lock lock(mutex_);
    if (active_.empty()) wake_.wait(lock, [&] { return ending_ || !asked_.empty(); });
    if (ending_) {
      // Drops requests that have not begun. Transfers under way still use their memory and are waited for.
      asked_.clear();
      for (Request& request : active_) request.next = request.bytes;
      if (in_flight_ == 0) return false;
    }
    while (!asked_.empty() && active_.size() < kDepth && !must_wait(asked_.front())) {
      active_.push_back(std::move(asked_.front()));
      asked_.pop_front();
    }
    return true;
  }

  bool must_wait(const Request& request) const {
    return std::any_of(active_.begin(), active_.end(), [&](const Request& other) {
      return (request.store || other.store) && down(request.offset) < up(other.offset + other.bytes) &&
             down(other.offset) < up(request.offset + request.bytes);
    });
  }

  int64_t down(int64_t offset) const { return offset / file_.block * file_.block; }
  int64_t up(int64_t offset) const { return (offset + file_.block - 1) / file_.block * file_.block; }

  void issue() {
    for (Request& request : active_)
      while (!request.issued() && request.problem.empty()) {
        const auto slot =
            std::find_if(pieces_.begin(), pieces_.end(), [](const Piece& piece) { return !piece.request; });
        if (slot == pieces_.end()) return;
        start_piece(static_cast<int>(slot - pieces_.begin()), request);
      }
  }

  /// Whole blocks as far as possible; the bytes before and behind them are pieces of their own.
  void start_piece(int slot, Request& request) {
    Piece& piece = pieces_[static_cast<size_t>(slot)];
    const int64_t begin = request.offset + request.next, end = request.offset + request.bytes;
    int64_t stop = std::min(end, begin + kPiece);
    if (begin % file_.block != 0)
      stop = std::min(end, up(begin));
    else if (down(stop) > begin)
      stop = down(stop);
    piece = {.request = &request,
             .offset = begin,
             .bytes = stop - begin,
             .memory = request.memory + request.next,
             .transfer = {}};
    piece.block_offset = down(begin);
    piece.block_bytes = up(stop) - piece.block_offset;
    const bool whole = piece.block_offset == begin && piece.block_bytes == piece.bytes;
    piece.bounce =
        !whole || reinterpret_cast<uintptr_t>(piece.memory) % static_cast<uintptr_t>(file_.memory_block) != 0;
    piece.reading = !request.store || !whole;
    request.next += piece.bytes;
    ++request.in_flight;
    if (piece.bounce && !piece.reading) std::memcpy(bounce(slot), piece.memory, static_cast<size_t>(piece.bytes));
    start_transfer(slot, 0);
  }

  std::byte* bounce(int slot) {
    auto& memory = bounces_[static_cast<size_t>(slot)];
    if (!memory)
      memory.reset(static_cast<std::byte*>(
          ::operator new(static_cast<size_t>(kPiece + 2 * file_.block), std::align_val_t{4096})));
    return memory.get();
  }

  void start_transfer(int slot, int64_t done) {
    Piece& piece = pieces_[static_cast<size_t>(slot)];
    std::byte* memory = piece.bounce ? bounce(slot) : piece.memory;
    piece.transfer = {.write = !piece.reading,
                      .offset = piece.block_offset + done,
                      .memory = memory + done,
                      .bytes = piece.block_bytes - done,
                      .slot = slot};
    ++in_flight_;
    io_->start(piece.transfer);
  }

  void advance(const FileTransfer& transfer) {
    --in_flight_;
    Piece& piece = pieces_[static_cast<size_t>(transfer.slot)];
    Request& request = *piece.request;
    const bool again = transfer.done == -EINTR || transfer.done == -EAGAIN;
    const int64_t moved = transfer.offset - piece.block_offset + std::max<int64_t>(transfer.done, 0);
    if (!again && transfer.done <= 0) {
      const std::string verb = transfer.write ? "cannot be written" : "cannot be read";
      request.problem = transfer.done < 0 ? "the file " + verb + " (" +
                                                std::generic_category().message(static_cast<int>(-transfer.done)) + ")"
                        : transfer.write ? "the file takes no more bytes"
                                         : "the file was cut short at byte " + std::to_string(transfer.offset);
      return end_piece(piece);
    }
    if (moved < piece.block_bytes) return start_transfer(transfer.slot, moved);
    if (!piece.reading) return end_piece(piece);
    std::byte* const within = piece.bounce ? bounce(transfer.slot) + (piece.offset - piece.block_offset) : nullptr;
    if (!request.store) {
      if (piece.bounce) std::memcpy(piece.memory, within, static_cast<size_t>(piece.bytes));
      return end_piece(piece);
    }
    std::memcpy(within, piece.memory, static_cast<size_t>(piece.bytes));
    piece.reading = false;
    start_transfer(transfer.slot, 0);
  }

  void end_piece(Piece& piece) {
    --piece.request->in_flight;
    piece.request = nullptr;
  }

  void retire() {
    bool any = false;
    const std::lock_guard lock(mutex_);
    for (auto request = active_.begin(); request != active_.end();) {
      if (request->in_flight > 0 || (!request->issued() && request->problem.empty())) {
        ++request;
        continue;
      }
      if (!request->problem.empty()) problems_[request->ticket] = request->problem;
      open_.erase(request->ticket);
      request = active_.erase(request);
      any = true;
    }
    if (any) done_.notify_all();
  }

  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{4096}); }
  };

  const int64_t bytes_;
  const StreamingFile file_;
  std::unique_ptr<FileIo> io_;
  bool uring_ = false;
  // Shared, under the mutex.
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Request> asked_;
  std::set<int64_t> open_;                   // tickets not yet done
  std::map<int64_t, std::string> problems_;  // of tickets that failed
  int64_t next_ticket_ = 0;
  bool ending_ = false;
  // The worker's.
  std::list<Request> active_;
  std::vector<Piece> pieces_;
  std::vector<std::unique_ptr<std::byte, Free>> bounces_;
  int in_flight_ = 0;
  std::thread worker_;
};

}  // namespace

std::unique_ptr<StreamingStore> make_file_store(int64_t bytes, const FileStoreOptions& options) {
  return std::make_unique<FileStore>(bytes, options);
}

}  // namespace ramet::runtime
