#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/track/imported_run.h"

namespace ramet::track {

/// A kind of record that other trackers leave behind.
enum class ImportKind { kMlflow, kTensorBoard, kWandb };
/// "mlflow", "tensorboard", "wandb"
std::string_view name_of(ImportKind kind);

/// Something to import: a database, a .wandb file, or the event files of one folder.
struct ImportSource {
  ImportKind kind = ImportKind::kTensorBoard;
  std::filesystem::path path;                ///< a file; for event files their folder, or the one file that was named
  std::vector<std::filesystem::path> files;  ///< the event files, by name
  std::string name;                          ///< for runs that have no name of their own
};

struct ImportSearch {
  std::vector<ImportSource> sources;
  std::vector<std::string> remarks;  ///< one line each: what was recognised but cannot be read
};

/// What a file is, or what lies below a folder (links are not followed; hidden folders are left out), recognised by
/// contents. Throws Error when there is no such file or folder, and when a file that was named is of no known kind.
ImportSearch find_import_sources(const std::filesystem::path& path);

/// Takes the runs of a source, one by one.
struct ImportSink {
  /// Whether the run is to be read.
  std::function<bool(const std::string& id)> wants;
  std::function<void(ImportedRun)> take;
  /// Hears of the source as a whole, one line each.
  std::function<void(const std::string& remark)> remark;
  /// Called with how many runs of the source are done, and how many there are.
  std::function<void(int64_t done, int64_t total)> progress;
};

/// Reads the runs of a source. What is damaged is left out and counted in the remarks of the run. Throws Error when
/// the source as a whole cannot be read.
void read_runs(const ImportSource& source, const ImportSink& sink);

/// The readers by kind, each in a file of its own.
void read_event_files(const ImportSource& source, const ImportSink& sink);
void read_wandb_file(const ImportSource& source, const ImportSink& sink);
void read_mlflow_database(const ImportSource& source, const ImportSink& sink);

/// Whether a SQLite file has the tables of MLflow that hold runs. Never fails.
bool is_mlflow_database(const std::filesystem::path& path);

/// "3 bytes are torn or damaged and were skipped"
std::string skipped_bytes_text(int64_t bytes);
/// The media type of an image by its first bytes, or "".
std::string_view image_type(std::string_view bytes);

}  // namespace ramet::track
