#pragma once

#include "ramet/train.h"

namespace ramet::v0 {

struct PredictOptions {
  Precision precision = Precision::kF32;
  int64_t chunks = 1;  ///< as TrainOptions::chunks
  /// Programs on request to compile; none: that of the model's outputs alone, which `predict` needs ("predict").
  std::vector<std::string> programs{};
  std::string layout{};       ///< docs/layouts.md; "": one device
  int threads = 0;            ///< of all devices together; 0: the layout's, or all processors
  int64_t device_memory = 0;  ///< bytes that each device may take; 0: what there is
  std::string device{};       ///< kind of the devices: "cpu"; "": the default
};

/// How long the calls of a Predictor took, in seconds.
struct CallTimes {
  int64_t calls = 0, samples = 0;
  double seconds = 0;                   ///< of all calls together
  double median = 0, p90 = 0, p99 = 0;  ///< of the last calls: what half, 90% and 99% of them did not exceed
};

/// A model that predicts, without what training needs: weights, and the programs that are asked for. The same weights
/// give the same bits as Training::predict with the same precision and chunks. One thread at a time calls it.
class RAMET_API Predictor {
 public:
  /// `weights`: a file (safetensors, or what PyTorch saves), or a checkpoint that Training::save or `ramet train` made;
  /// "": the model's first values, as those of a file that `ramet export` wrote.
  Predictor(const Model& model, const std::string& weights = "", const PredictOptions& options = {});
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  /// The model's outputs for any number of samples, in their order.
  Arrays predict(const NamedViews& samples);
  /// A program on request, by name, on whole micro-batches of samples (none: once, for a program without inputs).
  Arrays run(const std::string& program, const NamedViews& samples = {});
  CallTimes times() const;
  /// Bytes that all devices take.
  int64_t bytes() const;
  /// Hash of what the programs read of that which the model has learned; Training::weights_hash, where they read all.
  std::string weights_hash() const;

 private:
  struct RAMET_PRIVATE State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::v0
