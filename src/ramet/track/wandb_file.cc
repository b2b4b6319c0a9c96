#include "ramet/track/wandb_file.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

namespace ramet::track {
namespace {

constexpr std::string_view kHeader(":W&B\xe1\xbe\0", 7);
constexpr size_t kBlock = 32768, kPieceHeader = 7;
constexpr char kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4;

uint32_t checksum(char type, std::string_view bytes) {
  const uLong begun = ::crc32(0, reinterpret_cast<const Bytef*>(&type), 1);
  return static_cast<uint32_t>(
      ::crc32(begun, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

uint32_t little_endian(std::string_view bytes, size_t at, size_t count) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i])) << 8 * i;
  return value;
}

/// Puts the pieces of records together.
class PieceReader {
 public:
  PieceReader(std::string_view file, const std::function<void(std::string_view)>& take) : file_(file), take_(take) {}

  int64_t run() {
    while (at_ < file_.size()) {
      const size_t left = kBlock - at_ % kBlock;
      if (left < kPieceHeader)
        pad(left);
      else if (!piece(left))
        skip_block();
    }
    give_up();
    return skipped_;
  }

 private:
  void pad(size_t left) { at_ += std::min(left, file_.size() - at_); }

  /// Damage: what is left of this block belongs to no piece that can be found.
  void skip_block() {
    const size_t rest = std::min(kBlock - at_ % kBlock, file_.size() - at_);
    skipped_ += static_cast<int64_t>(rest);
    at_ += rest;
    give_up();
  }

  /// Forgets the pieces of a record that has no end.
  void give_up() {
    skipped_ += static_cast<int64_t>(waiting_);
    open_ = false, waiting_ = 0;
    record_.clear();
  }

  bool piece(size_t left) {
    if (file_.size() - at_ < kPieceHeader) return false;
    const size_t length = little_endian(file_, at_ + 4, 2);
    const char type = file_[at_ + 6];
    if (type < kFull || type > kLast || length > left - kPieceHeader || length > file_.size() - at_ - kPieceHeader)
      return false;
    const std::string_view bytes = file_.substr(at_ + kPieceHeader, length);
    if (checksum(type, bytes) != little_endian(file_, at_, 4)) return false;
    const size_t whole = kPieceHeader + length;
    at_ += whole;
    if (type == kFull || type == kFirst) give_up();
    if (type == kFull) {
      take_(bytes);
    } else if (type == kFirst) {
      open_ = true, waiting_ = whole;
      record_ = bytes;
    } else if (!open_) {
      skipped_ += static_cast<int64_t>(whole);
    } else {
      record_ += bytes, waiting_ += whole;
      if (type == kMiddle) return true;
      take_(record_);
      open_ = false, waiting_ = 0;
      record_.clear();
    }
    return true;
  }

  const std::string_view file_;
  const std::function<void(std::string_view)>& take_;
  size_t at_ = kHeader.size();
  int64_t skipped_ = 0;
  std::string record_;  // the pieces so far
  size_t waiting_ = 0;  // their bytes in the file
  bool open_ = false;
};

}  // namespace

WandbFile::WandbFile() : bytes_(kHeader) {}

void WandbFile::add_piece(char type, std::string_view bytes) {
  const uint32_t crc = checksum(type, bytes);
  for (size_t i = 0; i < 4; ++i) bytes_ += static_cast<char>(crc >> 8 * i & 0xff);
  bytes_ += static_cast<char>(bytes.size() & 0xff);
  bytes_ += static_cast<char>(bytes.size() >> 8);
  bytes_ += type;
  bytes_ += bytes;
}

void WandbFile::add(std::string_view record) {
  bool first = true;
  for (;;) {
    size_t left = kBlock - bytes_.size() % kBlock;
    if (left < kPieceHeader) {
      bytes_.append(left, '\0');
      left = kBlock;
    }
    const size_t size = std::min(record.size(), left - kPieceHeader);
    const bool last = size == record.size();
    add_piece(first ? (last ? kFull : kFirst) : (last ? kLast : kMiddle), record.substr(0, size));
    if (last) return;
    record.remove_prefix(size);
    first = false;
  }
}

bool is_wandb_file(std::string_view file) { return file.starts_with(kHeader); }

int64_t read_wandb_records(std::string_view file, const std::function<void(std::string_view record)>& take) {
  if (!is_wandb_file(file)) return static_cast<int64_t>(file.size());
  return PieceReader(file, take).run();
}

}  // namespace ramet::track
