#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "ramet/base/house.h"

namespace ramet::track {

/// Makes a .wandb file: a header of 7 bytes (":W&B", u16 0xBEE1, u8 0) and records in the framing of LevelDB's logs
/// (blocks of 32 KiB; pieces of u32 CRC-32, u16 length, u8 type and bytes), as wandb/sdk/internal/datastore.py has it.
class WandbFile {
 public:
  WandbFile();
  /// Adds the bytes of a message `wandb_internal.Record`.
  void add(std::string_view record);
  const std::string& bytes() const { return bytes_; }

 private:
  void add_piece(char type, std::string_view bytes);
  std::string bytes_;
};

/// Whether a file begins as a .wandb file does.
bool is_wandb_file(std::string_view file);

/// Calls `take` with each whole record, in order, and returns how many bytes belong to none: a torn end, or damage,
/// behind which reading goes on at the next block. Never fails.
int64_t read_wandb_records(std::string_view file, const std::function<void(std::string_view record)>& take);

}  // namespace ramet::track
