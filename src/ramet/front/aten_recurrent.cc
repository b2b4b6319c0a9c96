#include "ramet/front/index_support.h"
#include "ramet/front/table.h"
#include "ramet/ops/build_recurrent.h"
#include "ramet/ops/build_shapes.h"

// Recurrent layers and cells.

namespace ramet::front {
namespace {

using Tensors = std::vector<Tensor>;

struct Kind {
  RecurrentCell cell;
  bool relu = false;
};

/// The weights of a call in the order of layers, and directions within a layer.
std::vector<RecurrentWeights> weights_of(const Translation& at, size_t units) {
  const Tensors params = at.tensors("params");
  const bool biases = at.flag("has_biases");
  const size_t each = units == 0 ? 0 : params.size() / units, least = biases ? 4 : 2;
  if (units == 0 || params.size() != units * each || each < least || each > least + 1)
    at.refuse("it has " + std::to_string(params.size()) + " weights for " + std::to_string(units) + " layers");
  std::vector<RecurrentWeights> found;
  for (size_t i = 0; i < units; ++i) {
    const Tensor* const own = &params[i * each];
    RecurrentWeights weights{.input = own[0], .hidden = own[1]};
    if (biases) {
      weights.input_bias = own[2];
      weights.hidden_bias = own[3];
    }
    if (each > least) weights.projection = own[least];
    found.push_back(weights);
  }
  return found;
}

Tensors translate_layers(const Translation& at, const Kind& kind) {
  const bool lstm = kind.cell == RecurrentCell::kLstm, both = at.flag("bidirectional"), first = at.flag("batch_first");
  if (at.call().overload != "input")
    at.refuse("packed sequences lie one after another: where they begin depends on data",
              "Give the padded batch to the layer, and mask what follows each sequence's end");
  const int64_t layers = at.integer("num_layers"), directions = both ? 2 : 1;
  const std::vector<RecurrentWeights> weights = weights_of(at, static_cast<size_t>(layers * directions));
  const Tensors states = lstm ? at.tensors("hx") : Tensors{at.tensor("hx")};
  if (states.size() != (lstm ? 2U : 1U)) at.refuse("it has " + std::to_string(states.size()) + " initial states");
  Tensor x = at.tensor("input");
  if (first) x = transpose(x, {1, 0, 2});
  const double rate = at.flag("train") ? at.number("dropout", 0) : 0;
  const std::string name = rate > 0 && layers > 1 ? at.random_name() : std::string();
  const RecurrentOptions options{.relu = kind.relu};
  Tensors hidden, cells;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t from = layer * directions, to = from + directions;
    if (rate > 0 && layer > 0) x = dropout(x, at.counter(), rate, at.seed(), name + "/layer" + std::to_string(layer));
    const Recurrent result = recurrent_layers(kind.cell, x, {weights.begin() + from, weights.begin() + to}, both,
                                              slice_axis(states[0], 0, from, to),
                                              lstm ? slice_axis(states[1], 0, from, to) : Tensor{}, options);
    x = result.output;
    hidden.push_back(result.hidden);
    cells.push_back(result.cell);
  }
  Tensors outputs = {first ? transpose(x, {1, 0, 2}) : x};
  outputs.push_back(like_result(at, concat(hidden, 0), 1));
  if (lstm) outputs.push_back(like_result(at, concat(cells, 0), 2));
  return outputs;
}

/// One step of one layer: input [B, I].
Tensors translate_cell(const Translation& at, const Kind& kind) {
  const bool lstm = kind.cell == RecurrentCell::kLstm;
  const Tensor input = at.tensor("input");
  const Tensor x = reshape(input, {1, input.dim(0), input.dim(1)});
  const RecurrentWeights weights{.input = at.tensor("w_ih"),
                                 .hidden = at.tensor("w_hh"),
                                 .input_bias = at.tensor_if("b_ih"),
                                 .hidden_bias = at.tensor_if("b_hh")};
  const RecurrentOptions options{.relu = kind.relu};
  if (lstm) {
    const Tensors states = at.tensors("hx");
    if (states.size() != 2) at.refuse("it has " + std::to_string(states.size()) + " states, not 2");
    const Recurrent next = ops::lstm(x, weights, states[0], states[1], options);
    return {next.hidden, next.cell};
  }
  const Tensor state = at.tensor("hx");
  const Recurrent next =
      kind.cell == RecurrentCell::kGru ? gru(x, weights, state, options) : rnn(x, weights, state, options);
  return {next.hidden};
}

Tensors translate_lstm(const Translation& at) { return translate_layers(at, {RecurrentCell::kLstm}); }
Tensors translate_gru(const Translation& at) { return translate_layers(at, {RecurrentCell::kGru}); }
Tensors translate_rnn_tanh(const Translation& at) { return translate_layers(at, {RecurrentCell::kRnn}); }
Tensors translate_rnn_relu(const Translation& at) { return translate_layers(at, {RecurrentCell::kRnn, true}); }
Tensors translate_lstm_cell(const Translation& at) { return translate_cell(at, {RecurrentCell::kLstm}); }
Tensors translate_gru_cell(const Translation& at) { return translate_cell(at, {RecurrentCell::kGru}); }
Tensors translate_rnn_tanh_cell(const Translation& at) { return translate_cell(at, {RecurrentCell::kRnn}); }
Tensors translate_rnn_relu_cell(const Translation& at) { return translate_cell(at, {RecurrentCell::kRnn, true}); }

constexpr OperatorEntry kOperators[] = {
    {"aten.lstm", translate_lstm},
    {"aten.gru", translate_gru},
    {"aten.rnn_tanh", translate_rnn_tanh},
    {"aten.rnn_relu", translate_rnn_relu},
    {"aten.lstm_cell", translate_lstm_cell},
    {"aten.gru_cell", translate_gru_cell},
    {"aten.rnn_tanh_cell", translate_rnn_tanh_cell},
    {"aten.rnn_relu_cell", translate_rnn_relu_cell},
};

}  // namespace

std::span<const OperatorEntry> recurrent_operators() { return kOperators; }

}  // namespace ramet::front
