// Recipes of models that programs saved as files, and of modules of PyTorch.
#include "ramet/front/frozen_norms.h"
#include "ramet/front/open_model.h"

#include <algorithm>
#include <tuple>

#include "ramet/base/error.h"
#include "ramet/model/array_file.h"
#include "ramet/recipe/arrays.h"
#include "ramet/recipe/keys.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/lengths.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/inputs.h"

namespace ramet::recipe {
namespace {

/// The model of the file, with the recipe's seed.
std::pair<Model, Units> load(const Recipe& recipe) {
  auto [model, units] = for_key(recipe, "model.file", [&] { return open_model(recipe.model.file); });
  return {with_seed(std::move(model), recipe.train.seed), std::move(units)};
}

/// Samples of a micro-batch: the first dimension of every input.
int64_t batch_of(const Recipe& recipe, const std::vector<InputSpec>& inputs) {
  const auto refuse = [&](const std::string& found, const std::string& expected) {
    throw Error({.what = "the model's inputs do not all have samples as their first dimension, as arrays have",
                 .where = recipe.where("model.file"),
                 .found = found,
                 .expected = expected,
                 .remedy = "Let each data input begin with the dimension of samples"});
  };
  if (inputs.empty()) refuse("no inputs", "");
  for (const InputSpec& input : inputs) {
    const std::string found = "'" + input.name + "' " + input.type.text();
    if (input.type.shape.rank() == 0 || input.type.shape[0] < 1) refuse(found, "a first dimension of 1 or more");
    if (input.type.shape[0] != inputs[0].type.shape[0])
      refuse(found, std::to_string(inputs[0].type.shape[0]) + " samples, as '" + inputs[0].name + "' has");
  }
  return inputs[0].type.shape[0];
}

/// train.micro_batch is what the model has.
void take_batch(Recipe& recipe, const Model& model) {
  const int64_t batch = batch_of(recipe, checked_inputs(model));
  if (recipe.places.count("train.micro_batch") && recipe.train.micro_batch != batch)
    throw Error({.what = "the model was saved for another number of samples a micro-batch",
                 .where = recipe.where("train.micro_batch"),
                 .found = std::to_string(recipe.train.micro_batch),
                 .expected = std::to_string(batch),
                 .remedy = "Leave the key out, and set the global batch by train.accumulation"});
  recipe.train.micro_batch = batch;
  if (const auto place = recipe.places.find("model.file"); place != recipe.places.end())
    recipe.places["train.micro_batch"] = place->second;
}

/// The samples of a file, with those arrays that the model reads.
std::shared_ptr<const Source> open_samples(const Recipe& recipe, const std::string& key, const std::string& file,
                                           const std::vector<InputSpec>& inputs, ArrayOptions options) {
  return for_key(recipe, key, [&] {
    return open_inputs(open_arrays(file), inputs, std::move(options), recipe.train.micro_batch, file);
  });
}

/// Training of a model that was saved as a file, on arrays.
class ModelFileKind final : public RecipeKind {
 public:
  std::string title() const override { return "model file"; }
  std::string chosen_by() const override { return "model.file"; }
  std::vector<std::string> model_kinds() const override { return {"file"}; }
  bool takes(const Recipe& recipe) const override { return recipe.model.kind == "file" && !recipe.is_task(); }
  std::vector<RecipeKey> keys() const override { return model_file_keys(); }
  bool keeps_its_keys() const override { return true; }
  bool reads_text() const override { return false; }
  std::vector<std::string> data_kinds() const override { return {"arrays"}; }
  bool has_presets() const override { return false; }
  bool takes_any_batch(const Recipe&) const override { return false; }
  std::vector<std::string> presets(const Recipe&) const override { return {}; }

  void check(const Recipe& recipe) const override {
    if (recipe.model.file.empty())
      throw Error({.what = "model.kind = \"file\" needs model.file", .where = recipe.where("model.kind")});
    check_held_out(recipe);
  }

  void complete(Recipe& recipe, int64_t) const override {
    if (!recipe.places.count("train.micro_batch")) take_batch(recipe, load(recipe).first);
  }

  OpenedData open(Recipe& recipe, Preparation& into) const override {
    std::tie(into.workload.model, into.workload.units) = load(recipe);
    take_batch(recipe, into.workload.model);
    into.model_file = recipe.model.file;
    if (std::string remark = frozen_norms_remark(into.workload.model); !remark.empty())
      into.workload.remarks.push_back(std::move(remark));
    return {.make_workload = [](Preparation& made) {
      Workload& workload = made.workload;
      open_data(made.recipe, checked_inputs(workload.model), workload);
      if (!workload.train) return;
      settle_epochs(made.recipe, *workload.train);
      workload.data_identity = workload.train->identity().hex();
    }};
  }

  Model build_model(const Recipe& recipe) const override { return load(recipe).first; }

  void begin_from_run(Recipe& recipe, const std::filesystem::path& run) const override {
    std::error_code error;
    const auto kept = run / "model.ramet";
    if (std::filesystem::is_regular_file(kept, error)) recipe.model.file = std::filesystem::absolute(kept).string();
  }

  Error without_samples(const Recipe& recipe, bool held_out) const override { return without_arrays(recipe, held_out); }

  PublishedModel published(const Recipe& recipe, const Tokenizer*) const override {
    throw Error({.what = "no class of other libraries has the model of a file",
                 .where = recipe.where("model.file"),
                 .remedy = "Name FILE.safetensors for its weights, or FILE.ramet for the model with them"});
  }

 private:
  static void open_data(const Recipe& recipe, const std::vector<InputSpec>& inputs, Workload& workload) {
    const auto& data = recipe.data;
    ArrayOptions training{.shuffle = data.shuffle, .seed = static_cast<uint64_t>(recipe.train.seed)};
    training.held_out = data.held_out_share;
    ArrayOptions evaluation{.shuffle = false};
    if (!data.train.empty()) workload.train = open_samples(recipe, "data.train", data.train, inputs, training);
    if (!data.held_out.empty())
      workload.held_out = open_samples(recipe, "data.held_out", data.held_out, inputs, evaluation);
    if (data.held_out_share == 0) return;
    evaluation.held_out = data.held_out_share, evaluation.evaluation = true;
    workload.held_out = open_samples(recipe, "data.held_out_share", data.train, inputs, evaluation);
  }
};

}  // namespace

const RecipeKind& model_file_kind() {
  static const ModelFileKind kind;
  return kind;
}

}  // namespace ramet::recipe
