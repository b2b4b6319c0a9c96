#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ramet/train/training.h"

namespace ramet::train {

/// Asks a training run to end well: after the step that runs, with a checkpoint. From any thread, an observer or a
/// signal handler.
class StopRequest {
 public:
  void ask() noexcept { asked_.store(true); }
  bool asked() const noexcept { return asked_.load(); }

 private:
  std::atomic<bool> asked_{false};
};

/// What a run is about to do.
struct RunStart {
  int64_t from_step = 0, to_step = 0;
};

struct TrainingResult {
  int64_t steps = 0;
  Numbers last_step, last_evaluation;
  double step_seconds = 0;      ///< median; without the first step where there are more
  double units_per_second = 0;  ///< at the median step
  bool interrupted = false;
  std::filesystem::path checkpoint;
  Numbers best_evaluation;  ///< of an evaluator that finds the best: the one with the best first number
  int64_t best_steps = 0;   ///< and after how many steps it was
};

/// Hears what a training run does; all calls come from the training thread, between steps. What an observer throws is
/// told to TrainingPlan::on_observer_error, and changes nothing for the run and its other observers.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  virtual void on_start(const Training&, const RunStart&) {}
  virtual void on_step(int64_t /*steps_done*/, const Numbers&) {}
  virtual void on_evaluation(int64_t /*steps_done*/, const Numbers&) {}
  virtual void on_checkpoint(int64_t /*steps_done*/, const std::filesystem::path&) {}
  virtual void on_numerics(const NumericsReport&) {}
  /// The run is over, by itself or by a request.
  virtual void on_end(const Training&, const TrainingResult&) {}
  /// The run ends by an error, which is thrown to the caller after this.
  virtual void on_failure(const Training&, const std::string& /*error*/) {}
};

struct TrainingPlan {
  int64_t stop_at = 0;                  ///< steps in all; those of the options where 0
  bool saves = true;                    ///< whether there are checkpoints; the same on all ranks
  std::filesystem::path checkpoints{};  ///< folder; of the leading rank
  std::filesystem::path best{};         ///< folder for the one checkpoint of the best evaluation; empty: none
  const StopRequest* stop = nullptr;    ///< asked: finish the step, save, and end
  int64_t check_every = 0;              ///< check numerics before the first step and every so many; 0: never
  /// Told of an error in an observer; absent: a line on stderr.
  std::function<void(const std::string& error)> on_observer_error{};
};

/// The training loop: evaluate, step, evaluate and save as the options say, until done or stopped. Where the evaluator
/// finds the best, the run is not evaluated before its first step, and whenever the first number is the best so far, a
/// checkpoint goes to `plan.best`. Under MPI observers are the leading rank's alone or every rank's, as the caller
/// likes: none of them makes calls that other ranks wait for.
TrainingResult train(Training& training, const TrainingPlan& plan, std::span<TrainingObserver* const> observers);
/// With one observer.
TrainingResult train(Training& training, const TrainingPlan& plan, TrainingObserver& observer);

}  // namespace ramet::train
