// Attention, caches, rotations and recurrent layers as ONNX.
#include <cmath>

#include "ramet/front/onnx_writer.h"
#include "ramet/ops/attention.h"
#include "ramet/ops/recurrent.h"
#include "ramet/ops/rotary.h"

namespace ramet::front {
namespace {

using Names = OnnxWriter::Names;

/// 0, 1, ..., n - 1 as a tensor of these dimensions.
std::string positions(OnnxWriter& to, int64_t n, const std::vector<int64_t>& dims, int64_t first = 0) {
  std::vector<int64_t> line;
  for (int64_t i = 0; i < n; ++i) line.push_back(first + i);
  return to.reshape(to.integers(line), dims);
}

class Attention {
 public:
  Attention(OnnxWriter& to, const OnnxOp& op, const ops::AttentionForm& form) : to_(to), op_(op), form_(form) {
    if (form_.dropout > 0) op.refuse("attention with dropout has no form");
  }

  Names write() {
    const std::string query = heads(form_.query, 0), key = heads(form_.key, 1), value = heads(form_.value, 2);
    scores_ = to_.node("MatMul", {query, to_.swap_last(key, 4)});
    scores_ = to_.node("Mul", {scores_, to_.number(form_.dtype, form_.scale)});
    if (form_.soft_cap > 0) {
      const std::string cap = to_.number(form_.dtype, form_.soft_cap);
      scores_ = to_.node("Mul", {to_.node("Tanh", {to_.node("Div", {scores_, cap})}), cap});
    }
    if (form_.bias >= 0) scores_ = to_.node("Add", {scores_, operand(form_.bias)});
    if (form_.slopes >= 0) add_slopes();
    const bool limited = form_.causal || form_.left >= 0 || form_.right >= 0;
    if (limited) see_positions();
    if (form_.mask >= 0) see_mask();
    std::string share = to_.node("Softmax", {scores_}, {onnx_integer("axis", -1)});
    // A query that sees no key gives zeros.
    if (form_.mask >= 0 || form_.bias >= 0 || limited)
      share = to_.node("Where", {to_.node("IsNaN", {share}), to_.number(form_.dtype, 0), share});
    return {to_.transpose(to_.node("MatMul", {share, value}), {0, 2, 1, 3})};
  }

 private:
  const std::string& operand(int input) const { return op_.in[static_cast<size_t>(input)]; }

  /// Part 0 (query), 1 (key) or 2 (value) as [B, heads, positions, size].
  std::string heads(int input, int64_t part) {
    std::string a = operand(input);
    const int64_t rows = part == 0 ? form_.sequence : form_.keys;
    const int64_t size = part == 2 ? form_.value_size : form_.head_size;
    if (form_.joint) a = to_.reshape(to_.slice(a, 2, part, part + 1), {form_.batch, rows, form_.heads, size});
    a = to_.transpose(a, {0, 2, 1, 3});
    if (part == 0 || form_.group() == 1) return a;
    // Each head of keys for the heads of queries that share it.
    a = to_.reshape(a, {form_.batch, form_.key_heads, 1, form_.keys, size});
    a = to_.expand(a, {form_.batch, form_.key_heads, form_.group(), form_.keys, size});
    return to_.reshape(a, {form_.batch, form_.heads, form_.keys, size});
  }

  void see(const std::string& visible) {
    scores_ = to_.node("Where", {visible, scores_, to_.number(form_.dtype, -INFINITY)});
  }
  /// Positions of the queries among the keys, for [B, heads, S, T].
  std::string queries() {
    const std::string own = positions(to_, form_.sequence, {form_.sequence, 1}, form_.ahead);
    if (form_.first < 0) return own;
    return to_.node("Add", {own, to_.reshape(to_.cast(operand(form_.first), DType::kI64), {form_.batch, 1, 1, 1})});
  }
  std::string keys() { return positions(to_, form_.keys, {1, form_.keys}); }

  void add_slopes() {
    const std::string distance = to_.cast(to_.node("Abs", {to_.node("Sub", {queries(), keys()})}), form_.dtype);
    const std::string slopes = to_.reshape(operand(form_.slopes), {1, form_.heads, 1, 1});
    scores_ = to_.node("Sub", {scores_, to_.node("Mul", {slopes, distance})});
  }

  void see_positions() {
    const std::string own = queries(), key = keys();
    const auto shifted = [&](int64_t by) { return to_.node("Add", {own, to_.integers({by})}); };
    if (form_.causal) see(to_.node("LessOrEqual", {key, own}));
    if (form_.left >= 0) see(to_.node("GreaterOrEqual", {key, shifted(-form_.left)}));
    if (form_.right >= 0) see(to_.node("LessOrEqual", {key, shifted(form_.right)}));
  }

  void see_mask() {
    const std::string mask = operand(form_.mask);
    if (!form_.segments) {
      const std::string flags = form_.mask_dtype == DType::kBool ? mask : to_.cast(mask, DType::kBool);
      return see(form_.key_mask ? to_.reshape(flags, {form_.batch, 1, 1, form_.keys}) : flags);
    }
    // Runs of equal numbers are numbered by how often the number has changed before.
    const int64_t n = form_.sequence;
    std::string run = to_.integers({0});
    run = to_.expand(run, {form_.batch, 1});
    if (n > 1) {
      const std::string same = to_.node("Equal", {to_.slice(mask, 1, 1, n), to_.slice(mask, 1, 0, n - 1)});
      const std::string changes = to_.cast(to_.node("Not", {same}), DType::kI64);
      run = to_.node("CumSum",
                     {to_.node("Concat", {run, changes}, {onnx_integer("axis", 1)}), to_.number(DType::kI64, 1)});
    }
    see(to_.node("Equal", {to_.reshape(run, {form_.batch, 1, n, 1}), to_.reshape(run, {form_.batch, 1, 1, n})}));
    see(to_.reshape(to_.cast(mask, DType::kBool), {form_.batch, 1, 1, n}));
  }

  OnnxWriter& to_;
  const OnnxOp& op_;
  ops::AttentionForm form_;
  std::string scores_{};
};

Names attention(OnnxWriter& to, const OnnxOp& op) {
  return Attention(to, op, ops::attention_form(op.signature)).write();
}
Names cached_attention(OnnxWriter& to, const OnnxOp& op) {
  return Attention(to, op, ops::cached_attention_form(op.signature)).write();
}

/// Rows take the places of a cache from first[b] on; behind the cache stands one for those that fall outside.
Names write_rows(OnnxWriter& to, const OnnxOp& op) {
  const Shape& table = op.input(0).shape;
  const int64_t batch = table[0], room = table[1], count = op.input(1).shape[1];
  std::vector<int64_t> spare = table.dims(), line(spare.size(), 1);
  spare[1] = 1, line[0] = batch, line[1] = count;
  const std::string first = to.reshape(to.cast(op.in[2], DType::kI64), {batch, 1});
  const std::string place = to.node("Add", {first, positions(to, count, {1, count})});
  const std::string before = to.node("Less", {place, to.integers({0})});
  const std::string outside = to.node("Or", {before, to.node("GreaterOrEqual", {place, to.integers({room})})});
  const std::string safe = to.node("Where", {outside, to.integers({room}), place});
  const std::string index = to.expand(to.reshape(safe, line), op.input(1).shape.dims());
  const std::string none = to.expand(to.number(op.input(0).dtype, 0), spare);
  const std::string wide = to.node("Concat", {op.in[0], none}, {onnx_integer("axis", 1)});
  const std::string made = to.node("ScatterElements", {wide, index, op.in[1]}, {onnx_integer("axis", 1)});
  return {to.slice(made, 1, 0, room)};
}

/// Pairs (x, y) of each head as (x cos - y sin, y cos + x sin).
Names rotary(OnnxWriter& to, const OnnxOp& op) {
  const ops::RotaryForm form = ops::rotary_form(op.signature);
  const int64_t n = form.pairs, rest = form.head_size - 2 * n;
  const std::vector<int64_t> table = {form.sample_stride > 0 ? form.batch : 1, form.sequence, 1, n};
  const std::vector<int64_t> half = {form.batch, form.sequence, form.heads, n};
  const bool wide = op.input(0).dtype != DType::kF32;
  const std::string a = wide ? to.cast(op.in[0], DType::kF32) : op.in[0];
  std::string cosine = to.reshape(op.in[1], table), sine = to.reshape(op.in[2], table), x, y;
  if (form.back) sine = to.node("Neg", {sine});
  if (form.neighbours) {
    const std::string pairs = to.reshape(to.slice(a, 3, 0, 2 * n), {form.batch, form.sequence, form.heads, n, 2});
    x = to.reshape(to.slice(pairs, 4, 0, 1), half), y = to.reshape(to.slice(pairs, 4, 1, 2), half);
  } else {
    x = to.slice(a, 3, 0, n), y = to.slice(a, 3, n, 2 * n);
  }
  std::string first = to.node("Sub", {to.node("Mul", {x, cosine}), to.node("Mul", {y, sine})});
  std::string second = to.node("Add", {to.node("Mul", {y, cosine}), to.node("Mul", {x, sine})});
  std::string made;
  if (form.neighbours) {
    std::vector<int64_t> single = half;
    single.push_back(1);
    made = to.node("Concat", {to.reshape(first, single), to.reshape(second, single)}, {onnx_integer("axis", 4)});
    made = to.reshape(made, {form.batch, form.sequence, form.heads, 2 * n});
  } else {
    made = to.node("Concat", {first, second}, {onnx_integer("axis", 3)});
  }
  if (rest > 0) made = to.node("Concat", {made, to.slice(a, 3, 2 * n, form.head_size)}, {onnx_integer("axis", 3)});
  return {wide ? to.cast(made, op.input(0).dtype) : made};
}

// --- recurrent layers ---

class Recurrent {
 public:
  Recurrent(OnnxWriter& to, const OnnxOp& op) : to_(to), op_(op), form_(ops::recurrent_form(op.signature)) {
    if (!form_.blocked.empty()) op.refuse("a weight in a kernel's own layout has no form");
  }

  Names write() { return form_.projection >= 0 ? write_steps() : write_layer(); }

 private:
  /// One operator for all steps.
  Names write_layer() {
    // The input of each gate is there already: the product with the identity passes it on.
    const int64_t width = form_.gate_width();
    const std::string zeros = to_.node("ConstantOfShape", {to_.integers({width, width})});
    const std::string identity =
        to_.node("EyeLike", {zeros}, {onnx_integer("dtype", form_.dtype == DType::kF32 ? 1 : 10)});
    Names operands = {operand(form_.x),
                      in_order(identity, width),
                      in_order(weight(), form_.state),
                      bias(),
                      form_.lengths >= 0 ? operand(form_.lengths) : "",
                      first(form_.h0)};
    OnnxWriter::Fields fields = {onnx_integer("hidden_size", form_.hidden),
                                 onnx_text("direction", form_.reverse ? "reverse" : "forward")};
    if (form_.gru()) fields.push_back(onnx_integer("linear_before_reset", form_.reset_after ? 1 : 0));
    if (form_.cell == ops::RecurrentForm::Cell::kRelu)
      fields.push_back(ProtoMessage().bytes(1, "activations").bytes(9, "Relu").number(20, 8));
    if (form_.lstm()) operands.push_back(first(form_.c0));
    if (form_.lstm() && form_.peepholes >= 0) operands.push_back(peepholes());
    const char* name = form_.lstm() ? "LSTM" : form_.gru() ? "GRU" : "RNN";
    const Names made = to_.nodes(name, operands, form_.lstm() ? 3 : 2, fields);
    Names results = {to_.reshape(made[0], {form_.steps, form_.batch, form_.state})};
    for (size_t i = 1; i < made.size(); ++i) results.push_back(to_.reshape(made[i], {form_.batch, form_.hidden}));
    return results;
  }

  /// Each step by itself: ONNX's LSTM has no projection.
  Names write_steps() {
    std::string h = operand(form_.h0), c = operand(form_.c0);
    const std::string weight = to_.transpose(operand(form_.weight), {1, 0});
    const std::string projection = to_.transpose(operand(form_.projection), {1, 0});
    Names outputs(static_cast<size_t>(form_.steps));
    for (int64_t i = 0; i < form_.steps; ++i) {
      const int64_t at = form_.reverse ? form_.steps - 1 - i : i;
      auto [next, cell] = lstm_step(at, h, c, weight, projection);
      std::string output = next;
      if (form_.lengths >= 0) {
        const std::string real = to_.reshape(
            to_.node("Less",
                     {to_.integers({at}, op_.input(static_cast<size_t>(form_.lengths)).dtype), operand(form_.lengths)}),
            {form_.batch, 1});
        output = to_.node("Where", {real, next, to_.number(form_.dtype, 0)});
        next = to_.node("Where", {real, next, h}), cell = to_.node("Where", {real, cell, c});
      }
      outputs[static_cast<size_t>(at)] = to_.reshape(output, {1, form_.batch, form_.state});
      h = next, c = cell;
    }
    const std::string y = form_.steps > 0 ? to_.node("Concat", outputs, {onnx_integer("axis", 0)})
                                          : to_.expand(to_.number(form_.dtype, 0), {0, form_.batch, form_.state});
    return {y, h, c};
  }

  /// The h and c behind step `at`, as ops/recurrent.h has it: sums and c in f32.
  std::pair<std::string, std::string> lstm_step(int64_t at, const std::string& h, const std::string& c,
                                                const std::string& weight, const std::string& projection) {
    const auto f32 = [&](const std::string& a) { return form_.dtype == DType::kF32 ? a : to_.cast(a, DType::kF32); };
    const auto rounded = [&](const std::string& a) {
      return form_.dtype == DType::kF32 ? a : to_.cast(a, form_.dtype);
    };
    const auto binary = [&](const char* op, const std::string& a, const std::string& b) {
      return to_.node(op, {a, b});
    };
    const std::string x = to_.reshape(to_.slice(operand(form_.x), 0, at, at + 1), {form_.batch, form_.gate_width()});
    const std::string sums = binary("Add", f32(x), to_.node("MatMul", {f32(h), f32(weight)}));
    const auto gate = [&](int64_t number, int64_t peephole, const std::string& cell) {
      std::string sum = to_.slice(sums, 1, number * form_.hidden, (number + 1) * form_.hidden);
      if (form_.peepholes < 0 || peephole < 0) return sum;
      return binary("Add", sum,
                    binary("Mul", to_.slice(f32(operand(form_.peepholes)), 0, peephole, peephole + 1), cell));
    };
    const std::string i = to_.node("Sigmoid", {gate(0, 0, c)}), f = to_.node("Sigmoid", {gate(1, 1, c)});
    const std::string g = to_.node("Tanh", {gate(2, -1, "")});
    const std::string cell = binary("Add", binary("Mul", f, c), binary("Mul", i, g));
    const std::string o = to_.node("Sigmoid", {gate(3, 2, cell)});
    const std::string unprojected = rounded(binary("Mul", o, to_.node("Tanh", {cell})));
    return {rounded(to_.node("MatMul", {f32(unprojected), f32(projection)})), cell};
  }

  const std::string& operand(int input) const { return op_.in[static_cast<size_t>(input)]; }
  std::string first(int input) { return to_.reshape(operand(input), {1, form_.batch, form_.hidden}); }

  /// Rows of gates in ONNX's order, [1, gates H, width]: lstm i, o, f, g; gru z, r, n.
  std::string in_order(const std::string& a, int64_t width) {
    const int64_t h = form_.hidden;
    const std::vector<int64_t> order = form_.lstm()  ? std::vector<int64_t>{0, 3, 1, 2}
                                       : form_.gru() ? std::vector<int64_t>{1, 0, 2}
                                                     : std::vector<int64_t>{0};
    Names rows;
    for (const int64_t gate : order) rows.push_back(to_.slice(a, 0, gate * h, (gate + 1) * h));
    return to_.reshape(to_.node("Concat", rows, {onnx_integer("axis", 0)}), {1, form_.gate_width(), width});
  }
  /// With zeros for gates whose products x has.
  std::string weight() {
    const std::string& own = operand(form_.weight);
    if (!form_.only_n) return own;
    const std::string none = to_.expand(to_.number(form_.dtype, 0), {2 * form_.hidden, form_.state});
    return to_.node("Concat", {none, own}, {onnx_integer("axis", 0)});
  }
  /// Of the product of gate n alone.
  std::string bias() {
    if (form_.bias < 0) return "";
    const std::string none = to_.expand(to_.number(DType::kF32, 0), {5 * form_.hidden});
    return to_.reshape(to_.node("Concat", {none, operand(form_.bias)}, {onnx_integer("axis", 0)}),
                       {1, 6 * form_.hidden});
  }
  /// i, o, f of i, f, o.
  std::string peepholes() {
    const std::string a = operand(form_.peepholes);
    const std::string made = to_.node("Concat", {to_.slice(a, 0, 0, 1), to_.slice(a, 0, 2, 3), to_.slice(a, 0, 1, 2)},
                                      {onnx_integer("axis", 0)});
    return to_.reshape(made, {1, 3 * form_.hidden});
  }

  OnnxWriter& to_;
  const OnnxOp& op_;
  ops::RecurrentForm form_;
};

Names recurrent(OnnxWriter& to, const OnnxOp& op) { return Recurrent(to, op).write(); }

}  // namespace

const std::vector<OnnxFormEntry>& onnx_sequence_forms() {
  static const std::vector<OnnxFormEntry> table = {
      {"attention", attention, true},   {"cached_attention", cached_attention, true},
      {"write_rows", write_rows, true}, {"rotary", rotary, true},
      {"lstm", recurrent, true},        {"gru", recurrent, true},
      {"rnn", recurrent, true},
  };
  return table;
}

}  // namespace ramet::front
