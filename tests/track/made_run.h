#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "ramet/track/run_log.h"

namespace ramet::tests {

/// A folder of a run, without a lock.
inline std::filesystem::path make_folder(const std::filesystem::path& runs, const std::string& id,
                                         const std::string& recipe =
                                             "[train]\nseed = 3\nrate = 0.5\nfast = true\n\n"
                                             "[model]\nkind = \"bert\"\n",
                                         const std::string& started = "2026-01-02T03:04:05.250000+0100") {
  const std::filesystem::path path = runs / id;
  std::filesystem::create_directories(path);
  std::ofstream(path / "recipe.toml") << recipe;
  std::ofstream(path / "run.json") << R"({"id":")" + id + R"(","name":"bert-mini","started":")" + started + "\"}";
  return path;
}

inline void log_numbers(RunLogWriter& log, int64_t step, double loss) {
  const LoggedNumber values[] = {{"loss", loss}, {"tokens_per_second", 10.0}};
  log.metrics(step, values);
}

/// A run that was logged and has ended.
inline std::filesystem::path make_ended_run(const std::filesystem::path& runs, const std::string& id, int64_t steps,
                                            double loss = 1, int64_t seed = 3) {
  const auto path = make_folder(runs, id, "[train]\nseed = " + std::to_string(seed) + "\n");
  RunLogWriter log(path / "log.ramet");
  log.event(R"({"event":"start","from_step":0,"planned_bytes":100})");
  for (int64_t step = 1; step <= steps; ++step) log_numbers(log, step, loss + 1.0 / static_cast<double>(step));
  log.event(R"({"event":"end","status":"done","time":1767319500})");
  return path;
}

}  // namespace ramet::tests
