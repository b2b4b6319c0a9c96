#include "ramet/model/lstm.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/model/blocks.h"
#include "ramet/ops/build_recurrent.h"

namespace ramet::model {
namespace {

const std::vector<std::pair<std::string, LstmConfig>>& presets() {
  static const std::vector<std::pair<std::string, LstmConfig>> all = {
      {"mini", {.hidden = 128, .dropout = 0}},
      {"small", {.hidden = 200, .dropout = 0, .init_range = 0.1}},
      {"medium", {}},
      {"large", {.hidden = 1500, .dropout = 0.65, .init_range = 0.04}}};
  return all;
}

class Lstm {
 public:
  /// `states` collects the chained states, where it is not null.
  Lstm(const LstmConfig& config, const BatchShape& batch, Graph& graph, std::vector<StateTensor>* weights,
       std::vector<StateTensor>* states, bool training)
      : config_(config),
        batch_(batch),
        deviation_(config.init_range / std::sqrt(3.0)),
        model_(graph, weights, deviation_, training, batch.seed),
        build_(model_.build()),
        vocabulary_(config.vocabulary, config.pad_vocabulary),
        states_(states) {}

  void add_loss() {
    const int64_t rows = batch_.micro_batch * batch_.sequence;
    Tensor x = embed();
    for (int64_t i = 0; i < config_.layers; ++i) {
      PartScope part(build_, "layer", i);
      x = layer(x, i);
    }
    const Tensor logits = head(reshape(x, {rows, config_.hidden}));
    const Tensor labels = tokens("labels");
    Scope scope(build_, "loss");
    const CrossEntropy next = cross_entropy(logits, reshape(labels, {rows}), vocabulary_.classes);
    build_.output("loss", next.loss);
    build_.output("correct", next.correct);
    build_.output("count", next.count);
  }

 private:
  /// An input [B,S], with time first: [S,B]. No layout cuts time, because a step needs the one before it.
  Tensor tokens(const std::string& name) {
    const Tensor input =
        build_.input(name, DType::kI32, {batch_.micro_batch, batch_.sequence}, std::vector<std::string>{"batch", ""});
    return transpose(input, {1, 0});
  }

  /// [S,B,H]
  Tensor embed() {
    Scope scope(build_, "embeddings");
    words_ = model_.matrix("encoder.weight", {vocabulary_.rows, config_.hidden}, {vocabulary_.axis, kEmbed});
    return model_.drop(gather(words_, tokens("input_ids")), config_.dropout, "encoder.drop");
  }

  Tensor layer(Tensor x, int64_t index) {
    const std::string suffix = "_l" + std::to_string(index);
    const int64_t gates = 4 * config_.hidden;
    const RecurrentWeights weights{.input = model_.matrix("rnn.weight_ih" + suffix, {gates, config_.hidden}, {{}, {}}),
                                   .hidden = model_.matrix("rnn.weight_hh" + suffix, {gates, config_.hidden}, {{}, {}}),
                                   .input_bias = model_.vector("rnn.bias_ih" + suffix, gates, {}, 0),
                                   .hidden_bias = model_.vector("rnn.bias_hh" + suffix, gates, {}, 0)};
    const Recurrent out = lstm(x, weights, carried("rnn.hidden" + suffix), carried("rnn.cell" + suffix));
    carry("rnn.hidden" + suffix, out.hidden);
    carry("rnn.cell" + suffix, out.cell);
    return model_.drop(out.output, config_.dropout, "rnn.drop" + suffix);
  }

  /// The state that the micro-batch before left; invalid where each begins with zeros.
  Tensor carried(const std::string& name) {
    if (!states_) return {};
    const Shape shape{batch_.micro_batch, config_.hidden};
    states_->push_back({name, {DType::kF32, shape}, StateKind::kChained, {}, ""});
    return build_.state(name, DType::kF32, shape);
  }
  void carry(const std::string& name, Tensor state) {
    if (states_) build_.output(name, state, OutputRole::kState);
  }

  /// [N,H] -> [N,V]
  Tensor head(Tensor rows) {
    Scope scope(build_, "head");
    const Tensor weight =
        config_.tied ? words_
                     : model_.matrix("decoder.weight", {vocabulary_.rows, config_.hidden}, {vocabulary_.axis, kEmbed});
    return linear(rows, weight, model_.vector("decoder.bias", vocabulary_.rows, vocabulary_.axis, 0));
  }

  const LstmConfig& config_;
  const BatchShape& batch_;
  const double deviation_;
  ModelBuilder model_;
  GraphBuilder& build_;
  const VocabularyRows vocabulary_;
  std::vector<StateTensor>* const states_;
  Tensor words_;
};

/// 6 a weight of the layers and the head.
double flops_per_token(const LstmConfig& config) {
  const double h = static_cast<double>(config.hidden);
  return 6 * (static_cast<double>(config.layers) * 8 * h * h + h * static_cast<double>(config.vocabulary));
}

}  // namespace

LstmConfig lstm_preset(const std::string& name) {
  std::string known;
  for (const auto& [candidate, config] : presets()) {
    if (candidate == name) return config;
    known += (known.empty() ? "" : ", ") + candidate;
  }
  throw Error({.what = "unknown preset of LSTM",
               .where = "model.preset",
               .found = "'" + name + "'",
               .expected = "one of " + known});
}

std::vector<std::string> lstm_preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : presets()) names.push_back(name);
  return names;
}

Model build_lstm(const LstmConfig& config, const BatchShape& batch) {
  if (config.layers < 1 || config.hidden < 1 || config.vocabulary < 1 || batch.micro_batch < 1 || batch.sequence < 1)
    throw Error({.what = "sizes of the model must be positive", .where = "model (LSTM)"});
  Model model;
  model.name = "lstm";
  Lstm(config, batch, model.forward, &model.weights, config.carry ? &model.states : nullptr, true).add_loss();
  Lstm(config, batch, model.evaluate, nullptr, nullptr, false).add_loss();
  declare_inputs(model, batch.sequence);
  for (InputSpec& input : model.inputs) input.axes = {"batch", ""};
  limit_input(model, "input_ids", 0, static_cast<double>(config.vocabulary - 1));
  limit_input(model, "labels", -1, static_cast<double>(config.vocabulary - 1));
  model.metrics = {mean_metric("loss", "count"),
                   share_metric("accuracy", "correct", "count"),
                   {.name = "perplexity", .numerator = "loss", .how = Metric::How::kExp, .held_out_only = true}};
  model.limit_items("loss", batch.micro_batch * batch.sequence);
  model.guards = {"loss"};
  model.flops_per_token = flops_per_token(config);
  model.tokens_per_micro_batch = batch.micro_batch * batch.sequence;
  return model;
}

}  // namespace ramet::model
