#pragma once

#include <ramet/ramet.h>

/// Samples that a program makes by itself: sample i is a function of i.
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
