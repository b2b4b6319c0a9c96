#include "ramet/train/event_file_observer.h"

#include "ramet/train/run_recorder.h"

namespace ramet::train {

EventFileObserver::EventFileObserver(const std::filesystem::path& folder, std::vector<ConfigValue> config,
                                     std::function<void(const std::string&)> tell)
    : file_(folder), config_(std::move(config)), tell_(std::move(tell)) {}

void EventFileObserver::on_start(const Training&, const RunStart& start) {
  if (start.from_step > 0) file_.restart(start.from_step + 1);
  file_.config(config_);
}

void EventFileObserver::on_step(int64_t done, const Numbers& metrics) { file_.scalars(done, metrics); }

void EventFileObserver::on_evaluation(int64_t done, const Numbers& metrics) {
  file_.scalars(done, held_out_numbers(metrics));
}

void EventFileObserver::on_end(const Training&, const TrainingResult& result) { finish(!result.interrupted); }

void EventFileObserver::on_failure(const Training&, const std::string&) { finish(false); }

void EventFileObserver::finish(bool success) {
  file_.end(success);
  const bool written = file_.flush();
  if (file_.dropped() > 0)
    tell_(std::to_string(file_.dropped()) + " entries of the event file were dropped: the disk was too slow");
  if (!written) tell_("the end of the event file could not be written (" + file_.problem() + ")");
}

}  // namespace ramet::train
