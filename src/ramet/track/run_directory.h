#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ramet/base/lock_file.h"

namespace ramet::track {

/// The facts about a run at its beginning.
struct RunFacts {
  std::string name;                  ///< of the recipe
  std::string recipe;                ///< complete, as TOML
  std::vector<std::string> command;  ///< as it was typed
  std::string kernel_class;
  int threads = 0;
};

/// Where a run of another tracker came from, for run.json.
struct ImportFacts {
  std::string name;
  double started = 0;        ///< seconds since 1970
  std::string command, git;  ///< the command line and the commit, where they are known
  std::string imported;      ///< a JSON object: "from", "path", "id" and what else is known
};
/// A folder for a new run below `parent` that is not there yet: DATE-NAME-ID.
std::filesystem::path new_run_path(const std::filesystem::path& parent, const std::string& name, double started);
/// Writes the run.json that makes a folder a run, with the id that it shall have.
void write_import_facts(const std::filesystem::path& folder, const std::string& id, const ImportFacts& facts);

/// The folder of one run: recipe.toml (complete), run.json (command, versions, git state), machine.json, log.ramet,
/// plan.json, liveness.json, program.json, times.json, checkpoints/, for text tokenizer/, of model
/// files model.ramet, and of `--check-numerics`
/// numerics/. A process that writes to a run holds its lock, so that one run is never continued
/// twice at once, and so that a reader can tell a live run from a killed one.
class RunDirectory {
 public:
  /// Makes PARENT/DATE-NAME-ID for a new run and writes the facts there.
  static RunDirectory create(const std::filesystem::path& parent, const RunFacts& facts);
  /// The same in exactly this folder, which must not hold a run yet.
  static RunDirectory create_at(const std::filesystem::path& path, const RunFacts& facts);
  /// Takes the lock of a run that is there. Throws Error when it is not a run, or another process is running it.
  static RunDirectory reopen(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log() const { return path_ / "log.ramet"; }
  std::filesystem::path recipe() const { return path_ / "recipe.toml"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path best() const { return path_ / "best"; }  ///< the checkpoint of a task's best evaluation
  std::filesystem::path numerics() const { return path_ / "numerics"; }
  std::filesystem::path numerics(int64_t step) const;  ///< of the check before a step
  // The run's programs and their memory (docs/runs.md).
  std::filesystem::path plan() const { return path_ / "plan.json"; }
  std::filesystem::path liveness() const { return path_ / "liveness.json"; }
  std::filesystem::path program() const { return path_ / "program.json"; }
  std::filesystem::path times() const { return path_ / "times.json"; }
  std::filesystem::path tokenizer() const { return path_ / "tokenizer"; }
  std::filesystem::path model() const { return path_ / "model.ramet"; }  ///< of a recipe of a model file

 private:
  RunDirectory(std::filesystem::path path, LockFile lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::filesystem::path path_;
  LockFile lock_;
};

/// Seconds since 1970 of a moment as run.json has it ("2026-11-23T15:00:00.123456+0000"); 0 where the text is none.
double seconds_of_moment(const std::string& text);
/// Whether a folder is a run's.
bool is_run(const std::filesystem::path& path);
/// Whether a process runs it now.
bool is_running(const std::filesystem::path& run);

/// The machine as JSON text: processor, its features that kernels use, processors, memory, system.
std::string describe_machine();

}  // namespace ramet::track
