#include "ramet/graphs/graph_cut.h"

#include <algorithm>
#include <unordered_map>

#include "ramet/base/error.h"

namespace ramet::graphs {
namespace {

HostTensor table(int64_t clusters, int64_t width) {
  HostTensor tensor(TensorType{DType::kI32, Shape{clusters, width}});
  std::fill_n(reinterpret_cast<int32_t*>(tensor.data.data()), clusters * width, -1);
  return tensor;
}

int32_t* numbers(HostTensor& tensor) { return reinterpret_cast<int32_t*>(tensor.data.data()); }

class Cutter {
 public:
  Cutter(const GraphSet& set, const std::string& field) : set_(set), field_(field) {
    if (!set.homogeneous() || set.graphs() != 1)
      throw Error({.what = "only a set of one homogeneous graph can be cut",
                   .where = set.source(),
                   .found = std::to_string(set.graphs()) + " graphs"});
  }

  GraphCut run() {
    find_clusters();
    const auto sources = set_.sources(0), targets = set_.targets(0);
    cut_.edges.resize(static_cast<size_t>(cut_.clusters));
    std::vector<std::vector<int64_t>> leaving(static_cast<size_t>(cut_.clusters));
    for (size_t e = 0; e < sources.size(); ++e) {
      cut_.edges[cluster_of(targets[e])].push_back(static_cast<int64_t>(e));
      leaving[cluster_of(sources[e])].push_back(static_cast<int64_t>(e));
      cut_.cut_edges += cluster_of(targets[e]) != cluster_of(sources[e]);
    }
    // Edges ascend by target already; those of one source keep their order.
    for (auto& edges : leaving)
      std::stable_sort(edges.begin(), edges.end(), [&](int64_t a, int64_t b) {
        return sources[static_cast<size_t>(a)] < sources[static_cast<size_t>(b)];
      });
    for (auto* lists : {&cut_.nodes, &cut_.edges})
      for (auto& list : *lists) list.shrink_to_fit();
    cut_.in = list_of(cut_.edges, targets, sources);
    cut_.out = list_of(leaving, sources, targets);
    cut_.in.other = numbers_in(cut_.edges, cut_.in.edges, leaving, cut_.out.edges);
    cut_.out.other = numbers_in(leaving, cut_.out.edges, cut_.edges, cut_.in.edges);
    return std::move(cut_);
  }

 private:
  void find_clusters() {
    const size_t at = set_.field(field_);
    const Field& field = set_.fields()[at];
    const int64_t nodes = set_.node_ptr(0)[1];
    if (field.per != Per::kNode || is_floating(field.dtype) || field.shape.elements() != 1)
      throw Error({.what = "clusters must be whole numbers, one a node", .where = set_.source() + ": " + field_});
    for (int64_t node = 0; node < nodes; ++node) {
      const double part = field_number(field, set_.bytes(at), node);
      if (part < 0 || part >= static_cast<double>(nodes))
        throw Error({.what = "a node is in a cluster that cannot be",
                     .where = set_.source() + ": " + field_ + ", node " + std::to_string(node),
                     .found = std::to_string(static_cast<int64_t>(part))});
      const auto cluster = static_cast<size_t>(part);
      if (cut_.nodes.size() <= cluster) cut_.nodes.resize(cluster + 1);
      cluster_.push_back(static_cast<int32_t>(cluster));
      row_.push_back(static_cast<int32_t>(cut_.nodes[cluster].size()));
      cut_.nodes[cluster].push_back(node);
    }
    cut_.clusters = std::ssize(cut_.nodes);
    for (size_t k = 0; k < cut_.nodes.size(); ++k) {
      if (cut_.nodes[k].empty())
        throw Error({.what = "a cluster has no nodes",
                     .where = set_.source() + ": " + field_,
                     .found = "cluster " + std::to_string(k) + " of " + std::to_string(cut_.clusters),
                     .remedy = "Make fewer clusters"});
      cut_.rows = std::max(cut_.rows, std::ssize(cut_.nodes[k]));
    }
    if (cut_.clusters * cut_.rows > INT32_MAX || std::ssize(set_.sources(0)) > INT32_MAX / 2)
      throw Error({.what = "the graph has too many nodes or edges for 32-bit numbers", .where = set_.source()});
  }

  size_t cluster_of(int32_t node) const { return static_cast<size_t>(cluster_[static_cast<size_t>(node)]); }
  int64_t number_of(int32_t node) const {
    return static_cast<int64_t>(cluster_of(node)) * cut_.rows + row_[static_cast<size_t>(node)];
  }

  /// The list of edges that clusters have by the end `near`; `other` has the other ends.
  GraphCut::List list_of(const std::vector<std::vector<int64_t>>& edges, std::span<const int32_t> near,
                         std::span<const int32_t> other) {
    GraphCut::List list;
    std::vector<std::vector<int64_t>> far(edges.size());
    int64_t most_far = 1;
    for (size_t k = 0; k < edges.size(); ++k) {
      list.edges = std::max(list.edges, std::ssize(edges[k]));
      for (const int64_t e : edges[k])
        if (const int32_t node = other[static_cast<size_t>(e)]; cluster_of(node) != k)
          far[k].push_back(number_of(node));
      std::sort(far[k].begin(), far[k].end());
      far[k].erase(std::unique(far[k].begin(), far[k].end()), far[k].end());
      most_far = std::max(most_far, std::ssize(far[k]));
      cut_.far_rows += std::ssize(far[k]);
    }
    list.edges = std::max<int64_t>(list.edges, 1);
    list.far = table(cut_.clusters, most_far);
    for (size_t k = 0; k < edges.size(); ++k) {
      std::copy(far[k].begin(), far[k].end(), numbers(list.far) + static_cast<int64_t>(k) * most_far);
      std::vector<int32_t> index, ptr(static_cast<size_t>(cut_.rows) + 1, 0);
      for (const int64_t e : edges[k]) {
        const int32_t node = other[static_cast<size_t>(e)];
        const auto place = std::lower_bound(far[k].begin(), far[k].end(), number_of(node)) - far[k].begin();
        index.push_back(cluster_of(node) == k ? row_[static_cast<size_t>(node)]
                                              : static_cast<int32_t>(cut_.rows + place));
        ++ptr[static_cast<size_t>(row_[static_cast<size_t>(near[static_cast<size_t>(e)])]) + 1];
      }
      for (size_t i = 1; i < ptr.size(); ++i) ptr[i] += ptr[i - 1];
      index.shrink_to_fit();
      list.index.push_back(std::move(index));
      list.ptr.push_back(std::move(ptr));
    }
    return list;
  }

  /// For each edge of `lists` its number in `others`.
  HostTensor numbers_in(const std::vector<std::vector<int64_t>>& lists, int64_t room,
                        const std::vector<std::vector<int64_t>>& others, int64_t other_room) const {
    std::vector<int64_t> number(set_.sources(0).size());
    for (size_t k = 0; k < others.size(); ++k)
      for (size_t i = 0; i < others[k].size(); ++i)
        number[static_cast<size_t>(others[k][i])] = static_cast<int64_t>(k) * other_room + static_cast<int64_t>(i);
    HostTensor tensor = table(cut_.clusters, room);
    for (size_t k = 0; k < lists.size(); ++k)
      for (size_t i = 0; i < lists[k].size(); ++i)
        numbers(tensor)[static_cast<int64_t>(k) * room + static_cast<int64_t>(i)] =
            static_cast<int32_t>(number[static_cast<size_t>(lists[k][i])]);
    return tensor;
  }

  const GraphSet& set_;
  const std::string& field_;
  GraphCut cut_;
  std::vector<int32_t> cluster_, row_;  // of each node
};

class CutPacks final : public Packs {
 public:
  CutPacks(std::shared_ptr<const GraphSet> set, const std::string& field)
      : set_(std::move(set)), field_(field), cut_(cut_graph(*set_, field)) {}

  PackContents contents(int64_t index) const override {
    const auto k = static_cast<size_t>(index % cut_->clusters);
    PackContents pack{.graphs = {0}, .nodes = cut_->nodes[k], .edges = cut_->edges[k], .source = {}, .target = {}};
    pack.graph_ptr = {0, static_cast<int32_t>(pack.nodes.size())};
    return pack;
  }
  GraphBudget sizes(int64_t index) const override {
    const auto k = static_cast<size_t>(index % cut_->clusters);
    return {1, std::ssize(cut_->nodes[k]), std::ssize(cut_->edges[k])};
  }
  int64_t epoch_of(int64_t index) const override { return index / cut_->clusters; }
  int64_t epoch_packs(int64_t) const override { return cut_->clusters; }
  GraphBudget budget() const override { return {1, cut_->rows, cut_->in.edges}; }
  std::string identity() const override { return "cut " + field_; }
  std::shared_ptr<const GraphCut> cut() const override { return cut_; }
  int64_t host_bytes() const override { return cut_->host_bytes(); }

 private:
  std::shared_ptr<const GraphSet> set_;
  std::string field_;
  std::shared_ptr<const GraphCut> cut_;
};

}  // namespace

int64_t GraphCut::host_bytes() const {
  int64_t bytes = 0;
  for (const auto* lists : {&nodes, &edges})
    for (const auto& list : *lists) bytes += std::ssize(list) * 8;
  for (const List* ends : {&in, &out}) {
    bytes += ends->far.type.bytes() + ends->other.type.bytes();
    for (const auto* lists : {&ends->index, &ends->ptr})
      for (const auto& list : *lists) bytes += std::ssize(list) * 4;
  }
  return bytes;
}

std::shared_ptr<const GraphCut> cut_graph(const GraphSet& set, const std::string& field) {
  return std::make_shared<const GraphCut>(Cutter(set, field).run());
}

std::shared_ptr<const Packs> make_cut_packs(std::shared_ptr<const GraphSet> set, const std::string& field) {
  return std::make_shared<CutPacks>(std::move(set), field);
}

}  // namespace ramet::graphs
