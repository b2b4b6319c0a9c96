#pragma once

#include <memory>
#include <string>

#include "ramet/layout/layout.h"
#include "ramet/model/model.h"
#include "ramet/text/batches.h"
#include "ramet/text/task.h"
#include "ramet/text/tokenizer.h"
#include "ramet/train/recipe.h"

namespace ramet::train {

/// A recipe made ready: the model it means and the data it reads.
struct Preparation {
  Recipe recipe;  ///< complete: every field that decides a number is set
  Model model;
  std::shared_ptr<const BatchSource> train, held_out;  ///< `held_out` is null when the corpus has no such split
  std::shared_ptr<const Tokenizer> tokenizer;          ///< of the corpus; null for synthetic data
  std::shared_ptr<const TaskSet> task;                    ///< of a task recipe; its `held_out` is null
  std::string data_hash;                               ///< of the corpus or the task; empty for synthetic data
  int64_t held_out_samples = 0;                        ///< 0: endless (synthetic)
  Layout layout;                                       ///< fits the recipe and the model
  /// What could be better about the layout, and what is not as it might be thought of the weights to begin from.
  std::vector<std::string> remarks;

  int64_t samples_per_step() const { return recipe.train.micro_batch * recipe.train.accumulation; }
  int64_t tokens_per_step() const {
    return samples_per_step() * recipe.task.choices.value_or(1) * recipe.data.sequence_length;
  }
};

/// Opens the data, completes the recipe and builds the model. Throws Error naming the recipe's line for sizes that
/// contradict each other, the data or the weights to begin from, and for layouts that do not fit them.
Preparation prepare(const Recipe& recipe);

/// What a layout must fit (layout/layout.h): sizes of a complete recipe, and of this machine.
LayoutFacts layout_facts(const Recipe& complete);

/// The recipe with every unset size filled in, from the preset and, for text, from the vocabulary's size. `prepare`
/// does it.
Recipe complete_recipe(Recipe recipe, int64_t corpus_vocabulary = 0);

/// Whether two top-level scopes of a model's forward graph read one weight, as embeddings and the loss head often do.
bool has_tied_weights(const Graph& forward);
/// Decides where the loss head lies when the layout leaves it open: beside embeddings that share a weight with it.
void settle_head(Layout& layout, const Graph& forward);

/// Only the model of a complete recipe: for looking at it, and for prediction (`samples` at once).
Model build_model(const Recipe& complete);
/// Forward only, giving the k most likely tokens (see model/presets.h).
Graph build_predictor(const Recipe& complete, int64_t samples, int64_t predictions, int64_t k);
/// Forward only of a task recipe: "logits" (see model/presets.h).
Graph build_task_predictor(const Recipe& complete, int64_t samples);

}  // namespace ramet::train
