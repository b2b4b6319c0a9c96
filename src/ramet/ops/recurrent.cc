#include "ramet/ops/recurrent.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_recurrent.h"
#include "ramet/ops/network_rules.h"

namespace ramet::ops {
namespace {

using Kind = AttributeSpec::Kind;
using Cell = RecurrentForm::Cell;

Cell cell_of(const NodeSignature& node) {
  if (node.op->name.starts_with("lstm")) return Cell::kLstm;
  if (node.op->name.starts_with("gru")) return Cell::kGru;
  const std::string activation = node.attributes.get_string_or("activation", "tanh");
  if (activation != "tanh" && activation != "relu")
    refuse(node, "an RNN has no such activation", activation, "tanh or relu");
  return activation == "tanh" ? Cell::kTanh : Cell::kRelu;
}

/// Numbers the inputs in their order.
void number_inputs(const NodeSignature& node, RecurrentForm& form) {
  int next = 0;
  std::string names;
  const auto take = [&](int& input, const char* name) {
    input = next++;
    names += std::string(names.empty() ? "" : ", ") + name;
  };
  if (!form.gradient) take(form.x, "x");
  take(form.weight, "weight");
  take(form.h0, "h0");
  if (form.lstm()) take(form.c0, "c0");
  if (form.gradient) {
    take(form.y, "y");
    if (form.kept > 0) take(form.kept_gates, "gates");
    if (form.lstm()) take(form.cells, "cells");
    take(form.dy, "dy");
    take(form.dh, "dh");
    if (form.lstm()) take(form.dc, "dc");
  }
  const auto flag = [&](const char* name) { return node.attributes.get_bool_or(name, false); };
  if (form.gru() && !form.gradient && flag("biased")) take(form.bias, "bias");
  if (form.lstm() && flag("peepholes")) take(form.peepholes, "peepholes");
  if (form.lstm() && flag("projected")) take(form.projection, "projection");
  if (flag("ragged")) take(form.lengths, "lengths");
  if (static_cast<int>(node.inputs.size()) != next)
    refuse(node, "wrong number of inputs", std::to_string(node.inputs.size()), std::to_string(next) + ": " + names,
           "biased, peepholes, projected and ragged say which optional inputs there are");
}

/// The logical type of the weight. A blocked one is bytes, and attributes say what they stand for
/// (program/block_operands.h).
TensorType read_weight(const NodeSignature& node, RecurrentForm& form) {
  const std::string letter(1, static_cast<char>('a' + form.weight));
  form.blocked = node.attributes.get_string_or(letter + "_blocked", "");
  if (form.blocked.empty()) {
    require_rank(node, form.weight, "weight", 2, 2);
    return node.inputs[static_cast<size_t>(form.weight)];
  }
  require_dtype(node, form.weight, "blocked weight", {DType::kU8});
  require_rank(node, form.weight, "blocked weight", 1, 1);
  const TensorType weight{node.attributes.get_dtype(letter + "_dtype"), shape_attribute(node, letter + "_shape")};
  if (weight.shape.rank() != 2) refuse(node, "a blocked weight must be a matrix", weight.text());
  return weight;
}

/// T, B, H and R from the operands that have them in either pass.
void read_extents(const NodeSignature& node, RecurrentForm& form) {
  const int sequence = form.gradient ? form.y : form.x;
  require_floating(node, sequence, form.gradient ? "y" : "x");
  require_rank(node, sequence, form.gradient ? "y" : "x", 3, 3);
  const TensorType& first = node.inputs[static_cast<size_t>(sequence)];
  const TensorType weight = read_weight(node, form);
  form.dtype = first.dtype;
  form.steps = first.shape[0];
  form.batch = first.shape[1];
  const int64_t blocks = form.only_n ? 1 : form.gates;
  if (weight.shape[0] % blocks != 0)
    refuse(node, "the rows of the weight are not whole gates", weight.text(),
           "a multiple of " + std::to_string(blocks) + " rows");
  form.hidden = weight.shape[0] / blocks;
  form.state = weight.shape[1];
  if (form.projection < 0 && form.state != form.hidden)
    refuse(node, "the weight does not fit the state", weight.text(),
           Shape{form.weight_rows(), form.hidden}.text() + ", or a projection");
}

void check_types(const NodeSignature& node, const RecurrentForm& form) {
  const auto check = [&](int input, const char* name, DType dtype, const Shape& shape) {
    if (input >= 0) require_type(node, input, name, {dtype, shape});
  };
  const Shape state{form.batch, form.state}, cell{form.batch, form.hidden};
  check(form.x, "x", form.dtype, form.sequence(form.gate_width()));
  if (form.blocked.empty()) check(form.weight, "weight", form.dtype, Shape{form.weight_rows(), form.state});
  check(form.h0, "h0", form.dtype, state);
  check(form.c0, "c0", DType::kF32, cell);
  check(form.y, "y", form.dtype, form.sequence(form.state));
  check(form.kept_gates, "gates", form.dtype, form.sequence(form.kept * form.hidden));
  check(form.cells, "cells", DType::kF32, form.sequence(form.hidden));
  check(form.dy, "dy", form.dtype, form.sequence(form.state));
  check(form.dh, "dh", form.dtype, state);
  check(form.dc, "dc", DType::kF32, cell);
  check(form.bias, "bias", DType::kF32, Shape{form.hidden});
  check(form.peepholes, "peepholes", DType::kF32, Shape{3, form.hidden});
  check(form.lengths, "lengths", DType::kI32, Shape{form.batch});
  if (form.projection < 0) return;
  require_floating(node, form.projection, "projection");
  require_shape(node, form.projection, "projection", Shape{form.state, form.hidden});
}

}  // namespace

RecurrentForm recurrent_form(const NodeSignature& node) {
  RecurrentForm form;
  form.cell = cell_of(node);
  form.gradient = node.op->name.ends_with("_grad");
  form.reverse = node.attributes.get_bool_or("reverse", false);
  form.reset_after = node.attributes.get_bool_or("reset_after", true);
  form.first_state = node.attributes.get_bool_or("first_state", true);
  form.only_n = form.gru() && node.attributes.get_bool_or("only_n", false);
  form.gates = form.lstm() ? 4 : form.gru() ? 3 : 1;
  form.kept = form.lstm() ? 4 : form.gru() ? (form.reset_after ? 4 : 3) : 0;
  number_inputs(node, form);
  if (form.bias >= 0 && !form.reset_after)
    refuse(node, "a bias of the product is for the reset after it", "", "",
           "Without reset_after, add the bias to x: the sum is the same");
  read_extents(node, form);
  check_types(node, form);
  if (form.only_n && (form.steps > 1 || !form.reset_after))
    refuse(node, "the weight of n alone is for one step with the reset after the product",
           std::to_string(form.steps) + " steps");
  return form;
}

RecurrentForm::Forward RecurrentForm::forward() const {
  if (lstm()) return {.c = 2, .gates = 3, .cells = 4};
  if (gru()) return {.gates = 2};
  return {};
}

RecurrentForm::Backward RecurrentForm::backward() const {
  Backward at;
  int next = 1;
  if (first_state) at.dh0 = next++;
  if (lstm()) at.dc0 = next++;
  if (!reads_h0()) at.previous = next++;
  if (peepholes >= 0) at.previous_cells = next++;
  if (projection >= 0) at.dstate = next++, at.unprojected = next++;
  if (gru()) (reset_after ? at.recurrent : at.reset) = next++;
  return at;
}

std::vector<TensorType> recurrent_outputs(const RecurrentForm& form) {
  const DType f32 = DType::kF32;
  const TensorType state{form.dtype, Shape{form.batch, form.state}}, cell{f32, Shape{form.batch, form.hidden}};
  const TensorType states{form.dtype, form.sequence(form.state)}, cells{f32, form.sequence(form.hidden)};
  const TensorType units{form.dtype, form.sequence(form.hidden)}, x{form.dtype, form.sequence(form.gate_width())};
  std::vector<TensorType> types;
  if (!form.gradient) {
    types = {states, state};
    if (form.lstm()) types.push_back(cell);
    if (form.kept > 0) types.push_back({form.dtype, form.sequence(form.kept * form.hidden)});
    if (form.lstm()) types.push_back(cells);
    return types;
  }
  types = {x};
  if (form.first_state) types.push_back(state);
  if (form.lstm()) types.push_back(cell);
  if (!form.reads_h0()) types.push_back(states);
  if (form.peepholes >= 0) types.push_back(cells);
  if (form.projection >= 0) types.insert(types.end(), {states, units});
  if (form.gru()) types.push_back(form.reset_after && !form.only_n ? x : units);
  return types;
}

namespace {

std::vector<TensorType> infer_recurrent(const NodeSignature& node) {
  auto types = recurrent_outputs(recurrent_form(node));
  for (const TensorType& type : types) require_bounded(node, type.shape);
  return types;
}

/// Samples are free; time and units are whole, because each step reads all units of the step before it.
ShardingRule recurrent_sharding(const NodeSignature& node) {
  const RecurrentForm form = recurrent_form(node);
  RuleBuilder rule;
  const int batch = rule.factor(form.batch);
  rule.at(batch).name = "b";
  const auto operand = [&](const TensorType& type, int batch_dim) {
    ShardingRule::Operand dims;
    for (int dim = 0; dim < type.shape.rank(); ++dim)
      dims.push_back({dim == batch_dim ? batch : rule.factor(type.shape[dim], true)});
    return dims;
  };
  const auto batch_dim = [&](const TensorType& type) { return type.shape.rank() == 3 ? 1 : 0; };
  for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
    const bool shared = i == form.weight || i == form.bias || i == form.peepholes || i == form.projection;
    const TensorType& type = node.inputs[static_cast<size_t>(i)];
    rule.input(operand(type, shared ? -1 : batch_dim(type)));
  }
  for (const TensorType& type : recurrent_outputs(form)) rule.output(operand(type, batch_dim(type)));
  return rule.build();
}

/// The products of one step, T times each.
std::vector<MatrixProduct> recurrent_products(const NodeSignature& node) {
  const RecurrentForm form = recurrent_form(node);
  const int64_t h = form.hidden;
  std::vector<MatrixProduct> products;
  const auto add = [&](int64_t k, int64_t n, int64_t times) {
    if (form.gradient) std::swap(k, n);
    if (times > 0) products.push_back({times, form.batch, k, n, form.dtype});
  };
  // To the state before the first step goes a product of its own.
  const int64_t states = form.steps - !form.first_state;
  if (form.gru() && !form.reset_after) {
    add(h, 2 * h, states);
    add(h, h, form.steps);
  } else {
    add(form.state, form.weight_rows(), states);
  }
  if (form.projection >= 0) add(h, form.state, form.steps);
  return products;
}

Cost recurrent_cost(const NodeSignature& node) {
  const RecurrentForm form = recurrent_form(node);
  double flops = 25.0 * static_cast<double>(form.steps * form.batch * form.gate_width());  // of the gates
  for (const MatrixProduct& product : recurrent_products(node))
    flops += 2.0 * static_cast<double>(product.batch) * static_cast<double>(product.m) *
             static_cast<double>(product.k) * static_cast<double>(product.n);
  return streaming_cost(node, flops);
}

/// The gradient of an output, of its own type; zeros where none flows.
Tensor gradient_of(GradientContext& context, int output) {
  const auto index = static_cast<size_t>(output);
  const TensorType& type = context.node.outputs[index];
  const Tensor gradient = context.output_gradients[index];
  return gradient.valid() ? cast_to(gradient, type.dtype) : zeros(context.build, type);
}

/// Refuses gradients of the outputs that exist for the backward pass alone.
void only_states(const GradientContext& context, const RecurrentForm::Forward& out) {
  for (const int output : {out.gates, out.cells})
    if (output >= 0 && context.output_gradients[static_cast<size_t>(output)].valid())
      refuse(context.node, "output " + std::to_string(output) + " has no gradient", "", "",
             "Compute the gates with matmul, sigmoid and tanh to differentiate through them");
}

/// The node of the backward pass.
std::vector<Tensor> backward_node(GradientContext& context, const RecurrentForm& form) {
  const RecurrentForm::Forward out = form.forward();
  const auto input = [&](int index) { return context.inputs[static_cast<size_t>(index)]; };
  const auto output = [&](int index) { return context.outputs[static_cast<size_t>(index)]; };
  std::vector<Tensor> inputs{input(form.weight), input(form.h0)};
  if (form.lstm()) inputs.push_back(input(form.c0));
  inputs.push_back(output(out.y));
  if (form.kept > 0) inputs.push_back(output(out.gates));
  if (form.lstm()) inputs.push_back(output(out.cells));
  inputs.push_back(gradient_of(context, out.y));
  inputs.push_back(gradient_of(context, out.h));
  if (form.lstm()) inputs.push_back(gradient_of(context, out.c));
  Attributes attributes = context.node.attributes;
  attributes.erase("biased");
  if (!context.needed[static_cast<size_t>(form.h0)]) attributes.set("first_state", false);
  for (const int optional : {form.peepholes, form.projection, form.lengths})
    if (optional >= 0) inputs.push_back(input(optional));
  return context.build.ops(context.node.op->name + "_grad", inputs, std::move(attributes));
}

/// dy^T a over all steps and samples, as the gradient of a weight of matmul.
Tensor weight_gradient(Tensor dy, Tensor a) { return matmul(as_rows(dy), as_rows(a), true, false, DType::kF32); }

/// Blocks [first, last) of H in the rows of gates.
Tensor gate_blocks(const RecurrentForm& form, Tensor gates, int64_t first, int64_t last) {
  return slice(gates, {0, 0, first * form.hidden}, {form.steps, form.batch, last * form.hidden});
}

/// dp_g = the sum of dx_g c, where i and f see the c before their step and o the one after it.
Tensor peephole_gradient(const RecurrentForm& form, Tensor dx, Tensor previous_cells, Tensor cells) {
  std::vector<Tensor> rows;
  for (const auto& [gate, seen] : {std::pair(0, previous_cells), std::pair(1, previous_cells), std::pair(3, cells)}) {
    const Tensor slope = cast_to(gate_blocks(form, dx, gate, gate + 1), DType::kF32);
    rows.push_back(reshape(column_sum(multiply(slope, seen)), Shape{1, form.hidden}));
  }
  return concat(rows, 0);
}

std::vector<Tensor> recurrent_gradient(GradientContext& context) {
  const RecurrentForm form = recurrent_form(context.node);
  const RecurrentForm::Forward out = form.forward();
  if (!form.blocked.empty())
    refuse(context.node, "a layer with a blocked weight has no gradient", "", "",
           "Differentiate before operands are blocked");
  only_states(context, out);
  const std::vector<Tensor> results = backward_node(context, form);
  const RecurrentForm::Backward at = [&] {
    RecurrentForm grad = form;
    grad.gradient = true;
    grad.first_state = context.needed[static_cast<size_t>(form.h0)];
    return grad.backward();
  }();
  const auto result = [&](int index) { return results[static_cast<size_t>(index)]; };
  const auto needed = [&](int input) { return input >= 0 && context.needed[static_cast<size_t>(input)]; };
  std::vector<Tensor> gradients(context.inputs.size());
  const auto give = [&](int input, Tensor gradient) { gradients[static_cast<size_t>(input)] = gradient; };
  give(form.x, result(at.dx));
  if (at.dh0 >= 0) give(form.h0, result(at.dh0));
  if (form.lstm()) give(form.c0, result(at.dc0));
  const Tensor dx = result(at.dx),
               previous = at.previous >= 0 ? result(at.previous) : context.inputs[static_cast<size_t>(form.h0)];
  if (needed(form.weight)) {
    if (at.reset >= 0)
      give(form.weight, concat({weight_gradient(gate_blocks(form, dx, 0, 2), previous),
                                weight_gradient(gate_blocks(form, dx, 2, 3), result(at.reset))},
                               0));
    else
      give(form.weight, weight_gradient(at.recurrent >= 0 ? result(at.recurrent) : dx, previous));
  }
  if (needed(form.bias)) {
    const Tensor recurrent = result(at.recurrent);
    give(form.bias, column_sum(form.only_n ? recurrent : gate_blocks(form, recurrent, 2, 3)));
  }
  if (needed(form.peepholes))
    give(form.peepholes,
         peephole_gradient(form, dx, result(at.previous_cells), context.outputs[static_cast<size_t>(out.cells)]));
  if (needed(form.projection)) {
    const Tensor gradient = weight_gradient(result(at.dstate), result(at.unprojected));
    give(form.projection, cast_to(gradient, context.inputs[static_cast<size_t>(form.projection)].dtype()));
  }
  return gradients;
}

const AttributeSpec kReverse{"reverse", Kind::kBool, false, "take the steps from the last to the first (false)"};
const AttributeSpec kRagged{"ragged", Kind::kBool, false, "the last input is lengths i32[B] (false)"};
const AttributeSpec kPeepholes{"peepholes", Kind::kBool, false, "an input f32[3,H] of i, f and o (false)"};
const AttributeSpec kProjected{"projected", Kind::kBool, false, "an input [R,H] makes the state of o tanh(c) (false)"};
const AttributeSpec kResetAfter{"reset_after", Kind::kBool, false, "r multiplies the product, not the state (true)"};
const AttributeSpec kBiased{"biased", Kind::kBool, false, "an input f32[H] is added to the product of n (false)"};
const AttributeSpec kOnlyN{"only_n", Kind::kBool, false,
                           "of one step: the weight [H,H] is that of n; x has the products of r and z (false)"};
const AttributeSpec kFirstState{"first_state", Kind::kBool, false, "dh0 is an output (true)"};
const AttributeSpec kActivation{"activation", Kind::kString, false, "tanh or relu (tanh)"};

/// A forward op and its backward op. `full` are the inputs that stay f32.
struct Pair {
  std::string name, doc, grad_doc;
  int least, most, grad_least, grad_most;
  std::vector<AttributeSpec> attributes;
  std::vector<int> full, grad_full;
};

/// The attributes of a weight in blocked bytes, which is input `letter`.
void add_blocking(std::vector<AttributeSpec>& attributes, const std::string& letter) {
  attributes.push_back({letter + "_blocked", Kind::kString, false, "format in which the weight is blocked bytes"});
  attributes.push_back({letter + "_shape", Kind::kInts, false, "logical shape of a blocked weight"});
  attributes.push_back({letter + "_dtype", Kind::kDType, false, "logical type of a blocked weight"});
}

void add_pair(OpRegistry& registry, Pair pair) {
  std::vector<AttributeSpec> grad_attributes = pair.attributes;
  add_blocking(pair.attributes, "b");
  add_blocking(grad_attributes, "a");
  grad_attributes.push_back(kFirstState);
  registry.add({.name = pair.name,
                .doc = pair.doc,
                .min_inputs = pair.least,
                .max_inputs = pair.most,
                .attributes = pair.attributes,
                .infer = infer_recurrent,
                .gradient = recurrent_gradient,
                .sharding = recurrent_sharding,
                .cost = recurrent_cost,
                .products = recurrent_products,
                .precision = OpDef::Precision::kLow,
                .full_inputs = pair.full});
  registry.add({.name = pair.name + "_grad",
                .doc = pair.grad_doc,
                .min_inputs = pair.grad_least,
                .max_inputs = pair.grad_most,
                .attributes = grad_attributes,
                .infer = infer_recurrent,
                .gradient = {},
                .sharding = recurrent_sharding,
                .cost = recurrent_cost,
                .products = recurrent_products,
                .precision = OpDef::Precision::kLow,
                .full_inputs = pair.grad_full});
}

}  // namespace

void register_recurrent_ops(OpRegistry& registry) {
  add_pair(registry, {.name = "lstm",
                      .doc = "(x [T,B,4H], weight [4H,R], h0 [B,R], c0 f32[B,H], peepholes f32[3,H], projection [R,H], "
                             "lengths i32[B]) -> y [T,B,R], h [B,R], c f32[B,H], gates [T,B,4H], cells f32[T,B,H]",
                      .grad_doc = "(weight, h0, c0, y, gates, cells, dy, dh, dc, peepholes, projection, lengths) -> dx "
                                  "[T,B,4H], dh0, dc0, previous [T,B,R] (T > 1), and what gradients of weights need",
                      .least = 4,
                      .most = 7,
                      .grad_least = 9,
                      .grad_most = 12,
                      .attributes = {kReverse, kRagged, kPeepholes, kProjected},
                      .full = {3, 4, 5},
                      .grad_full = {2, 5, 8, 9, 10}});
  add_pair(registry, {.name = "gru",
                      .doc = "(x [T,B,3H], weight [3H,H] ([H,H] with only_n), h0 [B,H], bias f32[H], lengths i32[B]) "
                             "-> y [T,B,H], h [B,H], "
                             "gates [T,B,4H] (3H without reset_after)",
                      .grad_doc = "(weight, h0, y, gates, dy, dh, lengths) -> dx [T,B,3H], dh0, previous [T,B,H] "
                                  "(T > 1), recurrent [T,B,3H] ([T,B,H] with only_n; without reset_after: reset "
                                  "[T,B,H])",
                      .least = 3,
                      .most = 5,
                      .grad_least = 6,
                      .grad_most = 7,
                      .attributes = {kReverse, kRagged, kResetAfter, kBiased, kOnlyN},
                      .full = {3},
                      .grad_full = {}});
  add_pair(registry, {.name = "rnn",
                      .doc = "(x [T,B,H], weight [H,H], h0 [B,H], lengths i32[B]) -> y [T,B,H], h [B,H]",
                      .grad_doc = "(weight, h0, y, dy, dh, lengths) -> dx [T,B,H], dh0, previous [T,B,H] (T > 1)",
                      .least = 3,
                      .most = 4,
                      .grad_least = 5,
                      .grad_most = 6,
                      .attributes = {kReverse, kRagged, kActivation},
                      .full = {},
                      .grad_full = {}});
}

namespace {

void append(std::vector<Tensor>& inputs, Attributes& attributes, Tensor optional, const char* attribute) {
  if (!optional.valid()) return;
  inputs.push_back(optional);
  attributes.set(attribute, true);
}

Attributes direction(const RecurrentOptions& options) {
  Attributes attributes;
  if (options.reverse) attributes.set("reverse", true);
  return attributes;
}

}  // namespace

Recurrent lstm_steps(Tensor x, Tensor weight, Tensor hidden, Tensor cell, Tensor peepholes, Tensor projection,
                     const RecurrentOptions& options) {
  Attributes attributes = direction(options);
  std::vector<Tensor> inputs{x, weight, hidden, cell};
  append(inputs, attributes, peepholes, "peepholes");
  append(inputs, attributes, projection, "projected");
  append(inputs, attributes, options.lengths, "ragged");
  const auto out = x.builder->ops("lstm", inputs, std::move(attributes));
  return {out[0], out[1], out[2]};
}

Recurrent gru_steps(Tensor x, Tensor weight, Tensor hidden, Tensor bias, const RecurrentOptions& options) {
  Attributes attributes = direction(options);
  if (!options.reset_after) attributes.set("reset_after", false);
  if (options.only_n) attributes.set("only_n", true);
  std::vector<Tensor> inputs{x, weight, hidden};
  append(inputs, attributes, bias, "biased");
  append(inputs, attributes, options.lengths, "ragged");
  const auto out = x.builder->ops("gru", inputs, std::move(attributes));
  return {out[0], out[1]};
}

Recurrent rnn_steps(Tensor x, Tensor weight, Tensor hidden, const RecurrentOptions& options) {
  Attributes attributes = direction(options);
  if (options.relu) attributes.set("activation", std::string("relu"));
  std::vector<Tensor> inputs{x, weight, hidden};
  append(inputs, attributes, options.lengths, "ragged");
  const auto out = x.builder->ops("rnn", inputs, std::move(attributes));
  return {out[0], out[1]};
}

namespace {

/// input W^T + bias for all steps at once.
Tensor all_steps(Tensor input, Tensor weight, Tensor bias) {
  return bias.valid() ? linear(input, weight, bias) : matmul(input, weight, false, true);
}

/// The sum of those biases that there are.
Tensor sum_of(Tensor a, Tensor b) { return a.valid() && b.valid() ? add(a, b) : a.valid() ? a : b; }

void check_input(Tensor input, const RecurrentWeights& weights, const std::string& layer) {
  const Shape &in = input.shape(), &w = weights.input.shape(), &h = weights.hidden.shape();
  if (in.rank() == 3 && w.rank() == 2 && h.rank() == 2 && w[1] == in[2] && w[0] == h[0]) return;
  throw Error({.what = "the weights of a recurrent layer do not fit its input",
               .where = layer + " in '" + input.builder->scope_path() + "'",
               .found = "input " + input.type().text() + ", weights " + weights.input.type().text() + " and " +
                        weights.hidden.type().text(),
               .expected = "input [T,B,I], weights [G H,I] and [G H,R]",
               .remedy = "Time is the first dimension: transpose an input that has samples first"});
}

Tensor state_or_zeros(Tensor state, Tensor input, DType dtype, int64_t width) {
  return state.valid() ? state : zeros(*input.builder, {dtype, Shape{input.dim(1), width}});
}

void refuse_lstm_weights(Tensor input, const RecurrentWeights& weights, const std::string& layer) {
  if (!weights.projection.valid() && !weights.peepholes.valid()) return;
  throw Error({.what = "projections and peepholes are LSTM's",
               .where = layer + " in '" + input.builder->scope_path() + "'",
               .remedy = "Leave RecurrentWeights::projection and peepholes invalid"});
}

}  // namespace

Recurrent lstm(Tensor input, const RecurrentWeights& weights, Tensor hidden, Tensor cell,
               const RecurrentOptions& options) {
  check_input(input, weights, "lstm");
  const Tensor x = all_steps(input, weights.input, sum_of(weights.input_bias, weights.hidden_bias));
  const Tensor h = state_or_zeros(hidden, input, input.dtype(), weights.hidden.dim(1));
  const Tensor c = state_or_zeros(cell, input, DType::kF32, weights.hidden.dim(0) / 4);
  return lstm_steps(x, weights.hidden, h, c, weights.peepholes, weights.projection, options);
}

Recurrent gru(Tensor input, const RecurrentWeights& weights, Tensor hidden, const RecurrentOptions& options) {
  check_input(input, weights, "gru");
  refuse_lstm_weights(input, weights, "gru");
  const Tensor h = state_or_zeros(hidden, input, input.dtype(), weights.hidden.dim(1));
  if (!options.reset_after || !weights.hidden_bias.valid()) {
    const Tensor x = all_steps(input, weights.input, sum_of(weights.input_bias, weights.hidden_bias));
    return gru_steps(x, weights.hidden, h, {}, options);
  }
  // The reset gate multiplies n's part of the hidden bias; the parts of r and z join the inputs' bias.
  const int64_t units = weights.hidden.dim(0) / 3;
  const Tensor outside = pad(slice(weights.hidden_bias, {0}, {2 * units}), {0}, {units});
  const Tensor inside = slice(weights.hidden_bias, {2 * units}, {3 * units});
  const Tensor x = all_steps(input, weights.input, sum_of(weights.input_bias, outside));
  return gru_steps(x, weights.hidden, h, inside, options);
}

Recurrent rnn(Tensor input, const RecurrentWeights& weights, Tensor hidden, const RecurrentOptions& options) {
  check_input(input, weights, "rnn");
  refuse_lstm_weights(input, weights, "rnn");
  const Tensor x = all_steps(input, weights.input, sum_of(weights.input_bias, weights.hidden_bias));
  const Tensor h = state_or_zeros(hidden, input, input.dtype(), weights.hidden.dim(1));
  return rnn_steps(x, weights.hidden, h, options);
}

Recurrent recurrent_layers(RecurrentCell kind, Tensor input, const std::vector<RecurrentWeights>& weights,
                           bool both_directions, Tensor hidden, Tensor cell, const RecurrentOptions& options) {
  const size_t directions = both_directions ? 2 : 1;
  if (weights.empty() || weights.size() % directions != 0)
    throw Error({.what = "recurrent layers need weights for each layer and direction",
                 .where = "recurrent_layers in '" + input.builder->scope_path() + "'",
                 .found = std::to_string(weights.size()) + " sets of weights",
                 .expected = "a multiple of " + std::to_string(directions) + ", and at least one layer"});
  for (const Tensor states : {hidden, cell})
    if (states.valid() && (states.shape().rank() != 3 || states.dim(0) != std::ssize(weights)))
      throw Error(
          {.what = "the states of recurrent layers have the wrong shape",
           .where = "recurrent_layers in '" + input.builder->scope_path() + "'",
           .found = states.type().text(),
           .expected = "[" + std::to_string(weights.size()) + ",batch,units], a state for each set of weights"});
  const auto state_of = [](Tensor states, size_t index) -> Tensor {
    if (!states.valid()) return {};
    const auto at = static_cast<int64_t>(index);
    const Shape one{states.dim(1), states.dim(2)};
    return reshape(slice(states, {at, 0, 0}, {at + 1, one[0], one[1]}), one);
  };
  Tensor below = input;
  std::vector<Tensor> hiddens, cells;
  const auto keep = [](std::vector<Tensor>& states, Tensor last) {
    if (last.valid()) states.push_back(reshape(last, Shape{1, last.dim(0), last.dim(1)}));
  };
  for (size_t first = 0; first < weights.size(); first += directions) {
    std::vector<Tensor> outputs;
    for (size_t index = first; index < first + directions; ++index) {
      RecurrentOptions own = options;
      if (index != first) own.reverse = !own.reverse;
      const Tensor h = state_of(hidden, index);
      const Recurrent layer = kind == RecurrentCell::kLstm  ? lstm(below, weights[index], h, state_of(cell, index), own)
                              : kind == RecurrentCell::kGru ? gru(below, weights[index], h, own)
                                                            : rnn(below, weights[index], h, own);
      outputs.push_back(layer.output);
      keep(hiddens, layer.hidden);
      keep(cells, layer.cell);
    }
    below = directions == 1 ? outputs[0] : concat(outputs, 2);
  }
  return {below, concat(hiddens, 0), cells.empty() ? Tensor{} : concat(cells, 0)};
}

}  // namespace ramet::ops
