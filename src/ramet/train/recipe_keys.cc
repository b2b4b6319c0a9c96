#include "ramet/train/recipe.h"

namespace ramet {
namespace {

constexpr double kMany = 1e9;         // of steps, batches and sizes: more is a slip of the keyboard
constexpr double kAny = 9.2e18;       // what 63 bits hold

#define RAMET_FIELD(member) [](Recipe& recipe) -> RecipeField { return &recipe.member; }

std::vector<RecipeKey> make_keys() {
  using Kind = RecipeKey::Kind;
  return {
      {.name = "name", .doc = "name of the run", .field = RAMET_FIELD(name), .decides = false, .otherwise = "the file's name"},

      {.name = "model.kind", .doc = "what is trained", .field = RAMET_FIELD(model.kind), .choices = {"bert", "gpt2"}},
      {.name = "model.preset", .doc = "sizes by name: tiny, mini, small, medium, base, large (bert); mini, 124m, 355m, 774m, 1.5b (gpt2)",
       .field = RAMET_FIELD(model.preset), .otherwise = "mini"},
      {.name = "model.layers", .doc = "number of layers", .field = RAMET_FIELD(model.layers), .low = 1, .high = 10000, .otherwise = "the preset's"},
      {.name = "model.hidden", .doc = "width of the model", .field = RAMET_FIELD(model.hidden), .low = 1, .high = 1e6, .otherwise = "the preset's"},
      {.name = "model.heads", .doc = "attention heads; must divide model.hidden", .field = RAMET_FIELD(model.heads), .low = 1, .high = 1e5,
       .otherwise = "the preset's"},
      {.name = "model.intermediate", .doc = "width of the feed-forward part (bert)", .field = RAMET_FIELD(model.intermediate), .low = 1,
       .high = 1e7, .otherwise = "4 x model.hidden"},
      {.name = "model.vocabulary_size", .doc = "rows of the word embedding", .field = RAMET_FIELD(model.vocabulary_size), .low = 6, .high = 1e8,
       .otherwise = "the corpus' (text) or the preset's (synthetic)"},
      {.name = "model.max_positions", .doc = "longest sequence that the model knows", .field = RAMET_FIELD(model.max_positions), .low = 1,
       .high = 1e7, .otherwise = "the preset's"},
      {.name = "model.dropout", .doc = "rate of dropout on embeddings and residuals", .field = RAMET_FIELD(model.dropout), .low = 0, .high = 0.99,
       .otherwise = "the preset's"},
      {.name = "model.attention_dropout", .doc = "rate of dropout on attention's probabilities", .field = RAMET_FIELD(model.attention_dropout),
       .low = 0, .high = 0.99, .otherwise = "the preset's"},
      {.name = "model.init_from", .doc = "safetensors file (or checkpoint folder) to begin from, with Hugging Face's names; empty: random",
       .field = RAMET_FIELD(model.init_from), .kind = Kind::kPath, .decides = false},

      {.name = "data.kind", .doc = "synthetic: tokens drawn from the counter-based generator; text: a corpus made by `ramet corpus`",
       .field = RAMET_FIELD(data.kind), .choices = {"synthetic", "text"}},
      {.name = "data.corpus", .doc = "folder of the corpus (text)", .field = RAMET_FIELD(data.corpus), .kind = Kind::kPath, .decides = false},
      {.name = "data.sequence_length", .doc = "tokens of a sample", .field = RAMET_FIELD(data.sequence_length), .low = 8, .high = 1e6},
      {.name = "data.next_sentence", .doc = "sentence pairs and the next-sentence loss (bert); false: packed text, masked words alone",
       .field = RAMET_FIELD(data.next_sentence)},
      {.name = "data.short_sequences", .doc = "share of samples that are shorter than data.sequence_length (bert, with pairs)",
       .field = RAMET_FIELD(data.short_sequences), .low = 0, .high = 1},
      {.name = "data.variants", .doc = "ways in which a document is cut into pairs before they come again (bert)", .field = RAMET_FIELD(data.variants),
       .low = 1, .high = 1000},
      {.name = "data.shuffle", .doc = "permute the samples of each epoch", .field = RAMET_FIELD(data.shuffle)},
      {.name = "data.prefetch", .doc = "batches made ahead of their use", .field = RAMET_FIELD(data.prefetch), .low = 1, .high = 1024, .decides = false},
      {.name = "data.masking.probability", .doc = "share of tokens to be predicted (bert)", .field = RAMET_FIELD(data.masking_probability),
       .low = 0.01, .high = 0.9},
      {.name = "data.masking.whole_word", .doc = "mask all pieces of a word together (bert)", .field = RAMET_FIELD(data.whole_word)},
      {.name = "data.masking.max_predictions", .doc = "most predicted tokens of a sample (bert)", .field = RAMET_FIELD(data.max_predictions),
       .low = 1, .high = 1e6, .otherwise = "data.sequence_length x data.masking.probability, rounded up"},

      {.name = "train.steps", .doc = "steps (updates of the weights) of the run", .field = RAMET_FIELD(train.steps), .low = 1, .high = kMany},
      {.name = "train.micro_batch", .doc = "samples that go through the model at once", .field = RAMET_FIELD(train.micro_batch), .low = 1, .high = 1e6},
      {.name = "train.accumulation", .doc = "micro-batches whose gradients are summed before an update; global batch = micro_batch x accumulation",
       .field = RAMET_FIELD(train.accumulation), .low = 1, .high = 1e6},
      {.name = "train.lanes", .doc = "equal parts of the global batch whose sums meet in a balanced tree; must divide train.accumulation",
       .field = RAMET_FIELD(train.lanes), .low = 1, .high = 65536},
      {.name = "train.chunks", .doc = "equal parts of a sum that a layout may split, combined in a balanced tree", .field = RAMET_FIELD(train.chunks),
       .low = 1, .high = 1024},
      {.name = "train.seed", .doc = "of initial weights, dropout, masks and order of samples", .field = RAMET_FIELD(train.seed), .low = 0, .high = kAny},
      {.name = "train.precision", .doc = "type of matrix products and activations; weights, sums and statistics are f32", .field = RAMET_FIELD(train.precision),
       .choices = {"f32", "bf16", "f16"}},
      {.name = "train.loss_scale", .doc = "factor on the loss in the backward pass, taken off again in the update", .field = RAMET_FIELD(train.loss_scale),
       .low = 0x1p-20, .high = 0x1p40, .otherwise = "1024 for f16, else 1"},
      {.name = "train.bits", .doc = "exact: the same bits on any layout and any number of threads", .field = RAMET_FIELD(train.bits), .choices = {"exact"}},
      {.name = "train.clip_norm", .doc = "largest global norm of the gradient, beyond which it is scaled down; 0: no limit", .field = RAMET_FIELD(train.clip_norm),
       .low = 0, .high = 1e30},
      {.name = "train.recompute", .doc = "what of the forward pass is computed again in the backward pass instead of kept: none, cheap, layer, layer:0,3, "
                                         "all, fit:2GiB (least cost that fits), auto (fits --device-memory); changes no bit",
       .field = RAMET_FIELD(train.recompute), .decides = false},

      {.name = "train.optimizer.kind", .doc = "how weights are updated", .field = RAMET_FIELD(optimizer.kind), .choices = {"sgd", "adam", "adamw", "lamb"}},
      {.name = "train.optimizer.beta1", .doc = "decay of the first moment (adam, adamw, lamb)", .field = RAMET_FIELD(optimizer.beta1), .low = 0, .high = 0.999999},
      {.name = "train.optimizer.beta2", .doc = "decay of the second moment (adam, adamw, lamb)", .field = RAMET_FIELD(optimizer.beta2), .low = 0, .high = 0.9999999},
      {.name = "train.optimizer.epsilon", .doc = "added to the root of the second moment (adam, adamw, lamb)", .field = RAMET_FIELD(optimizer.epsilon),
       .low = 1e-30, .high = 1},
      {.name = "train.optimizer.weight_decay", .doc = "of matrices; biases and norms do not decay. adam and sgd add it to the gradient, adamw and lamb "
                                                      "take it off the weights",
       .field = RAMET_FIELD(optimizer.weight_decay), .low = 0, .high = 10},
      {.name = "train.optimizer.momentum", .doc = "of sgd; 0: none", .field = RAMET_FIELD(optimizer.momentum), .low = 0, .high = 0.999999},
      {.name = "train.optimizer.nesterov", .doc = "Nesterov's momentum (sgd)", .field = RAMET_FIELD(optimizer.nesterov)},

      {.name = "train.schedule.kind", .doc = "how the learning rate falls after the warm-up", .field = RAMET_FIELD(schedule.kind),
       .choices = {"linear", "cosine", "polynomial", "constant"}},
      {.name = "train.schedule.learning_rate", .doc = "the highest, at the end of the warm-up", .field = RAMET_FIELD(schedule.learning_rate), .low = 0, .high = 1e6},
      {.name = "train.schedule.warmup_steps", .doc = "steps over which it rises in a line from 0", .field = RAMET_FIELD(schedule.warmup_steps), .low = 0, .high = kMany},
      {.name = "train.schedule.steps", .doc = "step at which it has come down to `end`", .field = RAMET_FIELD(schedule.steps), .low = 1, .high = kMany,
       .otherwise = "train.steps"},
      {.name = "train.schedule.end", .doc = "learning rate at the end", .field = RAMET_FIELD(schedule.end), .low = 0, .high = 1e6},
      {.name = "train.schedule.power", .doc = "of the polynomial; 1 is a line", .field = RAMET_FIELD(schedule.power), .low = 0.01, .high = 100},

      {.name = "train.evaluation.every", .doc = "steps between evaluations on held-out samples, beside those before the first and after the last step; "
                                                "0: only these two",
       .field = RAMET_FIELD(evaluation.every), .low = 0, .high = kMany, .decides = false},
      {.name = "train.evaluation.batches", .doc = "held-out micro-batches of an evaluation; 0: none at all", .field = RAMET_FIELD(evaluation.batches), .low = 0,
       .high = kMany, .decides = false},

      {.name = "train.checkpoint.every", .doc = "steps between checkpoints, beside that at the end; 0: only at the end", .field = RAMET_FIELD(checkpoint.every),
       .low = 0, .high = kMany, .decides = false},
      {.name = "train.checkpoint.keep", .doc = "checkpoints kept; older ones are removed", .field = RAMET_FIELD(checkpoint.keep), .low = 1, .high = 1e6,
       .decides = false},
  };
}

#undef RAMET_FIELD

}  // namespace

const std::vector<RecipeKey>& recipe_keys() {
  static const std::vector<RecipeKey> keys = make_keys();
  return keys;
}

}  // namespace ramet
