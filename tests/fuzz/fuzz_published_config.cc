#include <stdexcept>

#include "fuzz/fuzz_target.h"
#include "ramet/base/file.h"
#include "ramet/model/published_config.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(published_config, std::string_view input) {
  const auto folder = fuzz::empty_folder("published_config");
  write_file_atomic(folder / "config.json", input);
  const auto config = read_published_config(folder);
  if (!config) return;
  // What was read and written again says the same.
  write_file_atomic(folder / "config.json", print_published_config(*config, "BertModel"));
  const auto again = read_published_config(folder);
  if (!again || again->layers != config->layers || again->hidden != config->hidden || again->labels != config->labels)
    throw std::logic_error("config.json changes when it is written again");
}

RAMET_FUZZ_SEEDS(published_config) {
  return {.inputs = {R"({"model_type":"bert","num_hidden_layers":2,"hidden_size":8,"num_attention_heads":2,)"
                     R"("intermediate_size":16,"vocab_size":30,"max_position_embeddings":16,"type_vocab_size":2,)"
                     R"("hidden_act":"gelu","layer_norm_eps":1e-12,"id2label":{"0":"a","1":"b"}})",
                     R"({"model_type":"gpt2","n_layer":2,"n_embd":8,"n_head":2,"n_inner":null,"vocab_size":30,)"
                     R"("n_positions":16,"activation_function":"gelu_new"})",
                     R"({"model_type":"distilbert","n_layers":2,"dim":8,"n_heads":2,"hidden_dim":16,"vocab_size":30,)"
                     R"("max_position_embeddings":16,"activation":"gelu","sinusoidal_pos_embds":false})"},
          .words = {"\"id2label\":{}", "null", "1e9", "-1", "0", "1.5", "\"model_type\":\"roberta\"", "9223372036854775807"}};
}
