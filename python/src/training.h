#pragma once

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "arguments.h"
#include "data.h"

namespace ramet_python {

/// An engine that one thread at a time may use. Others wait; Python runs meanwhile.
class Exclusive {
 public:
  class Use {
   public:
    /// Throws Error where waiting would never end: in a function that a step waits for, and in a callback of `fit`.
    Use(Exclusive& engine, const char* call) : engine_(engine) {
      if (engine.owner_ == std::this_thread::get_id())
        throw ramet::Error({.what = "a call during another call of the same object", .where = call});
      if (FillingScope::active())
        throw ramet::Error({.what = "a call in a function that computes samples", .where = call});
      const nb::gil_scoped_release released;
      engine.mutex_.lock();
      engine.owner_ = std::this_thread::get_id();
    }
    ~Use() {
      engine_.owner_ = std::thread::id();
      engine_.mutex_.unlock();
    }
    Use(const Use&) = delete;

   private:
    Exclusive& engine_;
  };

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
};

/// What `fit` did, with the losses of all steps and evaluations.
struct PyFitResult {
  ramet::FitResult result;
  std::vector<std::pair<int64_t, double>> losses, evaluation_losses;
};

class PyTraining {
 public:
  PyTraining(const ramet::Model& model, const ramet::TrainOptions& options, const PyData& train, const PyData& held_out)
      : kept_train_(train.kept), kept_held_out_(held_out.kept) {
    for (const auto& kept : {kept_train_, kept_held_out_})
      if (kept) kept->check_samples(model);
    const nb::gil_scoped_release released;
    engine_.emplace(model, options, train.data, held_out.data);
  }
  ~PyTraining() {
    const nb::gil_scoped_release released;  // threads that compute samples may wait for the interpreter
    engine_.reset();
  }

  /// Runs `act` on the training, without the interpreter, alone.
  template <typename Act>
  auto run(const char* call, const Act& act) {
    const Exclusive::Use use(exclusive_, call);
    ramet::Training& training = open(call);
    const nb::gil_scoped_release released;
    return act(training);
  }
  /// The same with the interpreter, for what takes no time.
  template <typename Act>
  auto look(const char* call, const Act& act) const {
    return act(open(call));
  }
  void close() {
    const Exclusive::Use use(exclusive_, "close");
    const nb::gil_scoped_release released;
    engine_.reset();
  }

  PyFitResult fit(ramet::FitOptions options, nb::object on_step, nb::object on_evaluation, nb::object progress);

 private:
  ramet::Training& open(const char* call) {
    if (!engine_) throw ramet::Error({.what = "a training that is closed", .where = call});
    return *engine_;
  }
  const ramet::Training& open(const char* call) const { return const_cast<PyTraining*>(this)->open(call); }

  Exclusive exclusive_;
  const std::shared_ptr<const Feeds> kept_train_, kept_held_out_;
  std::optional<ramet::Training> engine_;
};

class PyPredictor {
 public:
  PyPredictor(const ramet::Model& model, const std::string& weights, const ramet::PredictOptions& options)
      : model_(model) {
    const nb::gil_scoped_release released;
    engine_.emplace(model, weights, options);
  }
  ~PyPredictor() {
    const nb::gil_scoped_release released;
    engine_.reset();
  }
  template <typename Act>
  auto run(const char* call, const Act& act) {
    const Exclusive::Use use(exclusive_, call);
    const nb::gil_scoped_release released;
    return act(*engine_);
  }
  const ramet::Model& model() const { return model_; }

 private:
  Exclusive exclusive_;
  const ramet::Model model_;
  std::optional<ramet::Predictor> engine_;
};

}  // namespace ramet_python
