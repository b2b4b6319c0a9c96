#pragma once

#include "ramet/train.h"

namespace ramet::v0 {

struct PredictOptions {
  Precision precision = Precision::kF32;
  int64_t chunks = 1;         ///< as TrainOptions::chunks
  std::string layout{};       ///< docs/layouts.md; "": one device
  int threads = 0;            ///< of all devices together; 0: the layout's, or all processors
  int64_t device_memory = 0;  ///< bytes that each device may take; 0: what there is
};

/// A model that predicts, without what training needs: weights, and the program of its outputs. The same weights give
/// the same bits as Training::predict with the same precision and chunks.
class RAMET_API Predictor {
 public:
  /// `weights`: a file (safetensors, or what PyTorch saves), or a checkpoint that Training::save returned.
  Predictor(const Model& model, const std::string& weights, const PredictOptions& options = {});
  ~Predictor();
  Predictor(Predictor&&) noexcept;
  Predictor& operator=(Predictor&&) noexcept;

  /// The model's outputs for any number of samples, in their order.
  Arrays predict(const NamedViews& samples);
  /// Bytes that all devices take.
  int64_t bytes() const;

 private:
  struct RAMET_PRIVATE State;
  std::unique_ptr<State> state_;
};

}  // namespace ramet::v0
