#include "ramet/train/prepare.h"

#include <map>

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/thread_team.h"
#include "ramet/model/blocks.h"
#include "ramet/model/hugging_face.h"
#include "ramet/model/presets.h"
#include "ramet/train/packed_rows.h"
#include "ramet/train/prepare_task.h"
#include "ramet/train/scaling.h"
#include "ramet/train/schedule.h"
#include "ramet/transport/process.h"
#include "ramet/weights/tensor_file.h"

namespace ramet::train {
namespace {

/// A size of the recipe, or the preset's where the recipe has none.
template <typename T>
void fill(std::optional<T>& field, T preset) {
  if (!field) field = preset;
}

bool is_bert(const Recipe& recipe) { return bert_family(recipe.model.kind).has_value(); }

BertConfig bert_config(const Recipe& recipe) {
  const auto& model = recipe.model;
  BertConfig config = bert_preset(model.preset, *bert_family(model.kind));
  config.layers = *model.layers, config.hidden = *model.hidden, config.heads = *model.heads,
  config.intermediate = *model.intermediate;
  config.vocabulary = *model.vocabulary_size, config.positions = *model.max_positions;
  config.pad_vocabulary = model.pad_vocabulary.value_or(1);
  config.dropout = *model.dropout, config.attention_dropout = *model.attention_dropout;
  config.types = model.types.value_or(config.types), config.epsilon = model.epsilon.value_or(config.epsilon);
  if (!model.activation.empty()) config.activation = activation_from_name(model.activation);
  return config;
}

HeadShape head_shape(const Recipe& recipe) {
  const auto& task = recipe.task;
  const TaskHead head = task_head_from_name(task.head);
  const bool of_sentences = head == TaskHead::kClassification || head == TaskHead::kRegression;
  const bool firmer = recipe.model.kind == "distilbert" && of_sentences;  // its published configuration's 0.2
  return {.kind = head,
          .labels = task.classes.value_or(1),
          .choices = task.choices.value_or(1),
          .dropout = task.dropout.value_or(firmer ? 0.2 : *recipe.model.dropout)};
}

Gpt2Config gpt2_config(const Recipe& recipe) {
  const auto& model = recipe.model;
  Gpt2Config config = gpt2_preset(model.preset);
  config.layers = *model.layers, config.hidden = *model.hidden, config.heads = *model.heads;
  config.vocabulary = *model.vocabulary_size, config.positions = *model.max_positions;
  config.pad_vocabulary = model.pad_vocabulary.value_or(1);
  config.dropout = *model.dropout, config.attention_dropout = *model.attention_dropout;
  config.epsilon = model.epsilon.value_or(config.epsilon);
  return config;
}

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

BatchShape batch_shape(const Recipe& recipe, int64_t samples) {
  return {.micro_batch = samples,
          .sequence = recipe.data.sequence_length,
          .predictions = predictions_of_row(recipe),
          .seed = recipe.train.seed,
          .next_sentence = recipe.data.next_sentence,
          .depth = recipe.data.packs() ? recipe.data.packing_depth : 0};
}

BertBatchOptions bert_options(const Recipe& recipe, bool training) {
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

CausalBatchOptions causal_options(const Recipe& recipe, bool training) {
  return {.sequence_length = static_cast<int32_t>(recipe.data.sequence_length),
          .shuffle = training && recipe.data.shuffle,
          .seed = static_cast<uint64_t>(recipe.train.seed) + (training ? 0 : 1)};
}

std::shared_ptr<const BatchSource> make_source(const Recipe& recipe, const Corpus* corpus, bool training) {
  const auto vocabulary = static_cast<int32_t>(*recipe.model.vocabulary_size);
  if (is_bert(recipe))
    return in_packed_rows(corpus ? make_bert_batches(*corpus, bert_options(recipe, training))
                                 : make_synthetic_bert_batches(vocabulary, bert_options(recipe, training)),
                          recipe, predictions_of_row(recipe), training);
  return corpus ? make_causal_batches(*corpus, causal_options(recipe, training))
                : make_synthetic_causal_batches(vocabulary, causal_options(recipe, training));
}

/// A split of the recipe's corpus; nothing when it has none of that name.
std::optional<Corpus> open_split(const Recipe& recipe, const std::string& split) {
  Corpus corpus = Corpus::open(recipe.data.corpus, split, CorpusCheck::kStructure);
  if (corpus.counts().documents == 0) return {};
  return corpus;
}

/// The length of a run that is given in epochs, now that the data is there.
void settle_epochs(Recipe& recipe, const BatchSource& source) {
  if (!recipe.train.epochs) return;
  const int64_t samples = source.epoch_samples(0);
  if (samples == 0)
    throw Error({.what = "synthetic data has no epochs",
                 .where = recipe.where("train.epochs"),
                 .remedy = "Give train.steps or train.samples instead, or a corpus"});
  settle_lengths(recipe, samples);
  fill(recipe.train.schedule.steps, std::max(recipe.train.steps, recipe.train.schedule.warmup_steps));
}

void check_model_sizes(const Recipe& recipe) {
  const auto& model = recipe.model;
  if (*model.hidden % *model.heads != 0)
    throw Error({.what = "model.heads must divide model.hidden",
                 .where = recipe.where("model.heads"),
                 .found = std::to_string(*model.heads) + " heads of " + std::to_string(*model.hidden),
                 .remedy = "Change one of the two"});
  if (recipe.data.sequence_length > *model.max_positions)
    throw Error({.what = "the sequence is longer than the model's positions",
                 .where = recipe.where("data.sequence_length"),
                 .found = std::to_string(recipe.data.sequence_length),
                 .expected = "at most model.max_positions, " + std::to_string(*model.max_positions)});
}

}  // namespace

Recipe complete_recipe(Recipe recipe, int64_t corpus_vocabulary) {
  take_published_sizes(recipe);
  auto& model = recipe.model;
  if (model.preset.empty()) model.preset = "mini";
  if (const auto family = bert_family(model.kind)) {
    const BertConfig preset = bert_preset(model.preset, *family);
    if (*family != BertFamily::kBert && !recipe.places.count("data.next_sentence")) recipe.data.next_sentence = false;
    fill(model.layers, preset.layers), fill(model.hidden, preset.hidden), fill(model.heads, preset.heads);
    fill(model.intermediate, 4 * *model.hidden);
    fill(model.max_positions, preset.positions);
    fill(model.vocabulary_size, corpus_vocabulary > 0 ? corpus_vocabulary : preset.vocabulary);
    fill(model.dropout, preset.dropout), fill(model.attention_dropout, preset.attention_dropout);
    const auto& data = recipe.data;
    fill(recipe.data.max_predictions,
         std::max<int64_t>(
             1, static_cast<int64_t>(std::ceil(static_cast<double>(data.sequence_length) * data.masking_probability))));
  } else {
    if (model.intermediate)
      throw Error({.what = "GPT-2's feed-forward part is always 4 x model.hidden wide",
                   .where = recipe.where("model.intermediate"),
                   .remedy = "Leave the key out"});
    const Gpt2Config preset = gpt2_preset(model.preset);
    fill(model.layers, preset.layers), fill(model.hidden, preset.hidden), fill(model.heads, preset.heads);
    fill(model.max_positions, preset.positions);
    fill(model.vocabulary_size, corpus_vocabulary > 0 ? corpus_vocabulary : preset.vocabulary);
    fill(model.dropout, preset.dropout), fill(model.attention_dropout, preset.attention_dropout);
  }
  const bool short_range = recipe.train.precision == "f16" || recipe.train.precision == "f8";
  if (recipe.train.loss_scale.empty())
    recipe.train.loss_scale.number = short_range && recipe.train.scaling == "none" ? 1024.0 : 1.0;
  settle_lengths(recipe);
  // Never before the end of the warm-up, however few steps a trial takes: the complete recipe must be one that can be
  // read.
  if (!recipe.train.epochs) fill(recipe.train.schedule.steps, std::max(recipe.train.steps, recipe.train.schedule.warmup_steps));
  if (corpus_vocabulary > *model.vocabulary_size)
    throw Error({.what = "the corpus has more tokens than the model has rows for",
                 .where = recipe.where("model.vocabulary_size"),
                 .found = std::to_string(*model.vocabulary_size),
                 .expected = "at least " + std::to_string(corpus_vocabulary),
                 .remedy = "Leave the key out to take the corpus' own size"});
  check_model_sizes(recipe);
  return recipe;
}

LayoutFacts layout_facts(const Recipe& recipe) {
  const auto& model = recipe.model;
  const bool bert = is_bert(recipe);
  const auto sequence = static_cast<double>(recipe.data.sequence_length);
  const bool exact = recipe.train.bits == "exact";
  return {.lanes = exact ? recipe.train.lanes : recipe.train.accumulation,
          .chunks = exact ? recipe.train.chunks : 1,
          .exact = exact,
          .micro_batches = recipe.train.accumulation,
          .tokens = recipe.data.sequence_length,
          .layers = model.layers.value_or(0),
          .heads = model.heads.value_or(0),
          .hidden = model.hidden.value_or(0),
          .intermediate = model.intermediate.value_or(4 * model.hidden.value_or(0)),
          .vocabulary = VocabularyRows(model.vocabulary_size.value_or(0), model.pad_vocabulary.value_or(1)).rows,
          .head_share = recipe.is_task() ? 1 / sequence
                        : bert           ? static_cast<double>(predictions_of_row(recipe)) / sequence
                                         : 1,
          .processors = available_processors(),
          .memory = available_memory()};
}

namespace {

/// What follows from the complete recipe: the layout and the model, and how the weights to begin from meet it.
void finish(Preparation& result) {
  result.layout = parse_layout(result.recipe.layout, layout_source(result.recipe));
  result.remarks = validate(result.layout, layout_facts(result.recipe), layout_source(result.recipe));
  result.model = build_model(result.recipe);
  settle_head(result.layout, result.model.forward);
  const std::string& file = result.recipe.model.init_from;
  std::error_code ignored;
  if (file.empty() || !std::filesystem::exists(file, ignored)) return;
  if (std::filesystem::is_directory(file, ignored) && !has_weights(file)) return;  // a checkpoint
  for (auto& remark : match_weights(file, result.model.weights).remarks(file))
    result.remarks.push_back(std::move(remark));
}

}  // namespace

Preparation prepare(const Recipe& recipe) {
  Preparation result;
  if (recipe.is_task()) {
    prepare_task(recipe, result);
    finish(result);
    return result;
  }
  std::optional<Corpus> train, held_out;
  if (recipe.data.kind == "text") {
    train = open_split(recipe, "train");
    if (!train)
      throw Error({.what = "the corpus holds no document to train on",
                   .where = recipe.where("data.corpus"),
                   .found = "'" + recipe.data.corpus + "'"});
    held_out = open_split(recipe, "heldout");
    result.data_hash = train->hash().hex();
    // The corpus keeps its tokenizer alive as long as one of its copies lives.
    const auto keeper = std::make_shared<const Corpus>(*train);
    result.tokenizer = std::shared_ptr<const Tokenizer>(keeper, &keeper->tokenizer());
    const std::string wanted = recipe.model.kind == "gpt2" ? "bpe" : "wordpiece";
    if (recipe.model.kind != "roberta" && result.tokenizer->kind() != wanted)
      throw Error({.what = "the corpus was made with the other kind of tokenizer",
                   .where = recipe.where("data.corpus"),
                   .found = std::string(result.tokenizer->kind()),
                   .expected = wanted + " for " + recipe.model.kind});
  }
  result.recipe = complete_recipe(recipe, result.tokenizer ? result.tokenizer->vocabulary_size() : 0);
  result.train = make_source(result.recipe, train ? &*train : nullptr, true);
  settle_epochs(result.recipe, *result.train);
  finish(result);
  if (held_out || !train) result.held_out = make_source(result.recipe, held_out ? &*held_out : nullptr, false);
  if (held_out) result.held_out_samples = result.held_out->epoch_samples(0);
  return result;
}

bool has_tied_weights(const Graph& forward) {
  std::map<ValueId, std::string> reader;
  for (const Node& node : forward.nodes())
    for (ValueId input : node.inputs) {
      if (forward.value(input).producer != kNoNode) continue;
      const auto is_state = [&](const GraphInput& each) {
        return each.value == input && each.role == InputRole::kState;
      };
      if (std::none_of(forward.inputs().begin(), forward.inputs().end(), is_state)) continue;
      const std::string scope = node.name.substr(0, node.name.find('/'));
      if (reader.emplace(input, scope).first->second != scope) return true;
    }
  return false;
}

void settle_head(Layout& layout, const Graph& forward) {
  if (layout.head != Layout::Head::kAuto) return;
  layout.head = layout.p > 1 && has_tied_weights(forward) ? Layout::Head::kFirst : Layout::Head::kLast;
}

Model build_model(const Recipe& recipe) {
  const BatchShape shape = batch_shape(recipe, recipe.train.micro_batch);
  Model model = recipe.is_task()  ? build_bert_task(bert_config(recipe), shape, head_shape(recipe))
                : is_bert(recipe) ? build_bert(bert_config(recipe), shape)
                                  : build_gpt2(gpt2_config(recipe), shape);
  return is_scaled(recipe) ? with_unit_weights(std::move(model)) : model;
}

Graph build_predictor(const Recipe& recipe, int64_t samples, int64_t predictions, int64_t k) {
  BatchShape shape = batch_shape(recipe, samples);
  shape.predictions = predictions;
  shape.depth = 0;  // one text
  return is_bert(recipe) ? build_bert_predict(bert_config(recipe), shape, k)
                         : build_gpt2_predict(gpt2_config(recipe), shape, k);
}

Graph build_task_predictor(const Recipe& recipe, int64_t samples) {
  BatchShape shape = batch_shape(recipe, samples);
  shape.depth = 0;  // answers are asked for one by one
  return build_bert_task_predict(bert_config(recipe), shape, head_shape(recipe));
}

}  // namespace ramet::train
