#include "ramet/recipe/prepare.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/model/hugging_face.h"
#include "ramet/model/sparsify.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/lengths.h"
#include "ramet/recipe/sparse.h"
#include "ramet/recipe/teacher.h"
#include "ramet/recipe/text_models.h"
#include "ramet/train/facts.h"
#include "ramet/train/model_passes.h"
#include "ramet/train/row_window.h"
#include "ramet/train/scaling.h"
#include "ramet/weights/tensor_file.h"

namespace ramet::recipe {
namespace {

/// How the weights to begin from meet the model.
void match_first_weights(const Recipe& recipe, Workload& workload) {
  const std::string& file = recipe.model.init_from;
  std::error_code ignored;
  workload.init_from = file;
  if (file.empty() || !std::filesystem::exists(file, ignored)) return;
  if (std::filesystem::is_directory(file, ignored) && !has_weights(file)) return;  // a checkpoint
  check_importable(recipe.train, file, recipe.where("model.init_from"));
  for (auto& remark : match_weights(file, dense_published(workload.model)).remarks(file))
    workload.remarks.push_back(std::move(remark));
}

/// Fills in all unset fields of a recipe that has the sizes of its published model and its data.
Recipe fill_in(Recipe recipe, int64_t corpus_vocabulary) {
  if (recipe.model.preset.empty()) recipe.model.preset = kind_of(recipe).default_preset(recipe);
  auto& train = recipe.train;
  const bool short_range = train.precision == "f16" || train.precision == "f8";
  if (train.loss_scale.empty()) train.loss_scale.number = short_range && train.scaling == "none" ? 1024.0 : 1.0;
  kind_of(recipe).complete(recipe, corpus_vocabulary);
  settle_lengths(recipe);
  // Never before the end of the warm-up, however few steps a trial takes: the complete recipe must be one that can be
  // read.
  if (!train.epochs) fill(train.schedule.steps, std::max(train.steps, train.schedule.warmup_steps));
  return recipe;
}

}  // namespace

Recipe complete_recipe(Recipe recipe, int64_t corpus_vocabulary) {
  take_published_sizes(recipe);
  return fill_in(std::move(recipe), corpus_vocabulary);
}

Preparation prepare(const Recipe& recipe) {
  Preparation result;
  Recipe sized = recipe;
  take_published_sizes(sized);
  const OpenedData data = kind_of(sized).open(sized, result);
  result.recipe = fill_in(std::move(sized), data.vocabulary);
  data.make_workload(result);
  Workload& workload = result.workload;
  settle_densities(result.recipe, workload.model);
  result.options = result.recipe.train;
  workload.model =
      apply_model_passes(with_sparse_weights(result.recipe, std::move(workload.model), true), result.recipe.train);
  workload.recipe_identity = recipe_hash(result.recipe).hex();
  workload.prefetch = static_cast<int>(result.recipe.data.prefetch);
  const std::string source = layout_source(result.recipe);
  result.layout = fitted_layout(parse_layout(result.recipe.layout, source), workload.model, result.options, source,
                                workload.remarks);
  match_first_weights(result.recipe, workload);
  if (result.layout.offload.rows)
    workload.notes.push_back(make_row_window(workload, result.options, result.layout, source, 1).text(result.layout));
  return result;
}

Training make_training(Preparation preparation, Where where) {
  where.layout_source = layout_source(preparation.recipe);
  if (preparation.teacher) preparation.teacher->answer(where);
  // The layout as the user wrote it: training settles the keys that it leaves open, and reports both.
  const Layout asked = parse_layout(preparation.recipe.layout, where.layout_source);
  return Training(std::move(preparation.workload), std::move(preparation.options), asked, where);
}

namespace {

/// The model that programs are made of: with the rows of a step, where tables live in streaming memory.
Model compiled_model(const Preparation& preparation, const Where& where) {
  if (!preparation.layout.offload.rows) return preparation.workload.model;
  return make_row_window(preparation.workload, preparation.options, preparation.layout, where.layout_source, 1).model;
}

}  // namespace

CompiledWorkload compile_recipe(const Preparation& preparation, Where where) {
  where.layout_source = layout_source(preparation.recipe);
  return compile_workload(compiled_model(preparation, where), preparation.options, preparation.layout, where);
}

CompiledWorkload compile_recipe(const Preparation& preparation, const Machine& machine, Where where) {
  where.layout_source = layout_source(preparation.recipe);
  return compile_workload(compiled_model(preparation, where), preparation.options, preparation.layout, machine, where);
}

Model build_model(const Recipe& recipe) {
  return apply_model_passes(with_sparse_weights(recipe, kind_of(recipe).build_model(recipe), false), recipe.train);
}

}  // namespace ramet::recipe
