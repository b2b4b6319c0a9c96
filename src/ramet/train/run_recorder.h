#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ramet/machine/machine.h"
#include "ramet/track/lineage.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/run_log.h"
#include "ramet/train/training_loop.h"

namespace ramet::train {

/// Writes a run into its folder: the log of its metrics and events, the files of its plan (train/run_files.h), measured
/// times at each checkpoint and at the end, and checks of numerics. Files are replaced whole or not at all.
class RunRecorder final : public TrainingObserver {
 public:
  /// `echo` hears every event as one JSON object, steps and evaluations among them.
  explicit RunRecorder(const RunDirectory& directory, std::function<void(const std::string& json)> echo = {});
  /// Writes to a log that others write to as well.
  RunRecorder(const RunDirectory& directory, std::shared_ptr<RunLogWriter> log);

  /// What the run began with, before it starts.
  void began_with(const RunOrigin& origin) { origins_.push_back(origin); }

  void on_start(const Training& training, const RunStart& start) override;
  void on_step(int64_t done, const Numbers& metrics) override;
  void on_evaluation(int64_t done, const Numbers& metrics) override;
  void on_checkpoint(int64_t done, const std::filesystem::path& path) override;
  void on_numerics(const NumericsReport& report) override;
  void on_end(const Training& training, const TrainingResult& result) override;
  void on_failure(const Training& training, const std::string& error) override;

  /// Ends the record once the hash of the weights is known, which all ranks compute together: writes the last event,
  /// and waits until the log is durable. Returns warnings, one a line.
  std::string finish(const Training& training, const TrainingResult& result, const std::string& weights_hash);

 private:
  void write_times();

  const RunDirectory& directory_;
  std::shared_ptr<RunLogWriter> log_;
  std::function<void(const std::string&)> echo_;
  const Training* training_ = nullptr;
  std::vector<RunOrigin> origins_;
  std::optional<Machine> machine_;  ///< of a profiled run: this one, rehearsed before the first step
  int64_t steps_ = 0;
  double seconds_ = 0;  ///< of all steps of this process
};

/// The planned bytes and the arena of every device: [{device, planned_bytes, streaming_bytes, arena_bytes}].
std::string devices_json(const Cluster& cluster);

}  // namespace ramet::train
