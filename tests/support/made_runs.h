#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/run_log.h"

namespace ramet::tests {

struct MadeRun {
  std::string id, name = "small", recipe = "name = \"small\"\n\n[train]\nseed = 3\nsteps = 10\n";
  int64_t steps = 10;
  double loss = 2;           ///< of the first step; it falls by a hundredth a step
  std::string end = "done";  ///< "": the run is not ended
};

/// Writes a run as training does: its folder, facts, metrics `loss` and `rate`, events.
inline void make_run(const std::filesystem::path& runs, const MadeRun& run) {
  const RunDirectory folder = RunDirectory::create_at(
      runs / run.id,
      {.name = run.name, .recipe = run.recipe, .command = {"ramet", "train"}, .kernel_class = "cpu", .threads = 1});
  RunLogWriter log(folder.log());
  log.event(R"({"event":"start","planned_bytes":1000})");
  log.event(R"({"event":"axis","samples_per_step":8,"units_per_step":64,"units":"tokens"})");
  for (int64_t step = 1; step <= run.steps; ++step) {
    const LoggedNumber values[] = {{"loss", run.loss - 0.01 * static_cast<double>(step)}, {"rate", 0.001}};
    log.metrics(step, values);
  }
  if (!run.end.empty()) log.event(nlohmann::json{{"event", "end"}, {"status", run.end}}.dump());
}

/// Puts an artifact into a run and logs it; gives its hash.
inline std::string add_artifact(const std::filesystem::path& run, const std::string& name, const std::string& type,
                                const std::string& bytes) {
  const std::string hash = hash_text(bytes).hex();
  std::filesystem::create_directories(run / "artifacts");
  write_file_atomic(run / "artifacts" / hash, bytes);
  RunLogWriter log(run / "log.ramet");
  log.event(nlohmann::json{{"event", "logged"},
                           {"kind", type.starts_with("image/") ? "image" : "file"},
                           {"name", name},
                           {"step", 1},
                           {"time", 1.5},
                           {"artifact", hash},
                           {"type", type},
                           {"bytes", bytes.size()}}
                .dump());
  return hash;
}

}  // namespace ramet::tests
