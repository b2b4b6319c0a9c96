#include "ramet/train/initialize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/base/hash.h"
#include "ramet/base/rng.h"
#include "ramet/transform/filled_state.h"

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

/// Whether an element's first value follows from its index alone, and that value.
bool is_drawn(const StateInit& init) {
  using Kind = StateInit::Kind;
  return init.kind == Kind::kNormal || init.kind == Kind::kTruncatedNormal || init.kind == Kind::kUniform;
}
double value_of(const StateInit& init, int64_t element) {
  switch (init.kind) {
    case StateInit::Kind::kConstant: return init.a;
    case StateInit::Kind::kIota: return init.a + init.b * static_cast<double>(element);
    case StateInit::Kind::kFunction: return init.of_element(element);
    case StateInit::Kind::kData: return init.data->tensor().get(element);
    default: return 0;
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
  if (const auto* function = fill_of(init)) return function->fill(first, to);
  if (init.kind == StateInit::Kind::kData && init.data->type().dtype == DType::kF32) {
    if (!to.empty())
      std::memcpy(to.data(), init.data->bytes().data() + static_cast<size_t>(first) * sizeof(float), to.size_bytes());
    return;
  }
  if (!is_drawn(init)) {
    team.split(static_cast<int64_t>(to.size()), 4096, [&](int64_t from, int64_t behind, int) {
      for (int64_t i = from; i < behind; ++i)
        to[static_cast<size_t>(i)] = static_cast<float>(value_of(init, first + i));
    });
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

void initialize_as_held(const StateTensor& state, uint64_t seed, std::span<std::byte> bytes, ThreadTeam& team,
                        int64_t first) {
  const DType dtype = state.type.dtype;
  const StateInit& init = state.init;
  const auto size = static_cast<int64_t>(size_of(dtype)), count = static_cast<int64_t>(bytes.size()) / size;
  if (dtype == DType::kF32) return initialize_state(state, seed, bytes, team, first);
  if (init.kind == StateInit::Kind::kData && init.data->type().dtype == dtype) {
    std::memcpy(bytes.data(), init.data->bytes().data() + first * size, bytes.size());
    return;
  }
  if (is_floating(dtype) && is_drawn(init)) {
    std::vector<float> values(static_cast<size_t>(count));
    initialize_state(state, seed, std::as_writable_bytes(std::span(values)), team, first);
    for (int64_t i = 0; i < count; ++i)
      store_element(bytes.data(), dtype, i, static_cast<double>(values[static_cast<size_t>(i)]));
    return;
  }
  const RandomStream stream(seed, RandomPurpose::kInit, 0, hash64(state.name));
  const int64_t meaningful = state.unpadded().elements();
  const auto drawn = [&](int64_t element) {
    const auto index = static_cast<uint64_t>(element);
    if (init.kind == StateInit::Kind::kUniform)
      return init.a + static_cast<double>(
                          stream.below(index, static_cast<uint32_t>(std::clamp(init.b - init.a, 1.0, 4294967295.0))));
    return std::nearbyint(init.kind == StateInit::Kind::kNormal
                              ? init.a + init.b * stream.normal(index)
                              : init.a + init.b * truncated_normal(seed, hash64(state.name), index));
  };
  team.split(count, 4096, [&](int64_t from, int64_t behind, int) {
    for (int64_t i = from; i < behind; ++i) {
      const int64_t element = first + i;
      const double value = element >= meaningful ? 0 : is_drawn(init) ? drawn(element) : value_of(init, element);
      store_element(bytes.data(), dtype, i, value);
    }
  });
}

}  // namespace ramet::train
