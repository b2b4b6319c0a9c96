#pragma once

#include "ramet/train.h"

namespace ramet::v0 {

struct PredictOptions {
  Precision precision = Precision::kF32;
  int64_t chunks = 1;  ///< see TrainOptions::chunks
  /// Programs on request to compile. Empty: only "predict", which computes the model's outputs.
  std::vector<std::string> programs{};
  std::string layout{};       ///< docs/layouts.md; "": one device
  int threads = 0;            ///< of all devices together; 0: as the layout says, else all processors
  int64_t device_memory = 0;  ///< bytes that each device may use; 0: what is available
  std::string device{};       ///< kind of devices, such as "cpu"; "": the default
};

/// Durations of the calls of a Predictor, in seconds.
struct CallTimes {
  int64_t calls = 0, samples = 0;
  double seconds = 0;                   ///< of all calls together
  double median = 0, p90 = 0, p99 = 0;  ///< of the last calls: 50%, 90% and 99% of them took no longer
};

/// A model for prediction alone: its weights and the requested programs, without the memory of training. With the same
/// weights, precision and chunks it gives the bits of Training::predict. Only one thread at a time may call it.
class RAMET_API Predictor {
 public:
  /// `weights`: a weight file (safetensors or PyTorch), or a checkpoint of Training::save or `ramet train`. "": the
  /// model's first values; in a model file of `ramet export` these are the trained weights.
  Predictor(const Model& model, const std::string& weights = "", const PredictOptions& options = {});
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  /// The model's outputs for any number of samples, in the order of the samples. Inputs that the outputs do not depend
  /// on may be left out.
  Arrays predict(const NamedViews& samples);
  /// Runs a program on request on whole micro-batches of samples; without samples once, when it has no inputs.
  Arrays run(const std::string& program, const NamedViews& samples = {});
  CallTimes times() const;
  /// Bytes that all devices use.
  int64_t bytes() const;
  /// Hash of the learned states that the programs read. When they read all, it equals Training::weights_hash.
  std::string weights_hash() const;

 private:
  struct RAMET_PRIVATE State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::v0
