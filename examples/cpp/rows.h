#pragma once

#include <ramet/ramet.h>

/// Samples that the program makes: sample i is a function of first + i.
class Rows final : public ramet::Source {
 public:
  static constexpr int64_t kWidth = 16;
  explicit Rows(int64_t first) : first_(first) {}

  void fill(int64_t first, int64_t count, std::span<const ramet::Place> places) const override {
    const std::span<float> rows = places[0].as<float>(), wanted = places[1].as<float>();
    for (int64_t i = 0; i < count; ++i) {
      uint64_t state = static_cast<uint64_t>(first_ + first + i) * 0x9e3779b97f4a7c15u + 1;
      for (int64_t at = 0; at < kWidth; ++at) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        rows[static_cast<size_t>(i * kWidth + at)] = static_cast<float>(state >> 40) / (1 << 23) - 1;
      }
      const float* row = &rows[static_cast<size_t>(i * kWidth)];
      wanted[static_cast<size_t>(i)] = row[0] * row[1] + (row[2] > 0 ? row[3] : row[4]);
    }
  }
  int64_t samples() const override { return 4096; }
  std::string identity() const override { return "rows from " + std::to_string(first_); }

 private:
  const int64_t first_;
};

/// Four residual layers on x [samples, kWidth], and a product that gives one number for each row: [samples].
inline ramet::Tensor predict_rows(ramet::ModelBuilder& m, ramet::Tensor x) {
  using namespace ramet;
  constexpr int64_t kWidth = Rows::kWidth, kInner = 64;
  for (int i = 0; i < 4; ++i) {
    PartScope part(m, "layer", i);
    const std::string name = "layer" + std::to_string(i);
    const Tensor up = m.weight(name + ".up", {kInner, kWidth}, Init::fan_in(), {.axes = {"mlp", "embed"}});
    const Tensor down = m.weight(name + ".down", {kWidth, kInner}, Init::fan_in(0.5), {.axes = {"embed", "mlp"}});
    x = x + matmul(relu(matmul(x, up, false, true)), down, false, true);
  }
  const Tensor last = m.weight("last", {1, kWidth}, Init::fan_in(1));
  return reshape(matmul(x, last, false, true), {x.dim(0)});
}
