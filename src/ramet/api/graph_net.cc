#include <algorithm>
#include <type_traits>

#include "ramet/api/contents.h"
#include "ramet/api/graph_lists.h"
#include "ramet/api/samples.h"
#include "ramet/base/error_types.h"
#include "ramet/base/words.h"
#include "ramet/graph_net.h"
#include "ramet/predict.h"
#include "ramet/recipe/graph_predictor.h"
#include "ramet/train.h"

namespace ramet::v0 {

struct GraphSet::Contents {
  std::shared_ptr<const graphs::GraphSet> set;
};

namespace {

using graphs::Per;

/// A field of the caller's, whose key says what it belongs to.
graphs::Field field_of(const graphs::GraphTables& tables, const std::string& key, const ArrayView& values) {
  const size_t dot = key.find('.');
  const std::string of = key.substr(0, dot);
  if (dot == std::string::npos || dot + 1 == key.size() || (of != "node" && of != "edge" && of != "graph"))
    throw Error({.what = "a field of nothing that a graph has",
                 .where = "GraphSet",
                 .found = "'" + key + "'",
                 .expected = "node.NAME, edge.NAME or graph.NAME"});
  graphs::Field field{.name = key.substr(dot + 1),
                      .per = of == "node"   ? Per::kNode
                             : of == "edge" ? Per::kEdge
                                            : Per::kGraph,
                      .of = of == "graph" ? "" : of,
                      .dtype = values.dtype()};
  const int64_t rows = tables.count(field);
  if (rows == 0 ? values.elements() > 0 : values.elements() % rows != 0 || values.elements() == 0)
    throw ShapeError({.what = "a field of another length",
                      .where = "GraphSet, field '" + key + "'",
                      .found = std::to_string(values.elements()) + " numbers",
                      .expected = "as many for each of " + std::to_string(rows) + " rows"});
  if (rows > 0 && values.elements() > rows) field.shape = Shape{values.elements() / rows};
  return field;
}

/// The options as a recipe, by the keys that bound them.
recipe::Recipe recipe_of(const GraphNetOptions& options) {
  if (!model::graph_family(options.kind))
    throw Error({.what = "unknown network for graphs",
                 .where = "GraphNetOptions::kind",
                 .found = "'" + options.kind + "'",
                 .expected = "one of " + joined(model::graph_kinds())});
  recipe::Recipe recipe;
  const auto set = [&](const std::string& name, const recipe::RecipeValue& value) {
    const recipe::RecipeKey& key = *recipe::find_recipe_key(name);
    const recipe::RecipeValue checked = recipe::checked_value(key, value, "GraphNetOptions", "");
    std::visit(
        [&](auto* field) {
          if constexpr (std::is_constructible_v<recipe::RecipeValue, decltype(*field)>)
            *field = std::get<std::remove_cvref_t<decltype(*field)>>(checked);
        },
        key.field(recipe));
  };
  recipe.model.kind = options.kind;
  set("model.momentum", options.momentum);
  const std::string model = "model.graph.";
  set(model + "layers", options.layers), set(model + "hidden", options.hidden), set(model + "heads", options.heads);
  set(model + "dropout", options.dropout), set(model + "attention_dropout", options.attention_dropout);
  set(model + "readout", options.readout), set(model + "loss", options.loss);
  set(model + "diagonal", options.diagonal), set(model + "cutoff", options.cutoff);
  set(model + "gaussians", options.gaussians), set(model + "filter_points", options.filter_points);
  set(model + "position_size", options.position_size), set(model + "drop_path", options.drop_path);
  set(model + "node_noise", options.node_noise), set(model + "edge_noise", options.edge_noise);
  set(model + "noise_weight", options.noise_weight), set(model + "input_masks", options.input_masks);
  const std::string data = "data.graphs.";
  std::vector<std::string> columns;
  for (const int64_t column : options.columns) columns.push_back(std::to_string(column));
  set(data + "features", joined(options.features)), set(data + "edge_features", joined(options.edge_features));
  set(data + "positions", joined(options.positions)), set(data + "distances", options.distances);
  set(data + "hops", options.hops), set(data + "label", options.label), set(data + "columns", joined(columns));
  set(data + "factor", options.factor), set(data + "tasks", joined(options.tasks));
  set(data + "split", options.split), set(data + "train", options.train), set(data + "held_out", options.held_out);
  set(data + "batch", options.batch), set(data + "oversize", std::string(options.trim ? "trim" : "refuse"));
  set("train.micro_batch", options.micro_batch);
  recipe.data.shuffle = options.shuffle;
  if (options.epochs > 0) recipe.train.epochs = options.epochs;
  recipe.train.seed = static_cast<int64_t>(options.seed);
  return recipe;
}

template <typename Engine>
Arrays answers_of(Engine& engine, const GraphNetOptions& options, const GraphSet& graphs) {
  const recipe::Recipe recipe = recipe_of(options);
  const recipe::OpenedGraphs opened = recipe::open_graphs(recipe, graphs.contents().set);
  const graphs::GraphSource& source = opened.held_out ? *opened.held_out : *opened.train;
  const data::Batch batch = source.make(0, source.packs().epoch_packs(0));
  const api::Inputs inputs = api::inputs_of(model::build_graph_net(recipe::graph_config_of(recipe), opened.task));
  NamedViews views;
  for (const data::NamedTensor& tensor : batch.tensors)
    if (std::any_of(inputs.begin(), inputs.end(), [&](const auto& each) { return each.first == tensor.name; }))
      views.emplace_back(tensor.name, ArrayView(tensor.type.dtype, tensor.bytes.data(), tensor.type.elements()));
  std::vector<data::NamedTensor> results;
  for (const Array& array : engine.predict(views))
    results.push_back({array.name(), array.type(), {array.bytes().begin(), array.bytes().end()}});
  std::vector<Array> answers;
  for (data::NamedTensor& tensor : recipe::answers_by_number(opened, source, std::move(results)))
    answers.emplace_back(tensor.name, tensor.type, std::move(tensor.bytes));
  return Arrays(std::move(answers));
}

}  // namespace

GraphSet::GraphSet(const GraphLists& lists, const NamedViews& fields, const std::vector<std::string>& missing) {
  graphs::GraphTables tables = api::tables_of(lists);
  for (const auto& [key, values] : fields) {
    graphs::Field field = field_of(tables, key, values);
    field.missing = std::find(missing.begin(), missing.end(), key) != missing.end();
    tables.set_field_bytes(std::move(field), values.data(), static_cast<size_t>(values.bytes()));
  }
  contents_ =
      std::make_shared<const Contents>(Contents{std::make_shared<const graphs::GraphSet>(std::move(tables), "graphs")});
}

GraphSet GraphSet::open(const std::string& path) {
  return GraphSet(std::make_shared<const Contents>(
      Contents{std::make_shared<const graphs::GraphSet>(graphs::GraphSet::open(path))}));
}

void GraphSet::save(const std::string& path) const { contents_->set->save(path); }

int64_t GraphSet::graphs() const { return contents_->set->graphs(); }

std::vector<std::string> GraphSet::fields() const {
  std::vector<std::string> keys;
  for (const graphs::Field& field : contents_->set->fields()) keys.push_back(field.key());
  return keys;
}

Model graph_net(const GraphNetOptions& options, const GraphSet& graphs) {
  const recipe::Recipe recipe = recipe_of(options);
  const recipe::OpenedGraphs opened = recipe::open_graphs(recipe, graphs.contents().set);
  const model::GraphTask& task = opened.task;
  auto contents = std::make_shared<Model::Contents>();
  contents->engine = model::build_graph_net(recipe::graph_config_of(recipe), task);
  contents->units = {.name = task.per_graph ? "graphs" : "nodes",
                     .per_sample = task.per_graph ? task.room.graphs : task.room.nodes};
  contents->micro_batch = task.micro_batch;
  return Model(std::move(contents));
}

Data Data::graphs(const GraphNetOptions& options, const GraphSet& graphs) {
  const recipe::OpenedGraphs opened = recipe::open_graphs(recipe_of(options), graphs.contents().set);
  auto contents = std::make_shared<Contents>();
  contents->bind = [opened](const Model::Contents& model, bool held_out) -> std::shared_ptr<const data::Source> {
    if (held_out && !opened.held_out)
      throw Error({.what = "the graphs hold nothing out",
                   .where = "Data::held_out",
                   .found = "no GraphNetOptions::split",
                   .expected = "a field that says which part a node or a graph belongs to"});
    const auto& source = held_out ? opened.held_out : opened.train;
    const data::Signature signature = source->signature(model.micro_batch);
    for (const auto& input : api::inputs_of(model.engine))
      if (std::find(signature.begin(), signature.end(), input) == signature.end())
        throw Error({.what = "the graphs were batched with other options than the model",
                     .where = "model '" + model.engine.name + "'",
                     .found = "no '" + input.first + "' " + input.second.text()});
    return source;
  };
  return Data(std::move(contents));
}

std::vector<std::string> graph_net_kinds() { return model::graph_kinds(); }

Arrays graph_answers(Training& training, const GraphNetOptions& options, const GraphSet& graphs) {
  return answers_of(training, options, graphs);
}
Arrays graph_answers(Predictor& predictor, const GraphNetOptions& options, const GraphSet& graphs) {
  return answers_of(predictor, options, graphs);
}

}  // namespace ramet::v0
