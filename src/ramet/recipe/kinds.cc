#include "ramet/recipe/kinds.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/recipe/keys.h"
#include "ramet/train/inputs.h"

namespace ramet::recipe {
namespace {

/// Puts the keys of a table behind those that they say they follow.
void merge(std::vector<RecipeKey>& all, std::vector<RecipeKey> table, const RecipeKind* owner) {
  size_t at = all.size();
  for (RecipeKey& key : table) {
    if (!key.after.empty()) {
      const auto before =
          std::find_if(all.begin(), all.end(), [&](const RecipeKey& other) { return other.name == key.after; });
      if (before == all.end()) internal_error("recipe_keys", "no key '" + key.after + "' before '" + key.name + "'");
      at = static_cast<size_t>(before - all.begin()) + 1;
    }
    key.owner = owner;
    all.insert(all.begin() + static_cast<int64_t>(at++), std::move(key));
  }
}

}  // namespace

Graph RecipeKind::build_predictor(const Recipe& complete, int64_t, int64_t, int64_t) const {
  throw Error({.what = "the model has no words to predict", .where = complete.name, .found = "a recipe of " + title()});
}

void RecipeKind::add_decoding(const Recipe& complete, const Decoding&, Model&) const {
  throw Error({.what = "the model does not continue texts", .where = complete.name, .found = "a recipe of " + title()});
}

bool RecipeKind::reads_arrays() const {
  const std::vector<std::string> kinds = data_kinds();
  return std::find(kinds.begin(), kinds.end(), "arrays") != kinds.end();
}

std::shared_ptr<const Source> RecipeKind::open_request(const Recipe& complete, std::vector<ArrayColumn> arrays,
                                                       const std::vector<InputSpec>& inputs,
                                                       const std::string& source) const {
  return open_inputs(std::move(arrays), inputs, {.shuffle = false}, complete.train.micro_batch, source);
}

Error RecipeKind::without_samples(const Recipe& recipe, bool held_out) const {
  if (!held_out) return Error({.what = "there is nothing to train on", .where = recipe.where("data.kind")});
  return Error({.what = "the corpus holds nothing out for evaluation",
                .where = recipe.where("data.corpus"),
                .remedy = "Build it with `ramet corpus --heldout 0.02`"});
}

const std::vector<const RecipeKind*>& recipe_kinds() {
  static const std::vector<const RecipeKind*> kinds = {
      &bert_kind(),  &gpt2_kind(),  &lstm_kind(),      &task_kind(), &model_file_kind(),
      &image_kind(), &graph_kind(), &knowledge_kind(), &walk_kind(), &tgn_kind()};
  return kinds;
}

const RecipeKind& kind_of(const Recipe& recipe) {
  for (const RecipeKind* kind : recipe_kinds())
    if (kind->takes(recipe)) return *kind;
  internal_error("kind_of", "no kind of recipe takes model.kind '" + recipe.model.kind + "'");
}

std::vector<std::string> model_kinds() {
  std::vector<std::string> names;
  for (const RecipeKind* kind : recipe_kinds())
    for (std::string& name : kind->model_kinds()) names.push_back(std::move(name));
  return names;
}

const std::vector<RecipeKey>& recipe_keys() {
  static const std::vector<RecipeKey> keys = [] {
    std::vector<RecipeKey> all;
    merge(all, common_keys(), nullptr);
    merge(all, language_keys(), nullptr);
    merge(all, array_keys(), nullptr);
    merge(all, sparse_keys(), nullptr);
    for (const RecipeKind* kind : recipe_kinds()) merge(all, kind->keys(), kind);
    return all;
  }();
  return keys;
}

}  // namespace ramet::recipe
