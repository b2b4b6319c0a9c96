#include <cmath>

#include "ramet/model/blocks.h"
#include "ramet/model/presets.h"

namespace ramet::model {
namespace {

class Gpt2 {
 public:
  Gpt2(const Gpt2Config& config, const BatchShape& batch, Graph& graph, std::vector<StateTensor>* weights,
       bool training)
      : config_(config),
        batch_(batch),
        model_(graph, weights, config.init_range, training, batch.seed),
        build_(model_.build()),
        vocabulary_(config.vocabulary, config.pad_vocabulary) {
    input_ids_ = build_.input("input_ids", DType::kI32, {batch.micro_batch, batch.sequence}, kTokenAxes);
  }

  /// [B,S,H], after the last norm.
  Tensor encode() {
    Tensor x = embed();
    for (int64_t i = 0; i < config_.layers; ++i) {
      PartScope part(build_, "layer", i);
      x = layer(x, "transformer.h." + std::to_string(i));
    }
    Scope scope(build_, "head");
    return model_.norm(x, "transformer.ln_f", config_.epsilon);
  }

  /// Logits [N, V + padding] of rows [N, H].
  Tensor logits(Tensor rows) {
    Scope scope(build_, "head");
    return matmul(rows, words_, false, true);
  }

  void add_loss() {
    const int64_t rows = batch_.micro_batch * batch_.sequence;
    const Tensor all = logits(reshape(encode(), {rows, config_.hidden}));
    const Tensor labels = build_.input("labels", DType::kI32, {batch_.micro_batch, batch_.sequence}, kTokenAxes);
    Scope scope(build_, "loss");
    const CrossEntropy next = cross_entropy(all, reshape(labels, {rows}), vocabulary_.classes);
    build_.output("loss", next.loss);
    build_.output("correct", next.correct);
    build_.output("count", next.count);
  }

 private:
  Tensor embed() {
    Scope scope(build_, "embeddings");
    words_ = model_.matrix("transformer.wte.weight", {vocabulary_.rows, config_.hidden}, {vocabulary_.axis, kEmbed});
    const Tensor positions =
        model_.matrix("transformer.wpe.weight", {config_.positions, config_.hidden}, {kNoAxis, kEmbed});
    const Tensor x = add(gather(words_, input_ids_), slice(positions, {0, 0}, {batch_.sequence, config_.hidden}));
    return model_.drop(x, config_.dropout, "transformer.drop");
  }

  /// GPT-2 keeps its weights as [in, out].
  Tensor layer(Tensor x, const std::string& path) {
    // Residual projections start smaller by the square root of their number (Radford et al. 2019, section 2.3).
    const double residual = config_.init_range / std::sqrt(2.0 * static_cast<double>(config_.layers));
    {
      Scope scope(build_, "attention");
      const Tensor normed = model_.norm(x, path + ".ln_1", config_.epsilon);
      const Tensor qkv = model_.projection(normed, path + ".attn.c_attn", 3 * config_.hidden, kJointHeads, kEmbed);
      const Tensor mixed =
          model_.self_attention(qkv, {}, config_.heads, config_.attention_dropout, true, path + ".attn.attn_dropout");
      const Tensor out = model_.projection(mixed, path + ".attn.c_proj", config_.hidden, kEmbed, kHeads, residual);
      x = add(x, model_.drop(out, config_.dropout, path + ".attn.resid_dropout"));
    }
    Scope scope(build_, "feed_forward");
    const Tensor normed = model_.norm(x, path + ".ln_2", config_.epsilon);
    const Tensor wide = gelu_tanh(model_.projection(normed, path + ".mlp.c_fc", 4 * config_.hidden, kMlp, kEmbed));
    const Tensor out = model_.projection(wide, path + ".mlp.c_proj", config_.hidden, kEmbed, kMlp, residual);
    return add(x, model_.drop(out, config_.dropout, path + ".mlp.dropout"));
  }

  const Gpt2Config& config_;
  const BatchShape& batch_;
  ModelBuilder model_;
  GraphBuilder& build_;
  const VocabularyRows vocabulary_;
  Tensor input_ids_, words_;
};

void check(const Gpt2Config& config, const BatchShape& batch) {
  check_sizes("model (GPT-2)", config.layers, config.hidden, config.heads, config.vocabulary);
  check_sequence("model (GPT-2)", batch.sequence, config.positions);
}

/// 6 a weight of the layers and the head; attention's two products see half the square (causal).
double flops_per_token(const Gpt2Config& c, const BatchShape& b) {
  const double h = static_cast<double>(c.hidden);
  return 6 * (static_cast<double>(c.layers) * (12 * h * h + h * static_cast<double>(b.sequence)) +
              h * static_cast<double>(c.vocabulary));
}

}  // namespace

Model build_gpt2(const Gpt2Config& config, const BatchShape& batch) {
  check(config, batch);
  Model model;
  model.name = "gpt2";
  Gpt2(config, batch, model.forward, &model.weights, true).add_loss();
  Gpt2(config, batch, model.evaluate, nullptr, false).add_loss();
  declare_inputs(model, batch.sequence);
  limit_input(model, "input_ids", 0, static_cast<double>(config.vocabulary - 1));
  limit_input(model, "labels", -1, static_cast<double>(config.vocabulary - 1));
  model.metrics = {mean_metric("loss", "count"), share_metric("accuracy", "correct", "count"),
                   {.name = "perplexity", .numerator = "loss", .how = Metric::How::kExp, .held_out_only = true}};
  model.limit_items("loss", batch.micro_batch * batch.sequence);
  model.guards = {"loss"};
  model.units_of_axes = {{"heads", config.heads}};
  model.flops_per_token = flops_per_token(config, batch);
  model.tokens_per_micro_batch = batch.micro_batch * batch.sequence;
  return model;
}

Graph build_gpt2_predict(const Gpt2Config& config, const BatchShape& batch, int64_t k) {
  check(config, batch);
  Graph graph("predict");
  Gpt2 gpt2(config, batch, graph, nullptr, false);
  const Tensor encoded = gpt2.encode();
  GraphBuilder& build = *encoded.builder;
  const Tensor last = build.input("last_position", DType::kI32, {batch.micro_batch}, kSampleAxes);
  const Tensor row = multiply(iota(build, DType::kI32, {batch.micro_batch}, 0),
                              full(build, DType::kI32, {}, static_cast<double>(batch.sequence)));
  const Tensor rows = gather(reshape(encoded, {batch.micro_batch * batch.sequence, config.hidden}), add(last, row));
  const auto [values, indices] =
      top_k(softmax(slice(gpt2.logits(rows), {0, 0}, {batch.micro_batch, config.vocabulary})), k);
  graph.add_output("top_values", values.id);
  graph.add_output("top_indices", indices.id);
  return graph;
}

}  // namespace ramet::model
