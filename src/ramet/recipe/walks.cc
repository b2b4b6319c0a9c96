// Recipes of embeddings of nodes by random walks.
#include "ramet/graphs/walks.h"

#include "ramet/base/error.h"
#include "ramet/model/node2vec.h"
#include "ramet/recipe/arrays.h"
#include "ramet/recipe/keys.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/lengths.h"
#include "ramet/recipe/link_evaluator.h"
#include "ramet/recipe/prepare.h"

namespace ramet::recipe {
namespace {

using graphs::WalkSource;

struct OpenedWalks {
  std::shared_ptr<const graphs::GraphSet> set;
  std::shared_ptr<const WalkSource> source;
};

OpenedWalks open_walks(const Recipe& recipe) {
  const auto& walks = recipe.data.walks;
  if (walks.set.empty())
    throw Error({.what = "walks need a graph set",
                 .where = recipe.where("data.walks.set"),
                 .remedy = "Make one with `ramet graphs prepare`"});
  return for_key(recipe, "data.walks.set", [&]() -> OpenedWalks {
    const auto set = std::make_shared<const graphs::GraphSet>(graphs::GraphSet::open(walks.set));
    return {set, std::make_shared<const WalkSource>(
                     *set, graphs::WalkOptions{.length = walks.length,
                                               .per_node = walks.per_node,
                                               .group = walks.group,
                                               .negatives = walks.negatives * (walks.context - 1),
                                               .p = walks.p,
                                               .q = walks.q,
                                               .shuffle = recipe.data.shuffle,
                                               .seed = static_cast<uint64_t>(recipe.train.seed)})};
  });
}

Model build_walks(const Recipe& recipe, const WalkSource& source) {
  const auto& walks = recipe.data.walks;
  return for_key(recipe, "data.walks.context", [&] {
    return model::build_node2vec(recipe.model.walks.width, {.micro_batch = recipe.train.micro_batch,
                                                            .group = walks.group,
                                                            .length = walks.length,
                                                            .context = walks.context,
                                                            .negatives = walks.negatives * (walks.context - 1),
                                                            .nodes = source.graph().nodes(),
                                                            .seed = recipe.train.seed});
  });
}

/// Embeddings of the nodes of a graph.
class WalkKind final : public RecipeKind {
 public:
  std::string title() const override { return "embeddings of nodes by random walks"; }
  std::vector<std::string> model_kinds() const override { return {"node2vec"}; }
  bool takes(const Recipe& recipe) const override { return recipe.model.kind == "node2vec" && !recipe.is_task(); }
  std::vector<RecipeKey> keys() const override { return walk_keys(); }
  bool keeps_its_keys() const override { return true; }
  bool reads_text() const override { return false; }
  std::vector<std::string> data_kinds() const override { return {"walks"}; }
  bool has_presets() const override { return false; }
  bool takes_any_batch(const Recipe&) const override { return true; }
  std::vector<std::string> presets(const Recipe&) const override { return {}; }
  void complete(Recipe&, int64_t) const override {}

  OpenedData open(Recipe& recipe, Preparation&) const override {
    return {.make_workload = [opened = open_walks(recipe)](Preparation& made) {
      const auto& source = opened.source;
      Workload& workload = made.workload;
      workload.train = source;
      workload.units = {.name = "walks", .per_sample = made.recipe.data.walks.group};
      workload.model = build_walks(made.recipe, *source);
      workload.evaluator =
          make_link_evaluator(opened.set, made.recipe.model.walks.width, made.recipe.train.micro_batch,
                              made.recipe.data.walks.group, static_cast<uint64_t>(made.recipe.train.seed));
      settle_epochs(made.recipe, *workload.train);
      workload.data_identity = workload.train->identity().hex();
    }};
  }

  Model build_model(const Recipe& recipe) const override { return build_walks(recipe, *open_walks(recipe).source); }

  Error without_samples(const Recipe& recipe, bool held_out) const override {
    if (!held_out) return RecipeKind::without_samples(recipe, held_out);
    return Error({.what = "no edges are held out for evaluation",
                  .where = recipe.where("data.walks.set"),
                  .remedy = "Prepare the set with `--apply split-links=80:10:10:SEED`"});
  }

  PublishedModel published(const Recipe& recipe, const Tokenizer*) const override {
    throw Error({.what = "no class of transformers has these embeddings",
                 .where = recipe.where("model.kind"),
                 .found = recipe.model.kind,
                 .remedy = "Name FILE.safetensors for the weights, or FILE.ramet for the model with them"});
  }
};

}  // namespace

const RecipeKind& walk_kind() {
  static const WalkKind kind;
  return kind;
}

}  // namespace ramet::recipe
