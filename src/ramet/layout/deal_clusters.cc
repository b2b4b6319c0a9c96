#include "ramet/layout/deal_clusters.h"

#include <algorithm>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/ops/halo.h"
#include "ramet/transform/cluster_sums.h"

namespace ramet::layout {
namespace {

[[noreturn]] void refuse(const std::string& key, const std::string& what, const std::string& found,
                         const std::string& expected) {
  throw Error({.what = what, .where = "layout " + key, .found = found, .expected = expected});
}

/// Rows that two clusters fetch of one another, over all nodes that fetch rows: [K, K], symmetric.
std::vector<int64_t> exchanged_rows(const Graph& graph, int64_t clusters) {
  std::vector<int64_t> rows(static_cast<size_t>(clusters * clusters), 0);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (!fetches_rows(*node.op)) continue;
    const TensorData& table = node.attributes.get_tensor("rows");
    if (table.type().shape[0] != clusters) continue;
    const int64_t places = table.type().shape[1], own = graph.type(node.inputs[0]).shape[1];
    const auto* numbers = reinterpret_cast<const int32_t*>(table.bytes().data());
    for (int64_t i = 0; i < clusters * places; ++i) {
      if (numbers[i] < 0) continue;
      const int64_t reader = i / places, owner = numbers[i] / own;
      ++rows[static_cast<size_t>(reader * clusters + owner)];
      ++rows[static_cast<size_t>(owner * clusters + reader)];
    }
  }
  return rows;
}

std::vector<int64_t> deal_near(const Graph& graph, int64_t clusters, int64_t devices) {
  const std::vector<int64_t> rows = exchanged_rows(graph, clusters);
  std::vector<int64_t> deal;
  std::vector<bool> taken(static_cast<size_t>(clusters), false);
  for (int64_t device = 0; device < devices; ++device) {
    std::vector<int64_t> pull(static_cast<size_t>(clusters), 0);  // rows that each exchanges with those of the device
    for (int64_t i = 0; i < clusters / devices; ++i) {
      int64_t best = -1;
      for (int64_t k = 0; k < clusters; ++k)
        if (!taken[static_cast<size_t>(k)] &&
            (best < 0 || pull[static_cast<size_t>(k)] > pull[static_cast<size_t>(best)]))
          best = k;
      taken[static_cast<size_t>(best)] = true;
      deal.push_back(best);
      for (int64_t k = 0; k < clusters; ++k)
        pull[static_cast<size_t>(k)] += rows[static_cast<size_t>(best * clusters + k)];
    }
  }
  return deal;
}

std::vector<int64_t> deal_at_random(int64_t clusters, uint64_t seed) {
  std::vector<int64_t> deal(static_cast<size_t>(clusters));
  std::iota(deal.begin(), deal.end(), 0);
  const RandomStream random(seed, RandomPurpose::kSampling, 0, hash64("deal"));
  for (int64_t i = clusters - 1; i > 0; --i)
    std::swap(deal[static_cast<size_t>(i)],
              deal[static_cast<size_t>(random.below(static_cast<uint64_t>(i), static_cast<uint32_t>(i + 1)))]);
  return deal;
}

std::vector<int64_t> listed(const std::string& text, int64_t clusters) {
  std::vector<int64_t> deal;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('+', begin), text.size());
    deal.push_back(std::stoll(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  std::vector<int64_t> sorted = deal;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t k = 0; k < std::max(clusters, std::ssize(sorted)); ++k)
    if (k >= clusters || k >= std::ssize(sorted) || sorted[static_cast<size_t>(k)] != k)
      refuse("deal", "not the number of every cluster once", "'" + text.substr(0, 100) + "'",
             "each of 0 to " + std::to_string(clusters - 1));
  return deal;
}

}  // namespace

std::vector<int64_t> deal_clusters(const Graph& graph, const Layout& layout) {
  const int64_t clusters = transform::clusters_of(graph), devices = layout.g;
  if (clusters == 0 || clusters % devices != 0)
    refuse("g", "the clusters of the graph do not divide among the devices", std::to_string(devices),
           clusters == 0 ? "a model that reads a graph in clusters"
                         : "a divisor of " + std::to_string(clusters) + " clusters");
  std::vector<int64_t> order(static_cast<size_t>(clusters));
  std::iota(order.begin(), order.end(), 0);
  if (layout.deal == "order") return order;
  if (layout.deal == "near") return deal_near(graph, clusters, devices);
  if (layout.deal.starts_with("random:")) return deal_at_random(clusters, std::stoull(layout.deal.substr(7)));
  return listed(layout.deal, clusters);
}

}  // namespace ramet::layout
