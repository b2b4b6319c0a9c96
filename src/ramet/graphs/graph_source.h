#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ramet/data/source.h"
#include "ramet/graphs/feature_rows.h"
#include "ramet/graphs/packs.h"

namespace ramet::graphs {

/// How float labels are delivered: (value - mean) / deviation of some values of each label.
struct TargetForm {
  std::vector<int64_t> columns{};           ///< which values of a label; empty: all
  std::vector<double> mean{}, deviation{};  ///< of each column; empty: 0 and 1
};

/// A label by name, of nodes, edges or graphs.
struct NamedLabel {
  std::string name, key;
  TargetForm form{};  ///< of floats
};

struct GraphSourceOptions {
  /// Keys of the fields that a batch has: "node.x". Integers are delivered as i32 and floats as f32.
  std::vector<std::string> fields{};
  /// Key of the field that a loss compares: categories of nodes or of graphs as "labels" i32, floats of graphs as
  /// "targets" f32; "": none.
  std::string label{};
  /// Key of a field of nodes whose value says which part of the data a node belongs to: labels of other parts are -1.
  std::string split{};
  int64_t part = 0;
  TargetForm targets{};
  /// Key of a field of edges, a float each, that both directions of an edge share: a batch then has pairs of nodes in
  /// place of lists of edges.
  std::string pairs{};
  /// Several labels in place of `label`.
  std::vector<NamedLabel> labels{};
  /// For how far nodes of a graph are apart (graphs/near_nodes.h): the most steps along edges that are told apart (0:
  /// none), and the key of a field of nodes with positions in space ("": none).
  int64_t hops = 0;
  std::string distances{};
  /// Key of a float field of nodes that is delivered as the lists of its elements that are not 0.
  std::string sparse{};
  /// Of packs with counts (SampleCounts): what they correct is not "edge.weight", but the mean over the edges that end
  /// in a node.
  bool means = false;
  /// Room to make, where it is more than the packs need: batches of several sources then have one form.
  GraphBudget room{};
};

/// Batches of graphs as samples: sample i is pack i, in room for the packs' budget. For B packs with room for G graphs,
/// N nodes and E edges:
///
/// - "node.FIELD" [B, N, ...], "edge.FIELD" [B, E, ...], "graph.FIELD" [B, G, ...]: 0 where there is padding;
/// - "source", "target_of", "by_source" i32 [B, E], "ptr", "source_ptr" i32 [B, N + 1]: the edges by the node that they
///   end in and by the node that they come from (ops/neighbors.h, where "target_of" is `target`);
///   with `pairs` none of these;
///   of a cut graph instead "index" [B, E], "ptr", "back_index" [B, E'] and "back_ptr", for halo_sum (ops/halo.h);
/// - "graph_ptr" i32 [B, G + 1]: graph g has the nodes [graph_ptr[g], graph_ptr[g + 1]); places behind the last graph
///   have none;
/// - "graphs" i32 [B]: how many graphs there are;
/// - "labels" i32 [B, N] or [B, G], -1 where nothing is to be learned; or of floats "targets" f32 [B, G, columns] and
///   "known" f32 of the same shape, 1 where a target is known and 0 elsewhere;
/// - with `labels`, of the label NAME of nodes, edges or graphs (rows R) "labels.NAME" i32 [B, R], or of floats
///   "targets.NAME" and "known.NAME" f32 [B, R, columns], with the meanings above;
/// - with `hops` or `distances`, for places of M nodes in each graph "place" i32 [B, N], "node_at" i32 [B, G M],
///   "taken" i32 [B, G M], "hops" i32 [B, G, M, M] and "distance" f32 [B, G, M, M] (graphs/near_nodes.h);
/// - with `pairs`, "pair.FIELD" f32 [B, E / 2], "pair_ptr" i32 [B, N + 1] and "pair_second" i32 [B, E / 2]
///   (graphs/pair_lists.h);
/// - with `sparse`, of a field of width F "feature.value" f32 [B, S], "feature.source", "feature.target_of",
///   "feature.by_source" i32 [B, S], "feature.ptr" i32 [B, N + 1] and "feature.source_ptr" i32 [B, F + 1], as of edges
///   from features to nodes (graphs/feature_rows.h). S is what N nodes have at most;
/// - of packs with counts "edge.weight" f32 [B, E]: the field of that name, or of means 1 over the edges that end in a
///   node of the whole graph, times SampleCounts::of_edge; and with a label "label_weight" f32 [B, N]:
///   SampleCounts::of_node over the number of labels to learn, and 0 where nothing is to be learned.
class GraphSource final : public Source {
 public:
  /// Throws Error for a field that there is not, or of a type that cannot be delivered.
  GraphSource(std::shared_ptr<const GraphSet> set, std::shared_ptr<const Packs> packs, GraphSourceOptions options);

  Signature signature(int64_t count) const override;
  void fill(int64_t first, int64_t count, const Places& places) const override;
  int64_t epoch_of(int64_t index) const override { return packs_->epoch_of(index); }
  int64_t epoch_samples(int64_t epoch) const override { return packs_->epoch_packs(epoch); }
  Hash identity() const override;
  std::string text_of(int64_t index) const override { return "pack " + std::to_string(index); }
  int64_t host_bytes() const override;

  const GraphBudget& budget() const { return budget_; }
  int64_t places() const { return places_; }            ///< M; 0 without distances
  int64_t sparse_room() const { return sparse_room_; }  ///< S; 0 without sparse features
  const Packs& packs() const { return *packs_; }
  const GraphSet& set() const { return *set_; }

 private:
  /// A tensor of a batch, without the dimension of packs.
  struct Output {
    std::string name;
    DType dtype;
    std::vector<int64_t> dims;
    size_t field = 0;  ///< of the set; unused by lists
  };
  void add_field(const std::string& key);
  void add_label();
  void add_labels();
  void add_distances();
  void fill_labels(const PackContents& pack, int64_t sample, const Places& places) const;
  void fill_distances(const PackContents& pack, int64_t sample, const Places& places) const;
  void fill_pack(int64_t index, int64_t sample, const Places& places) const;
  void fill_fields(const PackContents& pack, int64_t sample, const Places& places) const;
  void fill_lists(const PackContents& pack, int64_t sample, const Places& places) const;
  void fill_cut(int64_t cluster, int64_t sample, const Places& places) const;
  void fill_graphs(const PackContents& pack, int64_t sample, const Places& places) const;
  void fill_label(const PackContents& pack, int64_t sample, const Places& places) const;
  void fill_numbers(size_t at, const TargetForm& form, const PackContents& pack, int64_t sample,
                    const Places& places) const;
  void complete_columns(const Field& field, const std::string& key, TargetForm& targets) const;
  int64_t room_for(Per per) const;
  static const std::vector<int64_t>& rows_of(Per per, const PackContents& pack);
  void add_correction();
  void fill_correction(const PackContents& pack, int64_t sample, const Places& places) const;
  bool is_labelled(int64_t node) const;
  void add_pairs();
  void add_sparse();
  void fill_sparse(const PackContents& pack, int64_t sample, const Places& places) const;
  void fill_pairs(const PackContents& pack, int64_t sample, const Places& places) const;
  template <typename T>
  T* place(const Places& places, size_t output, int64_t sample) const;

  std::shared_ptr<const GraphSet> set_;
  std::shared_ptr<const Packs> packs_;
  GraphSourceOptions options_;
  GraphBudget budget_;
  std::vector<Output> outputs_;
  size_t fields_ = 0;  ///< outputs before the lists
  size_t lists_ = 0;   ///< lists before "graph_ptr"
  bool has_label_ = false;
  size_t label_ = 0;  ///< output of the label
  size_t split_ = 0;
  size_t labels_ = 0;     ///< the first of the outputs of several labels
  size_t distances_ = 0;  ///< the first of the outputs of distances; 0: none
  int64_t places_ = 0;
  size_t pairs_ = 0;               ///< the first of the outputs of pairs; 0: none
  size_t sparse_ = 0;              ///< the first of the outputs of sparse features; 0: none
  FeatureRows rows_;               ///< of them
  size_t correction_ = 0;          ///< the first of the outputs of a correction; 0: none
  double labelled_ = 0;            ///< nodes whose labels are learned, of a correction
  std::vector<int32_t> in_edges_;  ///< of each node of the set, for corrected means
  int64_t sparse_room_ = 0;
};

/// Numbers of the graphs (nodes) of a set whose value of the field `split` is `part`. Throws Error for a field that is
/// not one whole number each.
std::vector<int64_t> members_of(const GraphSet& set, const std::string& split, int64_t part);

}  // namespace ramet::graphs
