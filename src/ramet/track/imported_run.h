#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/track/event_file.h"

namespace ramet::track {

/// A value of a metric as another tracker kept it.
struct ImportedPoint {
  int64_t step = 0;
  double time = 0;  ///< seconds since 1970; 0 where it is not known
  double value = 0;
};

/// Something that a run logged besides numbers.
struct ImportedMedia {
  std::string kind;  ///< "image", "text", "histogram", "file"
  std::string name;
  int64_t step = 0;
  double time = 0;
  std::string type;  ///< "image/png", "text/plain", ...
  std::string bytes;
  std::string caption;
};

/// A run as another tracker kept it, as far as one of ours can hold it.
struct ImportedRun {
  std::string from;            ///< "mlflow", "tensorboard", "wandb"
  std::filesystem::path path;  ///< the file or folder that was read
  std::string id;              ///< what the run is known by there; the same for each reading of the same run
  std::string name, group, note;
  std::vector<std::string> tags;
  double started = 0, ended = 0;  ///< seconds since 1970; 0 where they are not known
  std::string status;             ///< "done", "failed", "interrupted"; "" where the run had not ended
  std::string error;
  std::vector<ConfigValue> config;
  std::string command, git;  ///< the command line and the commit, where they are known
  std::string source;        ///< where the other tracker says it lies: an experiment, a project
  std::string artifacts;     ///< a folder of this machine with files that the run logged; they stay there
  std::map<std::string, std::vector<ImportedPoint>> metrics;  ///< in the order in which they were logged
  std::map<std::string, std::vector<ImportedPoint>> system;   ///< system metrics; the step is the sample's number
  std::vector<ImportedMedia> media;
  std::vector<std::string> events;   ///< further events of the log, as JSON objects
  std::vector<std::string> remarks;  ///< one line each: what could not be read or kept

  size_t points() const;
};

/// What became of a run that was imported.
struct ImportResult {
  enum class Kind { kImported, kReplaced, kAlreadyThere };
  Kind kind = Kind::kImported;
  std::filesystem::path run;  ///< its folder
  int64_t metrics = 0, points = 0, media = 0;
  std::vector<std::string> remarks;
};

/// The folders of runs that were imported into `runs`, by "FROM ID".
std::map<std::string, std::filesystem::path> list_imported(const std::filesystem::path& runs);

/// Writes runs into a folder of runs: each as a folder like those of our own runs, with `"imported": {"from", "path",
/// "id", ...}` in its run.json. A reader sees a run whole or not at all. A metric has one value a step there: of
/// several the last counts, and a remark says how many were left out; but where all values of a metric have one step,
/// they are numbered from 0.
class RunImporter {
 public:
  /// `again`: a run that was imported before is read anew into the folder that it has; what people noted there stays.
  RunImporter(std::filesystem::path runs, bool again);

  /// Where the run was imported before, or "".
  std::filesystem::path find(const std::string& from, const std::string& id) const;
  /// Throws Error when the folder cannot be written.
  ImportResult add(ImportedRun run);

 private:
  std::filesystem::path runs_;
  bool again_;
  std::map<std::string, std::filesystem::path> known_;
};

}  // namespace ramet::track
