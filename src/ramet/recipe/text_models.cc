#include "ramet/recipe/text_models.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/model/published_config.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/lengths.h"

namespace ramet::recipe {
namespace {

namespace fs = std::filesystem;

/// A split of the recipe's corpus; nothing when it has none of that name.
std::optional<Corpus> open_split(const Recipe& recipe, const std::string& split) {
  Corpus corpus = Corpus::open(recipe.data.corpus, split, CorpusCheck::kStructure);
  if (corpus.counts().documents == 0) return {};
  return corpus;
}

}  // namespace

void refuse_published_size(const Recipe& recipe, const std::string& key, const std::string& found,
                           const std::string& published) {
  throw Error({.what = "the recipe and the published model differ",
               .where = recipe.where(key),
               .found = found,
               .expected = published + ", as config.json beside the weights says",
               .remedy = "Leave the key out"});
}

void check_vocabulary(const Recipe& recipe, int64_t corpus_vocabulary) {
  if (corpus_vocabulary > *recipe.model.vocabulary_size)
    throw Error({.what = "the corpus has more tokens than the model has rows for",
                 .where = recipe.where("model.vocabulary_size"),
                 .found = std::to_string(*recipe.model.vocabulary_size),
                 .expected = "at least " + std::to_string(corpus_vocabulary),
                 .remedy = "Leave the key out to take the corpus' own size"});
}

void check_text_sizes(const Recipe& recipe, int64_t corpus_vocabulary) {
  const auto& model = recipe.model;
  check_vocabulary(recipe, corpus_vocabulary);
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

void take_published_sizes(Recipe& recipe) {
  auto& model = recipe.model;
  std::error_code ignored;
  if (model.init_from.empty() || !kind_of(recipe).reads_text() || !fs::is_directory(model.init_from, ignored)) return;
  const auto config = read_published_config(model.init_from);
  if (!config) return;
  if (recipe.places.count("model.kind") && model.kind != config->kind)
    throw Error({.what = "the recipe and the published model differ",
                 .where = recipe.where("model.kind"),
                 .found = model.kind,
                 .expected = config->kind + ", as config.json beside the weights says"});
  model.kind = config->kind;
  take_published_size(recipe, "model.layers", model.layers, config->layers);
  take_published_size(recipe, "model.hidden", model.hidden, config->hidden);
  take_published_size(recipe, "model.heads", model.heads, config->heads);
  take_published_size(recipe, "model.vocabulary_size", model.vocabulary_size, config->vocabulary);
  take_published_size(recipe, "model.max_positions", model.max_positions, config->positions);
  // The recipe decides dropout; where it says nothing, the model's own values are the least surprising.
  if (!model.dropout) model.dropout = config->dropout;
  if (!model.attention_dropout) model.attention_dropout = config->attention_dropout;
  if (!model.epsilon) model.epsilon = config->epsilon;
  kind_of(recipe).take_published(recipe, *config);
}

TextSplits open_corpus(const Recipe& recipe, const std::string& tokenizer, Preparation& into) {
  TextSplits splits;
  if (recipe.data.kind != "text") return splits;
  splits.train = open_split(recipe, "train");
  if (!splits.train)
    throw Error({.what = "the corpus holds no document to train on",
                 .where = recipe.where("data.corpus"),
                 .found = "'" + recipe.data.corpus + "'"});
  splits.held_out = open_split(recipe, "heldout");
  into.workload.data_identity = splits.train->hash().hex();
  // The corpus keeps its tokenizer alive as long as one of its copies lives.
  const auto keeper = std::make_shared<const Corpus>(*splits.train);
  into.tokenizer = std::shared_ptr<const Tokenizer>(keeper, &keeper->tokenizer());
  if (!tokenizer.empty() && into.tokenizer->kind() != tokenizer)
    throw Error({.what = "the corpus was made with the other kind of tokenizer",
                 .where = recipe.where("data.corpus"),
                 .found = std::string(into.tokenizer->kind()),
                 .expected = tokenizer + " for " + recipe.model.kind});
  return splits;
}

OpenedData open_text(const Recipe& recipe, const std::string& tokenizer, MakeTextSource make, Preparation& into) {
  TextSplits opened = open_corpus(recipe, tokenizer, into);
  const int64_t vocabulary = into.tokenizer ? into.tokenizer->vocabulary_size() : 0;
  return {.vocabulary = vocabulary,
          .make_workload = [splits = std::move(opened), make = std::move(make)](Preparation& made) {
            Workload& workload = made.workload;
            workload.train = make(made.recipe, splits.train ? &*splits.train : nullptr, true);
            settle_epochs(made.recipe, *workload.train);
            if (splits.held_out || !splits.train)
              workload.held_out = make(made.recipe, splits.held_out ? &*splits.held_out : nullptr, false);
            workload.units = {.name = "tokens", .per_sample = made.recipe.data.sequence_length};
            workload.model = kind_of(made.recipe).build_model(made.recipe);
          }};
}

}  // namespace ramet::recipe
