// ONNX's recurrent layers.
#include <algorithm>

#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_elementwise.h"
#include "ramet/ops/build_recurrent.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

/// The blocks of H rows of a [G H, ...] in another order.
Tensor reordered(Tensor a, const std::vector<int64_t>& order) {
  const int64_t rows = a.dim(0) / std::ssize(order);
  std::vector<Tensor> parts;
  for (const int64_t block : order) parts.push_back(slice_axis(a, 0, block * rows, (block + 1) * rows));
  return concat(parts, 0);
}

/// One layer with its directions.
class Layer {
 public:
  Layer(const OnnxCall& at, RecurrentCell cell) : at_(at), cell_(cell) {
    if (cell == RecurrentCell::kLstm) order_ = {0, 2, 3, 1};  // ONNX has i, o, f, c
    if (cell == RecurrentCell::kGru) order_ = {1, 0, 2};      // ONNX has z, r, h
    if (cell == RecurrentCell::kRnn) order_ = {0};
    const std::string direction = at.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      at.refuse("direction '" + direction + "' is not known");
    directions_ = direction == "bidirectional" ? 2 : 1;
    reverse_first_ = direction == "reverse";
    check_options();
  }

  Values run() {
    const bool by_sample = at_.integer("layout", 0) == 1;
    Tensor x = in_type(at_.input(0), DType::kF32);
    check_operands();
    if (by_sample) x = transpose(x, {1, 0, 2});
    std::vector<Tensor> outputs, hidden, cells;
    for (int64_t d = 0; d < directions_; ++d) {
      const Recurrent made = run_direction(x, d, by_sample);
      outputs.push_back(made.output), hidden.push_back(made.hidden);
      if (made.cell.valid()) cells.push_back(made.cell);
    }
    const DType dtype = at_.input(0).dtype();
    const auto joined = [&](const std::vector<Tensor>& parts, int64_t axis, std::vector<int64_t> order) {
      const Tensor all = stack(parts, axis);
      return in_type(by_sample ? transpose(all, std::move(order)) : all, dtype);
    };
    // Y [T, directions, B, H], or [B, T, directions, H]; states [directions, B, H], or [B, directions, H].
    Values values = {joined(outputs, 1, {2, 0, 1, 3}), joined(hidden, 0, {1, 0, 2})};
    if (!cells.empty()) values.emplace_back(joined(cells, 0, {1, 0, 2}));
    return values;
  }

 private:
  void check_options() {
    if (at_.has("clip")) at_.refuse("the clipping of a recurrent layer is not supported");
    if (at_.has("activation_alpha") || at_.has("activation_beta"))
      at_.refuse("activations with parameters are not supported in a recurrent layer");
    if (at_.integer("input_forget", 0) != 0) at_.refuse("the coupled gates of an LSTM are not supported");
    std::vector<std::string> names = at_.texts("activations");
    if (names.empty()) return;
    const std::vector<std::string> usual = cell_ == RecurrentCell::kLstm
                                               ? std::vector<std::string>{"sigmoid", "tanh", "tanh"}
                                           : cell_ == RecurrentCell::kGru ? std::vector<std::string>{"sigmoid", "tanh"}
                                                                          : std::vector<std::string>{"tanh"};
    for (std::string& name : names)
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (cell_ == RecurrentCell::kRnn && std::all_of(names.begin(), names.end(), [](auto& n) { return n == "relu"; })) {
      relu_ = true;
      return;
    }
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i] != usual[i % usual.size()])
        at_.refuse("activation '" + names[i] + "' is not supported in a recurrent layer");
  }

  /// Ranks, and as many directions as the layer has.
  void check_operands() const {
    const size_t cell_inputs = cell_ == RecurrentCell::kLstm ? 8 : 6;
    const int ranks[] = {3, 3, 3, 2, 1, 3, 3, 2};
    const bool by_sample = at_.integer("layout", 0) == 1;
    for (size_t i = 0; i < cell_inputs; ++i) {
      const Tensor a = i < 3 ? at_.input(i) : at_.input_if(i);
      if (!a.valid()) continue;
      if (a.shape().rank() != ranks[i])
        at_.refuse("input " + std::to_string(i) + " must have " + std::to_string(ranks[i]) + " dimensions");
      if (i == 0 || i == 4) continue;
      const bool state = i == 5 || i == 6;
      if (a.dim(state && by_sample ? 1 : 0) != directions_)
        at_.refuse("input " + std::to_string(i) + " has another number of directions than the layer");
    }
  }

  /// Direction d of an input [directions, ...], in f32.
  Tensor part(size_t input, int64_t d) const {
    const Tensor a = at_.input_if(input);
    return a.valid() ? select_index(in_type(a, DType::kF32), 0, d) : Tensor();
  }
  Tensor state(size_t input, int64_t d, bool by_sample) const {
    const Tensor a = at_.input_if(input);
    return a.valid() ? select_index(in_type(a, DType::kF32), by_sample ? 1 : 0, d) : Tensor();
  }

  Recurrent run_direction(Tensor x, int64_t d, bool by_sample) {
    RecurrentWeights weights{.input = reordered(part(1, d), order_), .hidden = reordered(part(2, d), order_)};
    if (const Tensor bias = part(3, d); bias.valid()) {
      const int64_t half = bias.dim(0) / 2;
      weights.input_bias = reordered(slice_axis(bias, 0, 0, half), order_);
      weights.hidden_bias = reordered(slice_axis(bias, 0, half, 2 * half), order_);
    }
    RecurrentOptions options{.reverse = reverse_first_ || d == 1, .relu = relu_};
    if (const Tensor lengths = at_.input_if(4); lengths.valid()) options.lengths = in_type(lengths, DType::kI32);
    const Tensor hidden = state(5, d, by_sample);
    if (cell_ == RecurrentCell::kRnn) return rnn(x, weights, hidden, options);
    if (cell_ == RecurrentCell::kGru) {
      options.reset_after = at_.flag("linear_before_reset");
      return gru(x, weights, hidden, options);
    }
    if (const Tensor peepholes = part(7, d); peepholes.valid())  // ONNX has i, o, f
      weights.peepholes = reshape(reordered(peepholes, {0, 2, 1}), {3, peepholes.dim(0) / 3});
    return lstm(x, weights, hidden, state(6, d, by_sample), options);
  }

  const OnnxCall& at_;
  RecurrentCell cell_;
  std::vector<int64_t> order_{};
  int64_t directions_ = 1;
  bool reverse_first_ = false, relu_ = false;
};

Values lstm_layer(const OnnxCall& at) { return Layer(at, RecurrentCell::kLstm).run(); }
Values gru_layer(const OnnxCall& at) { return Layer(at, RecurrentCell::kGru).run(); }
Values rnn_layer(const OnnxCall& at) { return Layer(at, RecurrentCell::kRnn).run(); }

constexpr OnnxEntry kEntries[] = {{"GRU", gru_layer}, {"LSTM", lstm_layer}, {"RNN", rnn_layer}};

}  // namespace

std::span<const OnnxEntry> onnx_recurrent_operators() { return kEntries; }

}  // namespace ramet::front
