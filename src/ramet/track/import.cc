#include "ramet/track/import.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/track/tf_record.h"
#include "ramet/track/wandb_file.h"

namespace ramet::track {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSqlite("SQLite format 3\0", 16);
constexpr int kMostDepth = 32;
constexpr int64_t kMostFiles = 10'000'000;

std::string first_bytes(const fs::path& path, size_t count) {
  std::ifstream stream(path, std::ios::binary);
  std::string bytes(count, '\0');
  stream.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return bytes;
}

enum class FileKind { kUnknown, kMlflow, kEvents, kEmptyEvents, kWandb };

bool is_named_event_file(const fs::path& path) {
  return path.filename().string().find("tfevents") != std::string::npos;
}

FileKind kind_of_file(const fs::path& path) {
  // The record that tells the version of an event file has less than 100 bytes.
  const std::string head = first_bytes(path, 4096);
  if (head.starts_with(kSqlite)) return is_mlflow_database(path) ? FileKind::kMlflow : FileKind::kUnknown;
  if (is_wandb_file(head)) return FileKind::kWandb;
  if (begins_with_tf_record(head)) return FileKind::kEvents;
  // An event file whose beginning is damaged, or that nobody has written to yet.
  if (is_named_event_file(path)) return head.empty() ? FileKind::kEmptyEvents : FileKind::kEvents;
  return FileKind::kUnknown;
}

class Searcher {
 public:
  explicit Searcher(const fs::path& root) : root_(root) {}

  ImportSearch run() {
    walk(root_, 0);
    for (auto& [folder, files] : events_) {
      std::sort(files.begin(), files.end());
      search_.sources.push_back(
          {.kind = ImportKind::kTensorBoard, .path = folder, .files = files, .name = name(folder)});
    }
    if (file_stores_ > 0)
      search_.remarks.push_back(
          root_.string() +
          ": holds runs in MLflow's folders of files, which are not read; `mlflow migrate-filestore` "
          "makes a database of them");
    std::sort(search_.sources.begin(), search_.sources.end(), [](const ImportSource& a, const ImportSource& b) {
      return std::tie(a.path, a.kind) < std::tie(b.path, b.kind);
    });
    return std::move(search_);
  }

 private:
  std::string name(const fs::path& folder) const {
    const fs::path below = folder.lexically_relative(root_);
    return below.empty() || below == "." ? fs::weakly_canonical(folder).filename().string() : below.generic_string();
  }

  void walk(const fs::path& folder, int depth) {
    std::error_code error;
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, error)) {
      std::error_code unknown;
      if (entry.is_symlink(unknown)) continue;
      if (entry.is_directory(unknown)) {
        if (!entry.path().filename().string().starts_with('.')) folders.push_back(entry.path());
      } else if (entry.is_regular_file(unknown) && ++seen_ <= kMostFiles) {
        take(entry.path());
      }
    }
    if (error) search_.remarks.push_back(folder.string() + ": cannot be read (" + error.message() + ")");
    if (depth == kMostDepth && !folders.empty())
      search_.remarks.push_back(folder.string() + ": folders below are too deep and were left out");
    else
      for (const fs::path& below : folders) walk(below, depth + 1);
  }

  /// A folder may hold files of all kinds: only those with a telling name are opened.
  void take(const fs::path& path) {
    const std::string name = path.filename().string(), extension = path.extension().string();
    if (name == "meta.yaml") file_stores_ += first_bytes(path, 4096).find("artifact_location") != std::string::npos;
    const bool database = extension == ".db" || extension == ".sqlite" || extension == ".sqlite3";
    if (!database && extension != ".wandb" && !is_named_event_file(path)) return;
    switch (kind_of_file(path)) {
      case FileKind::kMlflow: search_.sources.push_back({ImportKind::kMlflow, path, {}, this->name(path)}); break;
      case FileKind::kWandb: search_.sources.push_back({ImportKind::kWandb, path, {}, this->name(path)}); break;
      case FileKind::kEvents: events_[path.parent_path()].push_back(path); break;
      case FileKind::kEmptyEvents: break;
      case FileKind::kUnknown: break;
    }
  }

  const fs::path root_;
  ImportSearch search_;
  std::map<fs::path, std::vector<fs::path>> events_;
  int64_t seen_ = 0, file_stores_ = 0;
};

}  // namespace

std::string_view name_of(ImportKind kind) {
  switch (kind) {
    case ImportKind::kMlflow: return "mlflow";
    case ImportKind::kTensorBoard: return "tensorboard";
    case ImportKind::kWandb: return "wandb";
  }
  internal_error("name_of", "unknown kind of import");
}

ImportSearch find_import_sources(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    fs::path folder = path.lexically_normal();
    if (folder.filename().empty()) folder = folder.parent_path();
    return Searcher(folder).run();
  }
  if (!fs::is_regular_file(path, error)) throw Error({.what = "no such file or folder", .where = path.string()});
  const std::string name = path.stem().string();
  switch (kind_of_file(path)) {
    case FileKind::kMlflow: return {{{ImportKind::kMlflow, path, {}, name}}, {}};
    case FileKind::kWandb: return {{{ImportKind::kWandb, path, {}, name}}, {}};
    case FileKind::kEvents: return {{{ImportKind::kTensorBoard, path, {path}, name}}, {}};
    case FileKind::kEmptyEvents: return {{}, {path.string() + ": is empty"}};
    case FileKind::kUnknown: break;
  }
  throw Error({.what = "not a file that can be imported",
               .where = path.string(),
               .expected = "MLflow's database (SQLite), an event file of TensorBoard, or a .wandb file"});
}

void read_runs(const ImportSource& source, const ImportSink& sink) {
  switch (source.kind) {
    case ImportKind::kMlflow: return read_mlflow_database(source, sink);
    case ImportKind::kTensorBoard: return read_event_files(source, sink);
    case ImportKind::kWandb: return read_wandb_file(source, sink);
  }
}

std::string skipped_bytes_text(int64_t bytes) {
  return std::to_string(bytes) + (bytes == 1 ? " byte is" : " bytes are") + " torn or damaged and " +
         (bytes == 1 ? "was" : "were") + " skipped";
}

std::string_view image_type(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return "image/png";
  if (bytes.starts_with("\xff\xd8\xff")) return "image/jpeg";
  if (bytes.starts_with("GIF8")) return "image/gif";
  if (bytes.starts_with("RIFF") && bytes.size() > 12 && bytes.substr(8, 4) == "WEBP") return "image/webp";
  if (bytes.starts_with("BM")) return "image/bmp";
  return "";
}

}  // namespace ramet::track
