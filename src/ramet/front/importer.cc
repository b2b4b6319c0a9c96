#include "ramet/front/importer.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "ramet/base/error.h"
#include "ramet/front/table.h"

namespace ramet::front {
namespace {

/// Whether an operator can stand in a program behind run_decompositions: those that change their arguments, and calls
/// of inner graphs, cannot.
bool is_decomposed(std::string_view op) {
  return !(op.ends_with("_") && !op.ends_with("__")) && op.find("higher_order") == std::string_view::npos;
}

[[noreturn]] void refuse_operator(std::string_view op) {
  throw Error(
      {.what = "the operator is not supported",
       .remedy = is_decomposed(op)
                     ? "Compute the same from operators that Ramet has (ramet.torch_operators() lists them), or "
                       "compute it outside of the module and pass the result as an input"
                     : "Call run_decompositions({}) on the exported program"});
}

}  // namespace

Importer::Importer(const TracedProgram& program, Graph& graph, Options options)
    : program_(program), build_(graph), options_(std::move(options)), known_(graph) {
  for (const TracedCall& call : program_.calls)
    if (!options_.skip.count(&call)) each_tensor_of(call, [&](const std::string& name) { reads_.insert(name); });
  for (const TracedOutput& output : program_.outputs) reads_.insert(output.value);
  reads_.insert(options_.wanted.begin(), options_.wanted.end());
  // Data inputs stand in the graph in the program's order, whether they are read or not.
  for (const TracedInput& input : program_.inputs)
    if (const auto found = options_.inputs.find(input.value);
        found != options_.inputs.end() && found->second.from == InputValue::From::kData)
      value(input.value);
}

TensorType Importer::graph_type(TensorType recorded) {
  if (recorded.dtype == DType::kF64) recorded.dtype = DType::kF32;
  return recorded;
}

const TensorType* Importer::type_of(const std::string& name) const {
  const auto found = program_.types.find(name);
  return found == program_.types.end() ? nullptr : &found->second;
}

Tensor Importer::value(const std::string& name) {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  const auto input = options_.inputs.find(name);
  if (input == options_.inputs.end()) return {};
  const InputValue& from = input->second;
  // An input belongs to no module.
  const InfoScope scope(build_, NodeInfo("inputs"));
  Tensor made;
  switch (from.from) {
    case InputValue::From::kState: made = build_.state(from.name, from.type.dtype, from.type.shape); break;
    case InputValue::From::kConstant: made = ops::constant(build_, from.data); break;
    case InputValue::From::kData: made = build_.input(from.name, from.type.dtype, from.type.shape, from.axes); break;
  }
  const TensorType* recorded = type_of(name);
  if (recorded && graph_type(*recorded).dtype != made.dtype()) made = ops::cast(made, graph_type(*recorded).dtype);
  values_[name] = made;
  return made;
}

bool Importer::depends_on_refused(const TracedCall& call) const {
  bool any = false;
  each_tensor_of(call, [&](const std::string& name) { any = any || refused_.count(name); });
  return any;
}

void Importer::run() {
  for (const TracedCall& call : program_.calls) {
    if (options_.skip.count(&call)) continue;
    try {
      if (!find_operator(call.op)) refuse_operator(call.op);
      if (depends_on_refused(call)) {
        refused_.insert(call.outputs.begin(), call.outputs.end());
        continue;
      }
      translate(call);
    } catch (const Error& error) {
      refuse_call(call, error.parts());
    }
  }
}

void Importer::refuse_call(const TracedCall& call, const ErrorParts& parts) {
  constexpr const char* kRemedy =
      "Write the call in another form, or compute its result outside of the module and pass the result as an input";
  std::string why = parts.what;
  if (!parts.found.empty()) why += "; found " + parts.found;
  if (!parts.expected.empty()) why += "; expected " + parts.expected;
  const auto class_of = program_.modules.find(call.module);
  std::string place = call.origin;
  if (place.empty() && !call.module.empty()) place = "module '" + call.module + "'";
  if (call.origin.empty() && class_of != program_.modules.end())
    place += (place.empty() ? "module " : " ") +
             ("(" + class_of->second.substr(class_of->second.find_last_of('.') + 1) + ")");
  refusals_.push_back({call.op, place, why, parts.remedy.empty() ? kRemedy : parts.remedy});
  refused_.insert(call.outputs.begin(), call.outputs.end());
}

void Importer::translate(const TracedCall& call) {
  NodeInfo info(call.module);
  std::replace(info.name.begin(), info.name.end(), '.', '/');
  info.origin = call.origin;
  if (const auto part = options_.parts.find(&call); part != options_.parts.end()) info.part = part->second;
  add(call, std::move(info));
}

void Importer::add(const TracedCall& call, NodeInfo info) {
  const OperatorEntry* entry = find_operator(call.op);
  if (!entry) refuse_operator(call.op);
  const Translation at(*this, call);
  bool complex = false;
  const auto check = [&](const std::string& name) {
    complex = complex || is_complex(name);
    if (const auto reason = program_.untyped.find(name); reason != program_.untyped.end() && reads(name))
      throw Error({.what = "value '" + name + "' is not supported: " + reason->second});
  };
  each_tensor_of(call, check);
  const InfoScope scope(build_, std::move(info));
  std::vector<Tensor> made;
  try {
    made = entry->translate(at);
  } catch (const Error&) {
    for (const std::string& name : call.outputs)  // the better reason where there is one
      if (!entry->complex || !is_complex(name)) check(name);
    throw;
  }
  for (const std::string& name : call.outputs) check(name);
  if (complex && !entry->complex)
    throw Error({.what = "the operator does not take complex numbers", .remedy = "Compute with real numbers"});
  keep_outputs(call, made);
}

void Importer::keep_outputs(const TracedCall& call, const std::vector<Tensor>& made) {
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const std::string& name = call.outputs[i];
    if (name.empty() || !reads(name)) continue;
    const TensorType recorded = graph_type(*type_of(name));
    Tensor tensor = i < made.size() ? made[i] : Tensor();
    if (!tensor.valid()) {
      // The next value of a buffer that a translator folds has no node.
      if (std::any_of(program_.outputs.begin(), program_.outputs.end(), [&](const TracedOutput& output) {
            return output.kind == TracedOutput::Kind::kBufferMutation && output.value == name &&
                   folds_.count(output.target);
          })) {
        refused_.insert(name);
        continue;
      }
      throw Error({.what = "result " + std::to_string(i) + " of the operator is not supported"});
    }
    if (tensor.dtype() != recorded.dtype) tensor = ops::cast(tensor, recorded.dtype);
    if (tensor.shape() != recorded.shape)
      throw Error({.what = "the importer gives result " + std::to_string(i) + " another shape than PyTorch recorded",
                   .found = tensor.type().text(),
                   .expected = recorded.text()});
    values_[name] = tensor;
  }
}

const TensorData* Importer::known(Tensor tensor) { return tensor.valid() ? known_.find(tensor.id) : nullptr; }

Tensor Importer::counter() {
  const ValueId known = build_.graph().find_input("counter");
  return known != kNoValue ? build_.tensor(known) : build_.input("counter", DType::kI64, {2}, InputRole::kScalar);
}

std::string Importer::random_name(const TracedCall& call) {
  const std::string path = (call.module.empty() ? "" : call.module + "/") + call.op;
  const int before = random_names_[path]++;
  return before == 0 ? path : path + "." + std::to_string(before);
}

void Importer::fold_buffer(const TracedCall& call, const std::string& argument, size_t index, MadeFold fold) {
  const TracedArgument* buffer = call.find(argument);
  if (!trains() || !buffer || index >= call.outputs.size()) return;
  for (const TracedInput& input : program_.inputs) {
    if (input.value != buffer->text || input.kind != TracedInput::Kind::kBuffer) continue;
    for (const TracedOutput& output : program_.outputs)
      if (output.kind == TracedOutput::Kind::kBufferMutation && output.target == input.target &&
          output.value == call.outputs[index])
        folds_[input.target] = std::move(fold);
  }
}

// --- a call ---

GraphBuilder& Translation::build() const { return importer_.build(); }
bool Translation::trains() const { return importer_.trains(); }
bool Translation::draws() const { return importer_.draws(); }

namespace {

using Kind = TracedArgument::Kind;

const TracedArgument* given(const TracedCall& call, std::string_view name) {
  const TracedArgument* argument = call.find(name);
  return argument && argument->given() ? argument : nullptr;
}

[[noreturn]] void refuse_missing(std::string_view name) {
  throw Error({.what = "argument '" + std::string(name) + "' is missing"});
}
[[noreturn]] void refuse_argument(std::string_view name, const std::string& expected) {
  throw Error({.what = "argument '" + std::string(name) + "' is of another kind", .expected = expected});
}

bool is_plain(const TracedArgument& argument) {
  return argument.kind == Kind::kBool || argument.kind == Kind::kInt || argument.kind == Kind::kFloat;
}

/// A number of an argument: a tensor of one element counts where its value is known.
int64_t integer_of(const TracedArgument& argument, std::string_view name) {
  if (argument.kind == Kind::kInt || argument.kind == Kind::kBool) return argument.integer;
  // The cast is defined within the range of int64_t only, whose bounds are powers of two; NaN is outside of it.
  const bool in_range = argument.number >= -0x1p63 && argument.number < 0x1p63;
  if (argument.kind == Kind::kFloat && in_range && argument.number == std::trunc(argument.number))
    return static_cast<int64_t>(argument.number);
  refuse_argument(name, "an integer");
}

}  // namespace

bool Translation::has(std::string_view name) const { return given(call_, name) != nullptr; }

bool Translation::is_number(std::string_view name) const {
  const TracedArgument* argument = given(call_, name);
  return argument && is_plain(*argument);
}

Tensor Translation::constant(const TracedArgument& number) const {
  switch (number.kind) {
    case Kind::kBool: return ops::full(build(), DType::kBool, {}, number.flag);
    case Kind::kFloat: return ops::full(build(), DType::kF32, {}, number.number);
    case Kind::kInt: {
      HostTensor value({DType::kI64, {}});
      store_integer(value.data.data(), DType::kI64, 0, number.integer);
      return ops::constant(build(), TensorData(std::move(value)));
    }
    default: throw Error({.what = "an argument is neither a tensor nor a number"});
  }
}

Tensor Translation::tensor_if(std::string_view name) const {
  const TracedArgument* argument = given(call_, name);
  if (!argument) return {};
  if (argument->kind != Kind::kTensor) return constant(*argument);
  const Tensor value = importer_.value(argument->text);
  if (!value.valid()) throw Error({.what = "value '" + argument->text + "' is not supported"});
  return value;
}

Tensor Translation::tensor(std::string_view name) const {
  const Tensor value = tensor_if(name);
  if (!value.valid()) refuse_missing(name);
  return value;
}

std::vector<Tensor> Translation::tensors_or_none(std::string_view name) const {
  const TracedArgument* argument = given(call_, name);
  if (!argument) return {};
  if (argument->kind != Kind::kList) return {tensor(name)};
  std::vector<Tensor> made;
  for (const TracedArgument& one : argument->list) {
    if (!one.given())
      made.emplace_back();
    else if (one.kind != Kind::kTensor)
      made.push_back(constant(one));
    else
      made.push_back(importer_.value(one.text));
  }
  return made;
}

std::vector<Tensor> Translation::tensors(std::string_view name) const {
  std::vector<Tensor> made = tensors_or_none(name);
  for (const Tensor& one : made)
    if (!one.valid()) refuse_argument(name, "a list of tensors");
  return made;
}

int64_t Translation::integer(std::string_view name, std::optional<int64_t> absent) const {
  const TracedArgument* argument = given(call_, name);
  if (argument) return integer_of(*argument, name);
  if (!absent) refuse_missing(name);
  return *absent;
}

double Translation::number(std::string_view name, std::optional<double> absent) const {
  const TracedArgument* argument = given(call_, name);
  if (argument && is_plain(*argument)) return argument->number;
  if (argument) refuse_argument(name, "a number");
  if (!absent) refuse_missing(name);
  return *absent;
}

bool Translation::flag(std::string_view name, std::optional<bool> absent) const {
  const TracedArgument* argument = given(call_, name);
  if (argument && is_plain(*argument)) return argument->number != 0;
  if (argument) refuse_argument(name, "true or false");
  if (!absent) refuse_missing(name);
  return *absent;
}

std::string Translation::text(std::string_view name, const std::string& absent) const {
  const TracedArgument* argument = given(call_, name);
  if (!argument) return absent;
  if (argument->kind != Kind::kText) refuse_argument(name, "a text");
  return argument->text;
}

std::vector<int64_t> Translation::integers(std::string_view name, const std::vector<int64_t>& absent) const {
  const TracedArgument* argument = given(call_, name);
  if (!argument) return absent;
  if (argument->kind != Kind::kList) return {integer_of(*argument, name)};
  std::vector<int64_t> made;
  for (const TracedArgument& one : argument->list) made.push_back(integer_of(one, name));
  return made;
}

const TensorData* Translation::known(std::string_view name) const {
  const TracedArgument* argument = given(call_, name);
  return argument && argument->kind == Kind::kTensor ? importer_.known(argument->text) : nullptr;
}

const TensorData* Translation::known(std::string_view name, size_t element) const {
  const TracedArgument* argument = given(call_, name);
  if (!argument || element >= argument->list.size() || argument->list[element].kind != Kind::kTensor) return nullptr;
  return importer_.known(argument->list[element].text);
}

const TensorData* Translation::known(Tensor tensor) const { return importer_.known(tensor); }

bool Translation::complex(std::string_view name) const {
  const TracedArgument* argument = given(call_, name);
  if (!argument) return false;
  bool any = false;
  each_tensor_of(*argument, [&](const std::string& value) { any = any || importer_.is_complex(value); });
  return any;
}

const TensorType& Translation::result(size_t index) const {
  if (index >= call_.outputs.size()) throw Error({.what = "the call has no result " + std::to_string(index)});
  const std::string& name = call_.outputs[index];
  if (const TensorType* type = importer_.type_of(name)) return *type;
  const auto reason = importer_.program().untyped.find(name);
  throw Error({.what = "result " + std::to_string(index) + " is not supported: " +
                       (reason == importer_.program().untyped.end() ? "it is no tensor" : reason->second)});
}

bool Translation::reads(size_t index) const {
  return index < call_.outputs.size() && importer_.reads(call_.outputs[index]);
}

Tensor Translation::counter() const { return importer_.counter(); }
std::string Translation::random_name() const { return importer_.random_name(call_); }
int64_t Translation::seed() const { return importer_.seed(); }

void Translation::fold_buffer(std::string_view tensor_argument, size_t index, const std::string& by, double momentum,
                              Tensor value) const {
  importer_.fold_buffer(call_, std::string(tensor_argument), index, {by, momentum, value});
}

void Translation::refuse(const std::string& why, const std::string& remedy) const {
  throw Error({.what = why, .remedy = remedy});
}

}  // namespace ramet::front
