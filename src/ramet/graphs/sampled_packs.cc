// Packs that are parts of one graph: neighbours of nodes, clusters, and what random walks visit.

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/data/permutation.h"
#include "ramet/graphs/packs.h"

namespace ramet::graphs {
namespace {

/// One graph, with the beginnings of the edges of each node.
class OneGraph {
 public:
  explicit OneGraph(std::shared_ptr<const GraphSet> set) : set_(std::move(set)) {
    if (!set_->homogeneous() || set_->graphs() != 1)
      throw Error({.what = "parts are sampled from a set of one homogeneous graph",
                   .where = set_->source(),
                   .found = std::to_string(set_->graphs()) + " graphs"});
    in_.assign(static_cast<size_t>(nodes()) + 1, 0);
    for (const int32_t target : set_->targets(0)) ++in_[static_cast<size_t>(target) + 1];
    for (size_t i = 1; i < in_.size(); ++i) in_[i] += in_[i - 1];
  }
  int64_t nodes() const { return set_->node_ptr(0)[1]; }
  int64_t edges() const { return set_->edge_ptr(0)[1]; }
  int64_t first(int64_t node) const { return in_[static_cast<size_t>(node)]; }
  int64_t last(int64_t node) const { return in_[static_cast<size_t>(node) + 1]; }
  int64_t host_bytes() const { return std::ssize(in_) * 8; }
  int32_t source(int64_t edge) const { return set_->sources(0)[static_cast<size_t>(edge)]; }
  const GraphSet& set() const { return *set_; }

  /// The subgraph of these nodes, which ascend, with all edges among them.
  PackContents induced(std::vector<int64_t> nodes) const {
    PackContents pack{.graphs = {0}, .nodes = std::move(nodes), .edges = {}, .source = {}, .target = {}};
    std::unordered_map<int64_t, int32_t> numbers;
    for (const int64_t node : pack.nodes) numbers.emplace(node, static_cast<int32_t>(numbers.size()));
    for (const int64_t node : pack.nodes)
      for (int64_t edge = first(node); edge < last(node); ++edge)
        if (const auto found = numbers.find(source(edge)); found != numbers.end()) {
          pack.edges.push_back(edge);
          pack.source.push_back(found->second);
          pack.target.push_back(numbers.at(node));
        }
    pack.graph_ptr = {0, static_cast<int32_t>(pack.nodes.size())};
    return pack;
  }

 private:
  std::shared_ptr<const GraphSet> set_;
  std::vector<int64_t> in_;
};

/// The greatest sizes over the packs of `epochs` epochs.
GraphBudget maxima(const Packs& packs, int64_t epochs) {
  GraphBudget most;
  for (int64_t index = 0; packs.epoch_of(index) < epochs; ++index) {
    const GraphBudget sizes = packs.sizes(index);
    most = {std::max(most.graphs, sizes.graphs), std::max(most.nodes, sizes.nodes), std::max(most.edges, sizes.edges)};
  }
  return most;
}

std::string budget_text(const GraphBudget& budget) {
  return std::to_string(budget.nodes) + " nodes and " + std::to_string(budget.edges) + " edges";
}

constexpr const char* kTrimRemedy = "Raise the budget, or leave the last edges out (oversize = \"trim\")";

[[noreturn]] void refuse_pack(const GraphSet& set, int64_t index, const GraphBudget& found, const GraphBudget& room,
                              const std::string& remedy = kTrimRemedy) {
  throw Error({.what = "a sample of the graph does not fit the budget",
               .where = set.source() + ", pack " + std::to_string(index),
               .found = budget_text(found),
               .expected = "at most " + bounds_text({0, room.nodes, room.edges}),
               .remedy = remedy});
}

class NeighborPacks final : public Packs {
 public:
  NeighborPacks(std::shared_ptr<const GraphSet> set, NeighborPackOptions options)
      : graph_(std::move(set)), options_(std::move(options)) {
    if (options_.seeds < 1 || options_.fanout.empty() ||
        std::any_of(options_.fanout.begin(), options_.fanout.end(), [](int64_t k) { return k < 1 && k != -1; }))
      throw Error({.what = "sampling needs seeds, and a fan-out of 1 or more (or -1) for each hop"});
    if (options_.nodes.empty())
      for (int64_t node = 0; node < graph_.nodes(); ++node) options_.nodes.push_back(node);
    options_.nodes.shrink_to_fit();
    for (const int64_t node : options_.nodes)
      if (node < 0 || node >= graph_.nodes())
        throw Error({.what = "there is no node of that number",
                     .where = graph_.set().source(),
                     .found = std::to_string(node),
                     .expected = "0 to " + std::to_string(graph_.nodes() - 1)});
    options_.seeds = std::min(options_.seeds, std::ssize(options_.nodes));
    packs_ = (std::ssize(options_.nodes) + options_.seeds - 1) / options_.seeds;
    find_budget();
  }

  int64_t epoch_of(int64_t index) const override { return index / packs_; }
  int64_t epoch_packs(int64_t) const override { return packs_; }
  GraphBudget budget() const override { return budget_; }
  int64_t host_bytes() const override { return graph_.host_bytes() + std::ssize(options_.nodes) * 8; }

  PackContents contents(int64_t index) const override { return sample(index, budget_); }
  GraphBudget sizes(int64_t index) const override {
    const PackContents pack = sample(index, budget_);
    return {1, std::ssize(pack.nodes), std::ssize(pack.edges)};
  }

  std::string identity() const override {
    Hasher hasher;
    hasher.update(options_.nodes.data(), options_.nodes.size() * sizeof(int64_t));
    std::string text = "neighbors";
    for (const int64_t k : options_.fanout) text += " " + std::to_string(k);
    return text + " / " + std::to_string(options_.seeds) + " " + budget_text(budget_) + " " +
           std::to_string(options_.shuffle) + " " + std::to_string(options_.seed) + " " + hasher.digest().hex();
  }

 private:
  void find_budget() {
    budget_ = {std::max<int64_t>(1, options_.budget.graphs), options_.budget.nodes, options_.budget.edges};
    if (budget_.nodes > 0 && budget_.edges > 0) return;
    const GraphBudget most = maxima(*this, std::max<int64_t>(1, options_.epochs));
    // The maximum of epochs that were sampled is exact; others may need more.
    const double margin = options_.epochs > 0 ? 1.0 : 1.1;
    const auto room = [&](int64_t found, int64_t all) {
      return std::min(all, static_cast<int64_t>(std::ceil(static_cast<double>(found) * margin)));
    };
    if (budget_.nodes == 0) budget_.nodes = room(most.nodes, graph_.nodes());
    if (budget_.edges == 0) budget_.edges = room(most.edges, graph_.edges());
  }

  /// A uniform choice of k of `count` numbers, ascending (Floyd's algorithm: Bentley, CACM 30(9), 1987).
  static void choose(const RandomStream& random, int64_t count, int64_t k, std::vector<int64_t>& chosen) {
    chosen.clear();
    for (int64_t j = count - k; j < count; ++j) {
      const int64_t drawn = random.below(static_cast<uint64_t>(j - (count - k)), static_cast<uint32_t>(j + 1));
      const bool taken = std::find(chosen.begin(), chosen.end(), drawn) != chosen.end();
      chosen.push_back(taken ? j : drawn);
    }
    std::sort(chosen.begin(), chosen.end());
  }

  PackContents sample(int64_t index, const GraphBudget& room) const {
    const auto count = std::ssize(options_.nodes);
    const int64_t first = index % packs_ * options_.seeds;
    PackContents pack{.graphs = {0}, .nodes = {}, .edges = {}, .source = {}, .target = {}};
    std::unordered_map<int64_t, int32_t> numbers;
    const Permutation order(count, options_.seed, static_cast<uint64_t>(epoch_of(index)), kShuffleSamples);
    for (int64_t i = first; i < std::min(first + options_.seeds, count); ++i) {
      const int64_t node = options_.nodes[static_cast<size_t>(options_.shuffle ? order(i) : i)];
      if (numbers.emplace(node, static_cast<int32_t>(numbers.size())).second) pack.nodes.push_back(node);
    }
    pack.seeds = std::ssize(pack.nodes);
    std::vector<int64_t> chosen;
    size_t next = 0;
    for (size_t hop = 0; hop < options_.fanout.size(); ++hop)
      for (const size_t end = pack.nodes.size(); next < end; ++next) {
        const int64_t node = pack.nodes[next], degree = graph_.last(node) - graph_.first(node);
        const int64_t k = options_.fanout[hop] < 0 ? degree : std::min(degree, options_.fanout[hop]);
        if (k < degree) {
          const auto tensor = static_cast<uint64_t>(node) << 8 | hop;
          choose(RandomStream(options_.seed, RandomPurpose::kSampling, static_cast<uint64_t>(index), tensor), degree, k,
                 chosen);
        }
        for (int64_t i = 0; i < k; ++i) {
          const int64_t edge = graph_.first(node) + (k < degree ? chosen[static_cast<size_t>(i)] : i);
          add(pack, numbers, edge, static_cast<int32_t>(next), room);
        }
      }
    if (pack.trimmed > 0 && options_.oversize == Oversize::kRefuse)
      refuse_pack(graph_.set(), index, {1, std::ssize(pack.nodes), std::ssize(pack.edges) + pack.trimmed}, room);
    if (room.nodes > 0 && std::ssize(pack.nodes) > room.nodes)
      refuse_pack(graph_.set(), index, {1, std::ssize(pack.nodes), std::ssize(pack.edges)}, room);
    pack.graph_ptr = {0, static_cast<int32_t>(pack.nodes.size())};
    return pack;
  }

  /// Adds an edge and, where it is new, its source; beyond the room the edge is left out.
  void add(PackContents& pack, std::unordered_map<int64_t, int32_t>& numbers, int64_t edge, int32_t target,
           const GraphBudget& room) const {
    const int64_t source = graph_.source(edge);
    const auto found = numbers.find(source);
    if ((room.edges > 0 && std::ssize(pack.edges) >= room.edges) ||
        (room.nodes > 0 && found == numbers.end() && std::ssize(pack.nodes) >= room.nodes)) {
      ++pack.trimmed;
      return;
    }
    pack.edges.push_back(edge);
    pack.target.push_back(target);
    pack.source.push_back(found != numbers.end() ? found->second : static_cast<int32_t>(pack.nodes.size()));
    if (found != numbers.end()) return;
    numbers.emplace(source, static_cast<int32_t>(pack.nodes.size()));
    pack.nodes.push_back(source);
  }

  OneGraph graph_;
  NeighborPackOptions options_;
  int64_t packs_ = 0;
  GraphBudget budget_{};
};

class ClusterPacks final : public Packs {
 public:
  ClusterPacks(std::shared_ptr<const GraphSet> set, ClusterPackOptions options)
      : graph_(set), options_(std::move(options)) {
    const size_t field = set->field(options_.field);
    if (set->fields()[field].per != Per::kNode || is_floating(set->fields()[field].dtype) ||
        set->fields()[field].shape.elements() != 1)
      throw Error({.what = "clusters must be whole numbers, one a node", .where = options_.field});
    for (int64_t node = 0; node < graph_.nodes(); ++node) {
      const double part = field_number(set->fields()[field], set->bytes(field), node);
      if (part < 0 || part >= static_cast<double>(graph_.nodes()))
        throw Error({.what = "a node is in a cluster that cannot be",
                     .where = options_.field + ", node " + std::to_string(node),
                     .found = std::to_string(static_cast<int64_t>(part))});
      const auto at = static_cast<size_t>(part);
      if (clusters_.size() <= at) clusters_.resize(at + 1);
      clusters_[at].push_back(node);
    }
    for (std::vector<int64_t>& cluster : clusters_) cluster.shrink_to_fit();
    if (options_.per_pack < 1 || options_.per_pack > std::ssize(clusters_))
      throw Error({.what = "a batch cannot have so many clusters",
                   .found = std::to_string(options_.per_pack),
                   .expected = "1 to " + std::to_string(clusters_.size())});
    packs_ = (std::ssize(clusters_) + options_.per_pack - 1) / options_.per_pack;
    find_budget();
  }

  int64_t epoch_of(int64_t index) const override { return index / packs_; }
  int64_t epoch_packs(int64_t) const override { return packs_; }
  GraphBudget budget() const override { return budget_; }
  int64_t host_bytes() const override {
    return graph_.host_bytes() + graph_.nodes() * 8 +
           std::ssize(clusters_) * static_cast<int64_t>(sizeof(clusters_[0]));
  }

  PackContents contents(int64_t index) const override {
    const auto count = std::ssize(clusters_);
    const int64_t first = index % packs_ * options_.per_pack;
    const Permutation order(count, options_.seed, static_cast<uint64_t>(epoch_of(index)), kShuffleSamples);
    std::vector<int64_t> nodes;
    for (int64_t i = first; i < std::min(first + options_.per_pack, count); ++i) {
      const std::vector<int64_t>& cluster = clusters_[static_cast<size_t>(options_.shuffle ? order(i) : i)];
      nodes.insert(nodes.end(), cluster.begin(), cluster.end());
    }
    std::sort(nodes.begin(), nodes.end());
    PackContents pack = graph_.induced(std::move(nodes));
    const GraphBudget found{1, std::ssize(pack.nodes), std::ssize(pack.edges)}, &room = options_.budget;
    if (!within(found, room))
      refuse_pack(graph_.set(), index, found, room, "Raise the budget, or cut the graph into more clusters");
    return pack;
  }

  std::string identity() const override {
    return "clusters " + options_.field + " " + std::to_string(options_.per_pack) + " " +
           std::to_string(options_.shuffle) + " " + std::to_string(options_.seed);
  }

 private:
  void find_budget() {
    const GraphBudget most = options_.epochs > 0 || !options_.shuffle || options_.per_pack == 1
                                 ? maxima(*this, std::max<int64_t>(1, options_.epochs))
                                 : largest();
    const GraphBudget& room = options_.budget;
    budget_ = {std::max<int64_t>(1, room.graphs), room.nodes > 0 ? room.nodes : most.nodes,
               room.edges > 0 ? room.edges : most.edges};
  }
  /// Room for any clusters: the nodes of the largest, and at most all edges that end in a cluster's nodes.
  GraphBudget largest() const {
    std::vector<int64_t> nodes, edges;
    for (const auto& cluster : clusters_) {
      nodes.push_back(std::ssize(cluster));
      edges.push_back(0);
      for (const int64_t node : cluster) edges.back() += graph_.last(node) - graph_.first(node);
    }
    const auto sum = [&](std::vector<int64_t>& sizes) {
      std::sort(sizes.begin(), sizes.end(), std::greater<>());
      int64_t total = 0;
      for (int64_t i = 0; i < options_.per_pack; ++i) total += sizes[static_cast<size_t>(i)];
      return total;
    };
    return {1, sum(nodes), std::min(graph_.edges(), sum(edges))};
  }

  OneGraph graph_;
  ClusterPackOptions options_;
  std::vector<std::vector<int64_t>> clusters_;
  int64_t packs_ = 0;
  GraphBudget budget_{};
};

class WalkPacks final : public Packs {
 public:
  WalkPacks(std::shared_ptr<const GraphSet> set, WalkPackOptions options)
      : graph_(std::move(set)), options_(std::move(options)) {
    if (options_.roots < 1 || options_.length < 0 || options_.counted < 0)
      throw Error({.what = "random walks need a root, and no fewer than 0 steps and counted packs"});
    packs_ = options_.packs > 0 ? options_.packs : std::max<int64_t>(1, graph_.nodes() / options_.roots);
    budget_ = {std::max<int64_t>(1, options_.budget.graphs), options_.budget.nodes, options_.budget.edges};
    find_budget();
    if (options_.counted > 0) count();
  }

  std::shared_ptr<const SampleCounts> counts() const override { return counts_; }

  int64_t epoch_of(int64_t index) const override { return index / packs_; }
  int64_t epoch_packs(int64_t) const override { return packs_; }
  GraphBudget budget() const override { return budget_; }
  int64_t host_bytes() const override { return graph_.host_bytes() + (counts_ ? counts_->host_bytes() : 0); }

  PackContents contents(int64_t index) const override {
    const RandomStream random(options_.seed, RandomPurpose::kSampling, static_cast<uint64_t>(index),
                              hash64("random walks"));
    std::vector<int64_t> nodes;
    uint64_t draw = 0;
    for (int64_t i = 0; i < options_.roots; ++i) {
      int64_t node = random.below(draw++, static_cast<uint32_t>(graph_.nodes()));
      nodes.push_back(node);
      for (int64_t step = 0; step < options_.length; ++step) {
        const int64_t degree = graph_.last(node) - graph_.first(node);
        const uint64_t at = draw++;
        if (degree == 0) continue;
        node = graph_.source(graph_.first(node) + random.below(at, static_cast<uint32_t>(degree)));
        nodes.push_back(node);
      }
    }
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    PackContents pack = graph_.induced(std::move(nodes));
    const GraphBudget found{1, std::ssize(pack.nodes), std::ssize(pack.edges)};
    if (budget_.nodes > 0 && found.nodes > budget_.nodes) refuse_pack(graph_.set(), index, found, budget_);
    if (budget_.edges > 0 && found.edges > budget_.edges) {
      if (options_.oversize == Oversize::kRefuse) refuse_pack(graph_.set(), index, found, budget_);
      pack.trimmed = found.edges - budget_.edges;
      pack.edges.resize(static_cast<size_t>(budget_.edges));
      pack.source.resize(static_cast<size_t>(budget_.edges));
      pack.target.resize(static_cast<size_t>(budget_.edges));
    }
    return pack;
  }

  std::string identity() const override {
    return "walks " + std::to_string(options_.roots) + " " + std::to_string(options_.length) + " " +
           std::to_string(packs_) + " " + budget_text(budget_) + " " + std::to_string(options_.seed) +
           (options_.counted > 0 ? " counted " + std::to_string(options_.counted) : "");
  }

 private:
  void find_budget() {
    if (budget_.nodes > 0 && budget_.edges > 0) return;
    // Counted packs are packs of the run; they must have room where the run is shorter, too.
    const int64_t counted = (options_.counted + packs_ - 1) / packs_;
    const GraphBudget most = maxima(*this, std::max({int64_t{1}, options_.epochs, counted}));
    if (budget_.nodes == 0)
      budget_.nodes =
          options_.epochs > 0 ? most.nodes : std::min(graph_.nodes(), options_.roots * (options_.length + 1));
    if (budget_.edges == 0)
      budget_.edges = options_.epochs > 0 ? most.edges : std::min(graph_.edges(), most.edges + most.edges / 10 + 1);
  }
  void count() {
    auto counts = std::make_shared<SampleCounts>();
    counts->packs = options_.counted;
    counts->nodes.assign(static_cast<size_t>(graph_.nodes()), 0);
    counts->edges.assign(static_cast<size_t>(graph_.edges()), 0);
    for (int64_t index = 0; index < options_.counted; ++index) {
      const PackContents pack = contents(index);
      for (const int64_t node : pack.nodes) ++counts->nodes[static_cast<size_t>(node)];
      for (const int64_t edge : pack.edges) ++counts->edges[static_cast<size_t>(edge)];
    }
    counts_ = std::move(counts);
  }

  OneGraph graph_;
  WalkPackOptions options_;
  int64_t packs_ = 0;
  std::shared_ptr<const SampleCounts> counts_;
  GraphBudget budget_{};
};

}  // namespace

std::shared_ptr<const Packs> make_neighbor_packs(std::shared_ptr<const GraphSet> set, NeighborPackOptions options) {
  return std::make_shared<NeighborPacks>(std::move(set), std::move(options));
}
std::shared_ptr<const Packs> make_cluster_packs(std::shared_ptr<const GraphSet> set, ClusterPackOptions options) {
  return std::make_shared<ClusterPacks>(std::move(set), std::move(options));
}
std::shared_ptr<const Packs> make_walk_packs(std::shared_ptr<const GraphSet> set, WalkPackOptions options) {
  return std::make_shared<WalkPacks>(std::move(set), std::move(options));
}

}  // namespace ramet::graphs
