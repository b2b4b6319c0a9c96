#pragma once

// Functions that the kinds of recipes share whose models read text. Inside recipe/ only.

#include <memory>
#include <optional>
#include <string>

#include "ramet/recipe/kinds.h"
#include "ramet/recipe/prepare.h"
#include "ramet/text/batches.h"
#include "ramet/text/corpus.h"

namespace ramet::recipe {

/// A size of the recipe, or the preset's where the recipe has none.
template <typename T>
void fill(std::optional<T>& field, T preset) {
  if (!field) field = preset;
}

/// The sizes that presets of all models of text have.
template <typename Config>
void fill_text_sizes(Recipe& recipe, const Config& preset, int64_t corpus_vocabulary) {
  auto& model = recipe.model;
  fill(model.layers, preset.layers), fill(model.hidden, preset.hidden), fill(model.heads, preset.heads);
  fill(model.max_positions, preset.positions);
  fill(model.vocabulary_size, corpus_vocabulary > 0 ? corpus_vocabulary : preset.vocabulary);
  fill(model.dropout, preset.dropout), fill(model.attention_dropout, preset.attention_dropout);
}
/// The same in a model's configuration, from a complete recipe.
template <typename Config>
void take_text_sizes(Config& config, const Recipe& recipe) {
  const auto& model = recipe.model;
  config.layers = *model.layers, config.hidden = *model.hidden, config.heads = *model.heads;
  config.vocabulary = *model.vocabulary_size, config.positions = *model.max_positions;
  config.pad_vocabulary = model.pad_vocabulary.value_or(1);
  config.dropout = *model.dropout, config.attention_dropout = *model.attention_dropout;
  config.epsilon = model.epsilon.value_or(config.epsilon);
}

/// Throws Error when the corpus has more tokens than a complete recipe's model.
void check_vocabulary(const Recipe& recipe, int64_t corpus_vocabulary);
/// Throws Error for sizes of a complete recipe that contradict each other or the corpus.
void check_text_sizes(const Recipe& recipe, int64_t corpus_vocabulary);

[[noreturn]] void refuse_published_size(const Recipe& recipe, const std::string& key, const std::string& found,
                                        const std::string& published);
/// A size that the recipe leaves out, or must have as the published model has it.
template <typename T>
void take_published_size(Recipe& recipe, const std::string& key, std::optional<T>& field, T published) {
  if (field && *field != published)
    refuse_published_size(recipe, key, std::to_string(*field), std::to_string(published));
  field = published;
}

/// Fills sizes that a recipe leaves out from config.json beside the weights to begin from, if there is one. Throws
/// Error when the recipe and config.json give a size differently.
void take_published_sizes(Recipe& recipe);

/// The splits of a recipe's corpus; none of synthetic data.
struct TextSplits {
  std::optional<Corpus> train, held_out;
};
/// Opens them, and sets the tokenizer and the identity of the data. `tokenizer`: the kind that the model needs, or ""
/// for any.
TextSplits open_corpus(const Recipe& recipe, const std::string& tokenizer, Preparation& into);

/// Makes the sources of a split (null: synthetic) for training or not.
using MakeTextSource =
    std::function<std::shared_ptr<const Source>(const Recipe& complete, const Corpus* corpus, bool training)>;
/// Opens the corpus. The workload settles the recipe's length in epochs, and has both sources.
OpenedData open_text(const Recipe& recipe, const std::string& tokenizer, MakeTextSource make, Preparation& into);

}  // namespace ramet::recipe
