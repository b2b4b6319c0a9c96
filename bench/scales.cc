// The size of every tensor before the first step, forward and backward: what unit scaling promises to be about 1.
//   build/bench/scales model.preset=base train.scaling=unit [more settings of a recipe] [--all]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "ramet/base/error.h"
#include "ramet/train/scales.h"
#include "ramet/recipe/prepare.h"

int main(int argc, char** argv) {
  using namespace ramet::bench;
  std::vector<std::string> settings = {"train.micro_batch=4"};
  bool all = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--all") == 0)
      all = true;
    else
      settings.emplace_back(argv[i]);
  }
  try {
    const Preparation ready = prepare(parse_recipe("", "scales", ".", settings));
    const auto scales = measure_scales(ready.workload, ready.options);
    std::map<TensorScale::Kind, std::vector<double>> of_kind;
    std::map<TensorScale::Kind, int> outside;
    for (const TensorScale& scale : scales) {
      of_kind[scale.kind].push_back(scale.deviation);
      const bool unit = scale.deviation >= 0.5 && scale.deviation <= 2;
      outside[scale.kind] += !unit;
      if (all || !unit)
        fmt::print("{:16} {:9.4g} most {:9.4g}  {} {}\n", name_of(scale.kind), scale.deviation, scale.most, scale.name,
                   scale.type.text());
    }
    for (auto& [kind, values] : of_kind) {
      std::sort(values.begin(), values.end());
      fmt::print("{:16} {:4} tensors: {:.3g} to {:.3g}, median {:.3g}; {} outside of 0.5 to 2\n", name_of(kind),
                 values.size(), values.front(), values.back(), values[values.size() / 2], outside[kind]);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
