#include "ramet/train/initialize.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/base/rng.h"

namespace ramet::train {
namespace {

constexpr int64_t kBlock = 4;  // elements of one draw
constexpr double kCut = 2;     // deviations

double truncated_normal(uint64_t seed, uint64_t tensor, uint64_t element) {
  // The step of the counter numbers the attempts; one in twenty needs a second.
  for (uint64_t attempt = 0;; ++attempt) {
    const double value = RandomStream(seed, RandomPurpose::kInit, attempt, tensor).normal(element);
    if (std::fabs(value) <= kCut) return value;
  }
}

}  // namespace

void initialize_state(const StateTensor& state, uint64_t seed, std::span<std::byte> bytes, ThreadTeam& team,
                      int64_t first) {
  if (first % kBlock != 0) internal_error("initialize_state", "first element " + std::to_string(first));
  const std::span<float> all(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
  const int64_t meaningful = std::clamp<int64_t>(state.unpadded().elements() - first, 0, std::ssize(all));
  const std::span<float> to = all.first(static_cast<size_t>(meaningful));
  std::fill(all.begin() + meaningful, all.end(), 0.0f);
  const StateInit& init = state.init;
  if (init.kind == StateInit::Kind::kZeros || init.kind == StateInit::Kind::kConstant) {
    std::fill(to.begin(), to.end(), init.kind == StateInit::Kind::kZeros ? 0.0f : static_cast<float>(init.a));
    return;
  }
  const uint64_t tensor = hash64(state.name);
  const RandomStream stream(seed, RandomPurpose::kInit, 0, tensor);
  team.split(static_cast<int64_t>(to.size()), 4096, [&](int64_t from, int64_t behind, int) {
    const int64_t begin = first + from, end = first + behind;
    for (int64_t block = begin / kBlock; block * kBlock < end; ++block) {
      const auto normals = init.kind == StateInit::Kind::kNormal ? stream.normal_block(static_cast<uint64_t>(block))
                                                                 : std::array<double, 4>{};
      for (int64_t i = block * kBlock; i < std::min(end, (block + 1) * kBlock); ++i) {
        const auto element = static_cast<uint64_t>(i);
        double value = 0;
        if (init.kind == StateInit::Kind::kUniform)
          value = init.a + (init.b - init.a) * static_cast<double>(stream.uniform(element));
        else if (init.kind == StateInit::Kind::kNormal)
          value = init.a + init.b * normals[element % kBlock];
        else
          value = init.a + init.b * truncated_normal(seed, tensor, element);
        to[static_cast<size_t>(i - first)] = static_cast<float>(value);
      }
    }
  });
}

}  // namespace ramet::train
