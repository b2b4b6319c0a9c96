#include "ramet/serve/store.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/serve/url.h"
#include "ramet/track/run_directory.h"

namespace ramet::serve {

Store::Store(std::filesystem::path folder, int readers, const IndexProgress& progress)
    : folder_(std::move(folder)), indexer_(Catalogue::open(folder_, Access::kIndex)) {
  first_ = indexer_.index(progress);
  if (!indexer_.remark().empty()) return;
  readers_.reserve(static_cast<size_t>(readers));
  for (int i = 0; i < readers; ++i) {
    readers_.push_back(Catalogue::open(folder_, Access::kRead));
    free_.push_back(&readers_.back());
  }
}

Store::Reader Store::read() {
  if (readers_.empty()) return {*this, indexer_};
  std::unique_lock lock(mutex_);
  returned_.wait(lock, [&] { return !free_.empty(); });
  Catalogue* catalogue = free_.back();
  free_.pop_back();
  return {*this, *catalogue};
}

void Store::give_back(Catalogue* catalogue) {
  if (catalogue == &indexer_) return;
  std::lock_guard lock(mutex_);
  free_.push_back(catalogue);
  returned_.notify_one();
}

std::filesystem::path Store::run_folder(const std::string& id) const {
  if (is_file_name(id) && is_run(folder_ / id)) return folder_ / id;
  throw Error({.what = "no such run", .where = folder_.string(), .found = "'" + id.substr(0, 200) + "'"});
}

RunQuery first_runs(std::string filter, int64_t limit) {
  RunQuery query;
  query.filter = std::move(filter);
  query.limit = limit;
  return query;
}

std::optional<std::string> read_inside(const std::filesystem::path& folder, const std::filesystem::path& file) {
  constexpr uintmax_t kMost = 512 << 20;
  std::error_code error;
  const auto base = std::filesystem::canonical(folder, error);
  if (error) return std::nullopt;
  const auto path = std::filesystem::canonical(file, error);
  if (error || !std::filesystem::is_regular_file(path, error)) return std::nullopt;
  if (std::mismatch(base.begin(), base.end(), path.begin(), path.end()).first != base.end()) return std::nullopt;
  if (std::filesystem::file_size(path, error) > kMost || error) return std::nullopt;
  try {
    return read_file(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace ramet::serve
