#pragma once

// BERT's family as recipes describe it, for pre-training and for tasks. Inside recipe/ only.

#include "ramet/model/presets.h"
#include "ramet/recipe/kinds.h"

namespace ramet::recipe {

/// The model of a complete recipe of the family.
BertConfig bert_config(const Recipe& recipe);
/// Its batches of `samples`, in training.
BatchShape encoder_batch(const Recipe& recipe, int64_t samples);
/// Fills in the sizes that a recipe of the family leaves out, and checks them.
void complete_encoder(Recipe& recipe, int64_t corpus_vocabulary);
void take_published_encoder(Recipe& recipe, const PublishedConfig& config);
/// Refuses packing that cannot be.
void check_packing(const Recipe& recipe);
void check_activation(const Recipe& recipe);
/// How others name the family's model: "BertFor", and its configuration.
PublishedModel published_encoder(const Recipe& recipe, const Tokenizer* tokenizer);
/// The input that marks padding: "attention_mask" or, for packed rows, "segment_ids".
std::string padding_mask(const Recipe& recipe);

}  // namespace ramet::recipe
