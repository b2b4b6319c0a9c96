#include <algorithm>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/graphs/categories.h"
#include "ramet/graphs/transform.h"

namespace ramet::graphs {
namespace {

/// Sets of nodes that links join.
class Joined {
 public:
  explicit Joined(int64_t nodes) : parent_(static_cast<size_t>(nodes)) {
    std::iota(parent_.begin(), parent_.end(), int64_t{0});
  }
  /// False where both are in one set already.
  bool join(int64_t a, int64_t b) {
    const int64_t first = root_of(a), second = root_of(b);
    parent_[static_cast<size_t>(first)] = second;
    return first != second;
  }

 private:
  int64_t root_of(int64_t node) {
    while (parent_[static_cast<size_t>(node)] != node) {
      int64_t& parent = parent_[static_cast<size_t>(node)];
      node = parent = parent_[static_cast<size_t>(parent)];
    }
    return node;
  }
  std::vector<int64_t> parent_;
};

/// Two nodes and the edges between them, in either direction.
struct Link {
  int64_t low = 0, high = 0;
  std::vector<int64_t> edges{};
};

std::vector<Link> links_of(const GraphTables& tables, const EdgeTable& table) {
  const std::vector<int64_t>& nodes = tables.nodes[0].ptr;
  std::vector<std::pair<std::pair<int64_t, int64_t>, int64_t>> ends;
  for (size_t g = 0; g + 1 < table.ptr.size(); ++g)
    for (int64_t e = table.ptr[g]; e < table.ptr[g + 1]; ++e) {
      const int64_t a = nodes[g] + table.source[static_cast<size_t>(e)],
                    b = nodes[g] + table.target[static_cast<size_t>(e)];
      ends.push_back({{std::min(a, b), std::max(a, b)}, e});
    }
  std::sort(ends.begin(), ends.end());
  std::vector<Link> links;
  for (const auto& [pair, edge] : ends) {
    if (pair.first == pair.second) continue;
    if (links.empty() || links.back().low != pair.first || links.back().high != pair.second)
      links.push_back({pair.first, pair.second});
    links.back().edges.push_back(edge);
  }
  return links;
}

}  // namespace

void split_links(GraphTables& tables, const std::string& edges, const std::vector<int64_t>& shares, uint64_t seed) {
  const EdgeTable& table = edges_within(tables, edges);
  if (tables.nodes.size() != 1)
    throw Error({.what = "links are split where there is one type of nodes",
                 .where = "split-links",
                 .found = std::to_string(tables.nodes.size()) + " types"});
  const int64_t total = shares[0] + shares[1] + shares[2];
  if (total < 1) throw Error({.what = "the parts of a split are empty", .where = "split-links", .found = edges});
  std::vector<Link> links = links_of(tables, table);
  const RandomStream random(seed, RandomPurpose::kSampling, 0, hash64("links"));
  for (size_t i = links.size(); i > 1; --i) std::swap(links[i - 1], links[random.below(i, static_cast<uint32_t>(i))]);
  const int64_t count = std::ssize(links), train = count * shares[0] / total,
                validation = count * (shares[0] + shares[1]) / total - train;
  std::vector<uint8_t> part(table.source.size(), kTrain);
  Joined joined(tables.nodes[0].ptr.back());
  int64_t test = count - train - validation, validated = validation;
  for (const Link& link : links) {
    // A link that alone joins two parts of the graph is one to train on, so that the rest stays as joined as it was.
    if (joined.join(link.low, link.high)) continue;
    const uint8_t to = test > 0 ? kTest : validated > 0 ? kValidation : kTrain;
    (to == kTest ? test : validated) -= to == kTrain ? 0 : 1;
    for (const int64_t edge : link.edges) part[static_cast<size_t>(edge)] = to;
  }
  if (test > 0 || validated > 0)
    throw Error({.what = "so many links cannot be held out without taking the graph apart",
                 .where = "split-links",
                 .found = std::to_string(count - train) + " of " + std::to_string(count) + " links",
                 .expected = "at most " + std::to_string(count - train - test - validated),
                 .remedy = "Give training a greater share"});
  tables.set_field({.name = "split", .per = Per::kEdge, .of = edges, .dtype = DType::kU8, .values = split_names()},
                   part);
}

}  // namespace ramet::graphs
