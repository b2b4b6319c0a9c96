// Packs of whole graphs.

#include <algorithm>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>

#include "ramet/base/error.h"
#include "ramet/data/permutation.h"
#include "ramet/graphs/packs.h"
#include "ramet/text/packing.h"

namespace ramet::graphs {
namespace {

/// What all packs of whole graphs share.
class GraphPacks : public Packs {
 public:
  GraphPacks(std::shared_ptr<const GraphSet> set, GraphPackOptions options)
      : set_(std::move(set)), options_(std::move(options)) {
    if (!set_->homogeneous())
      throw Error({.what = "batches are made of sets with one type of nodes and one of edges",
                   .where = set_->source(),
                   .found = std::to_string(set_->node_types().size()) + " types of nodes, " +
                            std::to_string(set_->edge_types().size()) + " of edges"});
    if (options_.graphs.empty()) {
      options_.graphs.resize(static_cast<size_t>(set_->graphs()));
      std::iota(options_.graphs.begin(), options_.graphs.end(), int64_t{0});
    }
    for (const int64_t graph : options_.graphs)
      if (graph < 0 || graph >= set_->graphs())
        throw Error({.what = "there is no graph of that number",
                     .where = set_->source(),
                     .found = std::to_string(graph),
                     .expected = "0 to " + std::to_string(set_->graphs() - 1)});
  }

  /// Graphs of a pack, in order.
  virtual std::vector<int64_t> graphs_of(int64_t index) const = 0;

  GraphBudget budget() const override { return budget_; }
  int64_t skipped() const override { return skipped_; }
  int64_t host_bytes() const override { return std::ssize(options_.graphs) * 8; }

  GraphBudget sizes(int64_t index) const override { return sum_of(index, graphs_of(index)); }

  PackContents contents(int64_t index) const override {
    PackContents pack;
    pack.graphs = graphs_of(index);
    const GraphBudget all = sum_of(index, pack.graphs);
    pack.nodes.resize(static_cast<size_t>(all.nodes));
    pack.edges.resize(static_cast<size_t>(all.edges));
    pack.source.resize(static_cast<size_t>(all.edges));
    pack.target.resize(static_cast<size_t>(all.edges));
    const auto sources = set_->sources(0), targets = set_->targets(0);
    size_t node = 0, edge = 0;
    for (const int64_t graph : pack.graphs) {
      const auto first = static_cast<int32_t>(node);
      const int64_t first_node = set_->node_ptr(0)[static_cast<size_t>(graph)], nodes = nodes_of(graph);
      const int64_t first_edge = set_->edge_ptr(0)[static_cast<size_t>(graph)], edges = edges_of(graph);
      for (int64_t i = 0; i < nodes; ++i) pack.nodes[node++] = first_node + i;
      for (int64_t i = first_edge; i < first_edge + edges; ++i, ++edge) {
        pack.edges[edge] = i;
        pack.source[edge] = first + sources[static_cast<size_t>(i)];
        pack.target[edge] = first + targets[static_cast<size_t>(i)];
      }
      pack.graph_ptr.push_back(static_cast<int32_t>(node));
    }
    return pack;
  }

  std::string identity() const override {
    Hasher hasher;
    hasher.update(options_.graphs.data(), options_.graphs.size() * sizeof(int64_t));
    const GraphBudget& b = options_.budget;
    return "graphs " + std::to_string(static_cast<int>(options_.packing)) + " " + std::to_string(options_.count) + " " +
           std::to_string(b.graphs) + " " + std::to_string(b.nodes) + " " + std::to_string(b.edges) + " " +
           std::to_string(static_cast<int>(options_.oversize)) + " " + std::to_string(options_.shuffle) + " " +
           std::to_string(options_.seed) + " " + hasher.digest().hex();
  }

 protected:
  int64_t nodes_of(int64_t graph) const {
    return set_->node_ptr(0)[static_cast<size_t>(graph) + 1] - set_->node_ptr(0)[static_cast<size_t>(graph)];
  }
  int64_t edges_of(int64_t graph) const {
    return set_->edge_ptr(0)[static_cast<size_t>(graph) + 1] - set_->edge_ptr(0)[static_cast<size_t>(graph)];
  }
  void add(GraphBudget& sum, int64_t graph) const {
    ++sum.graphs, sum.nodes += nodes_of(graph), sum.edges += edges_of(graph);
  }
  /// The sizes of a pack of these graphs.
  GraphBudget sum_of(int64_t index, const std::vector<int64_t>& graphs) const {
    GraphBudget sum;
    for (const int64_t graph : graphs) add(sum, graph);
    if (options_.oversize == Oversize::kRefuse && !within(sum, options_.budget))
      throw Error({.what = "graphs of a pack do not fit the budget together",
                   .where = set_->source() + ", pack " + std::to_string(index),
                   .found = bounds_text(sum),
                   .expected = "at most " + bounds_text(options_.budget),
                   .remedy = "Raise the budget, or give a pack fewer graphs"});
    return sum;
  }
  /// The order of `count` things in an epoch.
  std::optional<Permutation> order(int64_t count, int64_t epoch, uint64_t tag) const {
    if (!options_.shuffle || count == 0) return {};
    return Permutation(count, options_.seed, static_cast<uint64_t>(epoch), tag);
  }
  /// Leaves out, or refuses, graphs that do not fit the budget.
  void drop_oversize() {
    std::vector<int64_t> kept;
    for (const int64_t graph : options_.graphs) {
      GraphBudget one;
      add(one, graph);
      if (within(one, options_.budget)) {
        kept.push_back(graph);
        continue;
      }
      if (options_.oversize == Oversize::kRefuse)
        throw Error({.what = "a graph does not fit the budget",
                     .where = set_->source() + ", graph " + std::to_string(graph),
                     .found = std::to_string(one.nodes) + " nodes and " + std::to_string(one.edges) + " edges",
                     .expected = "at most " + bounds_text(options_.budget),
                     .remedy = "Raise the budget, or leave such graphs out (oversize = \"trim\")"});
      ++skipped_;
    }
    options_.graphs = std::move(kept);
    if (options_.graphs.empty()) throw Error({.what = "no graph fits the budget", .where = set_->source()});
  }
  /// Raises each bound that is 0 to the greatest size of the packs of the run.
  void take_maxima() {
    GraphBudget most;
    for (int64_t index = 0; epoch_of(index) < options_.epochs; ++index) {
      const GraphBudget sizes = this->sizes(index);
      most = {std::max(most.graphs, sizes.graphs), std::max(most.nodes, sizes.nodes),
              std::max(most.edges, sizes.edges)};
    }
    fill_budget(most);
  }
  void fill_budget(const GraphBudget& most) {
    budget_ = options_.budget;
    for (const auto& [own, found] : {std::pair(&budget_.graphs, most.graphs), std::pair(&budget_.nodes, most.nodes),
                                     std::pair(&budget_.edges, most.edges)})
      if (*own == 0) *own = found;
  }
  /// The sizes of the `count` graphs that have the most nodes, and of those that have the most edges.
  GraphBudget largest(int64_t count) const {
    count = std::min(count, std::ssize(options_.graphs));
    const auto sum = [&](const std::function<int64_t(int64_t)>& size) {
      std::vector<int64_t> sizes;
      for (const int64_t graph : options_.graphs) sizes.push_back(size(graph));
      std::partial_sort(sizes.begin(), sizes.begin() + count, sizes.end(), std::greater<>());
      return std::accumulate(sizes.begin(), sizes.begin() + count, int64_t{0});
    };
    return {count, sum([&](int64_t g) { return nodes_of(g); }), sum([&](int64_t g) { return edges_of(g); })};
  }

  std::shared_ptr<const GraphSet> set_;
  GraphPackOptions options_;
  GraphBudget budget_{};
  int64_t skipped_ = 0;
};

class CountPacks final : public GraphPacks {
 public:
  CountPacks(std::shared_ptr<const GraphSet> set, GraphPackOptions options)
      : GraphPacks(std::move(set), std::move(options)) {
    if (options_.count < 1) throw Error({.what = "a batch must have a graph", .found = std::to_string(options_.count)});
    options_.count = std::min(options_.count, std::ssize(options_.graphs));
    drop_oversize();
    packs_ = (std::ssize(options_.graphs) + options_.count - 1) / options_.count;
    const GraphBudget one = largest(1);
    if (options_.packing == GraphPacking::kPadToMax)
      fill_budget({options_.count, one.nodes * options_.count, one.edges * options_.count});
    else if (options_.epochs > 0)
      take_maxima();
    else
      fill_budget(largest(options_.count));
    budget_.graphs = std::max(budget_.graphs, options_.count);
  }

  int64_t epoch_of(int64_t index) const override { return index / packs_; }
  int64_t epoch_packs(int64_t) const override { return packs_; }
  std::vector<int64_t> graphs_of(int64_t index) const override {
    const auto count = std::ssize(options_.graphs);
    const auto order = this->order(count, epoch_of(index), kShuffleSamples);
    std::vector<int64_t> graphs;
    const int64_t first = index % packs_ * options_.count;
    for (int64_t i = first; i < std::min(first + options_.count, count); ++i)
      graphs.push_back(options_.graphs[static_cast<size_t>(order ? (*order)(i) : i)]);
    return graphs;
  }

 private:
  int64_t packs_ = 0;
};

/// Where a pack of a stream begins is known once all packs before it are; the beginnings are kept.
class StreamPacks final : public GraphPacks {
 public:
  StreamPacks(std::shared_ptr<const GraphSet> set, GraphPackOptions options)
      : GraphPacks(std::move(set), std::move(options)) {
    if (options_.budget.nodes < 1)
      throw Error(
          {.what = "a stream of graphs needs a budget of nodes", .found = std::to_string(options_.budget.nodes)});
    drop_oversize();
    if (options_.budget.edges > 0 && options_.budget.graphs > 0) {
      budget_ = options_.budget;
    } else if (options_.epochs > 0) {
      take_maxima();
    } else {
      // As many graphs as there can be of the smallest; an empty one takes no room at all.
      int64_t least = INT64_MAX;
      for (const int64_t graph : options_.graphs) least = std::min(least, nodes_of(graph));
      const auto all = std::ssize(options_.graphs);
      const int64_t most = options_.budget.graphs > 0 ? options_.budget.graphs
                           : least > 0                ? std::min(all, options_.budget.nodes / least)
                                                      : all;
      options_.budget.graphs = most;
      fill_budget({most, options_.budget.nodes, largest(most).edges});
    }
  }

  int64_t epoch_of(int64_t index) const override { return first_of(index) / std::ssize(options_.graphs); }
  int64_t host_bytes() const override {
    std::lock_guard lock(mutex_);
    return GraphPacks::host_bytes() + std::ssize(starts_) * 8;
  }
  int64_t epoch_packs(int64_t epoch) const override {
    const auto size = std::ssize(options_.graphs);
    std::lock_guard lock(mutex_);
    while (starts_.back() < (epoch + 1) * size) extend();
    const auto begin = std::lower_bound(starts_.begin(), starts_.end(), epoch * size);
    return std::lower_bound(begin, starts_.end(), (epoch + 1) * size) - begin;
  }
  std::vector<int64_t> graphs_of(int64_t index) const override {
    const int64_t first = first_of(index), last = first_of(index + 1);
    std::vector<int64_t> graphs;
    for (int64_t i = first; i < last; ++i) graphs.push_back(graph_at(i));
    return graphs;
  }

 private:
  int64_t graph_at(int64_t position) const {
    const auto size = std::ssize(options_.graphs);
    const int64_t epoch = position / size, at = position % size;
    const auto order = this->order(size, epoch, kShuffleSamples);
    return options_.graphs[static_cast<size_t>(order ? (*order)(at) : at)];
  }
  int64_t first_of(int64_t index) const {
    std::lock_guard lock(mutex_);
    while (std::ssize(starts_) <= index) extend();
    return starts_[static_cast<size_t>(index)];
  }
  /// Finds where the next pack begins.
  void extend() const {
    GraphBudget sum;
    int64_t at = starts_.back();
    for (;; ++at) {
      GraphBudget next = sum;
      add(next, graph_at(at));
      // A pack of one epoch's graphs only: a graph does not stand twice in it.
      if (!within(next, options_.budget) || at - starts_.back() == std::ssize(options_.graphs)) break;
      sum = next;
    }
    starts_.push_back(at);
  }

  mutable std::mutex mutex_;
  mutable std::vector<int64_t> starts_{0};
};

class HistogramPacks final : public GraphPacks {
 public:
  HistogramPacks(std::shared_ptr<const GraphSet> set, GraphPackOptions options)
      : GraphPacks(std::move(set), std::move(options)) {
    if (options_.budget.nodes < 1)
      throw Error(
          {.what = "histogram packing needs a budget of nodes", .found = std::to_string(options_.budget.nodes)});
    drop_oversize();
    by_size_.resize(static_cast<size_t>(options_.budget.nodes) + 1);
    LengthHistogram histogram{std::vector<int64_t>(by_size_.size())};
    for (const int64_t graph : options_.graphs) {
      const auto size = static_cast<size_t>(size_of(graph));
      by_size_[size].push_back(graph);
      ++histogram.counts[size];
    }
    const text::Packing packing = pack_histogram(histogram, PackingAlgorithm::kLpfhp, options_.budget.graphs);
    std::vector<int64_t> next(by_size_.size());
    for (const PackKind& kind : packing.kinds)
      for (int64_t i = 0; i < kind.packs; ++i) {
        std::vector<std::pair<int32_t, int64_t>> slots;
        for (const int32_t length : kind.lengths) slots.emplace_back(length, next[static_cast<size_t>(length)]++);
        slots.shrink_to_fit();
        packs_.push_back(std::move(slots));
      }
    packs_.shrink_to_fit();
    for (std::vector<int64_t>& same : by_size_) same.shrink_to_fit();
    const int64_t deepest = packing.deepest();
    if (options_.epochs > 0)
      take_maxima();
    else
      fill_budget({deepest, options_.budget.nodes, largest(deepest).edges});
  }

  int64_t epoch_of(int64_t index) const override { return index / std::ssize(packs_); }
  int64_t host_bytes() const override {
    // Every graph is in the table of its size, and has a place in a pack.
    using Slots = std::vector<std::pair<int32_t, int64_t>>;
    return GraphPacks::host_bytes() +
           std::ssize(options_.graphs) * static_cast<int64_t>(8 + sizeof(Slots::value_type)) +
           (std::ssize(packs_) + std::ssize(by_size_)) * static_cast<int64_t>(sizeof(Slots));
  }
  int64_t epoch_packs(int64_t) const override { return std::ssize(packs_); }
  std::vector<int64_t> graphs_of(int64_t index) const override {
    const int64_t epoch = epoch_of(index), at = index % std::ssize(packs_);
    const auto order = this->order(std::ssize(packs_), epoch, kShuffleRows);
    std::vector<int64_t> graphs;
    for (const auto& [size, slot] : packs_[static_cast<size_t>(order ? (*order)(at) : at)]) {
      const std::vector<int64_t>& same = by_size_[static_cast<size_t>(size)];
      // Graphs of one size change places in every epoch; each size has an order of its own.
      const auto place = this->order(std::ssize(same), epoch * std::ssize(by_size_) + size, kShuffleSamples);
      graphs.push_back(same[static_cast<size_t>(place ? (*place)(slot) : slot)]);
    }
    return graphs;
  }

 private:
  /// The share of the budget that a graph takes, in nodes: of nodes or of edges, whichever is more. Graphs whose sizes
  /// fit the budget of nodes together so fit both budgets.
  int64_t size_of(int64_t graph) const {
    const GraphBudget& budget = options_.budget;
    const int64_t of_edges = budget.edges > 0 ? (edges_of(graph) * budget.nodes + budget.edges - 1) / budget.edges : 0;
    return std::max({int64_t{1}, nodes_of(graph), of_edges});
  }

  std::vector<std::vector<int64_t>> by_size_;                    // graphs of each size
  std::vector<std::vector<std::pair<int32_t, int64_t>>> packs_;  // sizes, and which graph of that size
};

}  // namespace

bool within(const GraphBudget& sizes, const GraphBudget& room) {
  return (room.graphs == 0 || sizes.graphs <= room.graphs) && (room.nodes == 0 || sizes.nodes <= room.nodes) &&
         (room.edges == 0 || sizes.edges <= room.edges);
}

std::string bounds_text(const GraphBudget& budget) {
  std::vector<std::string> parts;
  for (const auto& [count, name] :
       {std::pair(budget.graphs, " graphs"), std::pair(budget.nodes, " nodes"), std::pair(budget.edges, " edges")})
    if (count > 0) parts.push_back(std::to_string(count) + name);
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

GraphBudget Packs::sizes(int64_t index) const {
  const PackContents pack = contents(index);
  return {std::ssize(pack.graphs), std::ssize(pack.nodes), std::ssize(pack.edges)};
}

std::shared_ptr<const Packs> make_graph_packs(std::shared_ptr<const GraphSet> set, GraphPackOptions options) {
  if (options.packing == GraphPacking::kStream)
    return std::make_shared<StreamPacks>(std::move(set), std::move(options));
  if (options.packing == GraphPacking::kHistogram)
    return std::make_shared<HistogramPacks>(std::move(set), std::move(options));
  return std::make_shared<CountPacks>(std::move(set), std::move(options));
}

PackReport report_of(const Packs& packs, const GraphSet& set) {
  PackReport report{.budget = packs.budget(), .packs = packs.epoch_packs(0), .skipped = packs.skipped()};
  int64_t nodes = 0, edges = 0;
  for (int64_t index = 0; index < report.packs; ++index) {
    const GraphBudget sizes = packs.sizes(index);
    nodes += sizes.nodes, edges += sizes.edges;
    if (sizes.nodes > report.most_nodes) report.most_nodes = sizes.nodes, report.most_nodes_pack = index;
    if (sizes.edges > report.most_edges) report.most_edges = sizes.edges, report.most_edges_pack = index;
  }
  const auto share = [&](int64_t used, int64_t room) {
    return room == 0 ? 1.0 : static_cast<double>(used) / static_cast<double>(room * report.packs);
  };
  report.node_share = share(nodes, report.budget.nodes);
  report.edge_share = share(edges, report.budget.edges);
  int64_t most = -1;
  for (const int64_t graph : packs.contents(report.most_nodes_pack).graphs) {
    const auto g = static_cast<size_t>(graph);
    if (const int64_t size = set.node_ptr(0)[g + 1] - set.node_ptr(0)[g]; size > most)
      most = size, report.most_nodes_graph = graph;
  }
  for (int64_t index = 0; index < report.packs; ++index) report.trimmed += packs.contents(index).trimmed;
  return report;
}

std::string PackReport::text() const {
  const auto percent = [](double share) {
    const auto tenths = static_cast<int64_t>(share * 1000 + 0.5);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "%";
  };
  std::string text = "room for " + std::to_string(budget.graphs) + " graphs, " + std::to_string(budget.nodes) +
                     " nodes (" + percent(node_share) + " used) and " + std::to_string(budget.edges) + " edges (" +
                     percent(edge_share) + " used); " + std::to_string(packs) + " packs in the first epoch; pack " +
                     std::to_string(most_nodes_pack) + " has the most nodes, " + std::to_string(most_nodes) +
                     ", with graph " + std::to_string(most_nodes_graph) + "; pack " + std::to_string(most_edges_pack) +
                     " the most edges, " + std::to_string(most_edges);
  if (skipped > 0) text += "; " + std::to_string(skipped) + " graphs do not fit and are left out";
  if (trimmed > 0) text += "; " + std::to_string(trimmed) + " edges do not fit and are left out";
  return text;
}

}  // namespace ramet::graphs
