#include "ramet/graphs/pair_lists.h"

#include "ramet/base/error.h"

namespace ramet::graphs {
namespace {

Error unpaired(const GraphSet& set, const PackContents& pack, int32_t source, int32_t target, const std::string& what) {
  const auto node = [&](int32_t number) { return std::to_string(pack.nodes[static_cast<size_t>(number)]); };
  return Error({.what = what,
                .where = set.source(),
                .found = "the edge from node " + node(source) + " to node " + node(target) + " of the set",
                .expected = "edges in both directions, as `--apply radius=R` makes them"});
}

/// Throws Error where an edge lacks its reverse, or `same(a, b)` says that two rows of the field differ.
template <typename Same>
void check_reverses(const GraphSet& set, const PackContents& pack, const PairNumbers& pairs, const Same& same) {
  // The other edges of a source meet its pairs in the same order.
  std::vector<int32_t> next(pairs.ptr.begin(), pairs.ptr.end() - 1);
  for (size_t e = 0; e < pack.edges.size(); ++e) {
    const int32_t source = pack.source[e], target = pack.target[e];
    if (source > target) continue;
    const auto at = static_cast<size_t>(next[static_cast<size_t>(source)]++);
    if (at >= static_cast<size_t>(pairs.ptr[static_cast<size_t>(source) + 1]) || pairs.second[at] != target)
      throw unpaired(set, pack, source, target, "an edge is there without its reverse");
    if (!same(pairs.edge[at], pack.edges[e]))
      throw unpaired(set, pack, source, target, "an edge and its reverse have different values of a field");
  }
  for (size_t i = 0; i < next.size(); ++i)
    if (next[i] < pairs.ptr[i + 1])
      throw unpaired(set, pack, pairs.second[static_cast<size_t>(next[i])], static_cast<int32_t>(i),
                     "an edge is there without its reverse");
}

}  // namespace

PairNumbers pairs_of(const GraphSet& set, size_t field, const PackContents& pack, int64_t nodes) {
  PairNumbers pairs;
  pairs.ptr.assign(static_cast<size_t>(nodes) + 1, 0);
  pairs.second.reserve(pack.edges.size() / 2);
  pairs.edge.reserve(pack.edges.size() / 2);
  // Edges are sorted by target, then by source. So those from a higher to a lower number are the pairs in their order.
  for (size_t e = 0; e < pack.edges.size(); ++e) {
    const int32_t source = pack.source[e], target = pack.target[e];
    if (source == target) throw unpaired(set, pack, source, target, "a pair cannot have one node twice");
    if (source < target) continue;
    ++pairs.ptr[static_cast<size_t>(target) + 1];
    pairs.second.push_back(source);
    pairs.edge.push_back(pack.edges[e]);
  }
  for (size_t i = 1; i < pairs.ptr.size(); ++i) pairs.ptr[i] += pairs.ptr[i - 1];
  const Field& of = set.fields()[field];
  const std::span<const std::byte> bytes = set.bytes(field);
  if (of.dtype == DType::kF32)  // as transforms make them: without a conversion for each edge
    check_reverses(set, pack, pairs, [data = reinterpret_cast<const float*>(bytes.data())](int64_t a, int64_t b) {
      return data[a] == data[b];
    });
  else
    check_reverses(set, pack, pairs,
                   [&](int64_t a, int64_t b) { return field_number(of, bytes, a) == field_number(of, bytes, b); });
  return pairs;
}

}  // namespace ramet::graphs
