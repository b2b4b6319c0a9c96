#include "ramet/ops/edge_map.h"

#include <algorithm>

#include "ramet/base/error.h"
#include "ramet/ops/build.h"
#include "ramet/ops/map_types.h"
#include "ramet/ops/network_rules.h"

namespace ramet::ops {
namespace {

using Dims = std::vector<int64_t>;
using Kind = AttributeSpec::Kind;

Dims dims_from(const Shape& shape, int first) { return {shape.dims().begin() + first, shape.dims().end()}; }

/// An attribute with one number for each of `count` things.
Dims numbers(const NodeSignature& node, const std::string& name, size_t count, int64_t least, int64_t most) {
  Dims found = node.attributes.get_ints(name);
  if (found.size() != count)
    refuse(node, "'" + name + "' has a wrong number of integers", std::to_string(found.size()), std::to_string(count));
  for (const int64_t number : found)
    if (number < least || number > most)
      refuse(node, "'" + name + "' has an integer that is out of range", std::to_string(number),
             std::to_string(least) + " to " + std::to_string(most));
  return found;
}

/// The dimensions in front of `rows` that number samples.
Dims sample_dims(const EdgeMapForm& form) { return form.lead == 2 ? Dims{form.samples} : Dims{}; }

void take_tables(const NodeSignature& node, EdgeMapForm& form) {
  const Dims kinds = numbers(node, "pointers", node.attributes.get_ints("pointers").size(), 0, 1);
  if (kinds.size() > node.inputs.size()) refuse(node, "there are fewer inputs than tables");
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::string name = "table " + std::to_string(i);
    const Shape& shape = node.inputs[i].shape;
    Dims expected = sample_dims(form);
    if (kinds[i]) {
      require_dtype(node, static_cast<int>(i), name, {DType::kI32});
      require_rank(node, static_cast<int>(i), name, form.lead, form.lead);
      expected.push_back(std::max<int64_t>(1, shape.dim(-1)));
    } else {
      require_dtype(node, static_cast<int>(i), name, {DType::kI32, DType::kI64});
      expected.push_back(form.edges);
    }
    require_shape(node, static_cast<int>(i), name, Shape(expected));
    form.tables.push_back({kinds[i] != 0, kinds[i] ? shape.dim(-1) - 1 : INT64_MAX});
  }
}

/// Rows of an operand or a result that a table names: as many as its pointers have, or those of the smallest reader.
void take_rows(const NodeSignature& node, EdgeMapForm& form, int64_t table, int64_t rows, const std::string& operand) {
  EdgeMapForm::Table& at = form.tables[static_cast<size_t>(table)];
  if (at.pointers && rows != at.rows)
    refuse(node, operand + " has another number of rows than its pointers", std::to_string(rows),
           std::to_string(at.rows));
  at.rows = std::min(at.rows, rows);
}

void take_reads(const NodeSignature& node, EdgeMapForm& form) {
  const auto last = static_cast<int64_t>(form.tables.size()) - 1;
  const Dims tables = numbers(node, "reads", static_cast<size_t>(form.program.inputs), -1, last);
  if (node.inputs.size() != form.tables.size() + tables.size())
    refuse(node, "the program has another number of inputs", std::to_string(node.inputs.size() - form.tables.size()),
           std::to_string(tables.size()));
  for (size_t i = 0; i < tables.size(); ++i) {
    const auto input = static_cast<int>(form.tables.size() + i);
    const std::string name = "input " + std::to_string(input);
    const Shape& shape = node.inputs[static_cast<size_t>(input)].shape;
    EdgeMapForm::Read read{.table = static_cast<int>(tables[i])};
    const bool whole = read.table >= 0 || shape.rank() == form.space.rank();
    if (whole) require_rank(node, input, name, form.space.rank(), form.space.rank());
    read.features = whole ? Shape(dims_from(shape, form.lead)) : shape;
    if (broadcast_shapes(read.features, form.features, node.text()) != form.features)
      refuse(node, name + " does not broadcast to the features of an edge", shape.text(), form.features.text());
    if (read.table >= 0) {
      read.rows = shape[form.lead - 1];
      take_rows(node, form, read.table, read.rows, name);
      if (form.lead == 2 && shape[0] != form.samples)
        refuse(node, name + " has another number of samples", std::to_string(shape[0]), std::to_string(form.samples));
    } else if (whole) {
      const std::optional<bool> edges = has_edges(shape, form.space, form.lead);
      if (!edges) refuse(node, name + " is neither of all edges nor the same for all", shape.text(), form.space.text());
      read.edges = *edges;
    }
    form.reads.push_back(std::move(read));
  }
}

void take_gives(const NodeSignature& node, EdgeMapForm& form) {
  const size_t count = form.program.outputs.size();
  const auto last = static_cast<int64_t>(form.tables.size()) - 1;
  const Dims tables = numbers(node, "sums", count, -1, last), rows = numbers(node, "rows", count, 0, INT64_MAX);
  const Dims means = node.attributes.has("means") ? numbers(node, "means", count, 0, 1) : Dims(count, 0);
  for (size_t i = 0; i < count; ++i) {
    if (form.program.outputs[i].reduce != MapProgram::Reduce::kNone) refuse(node, "the program itself sums an output");
    EdgeMapForm::Give give{.table = static_cast<int>(tables[i]), .rows = rows[i], .mean = means[i] != 0};
    if (give.table >= 0) take_rows(node, form, give.table, give.rows, "output " + std::to_string(i));
    if (give.mean && (give.table < 0 || !form.tables[static_cast<size_t>(give.table)].pointers))
      refuse(node, "only a sum by pointers can be a mean");
    form.gives.push_back(give);
  }
}

std::vector<TensorType> infer(const NodeSignature& node) {
  const EdgeMapForm form(node);
  std::vector<DType> inputs;
  for (size_t i = form.tables.size(); i < node.inputs.size(); ++i) inputs.push_back(node.inputs[i].dtype);
  if (form.program.draws()) refuse(node, "a map over edges draws no random bits");
  const std::vector<DType> dtypes = map_output_dtypes(node, form.program, inputs);
  std::vector<TensorType> outputs;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const EdgeMapForm::Give& give = form.gives[i];
    if (give.table < 0) {
      outputs.push_back({dtypes[i], form.space});
      continue;
    }
    if (dtypes[i] != DType::kF32) refuse(node, "sums over edges are of f32", std::string(name_of(dtypes[i])), "f32");
    Dims dims = sample_dims(form);
    dims.push_back(give.rows);
    for (const int64_t extent : form.features.dims()) dims.push_back(extent);
    outputs.push_back({dtypes[i], Shape(std::move(dims))});
    require_bounded(node, outputs.back().shape);
  }
  return outputs;
}

/// Samples are free, where there are any; all else stays whole.
ShardingRule sharding(const NodeSignature& node) {
  const EdgeMapForm form(node);
  RuleBuilder rule;
  const int samples = rule.factor(form.samples, form.lead != 2);
  const auto operand = [&](const Shape& shape, bool has_samples) {
    ShardingRule::Operand dims;
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (axis == 0 && has_samples)
        dims.push_back({samples});
      else
        dims.push_back({rule.factor(shape[axis], true)});
    return dims;
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool reads = i >= form.tables.size();
    const EdgeMapForm::Read* const read = reads ? &form.reads[i - form.tables.size()] : nullptr;
    rule.input(operand(node.inputs[i].shape, form.lead == 2 && (!read || read->table >= 0 || read->edges)));
  }
  for (const TensorType& output : node.outputs) rule.output(operand(output.shape, form.lead == 2));
  return rule.build();
}

Attributes localize(const NodeSignature& node, const std::vector<int64_t>& parts, const ShardingRule& rule) {
  Attributes attributes = node.attributes;
  Dims shape = attributes.get_ints("shape");
  if (attributes.get_int("lead") == 2) shape[0] = rule.factors[0].size / parts[0];
  return attributes.set("shape", shape);
}

Cost cost(const NodeSignature& node) {
  const EdgeMapForm form(node);
  double flops = 0;
  for (const MapProgram::Step& step : form.program.steps) flops += step.info().flops;
  for (const EdgeMapForm::Give& give : form.gives) flops += give.table >= 0;
  Cost cost = streaming_cost(node, flops * static_cast<double>(form.space.elements()));
  // Each edge reads its rows, and adds to others, beside what is read and written once.
  for (size_t i = 0; i < form.reads.size(); ++i)
    if (form.reads[i].table >= 0)
      cost.bytes_read += form.samples * form.edges * form.reads[i].features.elements() *
                         static_cast<int64_t>(size_of(node.inputs[form.tables.size() + i].dtype));
  return cost;
}

}  // namespace

std::optional<bool> has_edges(const Shape& operand, const Shape& space, int lead) {
  if (operand.rank() <= space.rank() - lead) return false;
  if (operand.rank() != space.rank()) return std::nullopt;
  const auto begin = operand.dims().begin();
  if (std::equal(begin, begin + lead, space.dims().begin())) return true;
  const bool ones = std::all_of(begin, begin + lead, [](int64_t extent) { return extent == 1; });
  return ones ? std::optional(false) : std::nullopt;
}

EdgeMapForm::EdgeMapForm(const NodeSignature& node)
    : program(MapProgram::parse(node.attributes.get_string("program"))), space(shape_attribute(node, "shape")) {
  const int64_t leads = node.attributes.get_int("lead");
  if (leads < 1 || leads > 2 || leads > space.rank())
    refuse(node, "'lead' is no number of dimensions of edges", std::to_string(leads), "1 or 2");
  lead = static_cast<int>(leads);
  samples = lead == 2 ? space[0] : 1;
  edges = space[lead - 1];
  features = Shape(dims_from(space, lead));
  width = features.elements();
  take_tables(node, *this);
  take_reads(node, *this);
  take_gives(node, *this);
}

void register_edge_map_op(OpRegistry& registry) {
  OpDef op;
  op.name = "edge_map";
  op.doc =
      "tables (row indices [B,E], or pointers i32 [B,N+1]), inputs of a program -> its outputs: a program of "
      "element-wise steps over edges [B,E,...], whose inputs are rows read through tables, and whose outputs may be "
      "summed over the rows that a table names";
  op.min_inputs = 1;
  op.max_inputs = -1;
  op.attributes = {
      required_attribute("program", Kind::kString, "text of the MapProgram"),
      required_attribute("shape", Kind::kInts, "iteration space"),
      required_attribute("dtypes", Kind::kString, "element type of each output, as in \"bf16,f32\""),
      required_attribute("lead", Kind::kInt, "dimensions of the space that number edges: 1 or 2"),
      required_attribute("pointers", Kind::kInts, "for each table 1 if it is of pointers, 0 if of indices"),
      required_attribute("reads", Kind::kInts, "for each input of the program its table, -1: none"),
      required_attribute("sums", Kind::kInts, "for each output the table of its sums, -1: none"),
      required_attribute("rows", Kind::kInts, "for each output the rows of its sums"),
      optional_attribute("means", Kind::kInts, "for each output 1 if the sums are divided by their numbers of edges")};
  op.infer = infer;
  op.sharding = sharding;
  op.localize = localize;
  op.cost = cost;
  registry.add(std::move(op));
}

}  // namespace ramet::ops
