#include "ramet/graphs/walks.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/data/permutation.h"

namespace ramet::graphs {
namespace {

// Streams of a walk's place in the sequence: its steps, and its negatives.
constexpr uint64_t kSteps = 0, kNegatives = 1;

/// Whether an edge is in the part to train on, where the set has parts of edges.
bool is_walked(const GraphSet& set, size_t edge) {
  if (!set.has("edge.split")) return true;
  const size_t at = set.field("edge.split");
  const Field& field = set.fields()[at];
  const auto part = static_cast<size_t>(field_number(field, set.bytes(at), static_cast<int64_t>(edge)));
  return part < field.values.size() && field.values[part] == "train";
}

}  // namespace

WalkGraph::WalkGraph(const GraphSet& set) {
  if (!set.homogeneous() || set.graphs() != 1 || set.sources(0).empty())
    throw Error({.what = "walks lead through one graph with one type of nodes and of edges, and with edges",
                 .where = set.source(),
                 .found = std::to_string(set.graphs()) + " graphs"});
  ptr_.assign(static_cast<size_t>(set.node_ptr(0)[1]) + 1, 0);
  std::vector<int32_t> sources, targets;
  for (size_t e = 0; e < set.sources(0).size(); ++e) {
    if (!is_walked(set, e)) continue;
    sources.push_back(set.sources(0)[e]), targets.push_back(set.targets(0)[e]);
  }
  if (sources.empty()) throw Error({.what = "there is no edge to train on", .where = set.source() + ": edge.split"});
  for (const int32_t source : sources) ++ptr_[static_cast<size_t>(source) + 1];
  for (size_t i = 1; i < ptr_.size(); ++i) ptr_[i] += ptr_[i - 1];
  std::vector<int64_t> at(ptr_.begin(), ptr_.end() - 1);
  next_.resize(sources.size());
  for (size_t e = 0; e < sources.size(); ++e)
    next_[static_cast<size_t>(at[static_cast<size_t>(sources[e])]++)] = targets[e];
  for (size_t i = 0; i + 1 < ptr_.size(); ++i) std::sort(next_.begin() + ptr_[i], next_.begin() + ptr_[i + 1]);
}

bool WalkGraph::has_edge(int32_t from, int32_t to) const {
  const std::span<const int32_t> targets = next(from);
  return std::binary_search(targets.begin(), targets.end(), to);
}

WalkSource::WalkSource(const GraphSet& set, WalkOptions options)
    : graph_(set), options_(options), contents_(set.contents()) {
  const auto is_weight = [](double value) { return value > 0 && std::isfinite(1 / value); };
  if (options_.length < 2 || options_.per_node < 1 || options_.group < 1 || options_.negatives < 0 ||
      !is_weight(options_.p) || !is_weight(options_.q))
    throw Error({.what = "walks have two nodes or more, and p and q above 0",
                 .where = set.source(),
                 .found = std::to_string(options_.length) + " nodes, p " + std::to_string(options_.p) + ", q " +
                          std::to_string(options_.q)});
}

int64_t WalkSource::epoch_samples(int64_t epoch) const {
  const auto first_of = [&](int64_t number) { return (number * walks() + options_.group - 1) / options_.group; };
  return first_of(epoch + 1) - first_of(epoch);
}

Hash WalkSource::identity() const {
  return source_identity("walks", contents_.hex(),
                         {static_cast<double>(options_.length), static_cast<double>(options_.per_node),
                          static_cast<double>(options_.group), static_cast<double>(options_.negatives), options_.p,
                          options_.q, static_cast<double>(options_.shuffle), static_cast<double>(options_.seed)});
}

Signature WalkSource::signature(int64_t count) const {
  Signature signature{{"walks", TensorType{DType::kI32, {count, options_.group, options_.length}}}};
  if (options_.negatives > 0)
    signature.emplace_back("negatives", TensorType{DType::kI32, {count, options_.group, options_.negatives}});
  return signature;
}

void WalkSource::fill(int64_t first, int64_t count, const Places& places) const {
  check_samples(first, count);
  std::optional<data::Permutation> order;
  int64_t epoch = -1;
  for (int64_t i = 0; i < count * options_.group; ++i) {
    const int64_t number = first * options_.group + i;
    if (options_.shuffle && number / walks() != epoch)
      order.emplace(walks(), options_.seed, static_cast<uint64_t>(epoch = number / walks()), data::kShuffleSamples);
    const int64_t start = order ? (*order)(number % walks()) : number % walks();
    walk(number, static_cast<int32_t>(start % graph_.nodes()),
         reinterpret_cast<int32_t*>(places.tensors[0]) + i * options_.length);
    if (options_.negatives == 0) continue;
    const RandomStream stream(options_.seed, RandomPurpose::kSampling, kNegatives, static_cast<uint64_t>(number));
    int32_t* const negatives = reinterpret_cast<int32_t*>(places.tensors[1]) + i * options_.negatives;
    for (int64_t k = 0; k < options_.negatives; ++k)
      negatives[k] =
          static_cast<int32_t>(stream.below(static_cast<uint64_t>(k), static_cast<uint32_t>(graph_.nodes())));
  }
}

void WalkSource::walk(int64_t number, int32_t start, int32_t* nodes) const {
  const RandomStream stream(options_.seed, RandomPurpose::kSampling, kSteps, static_cast<uint64_t>(number));
  const double back = 1 / options_.p, away = 1 / options_.q, most = std::max({back, 1.0, away});
  uint64_t draw = 0;
  nodes[0] = start;
  for (int64_t i = 1; i < options_.length; ++i) {
    const int32_t at = nodes[i - 1];
    const std::span<const int32_t> next = graph_.next(at);
    nodes[i] = at;
    while (!next.empty()) {
      // A neighbour is drawn evenly, and kept as often as its weight says.
      const std::array<uint32_t, 4> words = stream.block(draw++);
      const int32_t drawn = next[static_cast<size_t>(words[0] * static_cast<uint64_t>(next.size()) >> 32)];
      nodes[i] = drawn;
      if (i == 1) break;
      const int32_t before = nodes[i - 2];
      const double weight = drawn == before ? back : graph_.has_edge(before, drawn) ? 1 : away;
      if (static_cast<double>(words[1]) * 0x1p-32 * most < weight) break;
    }
  }
}

}  // namespace ramet::graphs
