#include "ramet/api/graphs.h"

#include <algorithm>

#include "ramet/base/error_types.h"

namespace ramet::api {

const StateTensor* Declarations::find_state(const std::string& name) const {
  for (const auto* list : {&weights, &states})
    for (const StateTensor& state : *list)
      if (state.name == name) return &state;
  return nullptr;
}

const model::InputSpec* Declarations::find_input(const std::string& name) const {
  for (const model::InputSpec& input : inputs)
    if (input.name == name) return &input;
  return nullptr;
}

void rethrow_at(const Error& error, const std::source_location& place) {
  ErrorParts parts = error.parts();
  const std::string line = ir::origin_of(place);
  // An inner call has said where already.
  if (parts.where.find(line) == std::string::npos) parts.where += (parts.where.empty() ? "" : " at ") + line;
  throw_alike(error, std::move(parts));
}

void check_type(const std::string& name, const TensorType& type) {
  for (const int64_t extent : type.shape.dims())
    if (extent < 0) throw ShapeError({.what = "an extent is below 0", .where = "'" + name + "'", .found = type.text()});
  (void)type.bytes();
}

std::string where_of(const Declarations& declared, const std::source_location& place) {
  return "model '" + declared.model + "' at " + ir::origin_of(place);
}

}  // namespace ramet::api

namespace ramet::v0::detail {

Graphs::Graphs(Of of, const std::string& name, std::shared_ptr<api::Declarations> declared)
    : of_(of), declared_(std::move(declared)) {
  const std::vector<std::string> names =
      of == Of::kModel ? std::vector<std::string>{"forward", "evaluate"} : std::vector<std::string>{name};
  for (const std::string& each : names) {
    graphs_.emplace_back(each);
    builds_.push_back(std::make_unique<ir::GraphBuilder>(graphs_.back()));
  }
}

Tensor Graphs::tensor(const std::array<ir::ValueId, 2>& ids) {
  Tensor made;
  made.graphs_ = shared_from_this();
  made.ids_[0] = ids[0], made.ids_[1] = ids[1];
  return made;
}

ir::Tensor Graphs::in(int which, const Tensor& tensor) {
  return tensor.valid() ? build(which).tensor(tensor.ids_[which]) : ir::Tensor{};
}

Graphs& Graphs::of(const Operand& operand) {
  if (!operand.tensor().valid())
    throw Error({.what = "a tensor that was never made",
                 .where = ir::origin_of(operand.place()),
                 .expected = "what an input, a weight or an op gave"});
  return *operand.tensor().graphs_;
}

Tensor Graphs::state_input(const std::string& name, const TensorType& type) {
  std::array<ir::ValueId, 2> ids{ir::kNoValue, ir::kNoValue};
  for (int which = 0; which < size(); ++which)
    ids[static_cast<size_t>(which)] = build(which).state(name, type.dtype, type.shape).id;
  return tensor(ids);
}

ir::Tensor Graphs::counter(int which) {
  const ir::ValueId known = graph(which).find_input("counter");
  return known != ir::kNoValue ? build(which).tensor(known)
                               : build(which).input("counter", DType::kI64, {2}, ir::InputRole::kScalar);
}

std::string Graphs::random_name(const std::string& op) {
  const std::string path = build(0).path_of(op);
  const int before = random_names_[path]++;
  return before == 0 ? path : path + "." + std::to_string(before);
}

void Graphs::output(const std::string& name, const Operand& value, ir::OutputRole role, int graphs) {
  if (&of(value) != this)
    throw Error(
        {.what = "a tensor of another model or program", .where = "'" + name + "' at " + ir::origin_of(value.place())});
  for (int which = 0; which < graphs; ++which) {
    if (graph(which).find_output(name))
      throw Error({.what = "two outputs of one name",
                   .where = api::where_of(*declared_, value.place()),
                   .found = "'" + name + "'"});
    build(which).output(name, in(which, value.tensor()), role);
  }
}

void Graphs::enter(const std::string& name, const std::source_location& place) {
  for (const auto& build : builds_) {
    const ir::NodeInfo info = [&] {
      const ir::Scope scope(*build, name, place);
      return build->info();
    }();
    build->push_info(info);
  }
}

void Graphs::enter(const std::string& stack, int64_t index, const std::source_location& place) {
  for (const auto& build : builds_) {
    const ir::NodeInfo info = [&] {
      const ir::PartScope scope(*build, stack, index, place);
      return build->info();
    }();
    build->push_info(info);
  }
}

void Graphs::leave() {
  for (const auto& build : builds_) build->pop_info();
}

}  // namespace ramet::v0::detail

namespace ramet::v0 {

const TensorType& Tensor::type() const {
  if (!valid()) throw Error({.what = "a tensor that was never made has no type"});
  return graphs_->type_of(*this);
}

}  // namespace ramet::v0
