#include "ramet/model/lstm.h"

#include "ramet/base/error.h"
#include "ramet/recipe/keys.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/text_models.h"

namespace ramet::recipe {
namespace {

LstmConfig lstm_config(const Recipe& recipe) {
  const auto& model = recipe.model;
  LstmConfig config = lstm_preset(model.preset);
  config.layers = *model.layers, config.hidden = *model.hidden;
  config.vocabulary = *model.vocabulary_size;
  config.pad_vocabulary = model.pad_vocabulary.value_or(1);
  config.dropout = *model.dropout;
  config.tied = model.tied, config.carry = model.carry;
  return config;
}

std::shared_ptr<const Source> make_source(const Recipe& recipe, const Corpus* corpus, bool training) {
  CausalBatchOptions options{.sequence_length = static_cast<int32_t>(recipe.data.sequence_length),
                             .shuffle = training && recipe.data.shuffle,
                             .seed = static_cast<uint64_t>(recipe.train.seed) + (training ? 0 : 1)};
  if (training && recipe.model.carry) options.columns = recipe.train.micro_batch;
  if (corpus) return make_causal_batches(*corpus, options);
  return make_synthetic_causal_batches(static_cast<int32_t>(*recipe.model.vocabulary_size), options);
}

/// Throws Error where a key that LSTM layers have no use for is set.
void refuse_key(const Recipe& recipe, const std::string& key, bool set) {
  if (!set) return;
  throw Error({.what = "a language model of LSTM layers has no such size",
               .where = recipe.where(key),
               .remedy = "Leave the key out"});
}

/// Training of LSTM layers on the next token.
class LstmKind final : public RecipeKind {
 public:
  std::string title() const override { return "lstm"; }
  std::vector<std::string> model_kinds() const override { return {"lstm"}; }
  bool takes(const Recipe& recipe) const override { return recipe.model.kind == "lstm" && !recipe.is_task(); }
  std::vector<RecipeKey> keys() const override {
    return {{.name = "model.tied",
             .after = "model.dropout",
             .doc = "the head shares the word embedding's table",
             .field = RAMET_FIELD(model.tied)},
            {.name = "model.carry",
             .doc = "each micro-batch begins with the states that the micro-batch before it left, and row i of the "
                    "micro-batches is one text that goes on (truncated back-propagation through time); needs "
                    "train.lanes = 1 and a layout with r=1. Otherwise each begins with zeros, as evaluations always "
                    "do",
             .field = RAMET_FIELD(model.carry)}};
  }
  bool keeps_its_keys() const override { return true; }
  std::vector<std::string> presets(const Recipe&) const override { return lstm_preset_names(); }

  void check(const Recipe& recipe) const override {
    if (recipe.data.packs())
      throw Error({.what = "only bert's sequences are packed",
                   .where = recipe.where("data.packing"),
                   .found = "model.kind = \"lstm\"",
                   .remedy = "Leave data.packing out: sequences of lstm are full already"});
  }

  void complete(Recipe& recipe, int64_t corpus_vocabulary) const override {
    auto& model = recipe.model;
    refuse_key(recipe, "model.heads", model.heads.has_value());
    refuse_key(recipe, "model.intermediate", model.intermediate.has_value());
    refuse_key(recipe, "model.max_positions", model.max_positions.has_value());
    refuse_key(recipe, "model.attention_dropout", model.attention_dropout.has_value());
    refuse_key(recipe, "model.epsilon", model.epsilon.has_value());
    const LstmConfig preset = lstm_preset(model.preset);
    fill(model.layers, preset.layers), fill(model.hidden, preset.hidden), fill(model.dropout, preset.dropout);
    fill(model.vocabulary_size, corpus_vocabulary > 0 ? corpus_vocabulary : preset.vocabulary);
    check_vocabulary(recipe, corpus_vocabulary);
  }

  OpenedData open(Recipe& recipe, Preparation& into) const override {
    return open_text(recipe, "bpe", make_source, into);
  }
  Model build_model(const Recipe& recipe) const override {
    return build_lstm(
        lstm_config(recipe),
        {.micro_batch = recipe.train.micro_batch, .sequence = recipe.data.sequence_length, .seed = recipe.train.seed});
  }
  PublishedModel published(const Recipe& recipe, const Tokenizer*) const override {
    throw Error({.what = "transformers has no class of such a model",
                 .where = recipe.where("model.kind"),
                 .found = "\"lstm\"",
                 .remedy = "Name FILE.safetensors for its weights, which have PyTorch's names"});
  }
};

}  // namespace

const RecipeKind& lstm_kind() {
  static const LstmKind kind;
  return kind;
}

}  // namespace ramet::recipe
