#include "ramet/runtime/streaming_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "ramet/base/error.h"
#include "ramet/base/file.h"

namespace ramet::runtime {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlock = 4096;

[[noreturn]] void fail(const std::string& what, const std::string& where, const std::string& found = "",
                       const std::string& expected = "") {
  throw Error({.what = what,
               .where = where,
               .found = found,
               .expected = expected,
               .remedy = "Name another folder with streaming=FOLDER in the layout, or streaming=ram"},
              ErrorKind::kFailure);
}

/// A file without a name, where the file system can; else one whose name goes at once, unless it is kept.
int open_file(const FileStoreOptions& options, fs::path& kept) {
  if (!options.keep)
    if (const int file = ::open(options.folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); file >= 0) return file;
  const fs::path path = options.folder / (options.keep ? options.name : options.name + ".XXXXXX");
  std::string name = path.string();
  const int file = options.keep ? ::open(name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
                                : ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) fail("cannot make a file of streaming memory", path.parent_path().string(), std::strerror(errno));
  if (options.keep)
    kept = name;
  else
    ::unlink(name.c_str());
  return file;
}

/// Why the file may not have so many bytes; empty when it has them now.
std::string take_room(int file, int64_t bytes) {
  rlimit limit{};
  // Asked first: growing beyond it would end the process with SIGXFSZ.
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < static_cast<rlim_t>(bytes))
    return "a limit of " + format_size(static_cast<int64_t>(limit.rlim_cur)) + " for files of this process";
  const int error = ::posix_fallocate(file, 0, bytes);
  return error ? std::generic_category().message(error) : "";
}

std::string room_text(const fs::path& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  return error ? "" : ", " + format_size(static_cast<int64_t>(space.available)) + " free";
}

/// Goes past the page cache from now on, if the file system can.
void make_direct(StreamingFile& made) {
  struct statx facts{};
  made.block = made.memory_block = kBlock;
  bool told = false;
#ifdef STATX_DIOALIGN
  if (::statx(made.file, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 && (facts.stx_mask & STATX_DIOALIGN)) {
    told = true;
    made.block = facts.stx_dio_offset_align;
    made.memory_block = facts.stx_dio_mem_align;
  }
#endif
  const bool possible =
      !told || (made.block > 0 && made.block <= kBlock && made.memory_block > 0 && made.memory_block <= kBlock);
  if (possible && ::fcntl(made.file, F_SETFL, ::fcntl(made.file, F_GETFL) | O_DIRECT) == 0) return;
  made.block = made.memory_block = 1;
}

}  // namespace

StreamingFile make_streaming_file(int64_t bytes, const FileStoreOptions& options) {
  fs::path kept;
  StreamingFile made;
  made.file = open_file(options, kept);
  made.where = "streaming memory in " + options.folder.string();
  const int64_t whole = std::max<int64_t>(kBlock, (bytes + kBlock - 1) / kBlock * kBlock);
  if (const std::string problem = take_room(made.file, whole); !problem.empty()) {
    ::close(made.file);
    if (!kept.empty()) ::unlink(kept.c_str());
    fail("there is no room for the file", made.where, problem + room_text(options.folder), format_size(bytes));
  }
  if (options.direct) make_direct(made);
  return made;
}

}  // namespace ramet::runtime
