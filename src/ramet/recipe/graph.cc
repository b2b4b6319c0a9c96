// Recipes of networks that read graphs.
#include "ramet/recipe/arrays.h"
#include "ramet/recipe/graph_data.h"
#include "ramet/recipe/graph_evaluator.h"
#include "ramet/recipe/keys.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/lengths.h"
#include "ramet/recipe/prepare.h"

namespace ramet::recipe {
namespace {

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
    OpenedGraphs opened = open_graphs(recipe);
    recipe.train.micro_batch = opened.task.micro_batch;
    return {.make_workload = [opened = std::move(opened)](Preparation& made) {
      Workload& workload = made.workload;
      workload.train = opened.train;
      workload.held_out = opened.held_out;
      workload.units = {.name = opened.task.per_graph ? "graphs" : "nodes",
                        .per_sample = opened.task.per_graph ? opened.task.room.graphs : opened.task.room.nodes};
      const GraphNetConfig config = graph_config_of(made.recipe);
      workload.model = build_graph_net(config, opened.task);
      workload.evaluator = make_graph_evaluator(config, opened.task, workload, made.recipe.train);
      workload.notes.push_back("batches of graphs: " + report_of(opened.train->packs(), *opened.set).text());
      settle_epochs(made.recipe, *workload.train);
      workload.data_identity = workload.train->identity().hex();
    }};
  }

  Model build_model(const Recipe& recipe) const override {
    return for_key(recipe, "model.kind",
                   [&] { return build_graph_net(graph_config_of(recipe), open_graphs(recipe).task); });
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
