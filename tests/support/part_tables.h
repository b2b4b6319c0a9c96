#pragma once

#include <map>
#include <utility>
#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/base/rng.h"
#include "ramet/ops/parts.h"

namespace ramet::tests::parts {

/// A small random graph whose nodes are dealt to parts.
inline constexpr int64_t kParts = 4, kRows = 6, kFeatures = 8;

/// For each of the kParts x kRows nodes its neighbours in global numbers.
inline std::vector<std::vector<int32_t>> neighbours() {
  std::vector<std::vector<int32_t>> result;
  const RandomStream stream(1, RandomPurpose::kTest, 0, 0);
  uint64_t drawn = 0;
  for (int64_t node = 0; node < kParts * kRows; ++node) {
    auto& list = result.emplace_back();
    // Part 3 has few edges, so that its tables are padded.
    const uint32_t degree = node / kRows == 3 ? 1 : 1 + stream.below(drawn++, 5);
    for (uint32_t i = 0; i < degree; ++i)
      list.push_back(static_cast<int32_t>(stream.below(drawn++, static_cast<uint32_t>(kParts * kRows))));
  }
  return result;
}

/// Tables of all parts, as `exchange_rows`, `gather_parts` and `scatter_parts` read them. Sources count a part's own
/// rows first, then what each part sends it.
struct Tables {
  HostTensor send, sources, targets;
};

inline Tables tables() {
  const auto graph = neighbours();
  std::vector<std::vector<int32_t>> sent(static_cast<size_t>(kParts * kParts));  // [from, to]
  std::map<std::pair<int64_t, int32_t>, int64_t> place;                          // of a foreign node in a part
  for (int64_t node = 0; node < kParts * kRows; ++node)
    for (int32_t source : graph[static_cast<size_t>(node)]) {
      const int64_t to = node / kRows, from = source / kRows;
      auto& list = sent[static_cast<size_t>(from * kParts + to)];
      if (from == to || !place.emplace(std::pair{to, source}, static_cast<int64_t>(list.size())).second) continue;
      list.push_back(static_cast<int32_t>(source % kRows));
    }
  Tables result;
  result.send = padded_table(sent);
  const int64_t longest = result.send.type.shape[1];
  result.send.type.shape = Shape{kParts, kParts, longest};
  std::vector<std::vector<int32_t>> sources(kParts), targets(kParts);
  for (int64_t node = 0; node < kParts * kRows; ++node)
    for (int32_t source : graph[static_cast<size_t>(node)]) {
      const int64_t to = node / kRows, from = source / kRows;
      sources[static_cast<size_t>(to)].push_back(
          static_cast<int32_t>(from == to ? source % kRows : kRows + from * longest + place.at({to, source})));
      targets[static_cast<size_t>(to)].push_back(static_cast<int32_t>(node % kRows));
    }
  result.sources = padded_table(sources);
  result.targets = padded_table(targets);
  return result;
}

/// A number for each feature of each node: [kParts, kRows, kFeatures].
inline HostTensor features() {
  HostTensor features(TensorType{DType::kF32, Shape{kParts, kRows, kFeatures}});
  const RandomStream stream(2, RandomPurpose::kTest, 0, 0);
  for (int64_t i = 0; i < features.elements(); ++i) features.set(i, stream.normal(static_cast<uint64_t>(i)));
  return features;
}

}  // namespace ramet::tests::parts
