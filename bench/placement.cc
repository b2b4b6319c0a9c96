// How near to the bound buffers are placed, and how fast: synthetic training steps, hard rectangles and random lives,
// by each way alone and by all.   usage: placement [SEEDS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "ramet/program/place.h"

namespace {

using namespace ramet::bench;

/// Forward and backward over layers: kept activations, passing ones, gradients, weights' gradients that live to the
/// update.
std::vector<PlaceItem> transformer(int layers, int per_layer, bool joined, bool recompute, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<PlaceItem> items;
  const int32_t half = layers * per_layer, end = 2 * half;
  const int64_t unit = 1536 * 1024;
  for (int layer = 0; layer < layers; ++layer)
    for (int i = 0; i < per_layer; ++i) {
      const int32_t now = layer * per_layer + i, mirror = end - now;
      const int64_t bytes = unit * std::vector<int64_t>{1, 1, 3, 1, 4, 4, 1}[static_cast<size_t>(i) % 7] +
                            static_cast<int64_t>(random() % 3) * 4096;
      const bool kept = !recompute || i == 0;
      items.push_back({bytes, now, kept ? mirror : now + 2});
      if (!kept) items.push_back({bytes, end - (layer + 1) * per_layer, mirror});
      items.push_back({bytes, mirror - 1, mirror + static_cast<int32_t>(random() % 3)});
      items.push_back({unit * (1 + i % 4), mirror, joined ? mirror + 1 : end + layer});
      items.push_back({static_cast<int64_t>(random() % 64) * 4096, now, now});
    }
  return items;
}

std::vector<PlaceItem> random_lives(int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<PlaceItem> items;
  for (int i = 0; i < count; ++i) {
    const auto first = static_cast<int32_t>(random() % static_cast<uint32_t>(count));
    const auto width =
        static_cast<int32_t>(random() % 4 == 0 ? random() % static_cast<uint32_t>(count / 2) : random() % 8);
    items.push_back({static_cast<int64_t>(1 + random() % 1000) * 64, first, first + width});
  }
  return items;
}

void record(const std::string& name, const std::vector<PlaceItem>& items) {
  const auto start = std::chrono::steady_clock::now();
  const Placement placement = place(items);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%-34s %7zu %9.3f%% %8.3f s  %s\n", name.c_str(), items.size(), 100 * placement.gap(), seconds,
              placement.method.c_str());
}

}  // namespace

int main(int count, char** words) {
  const auto seeds = static_cast<uint32_t>(count > 1 ? std::stoi(words[1]) : 2);
  std::printf("%-34s %7s %10s %10s  %s\n", "trace", "buffers", "gap", "time", "found by");
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    for (int layers : {12, 24, 48})
      for (bool joined : {false, true})
        for (bool recompute : {false, true})
          record("transformer " + std::to_string(layers) + (joined ? " joined" : " apart") +
                     (recompute ? " recompute" : ""),
                 transformer(layers, 14, joined, recompute, seed));
    for (int size : {150, 400, 4000}) record("random lives", random_lives(size, seed));
  }
  return 0;
}
