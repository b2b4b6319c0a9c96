// The data of recipes of networks that read graphs.
#include "ramet/recipe/graph_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ramet/base/error.h"
#include "ramet/base/words.h"
#include "ramet/data/permutation.h"
#include "ramet/graphs/lines.h"
#include "ramet/graphs/near_nodes.h"
#include "ramet/graphs/pack_text.h"
#include "ramet/recipe/arrays.h"
#include "ramet/recipe/keys.h"
#include "ramet/recipe/prepare.h"

namespace ramet::recipe {
namespace {

using graphs::GraphSource;
using graphs::GraphSourceOptions;
using graphs::PackRequest;
using graphs::Packs;

/// The words of a list with commas; of an empty text none.
std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> words;
  if (graphs::trimmed(text).empty()) return words;
  for (const std::string_view word : graphs::split_at(text, ',')) words.emplace_back(graphs::trimmed(word));
  return words;
}

/// The number of a part of a split by its name; of a split without names the name is a number.
int64_t part_of(const Recipe& recipe, const GraphSet& set, const std::string& key, const std::string& name) {
  const Field& split = set.fields()[set.field(recipe.data.graphs.split)];
  if (split.values.empty() && !name.empty() && name.find_first_not_of("0123456789") == std::string::npos)
    return graphs::Lines("", key).whole(name, 0, std::numeric_limits<int32_t>::max());
  const auto found = std::find(split.values.begin(), split.values.end(), name);
  if (found == split.values.end())
    throw Error({.what = "the split has no such part",
                 .where = recipe.where(key),
                 .found = "'" + name + "'",
                 .expected = split.values.empty() ? "a number, for categories without names"
                                                  : "one of " + joined(split.values)});
  return found - split.values.begin();
}

/// One more than the greatest number of a field of whole numbers.
int64_t numbers_of(const GraphSet& set, size_t at) {
  const Field& field = set.fields()[at];
  double most = 0;
  const auto count = static_cast<int64_t>(set.bytes(at).size() / size_of(field.dtype));
  for (int64_t i = 0; i < count; ++i) {
    const double number = field_number(field, set.bytes(at), i);
    if (number < 0)
      throw Error({.what = "a feature of whole numbers must be a category: 0, 1, 2, ...",
                   .where = set.source() + ": " + field.key(),
                   .found = std::to_string(number)});
    most = std::max(most, number);
  }
  return static_cast<int64_t>(most) + 1;
}

/// Behind the key of a field of nodes: its elements that are not 0 come as lists.
constexpr std::string_view kSparse = ":sparse";

std::string without_form(const std::string& key) {
  return key.ends_with(kSparse) ? key.substr(0, key.size() - kSparse.size()) : key;
}

GraphFeature feature_of(const GraphSet& set, const std::string& word, Per per) {
  const std::string key = without_form(word);
  const size_t at = set.field(key);
  const Field& field = set.fields()[at];
  if (field.per != per)
    throw Error({.what = per == Per::kNode ? "a feature of nodes must be a field of nodes"
                                           : "a feature of edges must be a field of edges",
                 .where = set.source() + ": " + key});
  const bool sparse = key != word;
  if (sparse && (!is_floating(field.dtype) || per != Per::kNode))
    throw Error({.what = "sparse features must be floats of nodes", .where = set.source() + ": " + key});
  if (is_floating(field.dtype))
    return {.key = key, .width = field.shape.elements(), .sparse = sparse, .scalar = field.shape.rank() == 0};
  if (field.shape.rank() > 0)
    throw Error({.what = "a feature of whole numbers must be a category",
                 .where = set.source() + ": " + key,
                 .found = std::string(name_of(field.dtype)) + field.shape.text()});
  return {.key = key, .categories = field.values.empty() ? numbers_of(set, at) : std::ssize(field.values)};
}

/// Rows of a field: graphs, nodes or edges.
int64_t rows_of(const GraphSet& set, size_t at) {
  const Field& field = set.fields()[at];
  return static_cast<int64_t>(set.bytes(at).size()) / field.value_bytes();
}

/// Classes of the label: its categories, or one more than the greatest number.
int64_t classes_of(const GraphSet& set, const std::string& key, bool of_edges = false) {
  const size_t at = set.field(key);
  const Field& field = set.fields()[at];
  if (is_floating(field.dtype) || (field.per == Per::kEdge && !of_edges))
    throw Error({.what = "the label must be a category of nodes or graphs", .where = set.source() + ": " + key});
  if (!field.values.empty()) return std::ssize(field.values);
  double most = 1;
  const auto count = static_cast<int64_t>(set.bytes(at).size() / size_of(field.dtype));
  for (int64_t i = 0; i < count; ++i) most = std::max(most, field_number(field, set.bytes(at), i));
  return static_cast<int64_t>(most) + 1;
}

/// The columns of a label that are named (none: all).
std::vector<int64_t> columns_of(const Field& field, const std::string& key, const std::vector<std::string>& names) {
  std::vector<int64_t> columns;
  const graphs::Lines word("", key);
  for (const std::string& column : names)
    columns.push_back(word.whole(column, 0, std::max<int64_t>(0, field.shape.elements() - 1)));
  if (names.empty())
    for (int64_t column = 0; column < field.shape.elements(); ++column) columns.push_back(column);
  return columns;
}

/// How a place in a field is called: "graph 3".
std::string place_of(const Field& field, int64_t row) {
  return (field.per == Per::kGraph ? "graph " : field.per == Per::kNode ? "node " : "edge ") + std::to_string(row);
}

/// Tasks of yes or no: 1, 0 or not known, in every graph (or node, or edge).
graphs::TargetForm tasks_of(const GraphSet& set, const std::string& key, const std::vector<std::string>& names) {
  const size_t at = set.field(key);
  const Field& field = set.fields()[at];
  graphs::TargetForm form{.columns = columns_of(field, key, names)};
  form.mean.assign(form.columns.size(), 0);
  form.deviation.assign(form.columns.size(), 1);
  for (int64_t row = 0; row < rows_of(set, at); ++row)
    for (const int64_t column : form.columns) {
      const double value = field_number(field, set.bytes(at), row * field.shape.elements() + column);
      if (std::isnan(value) || value == 0 || value == 1) continue;
      throw Error({.what = "a task of yes or no has another number",
                   .where = set.source() + ": " + key + ", " + place_of(field, row),
                   .found = std::to_string(value) + " in column " + std::to_string(column),
                   .expected = "1, 0 or a missing value"});
    }
  return form;
}

/// Mean and deviation of the known numbers of a label, over some rows (none named: all).
graphs::TargetForm targets_of(const GraphSet& set, const std::string& key, const std::vector<std::string>& names,
                              const std::vector<int64_t>& members) {
  const size_t at = set.field(key);
  const Field& field = set.fields()[at];
  graphs::TargetForm form{.columns = columns_of(field, key, names)};
  const int64_t count = members.empty() ? rows_of(set, at) : std::ssize(members);
  for (const int64_t column : form.columns) {
    const auto over_known = [&](const auto& term) {
      double sum = 0, known = 0;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = members.empty() ? i : members[static_cast<size_t>(i)];
        const double value = field_number(field, set.bytes(at), row * field.shape.elements() + column);
        if (!std::isnan(value)) sum += term(value), ++known;
      }
      return sum / std::max(1.0, known);
    };
    const double mean = over_known([](double value) { return value; });
    form.mean.push_back(mean);
    form.deviation.push_back(std::sqrt(over_known([&](double value) { return (value - mean) * (value - mean); })));
  }
  return form;
}

/// The mean of log(d + 1) over the nodes of some graphs (none named: all), with d the edges that end in a node.
double average_log_degree(const GraphSet& set, const std::vector<int64_t>& members) {
  double sum = 0, nodes = 0;
  std::vector<int32_t> degrees;
  for (int64_t i = 0; i < (members.empty() ? set.graphs() : std::ssize(members)); ++i) {
    const auto graph = static_cast<size_t>(members.empty() ? i : members[static_cast<size_t>(i)]);
    degrees.assign(static_cast<size_t>(set.node_ptr(0)[graph + 1] - set.node_ptr(0)[graph]), 0);
    for (int64_t e = set.edge_ptr(0)[graph]; e < set.edge_ptr(0)[graph + 1]; ++e)
      ++degrees[static_cast<size_t>(set.targets(0)[static_cast<size_t>(e)])];
    for (const int32_t degree : degrees) sum += std::log(degree + 1.0), ++nodes;
  }
  return std::max(1e-6, sum / std::max(1.0, nodes));
}

class GraphOpener {
 public:
  GraphOpener(const Recipe& recipe, std::shared_ptr<const GraphSet> set)
      : recipe_(recipe), data_(recipe.data.graphs), info_(info_of(*graph_family(recipe.model.kind))) {
    opened_.set = std::move(set);
    if (opened_.set) return;
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
      for (const std::string& key : list_of(data_.features))
        opened_.task.features.push_back(feature_of(set, key, Per::kNode));
    });
    for_key(recipe_, "data.graphs.edge_features", [&] {
      for (const std::string& key : list_of(data_.edge_features))
        opened_.task.edge_features.push_back(feature_of(set, key, Per::kEdge));
    });
    for_key(recipe_, "data.graphs.positions", [&] {
      for (const std::string& key : list_of(data_.positions))
        opened_.task.positions.push_back(feature_of(set, key, Per::kNode));
    });
    if (data_.tasks.empty())
      for_key(recipe_, "data.graphs.label", [&] { take_label(); });
    else
      for_key(recipe_, "data.graphs.tasks", [&] { take_tasks(); });
    take_distances();
    opened_.task.edge_weights = info_.edge_weights && set.has("edge.weight");
    if (info_.degrees) opened_.task.average_log_degree = average_log_degree(set, graphs_trained_on());
    const auto train = for_key(recipe_, "data.graphs.batch", [&] { return packs(true); });
    opened_.task.corrected = train->counts() != nullptr;
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
    opened_.task.sums_in_order = recipe_.train.sums == "in-order";
    opened_.task.room = opened_.train->budget();
    for (GraphFeature& feature : opened_.task.features) feature.room = opened_.train->sparse_room();
    opened_.task.seed = recipe_.train.seed;
    return std::move(opened_);
  }

 private:
  void take_label() {
    const GraphSet& set = *opened_.set;
    const Field& label = set.fields()[set.field(data_.label)];
    opened_.task.per_graph = label.per == Per::kGraph;
    if (!opened_.task.per_graph || !is_floating(label.dtype)) {
      opened_.task.classes = classes_of(set, data_.label);
      return;
    }
    const bool binary = recipe_.model.graph.loss == "binary";
    if (binary && data_.factor != 1)
      throw Error({.what = "a task of yes or no has no unit",
                   .where = recipe_.where("data.graphs.factor"),
                   .found = std::to_string(data_.factor),
                   .remedy = "Leave the key out"});
    const std::vector<std::string> columns = list_of(data_.columns);
    targets_ = for_key(recipe_, "data.graphs.label", [&] {
      return binary ? tasks_of(set, data_.label, columns) : targets_of(set, data_.label, columns, graphs_trained_on());
    });
    for (size_t k = 0; k < targets_.mean.size(); ++k) {
      opened_.task.target_mean.push_back(targets_.mean[k] * data_.factor);
      opened_.task.target_deviation.push_back(targets_.deviation[k] * data_.factor);
    }
  }
  /// "NAME FIELD LOSS [WEIGHT], ..."
  void take_tasks() {
    const GraphSet& set = *opened_.set;
    opened_.task.per_graph = true;
    if (!data_.split.empty() && set.fields()[set.field(data_.split)].per != Per::kGraph)
      throw Error({.what = "several tasks are held out by graphs",
                   .found = "data.graphs.split = \"" + data_.split + "\"",
                   .expected = "a field of graphs, or none"});
    for (const std::string& text : list_of(data_.tasks)) {
      std::vector<std::string> words;
      for (const std::string_view word : graphs::words_of(text)) words.emplace_back(word);
      const std::vector<std::string> losses{"squared", "absolute", "binary", "classes"};
      if (words.size() < 3 || words.size() > 4 || std::find(losses.begin(), losses.end(), words[2]) == losses.end())
        throw Error({.what = "this is no task",
                     .found = "'" + text + "'",
                     .expected = "NAME FIELD LOSS [WEIGHT] with a loss of " + joined(losses)});
      const auto same = [&](const GraphTarget& each) { return each.name == words[0]; };
      if (std::any_of(opened_.task.tasks.begin(), opened_.task.tasks.end(), same))
        throw Error({.what = "two tasks have one name", .found = "'" + words[0] + "'"});
      add_task(words);
    }
  }

  void add_task(const std::vector<std::string>& words) {
    const GraphSet& set = *opened_.set;
    const std::string& key = words[1];
    const Field& field = set.fields()[set.field(key)];
    GraphTarget target{.name = words[0], .per = field.per, .loss = words[2]};
    if (words.size() == 4) target.weight = graphs::Lines("", "the weight of " + words[0]).real(words[3]);
    if (!(target.weight > 0)) throw Error({.what = "a task's weight must be positive", .found = "'" + words[3] + "'"});
    graphs::NamedLabel label{.name = words[0], .key = key};
    if ((words[2] == "classes") == is_floating(field.dtype))
      throw Error({.what = "classes are those of a category, and all other losses those of floats",
                   .where = set.source() + ": " + key,
                   .found = "'" + words[2] + "' of " + std::string(name_of(field.dtype))});
    if (words[2] == "classes") {
      target.classes = classes_of(set, key, true);
    } else {
      label.form = words[2] == "binary"       ? tasks_of(set, key, {})
                   : field.per == Per::kGraph ? targets_of(set, key, {}, graphs_trained_on())
                                              : targets_of(set, key, {}, {});
      target.mean = label.form.mean, target.deviation = label.form.deviation;
    }
    opened_.task.tasks.push_back(std::move(target));
    labels_.push_back(std::move(label));
  }

  void take_distances() {
    opened_.task.hops = data_.hops;
    opened_.task.distances = !data_.distances.empty();
    if (data_.hops == 0 && data_.distances.empty()) return;
    if (!opened_.task.per_graph)
      throw Error({.what = "distances are of nodes of whole graphs",
                   .where = recipe_.where(data_.hops > 0 ? "data.graphs.hops" : "data.graphs.distances"),
                   .found = "a label of nodes",
                   .expected = "a label of graphs, or tasks"});
    opened_.task.places = graphs::most_nodes(*opened_.set);
  }

  /// Numbers of the graphs of the part to train on; empty: all.
  std::vector<int64_t> graphs_trained_on() const {
    if (data_.split.empty() || opened_.set->fields()[opened_.set->field(data_.split)].per != Per::kGraph) return {};
    return graphs::members_of(*opened_.set, data_.split, part(true));
  }
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
    if (!data_.split.empty() && split_members()) {
      request.members = graphs::members_of(*opened_.set, data_.split, part(training));
      if (!training && opened_.task.per_graph) mix(request.members);
    }
    // A last step may reach into the epoch behind the last.
    if (!training)
      request.epochs = 1;
    else if (recipe_.train.epochs)
      request.epochs = static_cast<int64_t>(*recipe_.train.epochs) + 1;
    return graphs::make_packs(opened_.set, data_.batch, request);
  }

  /// Deals graphs in an order that is the same for every run. Sets are often sorted by size: a pack of the last graphs
  /// would then need more room than any pack to train on, and each step of the training would compute its padding.
  static void mix(std::vector<int64_t>& graphs) {
    const data::Permutation order(std::ssize(graphs), 0, 0, data::kHoldOut);
    std::vector<int64_t> mixed;
    for (int64_t i = 0; i < std::ssize(graphs); ++i) mixed.push_back(graphs[static_cast<size_t>(order(i))]);
    graphs = std::move(mixed);
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
    if (recipe_.train.sums == "in-order")
      throw Error({.what = "a graph that is cut sums by a tree over its clusters, and has no sums in order",
                   .where = recipe_.where("train.sums"),
                   .found = "\"in-order\"",
                   .remedy = "Leave the key out"});
    return clusters;
  }

  std::shared_ptr<const GraphSource> source(std::shared_ptr<const Packs> packs, const graphs::GraphBudget& room,
                                            bool training) const {
    GraphSourceOptions options{.label = labels_.empty() ? data_.label : "",
                               .targets = targets_,
                               .labels = labels_,
                               .hops = data_.hops,
                               .distances = data_.distances,
                               .room = room};
    for (const GraphFeature& feature : opened_.task.features)
      if (feature.sparse)
        options.sparse = feature.key;
      else
        options.fields.push_back(feature.key);
    for (const std::string* const keys : {&data_.edge_features, &data_.positions})
      for (const std::string& key : list_of(*keys)) options.fields.push_back(key);
    if (info_.pairs) options.pairs = "edge.distance";
    if (opened_.task.corrected)
      options.means = !opened_.task.edge_weights;
    else if (opened_.task.edge_weights)
      options.fields.emplace_back("edge.weight");
    if (!data_.split.empty() && !split_members()) options.split = data_.split, options.part = part(training);
    return for_key(recipe_, "data.graphs.label", [&] {
      return std::make_shared<const GraphSource>(opened_.set, std::move(packs), std::move(options));
    });
  }

  const Recipe& recipe_;
  const decltype(Recipe::Data::graphs)& data_;
  const GraphFamilyInfo& info_;
  graphs::TargetForm targets_;
  std::vector<graphs::NamedLabel> labels_;  ///< of several tasks
  OpenedGraphs opened_;
};

}  // namespace

OpenedGraphs open_graphs(const Recipe& recipe, std::shared_ptr<const GraphSet> set) {
  return GraphOpener(recipe, std::move(set)).open();
}

namespace {

/// "INPUT+INPUT:RATE, ..."
std::vector<InputMask> masks_of(const Recipe& recipe) {
  std::vector<InputMask> masks;
  for_key(recipe, "model.graph.input_masks", [&] {
    for (const std::string& text : list_of(recipe.model.graph.input_masks)) {
      const size_t colon = text.rfind(':');
      if (colon == std::string::npos || colon == 0)
        throw Error({.what = "this is no mask of inputs",
                     .found = "'" + text + "'",
                     .expected = "INPUT+INPUT:RATE",
                     .remedy = "Name the inputs and the share of the graphs that lose them"});
      InputMask mask;
      mask.rate = graphs::Lines("", "a rate").real(text.substr(colon + 1));
      for (const std::string_view input : graphs::split_at(std::string_view(text).substr(0, colon), '+'))
        mask.inputs.emplace_back(graphs::trimmed(input));
      if (!(mask.rate >= 0 && mask.rate <= 1))
        throw Error({.what = "the rate of a mask is a share", .found = "'" + text + "'", .expected = "0 to 1"});
      masks.push_back(std::move(mask));
    }
  });
  return masks;
}

}  // namespace

GraphNetConfig graph_config_of(const Recipe& recipe) {
  const auto& graph = recipe.model.graph;
  return {.family = *graph_family(recipe.model.kind),
          .layers = graph.layers,
          .hidden = graph.hidden,
          .heads = graph.heads,
          .dropout = graph.dropout,
          .attention_dropout = graph.attention_dropout,
          .momentum = recipe.model.momentum,
          .readout = graph.readout,
          .loss = graph.loss,
          .diagonal = graph.diagonal,
          .gaussians = graph.gaussians,
          .cutoff = graph.cutoff,
          .filter_points = graph.filter_points,
          .position_size = graph.position_size,
          .drop_path = graph.drop_path,
          .node_noise = graph.node_noise,
          .edge_noise = graph.edge_noise,
          .noise_weight = graph.noise_weight,
          .input_masks = masks_of(recipe)};
}

}  // namespace ramet::recipe
