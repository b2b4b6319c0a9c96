#include <cmath>

#include "ramet/model/blocks.h"
#include "ramet/model/presets.h"

namespace ramet::model {
namespace {

class Gpt2 {
 public:
  /// With `decoding` the graph of one of its programs; `caches` collects their states, where it is not null.
  Gpt2(const Gpt2Config& config, const BatchShape& batch, Graph& graph, std::vector<StateTensor>* weights,
       bool training, const Decoding* decoding = nullptr, std::vector<StateTensor>* caches = nullptr)
      : config_(config),
        batch_(batch),
        model_(graph, weights, config.init_range, training, batch.seed),
        build_(model_.build()),
        vocabulary_(config.vocabulary, config.pad_vocabulary),
        decoding_(decoding),
        caches_(caches) {
    // A layout may cut positions of sequences, but not those few that decoding takes at a time.
    input_ids_ = build_.input("input_ids", DType::kI32, {batch.micro_batch, batch.sequence},
                              decoding ? std::vector<std::string>{"batch", ""} : kTokenAxes);
    if (decoding) first_ = build_.input("first", DType::kI32, {batch.micro_batch}, kSampleAxes);
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

  /// Logits behind the last real token of each sample.
  void add_logits() {
    const Tensor encoded = encode();
    const Tensor last = build_.input("last", DType::kI32, {batch_.micro_batch}, kSampleAxes);
    Scope scope(build_, "head");
    const Tensor begin = multiply(iota(build_, DType::kI32, {batch_.micro_batch}, 0),
                                  full(build_, DType::kI32, {}, static_cast<double>(batch_.sequence)));
    const Tensor rows =
        gather(reshape(encoded, {batch_.micro_batch * batch_.sequence, config_.hidden}), add(last, begin));
    // In f32 whatever the operands are: they are compared and drawn from, not trained on.
    const Tensor all = matmul(rows, words_, false, true, DType::kF32);
    build_.output("logits", slice(all, {0, 0}, {batch_.micro_batch, config_.vocabulary}));
  }

 private:
  Tensor embed() {
    Scope scope(build_, "embeddings");
    words_ = model_.matrix("transformer.wte.weight", {vocabulary_.rows, config_.hidden}, {vocabulary_.axis, kEmbed});
    const Tensor positions =
        model_.matrix("transformer.wpe.weight", {config_.positions, config_.hidden}, {kNoAxis, kEmbed});
    const Tensor x =
        add(gather(words_, input_ids_), decoding_ ? gather(positions, position_ids())
                                                  : slice(positions, {0, 0}, {batch_.sequence, config_.hidden}));
    return model_.drop(x, config_.dropout, "transformer.drop");
  }

  /// i32[B,S]; what stands behind a text's last token may lie beyond the table, and takes its last row.
  Tensor position_ids() {
    const int64_t batch = batch_.micro_batch, width = batch_.sequence;
    const Tensor ids = add(reshape(first_, {batch, 1}), iota(build_, DType::kI32, {1, width}, 1));
    return minimum(ids, full(build_, DType::kI32, {}, static_cast<double>(config_.positions - 1)));
  }

  /// One of a layer's two caches with the rows of the new positions.
  Tensor written(const std::string& name, Tensor rows) {
    const Shape shape{decoding_->samples, decoding_->room, config_.heads, config_.hidden / config_.heads};
    if (caches_)
      caches_->push_back(
          {name, {decoding_->cache, shape}, StateKind::kKept, {}, "", {kNoAxis, kNoAxis, kHeads, kNoAxis}});
    const Tensor cache = write_rows(build_.state(name, decoding_->cache, shape), rows, first_);
    build_.output(name, cache, OutputRole::kState);
    return cache;
  }

  /// Attention of the new positions to all so far: qkv [B,S,3H] -> [B,S,H].
  Tensor attend_to_caches(Tensor qkv, const std::string& path) {
    const int64_t batch = batch_.micro_batch, width = batch_.sequence, size = config_.hidden / config_.heads;
    const Tensor apart = reshape(qkv, {batch, width, 3, config_.heads, size});
    const auto part = [&](int64_t which) {
      const Tensor taken = slice(apart, {0, 0, which, 0, 0}, {batch, width, which + 1, config_.heads, size});
      return cast(reshape(taken, {batch, width, config_.heads, size}), decoding_->cache);
    };
    const Tensor keys = written(path + ".keys", part(1)), values = written(path + ".values", part(2));
    const Tensor mixed = cached_attention(part(0), keys, values, first_, 1 / std::sqrt(static_cast<double>(size)));
    return reshape(cast(mixed, DType::kF32), {batch, width, config_.hidden});
  }

  /// GPT-2 keeps its weights as [in, out].
  Tensor layer(Tensor x, const std::string& path) {
    // Residual projections start smaller by the square root of their number (Radford et al. 2019, section 2.3).
    const double residual = config_.init_range / std::sqrt(2.0 * static_cast<double>(config_.layers));
    {
      Scope scope(build_, "attention");
      const Tensor normed = model_.norm(x, path + ".ln_1", config_.epsilon);
      const Tensor qkv = model_.projection(normed, path + ".attn.c_attn", 3 * config_.hidden, kJointHeads, kEmbed);
      const Tensor mixed = decoding_ ? attend_to_caches(qkv, path + ".attn")
                                     : model_.self_attention(qkv, {}, config_.heads, config_.attention_dropout, true,
                                                             path + ".attn.attn_dropout");
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
  const Decoding* const decoding_;
  std::vector<StateTensor>* const caches_;
  Tensor input_ids_, first_, words_;
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
  model.metrics = {mean_metric("loss", "count"),
                   share_metric("accuracy", "correct", "count"),
                   {.name = "perplexity", .numerator = "loss", .how = Metric::How::kExp, .held_out_only = true}};
  model.limit_items("loss", batch.micro_batch * batch.sequence);
  model.guards = {"loss"};
  model.units_of_axes = {{"heads", config.heads}};
  model.flops_per_token = flops_per_token(config, batch);
  model.tokens_per_micro_batch = batch.micro_batch * batch.sequence;
  return model;
}

void add_gpt2_decoding(const Gpt2Config& config, const Decoding& decoding, Model& model) {
  check_sequence("model (GPT-2)", decoding.room, config.positions);
  for (const int64_t width : decoding.widths) {
    Graph graph(decode_program(width));
    const BatchShape batch{.micro_batch = decoding.samples, .sequence = width};
    Gpt2(config, batch, graph, nullptr, false, &decoding, width == decoding.widths.front() ? &model.states : nullptr)
        .add_logits();
    model.programs.push_back({graph.name(), std::move(graph), When::on_request()});
  }
}

}  // namespace ramet::model
