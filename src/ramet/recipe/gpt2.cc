#include "ramet/base/error.h"
#include "ramet/model/presets.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/text_models.h"

namespace ramet::recipe {
namespace {

Gpt2Config gpt2_config(const Recipe& recipe) {
  Gpt2Config config = gpt2_preset(recipe.model.preset);
  take_text_sizes(config, recipe);
  return config;
}

BatchShape batch_shape(const Recipe& recipe, int64_t samples) {
  return {.micro_batch = samples, .sequence = recipe.data.sequence_length, .seed = recipe.train.seed};
}

std::shared_ptr<const Source> make_source(const Recipe& recipe, const Corpus* corpus, bool training) {
  const CausalBatchOptions options{.sequence_length = static_cast<int32_t>(recipe.data.sequence_length),
                                   .shuffle = training && recipe.data.shuffle,
                                   .seed = static_cast<uint64_t>(recipe.train.seed) + (training ? 0 : 1)};
  if (corpus) return make_causal_batches(*corpus, options);
  return make_synthetic_causal_batches(static_cast<int32_t>(*recipe.model.vocabulary_size), options);
}

/// Training of GPT-2 on the next token.
class Gpt2Kind final : public RecipeKind {
 public:
  std::string title() const override { return "gpt2"; }
  std::vector<std::string> model_kinds() const override { return {"gpt2"}; }
  bool takes(const Recipe& recipe) const override { return recipe.model.kind == "gpt2" && !recipe.is_task(); }
  std::vector<std::string> presets(const Recipe&) const override { return gpt2_preset_names(); }
  void check(const Recipe& recipe) const override {
    if (recipe.data.packs())
      throw Error({.what = "only bert's sequences are packed",
                   .where = recipe.where("data.packing"),
                   .found = "model.kind = \"gpt2\"",
                   .remedy = "Leave data.packing out: sequences of gpt2 are full already"});
  }
  void complete(Recipe& recipe, int64_t corpus_vocabulary) const override {
    if (recipe.model.intermediate)
      throw Error({.what = "GPT-2's feed-forward part is always 4 x model.hidden wide",
                   .where = recipe.where("model.intermediate"),
                   .remedy = "Leave the key out"});
    fill_text_sizes(recipe, gpt2_preset(recipe.model.preset), corpus_vocabulary);
    check_text_sizes(recipe, corpus_vocabulary);
  }
  OpenedData open(Recipe& recipe, Preparation& into) const override {
    return open_text(recipe, "bpe", make_source, into);
  }
  Model build_model(const Recipe& recipe) const override {
    return build_gpt2(gpt2_config(recipe), batch_shape(recipe, recipe.train.micro_batch));
  }
  void add_decoding(const Recipe& recipe, const Decoding& decoding, Model& model) const override {
    if (recipe.train.scaling != "none")
      throw Error({.what = "a unit-scaled model cannot continue texts yet",
                   .where = recipe.where("train.scaling"),
                   .found = recipe.train.scaling,
                   .expected = "none"});
    add_gpt2_decoding(gpt2_config(recipe), decoding, model);
  }
  bool continues_texts() const override { return true; }
  PublishedModel published(const Recipe& recipe, const Tokenizer*) const override {
    const Gpt2Config sizes = gpt2_config(recipe);
    PublishedModel model;
    model.architecture = "GPT2LMHeadModel";
    model.config = {.kind = "gpt2",
                    .layers = sizes.layers,
                    .hidden = sizes.hidden,
                    .heads = sizes.heads,
                    .intermediate = 4 * sizes.hidden,
                    .vocabulary = sizes.vocabulary,
                    .positions = sizes.positions,
                    .dropout = sizes.dropout,
                    .attention_dropout = sizes.attention_dropout,
                    .epsilon = sizes.epsilon,
                    .activation = "gelu_tanh",
                    .labels = {}};
    return model;
  }
};

}  // namespace

const RecipeKind& gpt2_kind() {
  static const Gpt2Kind kind;
  return kind;
}

}  // namespace ramet::recipe
