// Recipes of networks that read graphs.
#include <algorithm>

#include "ramet/base/words.h"
#include "ramet/graphs/graph_source.h"
#include "ramet/graphs/lines.h"
#include "ramet/graphs/pack_text.h"
#include "ramet/model/graph_net.h"
#include "ramet/recipe/arrays.h"
#include "ramet/recipe/keys.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/lengths.h"
#include "ramet/recipe/prepare.h"

namespace ramet::recipe {
namespace {

using graphs::GraphSource;
using graphs::GraphSourceOptions;
using graphs::PackRequest;
using graphs::Packs;

/// A recipe's graphs, as its model and its training see them.
struct OpenedGraphs {
  std::shared_ptr<const GraphSet> set;
  std::shared_ptr<const GraphSource> train, held_out;  ///< held_out: null without a split
  GraphTask task;
};

std::vector<std::string> features_of(const Recipe& recipe) {
  std::vector<std::string> keys;
  for (const std::string_view word : graphs::split_at(recipe.data.graphs.features, ','))
    keys.emplace_back(graphs::trimmed(word));
  return keys;
}

/// The number of a part of a split by its name.
int64_t part_of(const Recipe& recipe, const GraphSet& set, const std::string& key, const std::string& name) {
  const Field& split = set.fields()[set.field(recipe.data.graphs.split)];
  const auto found = std::find(split.values.begin(), split.values.end(), name);
  if (found == split.values.end())
    throw Error({.what = "the split has no such part",
                 .where = recipe.where(key),
                 .found = "'" + name + "'",
                 .expected = split.values.empty() ? "a field of categories" : "one of " + joined(split.values)});
  return found - split.values.begin();
}

NodeFeature feature_of(const GraphSet& set, const std::string& key) {
  const Field& field = set.fields()[set.field(key)];
  if (field.per != Per::kNode)
    throw Error({.what = "a feature must be a field of nodes", .where = set.source() + ": " + key});
  if (is_floating(field.dtype)) return {.key = key, .width = field.shape.elements()};
  if (field.values.empty() || field.shape.rank() > 0)
    throw Error({.what = "a feature of whole numbers must be a category",
                 .where = set.source() + ": " + key,
                 .found = std::string(name_of(field.dtype)) + field.shape.text()});
  return {.key = key, .categories = std::ssize(field.values)};
}

/// Classes of the label: its categories, or one more than the greatest number.
int64_t classes_of(const GraphSet& set, const std::string& key) {
  const size_t at = set.field(key);
  const Field& field = set.fields()[at];
  if (is_floating(field.dtype) || field.per == Per::kEdge)
    throw Error({.what = "the label must be a category of nodes or graphs", .where = set.source() + ": " + key});
  if (!field.values.empty()) return std::ssize(field.values);
  double most = 1;
  const auto count = static_cast<int64_t>(set.bytes(at).size() / size_of(field.dtype));
  for (int64_t i = 0; i < count; ++i) most = std::max(most, field_number(field, set.bytes(at), i));
  return static_cast<int64_t>(most) + 1;
}

class GraphOpener {
 public:
  explicit GraphOpener(const Recipe& recipe) : recipe_(recipe), data_(recipe.data.graphs) {
    if (data_.set.empty())
      throw Error({.what = "a network for graphs needs a graph set",
                   .where = recipe.where("data.graphs.set"),
                   .remedy = "Make one with `ramet graphs prepare`"});
    opened_.set =
        for_key(recipe, "data.graphs.set", [&] { return std::make_shared<const GraphSet>(GraphSet::open(data_.set)); });
  }

  OpenedGraphs open() {
    const GraphSet& set = *opened_.set;
    for_key(recipe_, "data.graphs.features", [&] {
      for (const std::string& key : features_of(recipe_)) opened_.task.features.push_back(feature_of(set, key));
    });
    for_key(recipe_, "data.graphs.label", [&] {
      opened_.task.classes = classes_of(set, data_.label);
      opened_.task.per_graph = set.fields()[set.field(data_.label)].per == Per::kGraph;
    });
    opened_.task.edge_weights = recipe_.model.kind == "gcn" && set.has("edge.weight");
    const auto train = for_key(recipe_, "data.graphs.batch", [&] { return packs(true); });
    const auto held_out =
        data_.split.empty() ? nullptr : for_key(recipe_, "data.graphs.batch", [&] { return packs(false); });
    graphs::GraphBudget room = train->budget();
    if (held_out)
      room = {std::max(room.graphs, held_out->budget().graphs), std::max(room.nodes, held_out->budget().nodes),
              std::max(room.edges, held_out->budget().edges)};
    opened_.train = source(train, room, true);
    if (held_out) opened_.held_out = source(held_out, room, false);
    opened_.task.cut = train->cut();
    opened_.task.micro_batch = opened_.task.cut ? clusters() : recipe_.train.micro_batch;
    opened_.task.room = opened_.train->budget();
    opened_.task.seed = recipe_.train.seed;
    return std::move(opened_);
  }

 private:
  int64_t part(bool training) const {
    return training ? part_of(recipe_, *opened_.set, "data.graphs.train", data_.train)
                    : part_of(recipe_, *opened_.set, "data.graphs.held_out", data_.held_out);
  }
  /// Whether the split divides what packs are made of: graphs, or the seeds of samples. Otherwise it masks labels.
  bool split_members() const { return opened_.task.per_graph || graphs::samples_nodes(data_.batch); }

  std::shared_ptr<const Packs> packs(bool training) const {
    PackRequest request{.oversize = data_.oversize == "trim" ? graphs::Oversize::kTrim : graphs::Oversize::kRefuse,
                        .shuffle = training && recipe_.data.shuffle,
                        .seed = static_cast<uint64_t>(recipe_.train.seed)};
    if (!data_.split.empty() && split_members())
      request.members = graphs::members_of(*opened_.set, data_.split, part(training));
    // A last step may reach into the epoch behind the last.
    if (!training)
      request.epochs = 1;
    else if (recipe_.train.epochs)
      request.epochs = static_cast<int64_t>(*recipe_.train.epochs) + 1;
    return graphs::make_packs(opened_.set, data_.batch, request);
  }

  /// Samples of a micro-batch of a graph that is cut: all of its clusters.
  int64_t clusters() const {
    const int64_t clusters = opened_.task.cut->clusters;
    if (recipe_.places.count("train.micro_batch") && recipe_.train.micro_batch != clusters)
      throw Error({.what = "a micro-batch of a graph that is cut has all of its clusters",
                   .where = recipe_.where("train.micro_batch"),
                   .found = std::to_string(recipe_.train.micro_batch),
                   .expected = std::to_string(clusters),
                   .remedy = "Leave the key out"});
    return clusters;
  }

  std::shared_ptr<const GraphSource> source(std::shared_ptr<const Packs> packs, const graphs::GraphBudget& room,
                                            bool training) const {
    GraphSourceOptions options{.fields = features_of(recipe_), .label = data_.label, .room = room};
    if (opened_.task.edge_weights) options.fields.emplace_back("edge.weight");
    if (!data_.split.empty() && !split_members()) options.split = data_.split, options.part = part(training);
    return for_key(recipe_, "data.graphs.label", [&] {
      return std::make_shared<const GraphSource>(opened_.set, std::move(packs), std::move(options));
    });
  }

  const Recipe& recipe_;
  const decltype(Recipe::Data::graphs)& data_;
  OpenedGraphs opened_;
};

GraphNetConfig config_of(const Recipe& recipe) {
  const auto& graph = recipe.model.graph;
  return {.family = *graph_family(recipe.model.kind),
          .layers = graph.layers,
          .hidden = graph.hidden,
          .heads = graph.heads,
          .dropout = graph.dropout,
          .attention_dropout = graph.attention_dropout,
          .momentum = recipe.model.momentum,
          .readout = graph.readout};
}

/// Networks for graphs, on graph sets.
class GraphKind final : public RecipeKind {
 public:
  std::string title() const override { return "network for graphs"; }
  std::vector<std::string> model_kinds() const override { return graph_kinds(); }
  bool takes(const Recipe& recipe) const override {
    return graph_family(recipe.model.kind).has_value() && !recipe.is_task();
  }
  std::vector<RecipeKey> keys() const override { return graph_keys(); }
  bool keeps_its_keys() const override { return true; }
  bool reads_text() const override { return false; }
  std::vector<std::string> data_kinds() const override { return {"graphs"}; }
  bool has_presets() const override { return false; }
  bool takes_any_batch(const Recipe&) const override { return false; }
  std::vector<std::string> presets(const Recipe&) const override { return {}; }

  void complete(Recipe&, int64_t) const override {}

  OpenedData open(Recipe& recipe, Preparation&) const override {
    OpenedGraphs opened = GraphOpener(recipe).open();
    recipe.train.micro_batch = opened.task.micro_batch;
    return {.make_workload = [opened = std::move(opened)](Preparation& made) {
      Workload& workload = made.workload;
      workload.train = opened.train;
      workload.held_out = opened.held_out;
      workload.units = {.name = opened.task.per_graph ? "graphs" : "nodes",
                        .per_sample = opened.task.per_graph ? opened.task.room.graphs : opened.task.room.nodes};
      workload.model = build_graph_net(config_of(made.recipe), opened.task);
      workload.remarks.push_back("batches of graphs: " + report_of(opened.train->packs(), *opened.set).text());
      settle_epochs(made.recipe, *workload.train);
      workload.data_identity = workload.train->identity().hex();
    }};
  }

  Model build_model(const Recipe& recipe) const override {
    return for_key(recipe, "model.kind",
                   [&] { return build_graph_net(config_of(recipe), GraphOpener(recipe).open().task); });
  }

  Error without_samples(const Recipe& recipe, bool held_out) const override {
    if (!held_out) return RecipeKind::without_samples(recipe, held_out);
    return Error({.what = "no part of the graphs is held out for evaluation",
                  .where = recipe.where("data.graphs.split"),
                  .remedy = "Name the field that says which part a node or a graph belongs to"});
  }

  PublishedModel published(const Recipe& recipe, const Tokenizer*) const override {
    throw Error({.what = "no class of transformers has this network",
                 .where = recipe.where("model.kind"),
                 .found = recipe.model.kind,
                 .remedy = "Name FILE.safetensors for its weights, or FILE.ramet for the model with them"});
  }
};

}  // namespace

const RecipeKind& graph_kind() {
  static const GraphKind kind;
  return kind;
}

}  // namespace ramet::recipe
