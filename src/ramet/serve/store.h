#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ramet/track/catalogue.h"

namespace ramet::serve {

/// The runs of a folder, for many readers at once: one catalogue that indexes, and some that read beside it. Where the
/// catalogue lives in memory, all share one.
class Store {
 public:
  /// A catalogue to read, for the time that this object lives.
  class Reader {
   public:
    Reader(Store& store, Catalogue& catalogue) : store_(store), catalogue_(&catalogue) {}
    ~Reader() { store_.give_back(catalogue_); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    const Catalogue* operator->() const { return catalogue_; }
    const Catalogue& operator*() const { return *catalogue_; }

   private:
    Store& store_;
    Catalogue* catalogue_;
  };

  /// Opens the folder and indexes what is new. Throws Error when there is no such folder.
  Store(std::filesystem::path folder, int readers, const IndexProgress& progress = {});

  /// Waits for a free catalogue.
  Reader read();
  /// The one that indexes. Its calls take turns, and an index may take long: not for readers.
  Catalogue& indexer() { return indexer_; }
  const std::filesystem::path& folder() const { return folder_; }
  /// Why the catalogue is in memory, or "".
  std::string remark() const { return indexer_.remark(); }
  const IndexReport& first_index() const { return first_; }

  /// The folder of a run by its id. Throws Error when there is none: an id never leads out of the folder.
  std::filesystem::path run_folder(const std::string& id) const;

 private:
  friend class Reader;
  void give_back(Catalogue* catalogue);

  std::filesystem::path folder_;
  Catalogue indexer_;
  IndexReport first_;
  std::vector<Catalogue> readers_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<Catalogue*> free_;
};

/// The first runs that a filter lets through, newest first; all where `limit` is negative.
RunQuery first_runs(std::string filter, int64_t limit);

/// The contents of a regular file that lies in a folder, links followed: a run that came from elsewhere may hold links
/// that lead out of it. nullopt when it does not, is not there, or has more than 512 MiB.
std::optional<std::string> read_inside(const std::filesystem::path& folder, const std::filesystem::path& file);

}  // namespace ramet::serve
