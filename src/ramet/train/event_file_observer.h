#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ramet/track/event_file_writer.h"
#include "ramet/train/training_loop.h"

namespace ramet::train {

/// Writes TensorBoard's event files beside the run's log, as training goes.
class EventFileObserver final : public TrainingObserver {
 public:
  /// `config`: what the tab HPARAMS shows. `tell` hears at the end, in one line, what the disk did not take.
  EventFileObserver(const std::filesystem::path& folder, std::vector<ConfigValue> config,
                    std::function<void(const std::string&)> tell);

  void on_start(const Training& training, const RunStart& start) override;
  void on_step(int64_t done, const Numbers& metrics) override;
  void on_evaluation(int64_t done, const Numbers& metrics) override;
  void on_end(const Training& training, const TrainingResult& result) override;
  void on_failure(const Training& training, const std::string& error) override;

 private:
  void finish(bool success);

  EventFileWriter file_;
  std::vector<ConfigValue> config_;
  std::function<void(const std::string&)> tell_;
};

}  // namespace ramet::train
