#include "ramet/runtime/file_io.h"

#include <liburing.h>
#include <unistd.h>

#include <cerrno>
#include <deque>

#include "ramet/base/error.h"

namespace ramet::runtime {
namespace {

class UringIo final : public FileIo {
 public:
  UringIo(int file, int depth) : file_(file), slots_(static_cast<size_t>(depth)) {
    ready_ = io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0) == 0;
  }
  ~UringIo() override {
    if (ready_) io_uring_queue_exit(&ring_);
  }

  bool ready() const { return ready_; }
  std::string_view name() const override { return "io_uring"; }

  void start(const FileTransfer& transfer) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (!entry) internal_error("UringIo::start", "more transfers than the ring has entries");
    const auto slot = static_cast<size_t>(transfer.slot);
    slots_.at(slot) = transfer;
    const auto bytes = static_cast<unsigned>(transfer.bytes);
    const auto offset = static_cast<uint64_t>(transfer.offset);
    if (transfer.write)
      io_uring_prep_write(entry, file_, transfer.memory, bytes, offset);
    else
      io_uring_prep_read(entry, file_, transfer.memory, bytes, offset);
    io_uring_sqe_set_data64(entry, slot);
  }

  void finish(std::vector<FileTransfer>& done) override {
    int result = io_uring_submit_and_wait(&ring_, 1);
    while (result == -EINTR || result == -EAGAIN || result == -EBUSY) result = io_uring_submit_and_wait(&ring_, 1);
    if (result < 0) internal_error("UringIo::finish", "io_uring_submit_and_wait: " + std::to_string(result));
    io_uring_cqe* event = nullptr;
    while (io_uring_peek_cqe(&ring_, &event) == 0) {
      FileTransfer& transfer = slots_.at(io_uring_cqe_get_data64(event));
      transfer.done = event->res;
      done.push_back(transfer);
      io_uring_cqe_seen(&ring_, event);
    }
  }

 private:
  int file_;
  bool ready_ = false;
  io_uring ring_{};
  std::vector<FileTransfer> slots_;
};

class PlainIo final : public FileIo {
 public:
  explicit PlainIo(int file) : file_(file) {}
  std::string_view name() const override { return "pread"; }
  void start(const FileTransfer& transfer) override { waiting_.push_back(transfer); }
  void finish(std::vector<FileTransfer>& done) override {
    FileTransfer transfer = waiting_.front();
    waiting_.pop_front();
    const auto bytes = static_cast<size_t>(transfer.bytes);
    const ssize_t moved = transfer.write ? ::pwrite(file_, transfer.memory, bytes, transfer.offset)
                                         : ::pread(file_, transfer.memory, bytes, transfer.offset);
    transfer.done = moved < 0 ? -errno : moved;
    done.push_back(transfer);
  }

 private:
  int file_;
  std::deque<FileTransfer> waiting_;
};

}  // namespace

std::unique_ptr<FileIo> make_uring_io(int file, int depth) {
  auto io = std::make_unique<UringIo>(file, depth);
  if (!io->ready()) return nullptr;
  return io;
}

std::unique_ptr<FileIo> make_plain_io(int file) { return std::make_unique<PlainIo>(file); }

}  // namespace ramet::runtime
