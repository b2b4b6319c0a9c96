// A search by chance for the least point of a function: each try is a step of a run that `ramet runs` shows.
//
//   log [FOLDER]     the folder of runs (default: runs)

#include <ramet/ramet.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int kTries = 500, kSide = 64;

/// Himmelblau's function: four least points, where it is 0.
double height(double x, double y) { return std::pow(x * x + y - 11, 2) + std::pow(x + y * y - 7, 2); }

/// The function over [-5, 5] x [-5, 5], dark where it is low.
std::vector<uint8_t> picture() {
  std::vector<uint8_t> pixels;
  for (int row = 0; row < kSide; ++row)
    for (int column = 0; column < kSide; ++column) {
      const double x = -5 + 10.0 * column / (kSide - 1), y = 5 - 10.0 * row / (kSide - 1);
      pixels.push_back(static_cast<uint8_t>(std::min(255.0, 30 * std::log1p(height(x, y)))));
    }
  return pixels;
}

void search(const std::string& folder) {
  ramet::Run run({.folder = folder,
                  .name = "search",
                  .tags = {"example"},
                  .config = {{"tries", int64_t{kTries}}, {"function", std::string("Himmelblau")}}});
  const std::vector<uint8_t> pixels = picture();
  run.log_image(0, "function", {.width = kSide, .height = kSide, .channels = 1, .pixels = pixels});
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> anywhere(-5, 5);
  std::vector<float> heights;
  double best = INFINITY;
  for (int64_t step = 1; step <= kTries; ++step) {
    const double found = height(anywhere(random), anywhere(random));
    heights.push_back(static_cast<float>(found));
    if (found < best) best = found;
    run.log(step, {{"height", found}, {"best", best}});
  }
  run.log_histogram(kTries, "heights", ramet::LogHistogram::of(heights));
  if (best > 0.01)
    run.alert(ramet::AlertLevel::kInfo, "no least point was met", "the best height is " + std::to_string(best), kTries);
  run.finish();
  std::printf("best %g; ramet runs show %s\n", best, run.path().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    search(argc > 1 ? argv[1] : "runs");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
