#include <algorithm>
#include <cmath>
#include <map>

#include "ramet/base/error.h"
#include "ramet/recipe/encoder.h"
#include "ramet/recipe/keys.h"
#include "ramet/recipe/packed_rows.h"
#include "ramet/recipe/text_models.h"

namespace ramet::recipe {
namespace {

/// Masked words of a row. Each sequence of a packed one has its share rounded, and one at least, so that all of them
/// have at most one each more than the row's share.
int64_t predictions_of_row(const Recipe& recipe) {
  const auto& data = recipe.data;
  const int64_t each = data.max_predictions.value_or(1);
  if (!data.packs()) return each;
  const double share = static_cast<double>(data.sequence_length) * data.masking_probability;
  const int64_t all = static_cast<int64_t>(std::ceil(share)) + data.packing_depth;
  return std::min({each * data.packing_depth, all, data.sequence_length});
}

BertBatchOptions batch_options(const Recipe& recipe, bool training) {
  const auto& data = recipe.data;
  BertBatchOptions options;
  options.objective = data.next_sentence ? BertObjective::kMlmNsp
                      : data.packs()     ? BertObjective::kMlmDocuments
                                         : BertObjective::kMlm;
  options.vary_lengths = data.packs();
  options.sequence_length = static_cast<int32_t>(data.sequence_length);
  options.max_predictions = static_cast<int32_t>(*data.max_predictions);
  options.masked_share = data.masking_probability;
  options.whole_word = data.whole_word;
  options.short_sequence_share = data.short_sequences;
  options.variants = training ? static_cast<int32_t>(data.variants) : 1;
  options.shuffle = training && data.shuffle;
  options.seed = static_cast<uint64_t>(recipe.train.seed) + (training ? 0 : 1);  // evaluation's masks are its own
  return options;
}

std::shared_ptr<const Source> make_source(const Recipe& recipe, const Corpus* corpus, bool training) {
  const auto vocabulary = static_cast<int32_t>(*recipe.model.vocabulary_size);
  const BertBatchOptions options = batch_options(recipe, training);
  return in_packed_rows(corpus ? make_bert_batches(*corpus, options) : make_synthetic_bert_batches(vocabulary, options),
                        recipe, predictions_of_row(recipe), training);
}

/// Pre-training of BERT and its relatives.
class BertKind final : public RecipeKind {
 public:
  std::string title() const override { return "bert, roberta, distilbert"; }
  std::vector<std::string> model_kinds() const override { return {"bert", "roberta", "distilbert"}; }
  bool takes(const Recipe& recipe) const override { return bert_family(recipe.model.kind) && !recipe.is_task(); }
  std::vector<RecipeKey> keys() const override { return bert_keys(); }
  std::vector<std::string> presets(const Recipe& recipe) const override {
    return bert_preset_names(*bert_family(recipe.model.kind));
  }
  void check(const Recipe& recipe) const override {
    if (recipe.data.packs() && recipe.model.kind != "bert")
      throw Error({.what = "only bert's sequences are packed",
                   .where = recipe.where("data.packing"),
                   .found = "model.kind = \"" + recipe.model.kind + "\"",
                   .remedy = "Leave data.packing out: sequences of " + recipe.model.kind + " are full already"});
    check_packing(recipe);
    check_activation(recipe);
  }
  void complete(Recipe& recipe, int64_t corpus_vocabulary) const override {
    complete_encoder(recipe, corpus_vocabulary);
  }
  void take_published(Recipe& recipe, const PublishedConfig& config) const override {
    take_published_encoder(recipe, config);
  }
  OpenedData open(Recipe& recipe, Preparation& into) const override {
    OpenedData data = open_text(recipe, recipe.model.kind == "roberta" ? "" : "wordpiece", make_source, into);
    data.make_workload = [text = std::move(data.make_workload)](Preparation& made) {
      text(made);
      made.workload.units.mask = padding_mask(made.recipe);
    };
    return data;
  }
  Model build_model(const Recipe& recipe) const override {
    return build_bert(bert_config(recipe), encoder_batch(recipe, recipe.train.micro_batch));
  }
  Graph build_predictor(const Recipe& recipe, int64_t samples, int64_t predictions, int64_t k) const override {
    BatchShape shape = encoder_batch(recipe, samples);
    shape.predictions = predictions;
    shape.depth = 0;  // one text
    return build_bert_predict(bert_config(recipe), shape, k);
  }
  PublishedModel published(const Recipe& recipe, const Tokenizer* tokenizer) const override {
    PublishedModel model = published_encoder(recipe, tokenizer);
    model.architecture += recipe.data.next_sentence ? "PreTraining" : "MaskedLM";
    return model;
  }
};

}  // namespace

const RecipeKind& bert_kind() {
  static const BertKind kind;
  return kind;
}

BertConfig bert_config(const Recipe& recipe) {
  const auto& model = recipe.model;
  BertConfig config = bert_preset(model.preset, *bert_family(model.kind));
  take_text_sizes(config, recipe);
  config.intermediate = *model.intermediate;
  config.types = model.types.value_or(config.types);
  if (!model.activation.empty()) config.activation = activation_from_name(model.activation);
  return config;
}

BatchShape encoder_batch(const Recipe& recipe, int64_t samples) {
  return {.micro_batch = samples,
          .sequence = recipe.data.sequence_length,
          .predictions = predictions_of_row(recipe),
          .seed = recipe.train.seed,
          .next_sentence = recipe.data.next_sentence,
          .depth = recipe.data.packs() ? recipe.data.packing_depth : 0};
}

void complete_encoder(Recipe& recipe, int64_t corpus_vocabulary) {
  const BertFamily family = *bert_family(recipe.model.kind);
  auto& data = recipe.data;
  if (family != BertFamily::kBert && !recipe.places.count("data.next_sentence")) data.next_sentence = false;
  fill_text_sizes(recipe, bert_preset(recipe.model.preset, family), corpus_vocabulary);
  fill(recipe.model.intermediate, 4 * *recipe.model.hidden);
  const double share = static_cast<double>(data.sequence_length) * data.masking_probability;
  fill(data.max_predictions, std::max<int64_t>(1, static_cast<int64_t>(std::ceil(share))));
  check_text_sizes(recipe, corpus_vocabulary);
}

void take_published_encoder(Recipe& recipe, const PublishedConfig& config) {
  auto& model = recipe.model;
  take_published_size(recipe, "model.intermediate", model.intermediate, config.intermediate);
  take_published_size(recipe, "model.types", model.types, config.types);
  if (model.activation.empty()) model.activation = config.activation;
}

void check_packing(const Recipe& recipe) {
  const auto& data = recipe.data;
  if (data.max_predictions && *data.max_predictions > data.sequence_length)
    throw Error({.what = "more predictions than tokens",
                 .where = recipe.where("data.masking.max_predictions"),
                 .found = std::to_string(*data.max_predictions),
                 .expected = "at most data.sequence_length, " + std::to_string(data.sequence_length)});
  if (data.packs() && data.packing_depth > data.sequence_length)
    throw Error({.what = "more sequences than tokens in a row",
                 .where = recipe.where("data.packing_depth"),
                 .found = std::to_string(data.packing_depth),
                 .expected = "1 to data.sequence_length, " + std::to_string(data.sequence_length)});
}

void check_activation(const Recipe& recipe) {
  if (recipe.model.activation.empty()) return;
  try {
    (void)activation_from_name(recipe.model.activation);
  } catch (const Error& error) {
    ErrorParts parts = error.parts();
    parts.where = recipe.where("model.activation");
    throw Error(std::move(parts));
  }
}

PublishedModel published_encoder(const Recipe& recipe, const Tokenizer* tokenizer) {
  static const std::map<std::string, std::string> kFamilies = {
      {"bert", "Bert"}, {"roberta", "Roberta"}, {"distilbert", "DistilBert"}};
  const BertConfig sizes = bert_config(recipe);
  PublishedModel model;
  model.architecture = kFamilies.at(recipe.model.kind) + "For";
  model.config = {.kind = recipe.model.kind,
                  .layers = sizes.layers,
                  .hidden = sizes.hidden,
                  .heads = sizes.heads,
                  .intermediate = sizes.intermediate,
                  .vocabulary = sizes.vocabulary,
                  .positions = sizes.positions,
                  .types = sizes.types,
                  .dropout = sizes.dropout,
                  .attention_dropout = sizes.attention_dropout,
                  .epsilon = sizes.epsilon,
                  .activation = recipe.model.activation.empty() ? "gelu" : recipe.model.activation,
                  .labels = {}};
  // RoBERTa's tokenizer is GPT-2's with other special tokens, which its own class adds.
  if (tokenizer && tokenizer->kind() == "bpe" && recipe.model.kind == "roberta")
    model.tokenizer_class = "RobertaTokenizer";
  return model;
}

std::string padding_mask(const Recipe& recipe) { return recipe.data.packs() ? "segment_ids" : "attention_mask"; }

}  // namespace ramet::recipe
