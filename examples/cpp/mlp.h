#pragma once

#include <ramet/ramet.h>

#include "fashion.h"

/// An MLP of residual blocks, each of two products. Pipelines and phases cut the model between its parts; tensor shards
/// cut its weights along their axes.
inline ramet::Model mlp(int64_t samples) {
  using namespace ramet;
  constexpr int64_t kWidth = 128, kInner = 256;
  ModelBuilder m("mlp");
  const auto dense = [&](Tensor x, const std::string& name, int64_t out, const char* out_axis, const char* in_axis) {
    return linear(x, m.weight(name + ".weight", {out, x.dim(1)}, Init::fan_in(1), {.axes = {out_axis, in_axis}}),
                  m.weight(name + ".bias", {out}, Init::zeros(), {.axes = {out_axis}}));
  };
  Tensor x = dense(m.input("pixels", DType::kF32, {samples, Fashion::kPixels}), "stem", kWidth, "embed", "");
  for (int i = 0; i < 4; ++i) {
    PartScope part(m, "block", i);
    const std::string name = "block" + std::to_string(i);
    x = x + dense(relu(dense(x, name + ".up", kInner, "mlp", "embed")), name + ".down", kWidth, "embed", "mlp");
  }
  const Tensor logits = dense(relu(x), "head", Fashion::kClasses, "", "embed");
  const CrossEntropy entropy = cross_entropy(logits, m.input("labels", DType::kI32, {samples}, {.low = 0, .high = 9}));
  m.loss(entropy.loss, entropy.count);
  m.metric("accuracy", Ratio{entropy.correct, entropy.count});
  m.output("logits", logits);
  return m.build();
}
