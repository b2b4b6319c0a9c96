#include "ramet/model/blocks.h"

#include "ramet/base/error.h"

namespace ramet::model {

ModelBuilder::ModelBuilder(Graph& graph, std::vector<StateTensor>* weights, double init_range, bool training,
                           int64_t seed)
    : build_(graph), weights_(weights), init_range_(init_range), training_(training), seed_(seed) {}

Tensor ModelBuilder::weight(const std::string& name, Shape shape, StateInit init, const std::string& group,
                            std::vector<LogicalAxis> axes) {
  const bool known = build_.graph().find_input(name) != kNoValue;
  const Tensor tensor = build_.state(name, DType::kF32, std::move(shape));
  if (weights_ && !known) weights_->push_back({name, tensor.type(), StateKind::kWeight, init, group, std::move(axes)});
  return tensor;
}

Tensor ModelBuilder::matrix(const std::string& name, Shape shape, std::vector<LogicalAxis> axes, double deviation) {
  const StateInit init{StateInit::Kind::kNormal, 0, deviation > 0 ? deviation : init_range_};
  return weight(name, std::move(shape), init, "decay", std::move(axes));
}

Tensor ModelBuilder::vector(const std::string& name, int64_t size, LogicalAxis axis, double value) {
  return weight(name, {size}, {StateInit::Kind::kConstant, value, 0}, "no_decay", {std::move(axis)});
}

Tensor ModelBuilder::dense(Tensor x, const std::string& name, int64_t out, const LogicalAxis& out_axis,
                           const LogicalAxis& in_axis) {
  const Tensor w = matrix(name + ".weight", {out, x.dim(-1)}, {out_axis, in_axis});
  return linear(x, w, vector(name + ".bias", out, out_axis, 0));
}

Tensor ModelBuilder::projection(Tensor x, const std::string& name, int64_t out, const LogicalAxis& out_axis,
                                const LogicalAxis& in_axis, double deviation) {
  const Tensor w = matrix(name + ".weight", {x.dim(-1), out}, {in_axis, out_axis}, deviation);
  return linear(x, w, vector(name + ".bias", out, out_axis, 0), false);
}

Tensor ModelBuilder::norm(Tensor x, const std::string& name, double epsilon) {
  const int64_t size = x.dim(-1);
  const Tensor gain = vector(name + ".weight", size, kEmbed, 1);
  return layer_norm(x, gain, vector(name + ".bias", size, kEmbed, 0), epsilon);
}

Tensor ModelBuilder::counter() {
  const ValueId known = build_.graph().find_input("counter");
  if (known != kNoValue) return build_.tensor(known);
  return build_.input("counter", DType::kI64, {2}, InputRole::kScalar);
}

Tensor ModelBuilder::drop(Tensor x, double rate, const std::string& name) {
  if (!training_ || rate == 0) return x;
  return dropout(x, counter(), rate, seed_, name);
}

Tensor ModelBuilder::self_attention(Tensor qkv, Tensor mask, int64_t heads, double dropout_rate, bool causal,
                                    const std::string& name, bool segments) {
  const int64_t batch = qkv.dim(0), length = qkv.dim(1), hidden = qkv.dim(2) / 3;
  AttentionOptions options;
  options.causal = causal;
  options.segments = segments;
  options.dropout = training_ ? dropout_rate : 0;
  options.random_name = name;
  options.seed = seed_;
  const Tensor heads_apart = reshape(qkv, {batch, length, 3, heads, hidden / heads});
  const Tensor mixed = attention(heads_apart, {}, {}, mask, options.dropout > 0 ? counter() : Tensor{}, options);
  return reshape(mixed, {batch, length, hidden});
}

VocabularyRows::VocabularyRows(int64_t vocabulary, int64_t pad)
    : classes(vocabulary), rows((vocabulary + pad - 1) / pad * pad), axis(kVocab) {
  axis.padding = rows - classes;
}

void declare_inputs(Model& model, int64_t sequence) {
  for (const GraphInput& input : model.forward.inputs()) {
    if (input.role != InputRole::kData) continue;
    const Value& value = model.forward.value(input.value);
    InputSpec spec{.name = value.name, .type = value.type};
    for (int dim = 0; dim < value.type.shape.rank(); ++dim)
      spec.axes.push_back(dim == 0 ? "batch" : dim == 1 && value.type.shape[dim] == sequence ? "positions" : "");
    model.inputs.push_back(std::move(spec));
  }
}

void limit_input(Model& model, std::string_view name, double low, double high) {
  for (InputSpec& input : model.inputs)
    if (input.name == name) input.low = low, input.high = high;
}

void check_sizes(const std::string& model, int64_t layers, int64_t hidden, int64_t heads, int64_t vocabulary) {
  if (layers < 1 || hidden < 1 || heads < 1 || vocabulary < 1)
    throw Error({.what = "sizes of the model must be positive", .where = model});
  if (hidden % heads != 0)
    throw Error({.what = "the hidden size is not a multiple of the number of heads",
                 .where = model,
                 .found = "hidden " + std::to_string(hidden) + ", heads " + std::to_string(heads),
                 .remedy = "Choose heads that divide the hidden size"});
}

void check_sequence(const std::string& model, int64_t sequence, int64_t positions) {
  if (sequence < 1 || sequence > positions)
    throw Error({.what = "the sequence does not fit the table of positions",
                 .where = model,
                 .found = "data.sequence_length " + std::to_string(sequence),
                 .expected = "1 to " + std::to_string(positions),
                 .remedy = "Shorten the sequence or set model.max_positions"});
}

}  // namespace ramet::model
