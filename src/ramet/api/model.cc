#include "ramet/api/contents.h"

#include <algorithm>
#include <tuple>

#include "ramet/api/graphs.h"
#include "ramet/base/error.h"
#include "ramet/ir/part_of.h"
#include "ramet/ir/text.h"
#include "ramet/model/model_file.h"

namespace ramet::v0 {

const model::NamedGraph& Model::Contents::request(const std::string& name) const {
  std::string known;
  for (const model::NamedGraph& program : engine.programs) {
    if (program.when.kind != transform::When::Kind::kRequest) continue;
    if (program.name == name) return program;
    known += (known.empty() ? "" : ", ") + program.name;
  }
  const std::string where = "model '" + engine.name + "'";
  if (name == api::kPredict)
    throw Error({.what = "a model without outputs",
                 .where = where,
                 .remedy = "Declare what it predicts with ModelBuilder::output"});
  throw Error({.what = "the model has no program of this name on request",
               .where = where,
               .found = "'" + name + "'",
               .expected = known});
}

const std::string& Model::name() const { return contents_->engine.name; }
int64_t Model::micro_batch() const { return contents_->micro_batch; }
int64_t Model::parameters() const { return contents_->engine.parameters(); }

namespace {

template <typename List>
std::vector<std::string> names_of(const List& list) {
  std::vector<std::string> names;
  for (const auto& each : list) names.push_back(each.name);
  return names;
}

/// Samples of a micro-batch, on which all inputs agree.
int64_t samples_of(const std::vector<model::InputSpec>& inputs, const std::string& name) {
  int64_t samples = 0;
  std::string found;
  bool agree = true;
  for (const auto& input : inputs) {
    const int64_t first = input.type.shape.rank() > 0 ? input.type.shape[0] : 0;
    if (first < 1 || (samples != 0 && first != samples)) agree = false;
    samples = first;
    found += (found.empty() ? "" : ", ") + input.name + " " + input.type.text();
  }
  if (inputs.empty() || !agree)
    throw Error(
        {.what = inputs.empty() ? "a model without inputs" : "inputs disagree on how many samples a micro-batch has",
         .where = "model '" + name + "'",
         .found = found,
         .expected = "one first dimension for all inputs"});
  return samples;
}

}  // namespace

std::vector<std::string> Model::weights() const { return names_of(contents_->engine.weights); }
std::vector<std::string> Model::inputs() const { return names_of(contents_->engine.inputs); }
std::vector<std::string> Model::metrics() const { return names_of(contents_->engine.metrics); }

TensorType Model::type_of(const std::string& name) const {
  const model::Model& engine = contents_->engine;
  for (const auto* list : {&engine.weights, &engine.states})
    for (const auto& state : *list)
      if (state.name == name) return state.type;
  for (const auto& input : engine.inputs)
    if (input.name == name) return input.type;
  throw Error({.what = "the model has no weight, state or input of this name",
               .where = "model '" + engine.name + "'",
               .found = "'" + name + "'"});
}

std::string Model::text() const {
  const model::Model& engine = contents_->engine;
  std::string text = ir::print(engine.forward) + "\n" + ir::print(engine.evaluate);
  for (const auto& program : engine.programs) text += "\n" + ir::print(program.graph);
  return text;
}

void Model::save(const std::string& path) const { model::save_model(path, contents_->engine, contents_->units); }

Model Model::load(const std::string& path) {
  auto contents = std::make_shared<Contents>();
  std::tie(contents->engine, contents->units) = model::load_model(path);
  contents->micro_batch = samples_of(model::checked_inputs(contents->engine), contents->engine.name);
  return Model(std::move(contents));
}

// --- what builders share ---

Builder::Builder(std::shared_ptr<detail::Graphs> graphs) : graphs_(std::move(graphs)) {}
Builder::~Builder() = default;

Tensor Builder::weight(const std::string& name, Shape shape, const Init& init, const WeightOptions& options,
                       const std::source_location& place) {
  api::Declarations& declared = graphs_->declared();
  const TensorType type{DType::kF32, std::move(shape)};
  if (const transform::StateTensor* known = declared.find_state(name)) {
    if (known->type != type || known->kind != transform::StateKind::kWeight)
      throw Error({.what = "a weight is used with two types",
                   .where = "'" + name + "' of " + api::where_of(declared, place),
                   .found = type.text(),
                   .expected = known->type.text()});
  } else if (graphs_->is_program()) {
    throw Error({.what = "a program reads a weight that the model does not have",
                 .where = api::where_of(declared, place),
                 .found = "'" + name + "' " + type.text()});
  } else {
    transform::StateTensor weight{name, type, transform::StateKind::kWeight, {}, ""};
    api::at_place(place, [&] {
      api::check_type(name, type);
      weight.init = api::engine_init(init, type, name);
      weight.axes = api::engine_axes(options.axes, type, name);
    });
    weight.group = options.decays.value_or(type.shape.rank() >= 2) ? "decay" : "no_decay";
    weight.external_name = options.file_name;
    declared.weights.push_back(std::move(weight));
  }
  return api::at_place(place, [&] { return graphs_->state_input(name, type); });
}

Tensor Builder::state(const std::string& name, const std::source_location& place) {
  const transform::StateTensor* known = graphs_->declared().find_state(name);
  if (!known)
    throw Error({.what = "the model has no weight or state of this name",
                 .where = api::where_of(graphs_->declared(), place),
                 .found = "'" + name + "'",
                 .remedy = "Declare it in the model before it is read"});
  return graphs_->state_input(name, known->type);
}

void Builder::set_state(const std::string& name, Operand value) {
  const api::Declarations& declared = graphs_->declared();
  const transform::StateTensor* known = declared.find_state(name);
  if (!known || known->type != value.type())
    throw Error({.what = known ? "a state gets a value of another type" : "the model has no state of this name",
                 .where = "'" + name + "' of " + api::where_of(declared, value.place()),
                 .found = value.type().text(),
                 .expected = known ? known->type.text() : ""});
  graphs_->output(name, value, ir::OutputRole::kState, 1);
}

Tensor Builder::full(DType dtype, const Shape& shape, double value, const std::source_location& place) {
  return graphs_->build_each(place, [&](int, ir::GraphBuilder& build) {
    return std::vector<ir::Tensor>{ops::full(build, dtype, shape, value)};
  })[0];
}

Tensor Builder::iota(DType dtype, const Shape& shape, int64_t axis, const std::source_location& place) {
  return graphs_->build_each(place, [&](int, ir::GraphBuilder& build) {
    return std::vector<ir::Tensor>{ops::iota(build, dtype, shape, axis)};
  })[0];
}

Tensor Builder::constant(Shape shape, const ArrayView& numbers, const std::source_location& place) {
  const TensorType type{numbers.dtype(), std::move(shape)};
  const transform::StateInit data =
      api::at_place(place, [&] { return api::engine_init(Init::numbers(numbers), type, "constant"); });
  return graphs_->build_each(place, [&](int, ir::GraphBuilder& build) {
    return std::vector<ir::Tensor>{ops::constant(build, *data.data)};
  })[0];
}

Scope::Scope(Builder& builder, const std::string& name, const std::source_location& place) : builder_(builder) {
  detail::Graphs::of(builder).enter(name, place);
}
Scope::Scope(Builder& builder, const std::string& stack, int64_t index, const std::source_location& place)
    : builder_(builder) {
  detail::Graphs::of(builder).enter(stack, index, place);
}
Scope::~Scope() { detail::Graphs::of(builder_).leave(); }

// --- programs ---

Tensor ProgramBuilder::input(const std::string& name, const std::source_location& place) {
  const model::InputSpec* known = graphs_->declared().find_input(name);
  if (!known)
    throw Error({.what = "the model has no input of this name",
                 .where = api::where_of(graphs_->declared(), place),
                 .found = "'" + name + "'",
                 .remedy = "Give its type, too, where it is the program's own"});
  return input(name, known->type.dtype, known->type.shape, {.axes = known->axes}, place);
}

namespace {

/// Axes of an input as they are declared, or batch and features.
std::vector<std::string> input_axes(const std::string& name, const Shape& shape, const InputOptions& options,
                                    const api::Declarations& declared, const std::source_location& place) {
  std::vector<std::string> axes = options.axes;
  if (axes.empty()) axes.resize(static_cast<size_t>(shape.rank())), axes.empty() ? void() : void(axes[0] = "batch");
  if (std::ssize(axes) != shape.rank() || shape.rank() == 0 || axes[0] != "batch" || shape[0] < 1)
    throw Error({.what = "the first dimension of an input must be the samples of a micro-batch",
                 .where = "input '" + name + "' of " + api::where_of(declared, place),
                 .found = shape.text() + (options.axes.empty() ? "" : " with " + std::to_string(axes.size()) + " axes"),
                 .expected = "a shape [samples, ...], and \"batch\" as the first of its axes"});
  return axes;
}

}  // namespace

Tensor ProgramBuilder::input(const std::string& name, DType dtype, Shape shape, const InputOptions& options,
                             const std::source_location& place) {
  const std::string where = "'" + name + "' of " + api::where_of(graphs_->declared(), place);
  if (options.low || options.high)
    throw Error({.what = "limits of an input in a program",
                 .where = where,
                 .expected = "none: limits are those of the model's input of the same name and type",
                 .remedy = "Declare the input with its limits in the model, or check its elements before the call"});
  ir::GraphBuilder& build = graphs_->build(0);
  const ir::ValueId known = build.graph().find_input(name);
  if (known != ir::kNoValue) {
    const TensorType type{dtype, shape}, declared = build.graph().value(known).type;
    if (type != declared)
      throw Error({.what = "an input is used with two types",
                   .where = where,
                   .found = type.text(),
                   .expected = declared.text()});
    return graphs_->tensor({known, ir::kNoValue});
  }
  api::at_place(place, [&] { api::check_type(name, {dtype, shape}); });
  auto axes = input_axes(name, shape, options, graphs_->declared(), place);
  return graphs_->tensor({build.input(name, dtype, std::move(shape), std::move(axes)).id, ir::kNoValue});
}

void ProgramBuilder::output(const std::string& name, Operand value) {
  graphs_->output(name, value, ir::OutputRole::kResult, 1);
}

// --- models ---

struct ModelBuilder::State {
  struct Program {
    std::string name;
    When when;
    std::function<void(ProgramBuilder&)> write;
  };
  std::shared_ptr<api::Declarations> declared = std::make_shared<api::Declarations>();
  model::Model model;
  std::vector<model::Metric> metrics;
  std::vector<std::pair<std::string, Tensor>> outputs;
  std::vector<Program> programs;
  bool has_loss = false, built = false;
};

ModelBuilder::ModelBuilder(const std::string& name) : Builder(nullptr), state_(std::make_unique<State>()) {
  state_->declared->model = name;
  graphs_ = std::make_shared<detail::Graphs>(detail::Graphs::Of::kModel, name, state_->declared);
}
ModelBuilder::~ModelBuilder() = default;

Tensor ModelBuilder::input(const std::string& name, DType dtype, Shape shape, const InputOptions& options,
                           const std::source_location& place) {
  api::Declarations& declared = *state_->declared;
  if (declared.find_input(name))
    throw Error({.what = "two inputs of one name", .where = api::where_of(declared, place), .found = "'" + name + "'"});
  api::at_place(place, [&] { api::check_type(name, {dtype, shape}); });
  const auto axes = input_axes(name, shape, options, declared, place);
  declared.inputs.push_back({name, {dtype, shape}, axes, options.low, options.high});
  return graphs_->build_each(place, [&](int, ir::GraphBuilder& build) {
    return std::vector<ir::Tensor>{build.input(name, dtype, shape, axes)};
  })[0];
}

namespace {

transform::StateKind kind_of(StateRole role) {
  using Kind = transform::StateKind;
  switch (role) {
    case StateRole::kConstant: return Kind::kConstant;
    case StateRole::kPattern: return Kind::kPattern;
    case StateRole::kDeferred: return Kind::kDeferred;
    case StateRole::kChained: return Kind::kChained;
    case StateRole::kKept: return Kind::kKept;
  }
  internal_error("kind_of", "unknown role");
}

}  // namespace

Tensor ModelBuilder::state(const std::string& name, TensorType type, StateRole role, const Init& init,
                           const StateOptions& options, const std::source_location& place) {
  api::Declarations& declared = *state_->declared;
  if (declared.find_state(name))
    throw Error({.what = "two states of one name", .where = api::where_of(declared, place), .found = "'" + name + "'"});
  transform::StateTensor state{name, type, kind_of(role), {}, ""};
  api::at_place(place, [&] {
    api::check_type(name, type);
    state.init = api::engine_init(init, type, name);
    state.axes = api::engine_axes(options.axes, type, name);
  });
  state.fold = {options.fold.by, options.fold.momentum};
  declared.states.push_back(std::move(state));
  // A kept state belongs to programs on request alone.
  return role == StateRole::kKept ? Tensor() : graphs_->state_input(name, type);
}

void ModelBuilder::axis_units(const std::string& axis, int64_t units) { state_->model.units_of_axes[axis] = units; }

void ModelBuilder::add_scalar_output(const std::string& name, const Operand& value) {
  if (value.type() != TensorType{DType::kF32, {}})
    throw Error({.what = "a loss, a metric or a guard must be one number of a micro-batch",
                 .where = "'" + name + "' of " + api::where_of(*state_->declared, value.place()),
                 .found = value.type().text(),
                 .expected = "f32[]",
                 .remedy = "Reduce it, as with reduce_mean, or cast it"});
  graphs_->output(name, value, ir::OutputRole::kResult, 2);
}

void ModelBuilder::loss(Operand value) {
  metric("loss", Mean{value.tensor()}, value.place());
  state_->model.guards.push_back("loss");
  state_->has_loss = true;
}

void ModelBuilder::loss(Operand mean, Operand items) {
  metric("loss", MeanOver{mean.tensor(), items.tensor()}, mean.place());
  state_->model.guards.push_back("loss");
  state_->has_loss = true;
}

void ModelBuilder::metric(const std::string& name, const Mean& value, const std::source_location& place) {
  add_scalar_output(name, {value.value, place});
  state_->metrics.push_back({.name = name, .numerator = name, .how = model::Metric::How::kMean});
}
void ModelBuilder::metric(const std::string& name, const Sum& value, const std::source_location& place) {
  add_scalar_output(name, {value.value, place});
  state_->metrics.push_back({.name = name, .numerator = name, .how = model::Metric::How::kSum});
}
void ModelBuilder::metric(const std::string& name, const Ratio& value, const std::source_location& place) {
  add_scalar_output(name + ".numerator", {value.numerator, place});
  add_scalar_output(name + ".denominator", {value.denominator, place});
  state_->metrics.push_back({.name = name, .numerator = name + ".numerator", .denominator = name + ".denominator"});
}
void ModelBuilder::metric(const std::string& name, const MeanOver& value, const std::source_location& place) {
  add_scalar_output(name, {value.mean, place});
  add_scalar_output(name + ".items", {value.items, place});
  state_->metrics.push_back(model::mean_metric(name, name + ".items"));
}
void ModelBuilder::metric(const std::string& name, const ExpOf& value) {
  state_->metrics.push_back({.name = name, .numerator = value.metric, .how = model::Metric::How::kExp});
}

void ModelBuilder::guard(const std::string& name, Operand value) {
  add_scalar_output(name, value);
  state_->model.guards.push_back(name);
}

void ModelBuilder::output(const std::string& name, Operand value) {
  if (&detail::Graphs::of(value) != graphs_.get())
    throw Error({.what = "a tensor of another model", .where = api::where_of(*state_->declared, value.place())});
  state_->outputs.emplace_back(name, value.tensor());
}

void ModelBuilder::program(const std::string& name, const When& when,
                           const std::function<void(ProgramBuilder&)>& write) {
  state_->programs.push_back({name, when, write});
}

namespace {

transform::When engine_when(const When& when) {
  switch (when.kind()) {
    case When::Kind::kRequest: return transform::When::on_request();
    case When::Kind::kMicroBatch: return transform::When::each_micro_batch();
    case When::Kind::kSteps: return transform::When::each_step(when.every(), when.micro_batch());
  }
  internal_error("engine_when", "unknown time");
}

}  // namespace

Model ModelBuilder::build() {
  State& state = *state_;
  const std::string where = "model '" + state.declared->model + "'";
  if (state.built) throw Error({.what = "a builder builds one model", .where = where});
  if (!state.has_loss)
    throw Error({.what = "a model without a loss", .where = where, .remedy = "Say what is trained with loss()"});
  auto contents = std::make_shared<Model::Contents>();
  contents->micro_batch = samples_of(state.declared->inputs, state.declared->model);
  model::Model& model = contents->engine;
  model = std::move(state.model);
  model.name = state.declared->model;
  if (!state.outputs.empty()) {
    std::vector<ir::GraphOutput> outputs;
    for (const auto& [name, tensor] : state.outputs)
      outputs.push_back({name, graphs_->in(1, tensor).id, ir::OutputRole::kResult});
    model.programs.push_back({api::kPredict, ir::part_of(graphs_->graph(1), api::kPredict, outputs)});
  }
  for (const State::Program& program : state.programs) {
    ProgramBuilder builder(
        std::make_shared<detail::Graphs>(detail::Graphs::Of::kProgram, program.name, state.declared));
    program.write(builder);
    model.programs.push_back({program.name, builder.graphs_->graph(0), engine_when(program.when)});
  }
  std::stable_partition(state.metrics.begin(), state.metrics.end(),
                        [](const auto& each) { return each.name == "loss"; });
  model.metrics = std::move(state.metrics);
  model.forward = graphs_->graph(0);
  model.evaluate = graphs_->graph(1);
  model.weights = state.declared->weights;
  model.states = state.declared->states;
  model.inputs = state.declared->inputs;
  model.tokens_per_micro_batch = contents->micro_batch;
  model::checked_inputs(model);
  std::set<std::string> names;
  for (const auto& program : model.programs)
    if (!names.insert(program.name).second || program.name == "evaluate" || program.name == "train")
      throw Error({.what = "a program's name is taken", .where = where, .found = "'" + program.name + "'"});
  state.built = true;
  return Model(std::move(contents));
}

}  // namespace ramet::v0
