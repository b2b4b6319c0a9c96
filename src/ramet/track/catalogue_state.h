#pragma once

#include <mutex>

#include "ramet/track/catalogue.h"
#include "ramet/track/catalogue_schema.h"
#include "ramet/track/sqlite.h"

namespace ramet::track {

/// Lets one process at a time change a folder's catalogue.
class CatalogueLock {
 public:
  /// Waits for at most so many seconds. Throws DatabaseError when the folder cannot be written.
  CatalogueLock(const std::filesystem::path& runs_folder, double seconds);
  ~CatalogueLock();
  CatalogueLock(const CatalogueLock&) = delete;
  CatalogueLock& operator=(const CatalogueLock&) = delete;
  bool is_held() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// What a Catalogue holds.
struct Catalogue::State {
  std::filesystem::path folder;
  Access access = Access::kRead;
  std::unique_ptr<Database> database;
  std::string remark;  ///< why it is in memory
  bool in_memory = false;
  std::mutex mutex;
  std::vector<std::string> problems;  ///< to be told by the next report

  uint64_t opened = 0;  ///< the file's number on its disk when it was opened

  std::filesystem::path file() const { return folder / "catalogue.db"; }
  uint64_t inode() const;
  /// Another process may have put another file in its place.
  void reopen_if_replaced();
  /// Opens the file as `access` asks; makes a catalogue in memory where that is not possible.
  void open();
  /// Goes on in memory: with what the file holds, if that can be read, brought up to date.
  void move_to_memory(const std::string& reason);
  /// Keeps a damaged file aside and makes the catalogue again; in memory where nothing may be changed.
  void replace_damaged();
  void set_aside();

  IndexReport index(const IndexProgress& progress, bool from_nothing);
  IndexReport index_all(const IndexProgress& progress, bool from_nothing);
  IndexReport index_one(const std::string& id);

  /// The key of the run that a person means. Throws Error.
  int64_t key_of(const std::string& text);
  std::string id_of(int64_t key);

  /// Calls `act` with the database, one thread after another. A damaged catalogue is replaced, and then `act` is called
  /// once more.
  template <typename Act>
  auto with(const Act& act) {
    const std::lock_guard lock(mutex);
    reopen_if_replaced();
    try {
      return act(*database);
    } catch (const DatabaseError& error) {
      if (!error.is_damaged() || in_memory) throw;
    }
    replace_damaged();
    return act(*database);
  }
};

/// Rows of the table of runs as they are listed, without tags and columns: what kRunColumns selects, from the first on.
extern const char* const kRunColumns;
constexpr int kRunColumnCount = 16;
RunRow run_row_of(const Statement& row, const std::filesystem::path& folder);

}  // namespace ramet::track
