#include "ramet/recipe/keys.h"

namespace ramet::recipe {

std::vector<RecipeKey> bert_keys() {
  return {
      {.name = "model.intermediate",
       .after = "model.heads",
       .doc = "width of the feed-forward part (bert)",
       .field = RAMET_FIELD(model.intermediate),
       .low = 1,
       .high = 1e7,
       .otherwise = "4 x model.hidden"},
      {.name = "model.types",
       .after = "model.epsilon",
       .doc = "rows of the table of token types; 0: there is none (bert and its relatives)",
       .field = RAMET_FIELD(model.types),
       .low = 0,
       .high = 1000,
       .otherwise = "2 (bert), 1 (roberta), 0 (distilbert)"},
      {.name = "model.activation",
       .doc = "gelu, gelu_tanh or relu between the products of a feed-forward part (bert and its relatives)",
       .field = RAMET_FIELD(model.activation),
       .otherwise = "gelu"},
      {.name = "data.next_sentence",
       .after = "data.sequence_length",
       .doc = "sentence pairs and the next-sentence loss (bert); false: packed text, masked words alone",
       .field = RAMET_FIELD(data.next_sentence)},
      {.name = "data.short_sequences",
       .doc = "share of samples that are shorter than data.sequence_length (bert, with pairs)",
       .field = RAMET_FIELD(data.short_sequences),
       .low = 0,
       .high = 1},
      {.name = "data.variants",
       .doc = "ways in which a document is cut into pairs before they come again (bert)",
       .field = RAMET_FIELD(data.variants),
       .low = 1,
       .high = 1000},
      {.name = "data.packing",
       .after = "data.prefetch",
       .doc =
           "how several sequences come to share a row, so that less of it is padding (bert): spfhp (each to the row "
           "with most room), lpfhp (to the one with least that it fits), nnlshp (by least squares, best at depths to "
           "3). A sample is then a row. Without next sentences, sequences are pieces of one document each; synthetic "
           "ones are of any length. A task's texts are packed for training, and answered one by one",
       .field = RAMET_FIELD(data.packing),
       .choices = {"none", "spfhp", "lpfhp", "nnlshp"}},
      {.name = "data.packing_depth",
       .doc = "most sequences that share a row; 1 leaves each alone, with the model and the order of sums of packing",
       .field = RAMET_FIELD(data.packing_depth),
       .low = 1,
       .high = 256},
      {.name = "data.masking.probability",
       .doc = "share of tokens to be predicted (bert)",
       .field = RAMET_FIELD(data.masking_probability),
       .low = 0.01,
       .high = 0.9},
      {.name = "data.masking.whole_word",
       .doc = "mask all pieces of a word together (bert)",
       .field = RAMET_FIELD(data.whole_word)},
      {.name = "data.masking.max_predictions",
       .doc = "most predicted tokens of a sample (bert)",
       .field = RAMET_FIELD(data.max_predictions),
       .low = 1,
       .high = 1e6,
       .otherwise = "data.sequence_length x data.masking.probability, rounded up"},
  };
}

}  // namespace ramet::recipe
