#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/data/arrays.h"
#include "ramet/model/decoding.h"
#include "ramet/model/model.h"
#include "ramet/model/published_config.h"
#include "ramet/recipe/recipe.h"
#include "ramet/text/tokenizer.h"

namespace ramet::recipe {

struct Preparation;

/// The files that a class of transformers needs to open a model that was trained here.
struct PublishedModel {
  PublishedConfig config;
  std::string architecture;     ///< its class: "BertForSequenceClassification"
  bool regression = false;      ///< the one label is a number
  std::string tokenizer_class;  ///< where it is not the tokenizer's own; "" otherwise
};

/// A recipe's data, opened as far as completing the recipe needs them.
struct OpenedData {
  int64_t vocabulary = 0;                                ///< of the corpus; 0: there is none
  std::function<void(Preparation& into)> make_workload;  ///< called once `into.recipe` is complete
};

/// A kind of recipe: its keys, and how it becomes a workload. `recipe_kinds` is the registry.
class RecipeKind {
 public:
  virtual ~RecipeKind() = default;
  /// Whose keys these are, for the documentation: "bert, roberta, distilbert".
  virtual std::string title() const = 0;
  /// The key by which a recipe becomes one of this kind, where that is not model.kind alone.
  virtual std::string chosen_by() const { return "model.kind"; }
  /// Values of model.kind that belong to this kind; none when another key selects it.
  virtual std::vector<std::string> model_kinds() const { return {}; }
  virtual bool takes(const Recipe& recipe) const = 0;
  /// Keys of its own (recipe/keys.h).
  virtual std::vector<RecipeKey> keys() const { return {}; }
  /// Whether recipes of other kinds must not have these keys; the error then names `title`.
  virtual bool keeps_its_keys() const { return false; }
  /// Whether the model reads text and has a preset's sizes: the keys of other models are refused.
  virtual bool reads_text() const { return true; }
  /// What data.kind may be.
  virtual std::vector<std::string> data_kinds() const { return {"synthetic", "text"}; }
  /// Whether it may be "arrays", so that the keys of arrays have a meaning.
  bool reads_arrays() const;
  /// Whether the model has sizes by name; `default_preset` is that of a recipe without model.preset.
  virtual bool has_presets() const { return true; }
  virtual std::string default_preset(const Recipe&) const { return has_presets() ? "mini" : ""; }
  /// Whether the recipe takes this key at all.
  bool takes_key(const RecipeKey& key) const {
    return (!key.of_text || reads_text()) && (!key.of_arrays || reads_arrays()) && (!key.of_presets || has_presets());
  }
  /// Whether the model can be built for any train.micro_batch, with the same meaning.
  virtual bool takes_any_batch(const Recipe&) const { return true; }
  /// Names of presets of a recipe's model.kind.
  virtual std::vector<std::string> presets(const Recipe& recipe) const = 0;
  /// Throws Error where keys do not fit together.
  virtual void check(const Recipe&) const {}
  /// Fills in sizes that the recipe leaves out. `corpus_vocabulary`: 0 where there is no corpus.
  virtual void complete(Recipe& recipe, int64_t corpus_vocabulary) const = 0;
  /// Takes what config.json beside published weights says of sizes that only this kind has.
  virtual void take_published(Recipe&, const PublishedConfig&) const {}
  /// Opens the data, and sets those sizes of the recipe that only the data know. The workload that the result makes
  /// has its model before any pass.
  virtual OpenedData open(Recipe& recipe, Preparation& into) const = 0;
  /// Replaces paths by the copies that the run keeps in its folder.
  virtual void begin_from_run(Recipe&, const std::filesystem::path& /*run*/) const {}
  /// The error of a command that needs samples to train on, or held-out ones, where the recipe has none.
  virtual Error without_samples(const Recipe& recipe, bool held_out) const;
  /// The model of a complete recipe, before any pass.
  virtual Model build_model(const Recipe& complete) const = 0;

  /// Samples of arrays that a user asks about, as `inputs` of the model of a complete recipe. Throws Error, naming
  /// `source`, where they do not fit. For kinds that read arrays.
  virtual std::shared_ptr<const Source> open_request(const Recipe& complete, std::vector<ArrayColumn> arrays,
                                                     const std::vector<InputSpec>& inputs,
                                                     const std::string& source) const;

  /// Forward only, giving the k most likely tokens (model/presets.h). Throws Error where the kind has no such program.
  virtual Graph build_predictor(const Recipe& complete, int64_t samples, int64_t predictions, int64_t k) const;
  /// Adds the programs that continue texts (model/decoding.h). Throws Error where the model cannot.
  virtual void add_decoding(const Recipe& complete, const Decoding& decoding, Model& model) const;
  /// Whether the model continues texts; otherwise it fills masks.
  virtual bool continues_texts() const { return false; }
  /// Whether texts are queries of a knowledge graph (recipe/knowledge.h).
  virtual bool answers_queries() const { return false; }
  /// How others open the model of a complete recipe.
  virtual PublishedModel published(const Recipe& complete, const Tokenizer* tokenizer) const = 0;
};

/// All kinds, in the order in which they are asked whether a recipe is theirs.
const std::vector<const RecipeKind*>& recipe_kinds();
/// The kind of a recipe; there is always one.
const RecipeKind& kind_of(const Recipe& recipe);
/// All values of model.kind.
std::vector<std::string> model_kinds();

// A file each.
const RecipeKind& bert_kind();
const RecipeKind& gpt2_kind();
const RecipeKind& lstm_kind();
const RecipeKind& task_kind();
const RecipeKind& model_file_kind();
const RecipeKind& image_kind();
const RecipeKind& graph_kind();
const RecipeKind& knowledge_kind();
const RecipeKind& walk_kind();
const RecipeKind& tgn_kind();

}  // namespace ramet::recipe
