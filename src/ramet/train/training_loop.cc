#include "ramet/train/training_loop.h"

#include <algorithm>
#include <cstdio>

#include "ramet/base/error.h"

namespace ramet::train {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(middle), values.end());
  return values[middle];
}

void remove_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

bool is_due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

/// One run from where a training stands.
class Loop {
 public:
  Loop(Training& training, const TrainingPlan& plan, std::span<TrainingObserver* const> observers)
      : training_(training),
        plan_(plan),
        observers_(observers),
        last_(plan.stop_at > 0 ? plan.stop_at : training.options().steps),
        finds_best_(training.workload().evaluator && training.workload().evaluator->finds_best()) {
    if (!training.workload().train)
      throw Error({.what = "there is nothing to train on",
                   .where = "model '" + training.model().name + "'",
                   .expected = "a workload with training data"});
  }

  TrainingResult run() {
    tell([&](TrainingObserver& observer) {
      observer.on_start(training_, {.from_step = training_.steps_done(), .to_step = last_});
    });
    try {
      if (training_.steps_done() == 0 && !finds_best_) evaluate();
      while (training_.steps_done() < last_ && !stopped()) step();
      finish();
    } catch (const std::exception& error) {
      tell([&](TrainingObserver& observer) { observer.on_failure(training_, error.what()); });
      throw;
    }
    tell([&](TrainingObserver& observer) { observer.on_end(training_, result_); });
    return std::move(result_);
  }

 private:
  template <typename Call>
  void tell(const Call& call) const {
    for (TrainingObserver* observer : observers_) {
      try {
        call(*observer);
      } catch (const std::exception& error) {
        if (plan_.on_observer_error)
          plan_.on_observer_error(error.what());
        else
          std::fprintf(stderr, "an observer of the training failed: %s\n", error.what());
      }
    }
  }

  /// All ranks stop after the same step, whichever of them was asked.
  bool stopped() const { return training_.any(plan_.stop && plan_.stop->asked()); }

  void evaluate() {
    result_.last_evaluation = training_.evaluate();
    evaluated_ = training_.steps_done();
    if (!result_.last_evaluation.empty())
      tell([&](TrainingObserver& observer) { observer.on_evaluation(evaluated_, result_.last_evaluation); });
    if (finds_best_) keep_best();
  }

  /// Only the leading rank knows the numbers; what it decides is told to all.
  void keep_best() {
    const Numbers& now = result_.last_evaluation;
    const bool better =
        !now.empty() && (result_.best_evaluation.empty() || now[0].second > result_.best_evaluation[0].second);
    if (better) result_.best_evaluation = now, result_.best_steps = training_.steps_done();
    const bool saves = training_.any(better && !plan_.best.empty());
    if (saves && training_.steps_done() < last_) training_.save(plan_.best, 1);
  }

  void save() {
    if (!plan_.saves) return;
    result_.checkpoint = training_.save(plan_.checkpoints);
    saved_ = training_.steps_done();
    tell([&](TrainingObserver& observer) { observer.on_checkpoint(saved_, result_.checkpoint); });
  }

  void step() {
    try {
      if (plan_.check_every > 0 && (seconds_.empty() || is_due(plan_.check_every, training_.steps_done() + 1))) {
        const NumericsReport report = training_.check_numerics();
        tell([&](TrainingObserver& observer) { observer.on_numerics(report); });
      }
      result_.last_step = training_.step();
    } catch (const Error&) {
      // Nothing that was learned is lost: the state before the bad step is saved, unless a device is lost and its part
      // with it.
      if (training_.whole() && !training_.cluster().stopped() && training_.steps_done() > 0 &&
          saved_ != training_.steps_done())
        save();
      throw;
    }
    seconds_.push_back(number_of(result_.last_step, "step_seconds"));
    const int64_t done = training_.steps_done();
    tell([&](TrainingObserver& observer) { observer.on_step(done, result_.last_step); });
    if (is_due(training_.options().evaluation.every, done)) evaluate();
    if (is_due(training_.options().checkpoint.every, done)) save();
  }

  void finish() {
    result_.interrupted = training_.steps_done() < last_;
    if (evaluated_ != training_.steps_done() && !result_.interrupted) evaluate();
    if (saved_ != training_.steps_done()) save();
    // The best is the last: one checkpoint of it is enough.
    if (!plan_.best.empty() && result_.best_steps == training_.steps_done()) remove_folder(plan_.best);
    result_.steps = training_.steps_done();
    if (seconds_.size() > 1) seconds_.erase(seconds_.begin());  // the first step meets cold caches
    result_.step_seconds = median(std::move(seconds_));
    if (result_.step_seconds > 0)
      result_.units_per_second = static_cast<double>(training_.units_per_step()) / result_.step_seconds;
  }

  Training& training_;
  const TrainingPlan& plan_;
  const std::span<TrainingObserver* const> observers_;
  const int64_t last_;
  const bool finds_best_;
  TrainingResult result_;
  int64_t evaluated_ = -1, saved_ = -1;
  std::vector<double> seconds_;
};

}  // namespace

TrainingResult train(Training& training, const TrainingPlan& plan, std::span<TrainingObserver* const> observers) {
  return Loop(training, plan, observers).run();
}

TrainingResult train(Training& training, const TrainingPlan& plan, TrainingObserver& observer) {
  TrainingObserver* const one = &observer;
  return train(training, plan, std::span(&one, 1));
}

}  // namespace ramet::train
