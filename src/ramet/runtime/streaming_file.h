#pragma once

#include <filesystem>
#include <string>

#include "ramet/runtime/streaming_store.h"

namespace ramet::runtime {

/// An open file of a fixed size, and the units in which it takes transfers.
struct StreamingFile {
  int file = -1;
  std::string where;         ///< for messages
  int64_t block = 1;         ///< offsets and sizes of transfers are multiples of this; 1: any
  int64_t memory_block = 1;  ///< addresses in memory are
};

/// Makes a file of `bytes`, rounded up to whole blocks, with all its room taken on the file system. Throws Error when
/// there is no such room; nothing is left behind.
StreamingFile make_streaming_file(int64_t bytes, const FileStoreOptions& options);

}  // namespace ramet::runtime
