#include "ramet/front/onnx_import.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ramet/base/error_types.h"
#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/front/onnx_tensor.h"
#include "ramet/front/onnx_writer.h"
#include "ramet/ir/text_reader.h"

namespace ramet::front {
namespace {

/// A 16-bit result of an element-wise op with the rounding that ONNX gives each node. A fused chain of Ramet's rounds
/// only what leaves it.
Tensor rounded_result(Tensor a) {
  if (!a.valid() || (a.dtype() != DType::kF16 && a.dtype() != DType::kBF16)) return a;
  const Graph& graph = a.builder->graph();
  const NodeId producer = graph.value(a.id).producer;
  if (producer == kNoNode || graph.node(producer).op->map_op.empty() || graph.node(producer).op->name == "cast")
    return a;
  return ops::cast(rounded_to(ops::cast(a, DType::kF32), a.dtype()), a.dtype());
}

/// "encoder 3"; none for other texts.
Part parse_part(const std::string& text) {
  const size_t blank = text.rfind(' ');
  Part part;
  if (blank == std::string::npos || blank == 0) return part;
  int32_t index = 0;
  const char *begin = text.data() + blank + 1, *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, index);
  if (error != std::errc() || stop != end || index < 0 || index >= Part::kMost) return part;
  return {text.substr(0, blank), index};
}

constexpr int kMostDepth = 64;
constexpr int64_t kMostVersion = 28, kLeastVersion = 1;

}  // namespace

const OnnxValue* OnnxScope::find(std::string_view name) const {
  for (const OnnxScope* scope = this; scope; scope = scope->outer)
    if (const auto found = scope->values.find(name); found != scope->values.end()) return &found->second;
  return nullptr;
}

bool OnnxScope::is_refused(std::string_view name) const {
  for (const OnnxScope* scope = this; scope; scope = scope->outer)
    if (scope->refused.count(name)) return true;
  return false;
}

OnnxImporter::OnnxImporter(const OnnxModel& model, Graph& graph, Options options)
    : model_(model), build_(graph), options_(std::move(options)), known_(graph) {
  scope_.versions = &model_.versions;
}

void OnnxImporter::give(const std::string& name, OnnxValue value) { scope_.values[name] = std::move(value); }

OnnxValue OnnxImporter::value(const std::string& name) const {
  const OnnxValue* found = scope_.find(name);
  return found ? *found : OnnxValue();
}

std::string OnnxImporter::scope_of(const OnnxNode& node) {
  // PyTorch's exporter lists the modules around a node: ['', 'encoder', 'encoder.layer.0', 'matmul'].
  if (const auto scopes = node.metadata.find("pkg.torch.onnx.name_scopes"); scopes != node.metadata.end()) {
    const std::string& text = scopes->second;
    const size_t end = text.rfind('\''), begin = end == std::string::npos || end == 0 ? end : text.rfind('\'', end - 1);
    if (begin == std::string::npos || begin < 2) return "";
    const size_t last = text.rfind('\'', begin - 1),
                 first = last == std::string::npos || last == 0 ? last : text.rfind('\'', last - 1);
    return first == std::string::npos ? "" : text.substr(first + 1, last - first - 1);
  }
  if (!node.name.starts_with("/")) return "";
  std::string path = node.name.substr(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return "";
  path.erase(slash);
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

void OnnxImporter::run() { run_nodes(model_.graph.nodes, scope_, true); }

HostTensor OnnxImporter::read(const OnnxTensor& tensor) const {
  return read_onnx_tensor(tensor, options_.folder, options_.source);
}

void OnnxImporter::refuse(const OnnxNode& node, const Error& error) {
  const ErrorParts& parts = error.parts();
  std::string why = parts.what;
  if (!parts.found.empty()) why += "; found " + parts.found;
  if (!parts.expected.empty()) why += "; expected " + parts.expected;
  std::string place = "'" + node.name + "'";
  if (node.name.empty()) place = node.outputs.empty() ? "" : "output '" + node.outputs[0] + "'";
  refusals_.push_back({(node.domain.empty() ? "" : node.domain + ".") + node.op, place, why, parts.remedy});
}

void OnnxImporter::run_nodes(const std::vector<OnnxNode>& nodes, OnnxScope& scope, bool collect) {
  for (const OnnxNode& node : nodes) {
    const bool behind = std::any_of(node.inputs.begin(), node.inputs.end(),
                                    [&](const std::string& name) { return scope.is_refused(name); });
    if (behind) {
      scope.refused.insert(node.outputs.begin(), node.outputs.end());
      continue;
    }
    try {
      if (static_cast<int64_t>(build_.graph().nodes().size()) > options_.most_nodes)
        throw UnsupportedOp({.what = "the graph becomes too large",
                             .expected = std::to_string(options_.most_nodes) + " nodes at most"});
      std::vector<OnnxValue> made = translate(node, scope);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i].empty()) continue;
        if (scope.values.count(node.outputs[i]))
          throw FormatError({.what = "two values have one name", .found = "'" + node.outputs[i] + "'"});
        scope.values[node.outputs[i]] = i < made.size() ? std::move(made[i]) : OnnxValue();
      }
    } catch (const Error& error) {
      if (!collect) throw;
      refuse(node, error);
      scope.refused.insert(node.outputs.begin(), node.outputs.end());
    }
  }
}

const OnnxFunction* OnnxImporter::find_function(const OnnxNode& node) const {
  for (const OnnxFunction& function : model_.functions)
    if (function.name == node.op && function.domain == node.domain && function.overload == node.overload)
      return &function;
  return nullptr;
}

std::vector<OnnxValue> OnnxImporter::translate(const OnnxNode& node, const OnnxScope& scope) {
  if (scope.depth > kMostDepth) throw UnsupportedOp({.what = "functions or graphs are nested too deeply"});
  NodeInfo info(node.name.empty() ? node.op : node.name);
  std::replace(info.name.begin(), info.name.end(), '.', '/');
  info.origin = options_.source + (node.name.empty() ? "" : ": " + node.name);
  // The part of the innermost scope that is one.
  if (scope.depth == 0 && !parts_.empty())
    for (std::string path = scope_of(node); !path.empty();) {
      if (const auto part = parts_.find(path); part != parts_.end()) {
        info.part = part->second;
        break;
      }
      const size_t dot = path.rfind('.');
      path.erase(dot == std::string::npos ? 0 : dot);
    }
  if (const auto part = node.metadata.find(kOnnxPartKey); part != node.metadata.end())
    if (const Part named = parse_part(part->second); named.known()) info.part = named;
  const InfoScope named(build_, std::move(info));
  if (node.domain == kOnnxOpDomain && node.find(kOnnxOpAttribute)) return restore(node, scope);
  if (const OnnxFunction* function = find_function(node)) return call(*function, node, scope);
  const std::string name = (node.domain.empty() ? "" : node.domain + ".") + node.op;
  const OnnxEntry* entry = find_onnx_operator(name);
  if (!entry) {
    const std::string why = why_onnx_refused(name);
    throw UnsupportedOp({.what = why.empty() ? "the operator is not supported" : why});
  }
  const OnnxCall at(*this, scope, node);
  const int64_t version = at.version();
  if (node.domain.empty() && (version < kLeastVersion || version > kMostVersion))
    throw UnsupportedOp({.what = "the operator set is not supported",
                         .found = "version " + std::to_string(version),
                         .expected = std::to_string(kLeastVersion) + " to " + std::to_string(kMostVersion)});
  std::vector<OnnxValue> made = entry->translate(at);
  for (OnnxValue& value : made) value.tensor = rounded_result(value.tensor);
  return made;
}

std::vector<OnnxValue> OnnxImporter::restore(const OnnxNode& node, const OnnxScope& scope) {
  ir::TextReader in(node.find(kOnnxOpAttribute)->text, "attribute '" + std::string(kOnnxOpAttribute) + "'");
  const std::string name = in.word();
  if (!find_onnx_form(name))
    throw UnsupportedOp({.what = "the op is not one that files have", .found = "'" + name + "'"});
  const ir::Attributes attributes = in.attributes();
  const OnnxCall at(*this, scope, node);
  std::vector<OnnxValue> made;
  for (const Tensor& tensor : build_.ops(name, at.all_inputs(), attributes)) made.emplace_back(tensor);
  return made;
}

std::vector<OnnxValue> OnnxImporter::call(const OnnxFunction& function, const OnnxNode& node, const OnnxScope& scope) {
  if (node.inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size())
    throw FormatError({.what = "a call has more inputs or outputs than its function"});
  // The attributes of the call, resolved where the call itself stands in a function.
  std::vector<OnnxAttribute> given = function.defaults;
  for (const OnnxAttribute& each : node.attributes) {
    const OnnxAttribute* value = &each;
    if (!each.refers_to.empty()) {
      value = nullptr;
      if (scope.attributes)
        for (const OnnxAttribute& outer : *scope.attributes)
          if (outer.name == each.refers_to) value = &outer;
    }
    if (!value) continue;
    std::erase_if(given, [&](const OnnxAttribute& known) { return known.name == each.name; });
    given.push_back(*value);
    given.back().name = each.name;
  }
  OnnxScope inner;
  inner.versions = &function.versions;
  inner.attributes = &given;
  inner.depth = scope.depth + 1;
  const OnnxCall at(*this, scope, node);
  for (size_t i = 0; i < function.inputs.size(); ++i)
    inner.values[function.inputs[i]] = at.has(i) ? at.value(i) : OnnxValue();
  run_nodes(function.nodes, inner, false);
  std::vector<OnnxValue> made;
  for (const std::string& name : function.outputs) {
    const OnnxValue* found = inner.find(name);
    made.push_back(found ? *found : OnnxValue());
  }
  return made;
}

std::vector<OnnxValue> OnnxImporter::run_inner(const OnnxGraph& graph, const OnnxScope& outer,
                                               const std::vector<OnnxValue>& inputs) {
  if (inputs.size() > graph.inputs.size()) throw FormatError({.what = "an inner graph has too few inputs"});
  OnnxScope inner;
  inner.outer = &outer;
  inner.versions = outer.versions;
  inner.attributes = outer.attributes;
  inner.depth = outer.depth + 1;
  for (const OnnxTensor& tensor : graph.initializers)
    inner.values[tensor.name] = ops::constant(build_, TensorData(read(tensor)));
  for (size_t i = 0; i < inputs.size(); ++i) inner.values[graph.inputs[i].name] = inputs[i];
  run_nodes(graph.nodes, inner, false);
  std::vector<OnnxValue> made;
  for (const OnnxValueInfo& output : graph.outputs) {
    const OnnxValue* found = inner.find(output.name);
    if (!found) throw FormatError({.what = "an output is never made", .found = "'" + output.name + "'"});
    made.push_back(*found);
  }
  return made;
}

const TensorData* OnnxImporter::known(Tensor tensor) {
  if (!tensor.valid()) return nullptr;
  if (const TensorData* found = known_.find(tensor.id)) return found;
  // The inputs that decide the value.
  const Graph& graph = build_.graph();
  std::vector<ValueId> stack = {tensor.id};
  std::set<ValueId> seen;
  while (!stack.empty()) {
    const ValueId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    const NodeId producer = graph.value(id).producer;
    if (producer == kNoNode)
      needed_.insert(graph.value(id).name);
    else
      for (const ValueId input : graph.node(producer).inputs) stack.push_back(input);
  }
  return nullptr;
}

Tensor OnnxImporter::counter() {
  const ValueId known = build_.graph().find_input("counter");
  return known != kNoValue ? build_.tensor(known) : build_.input("counter", DType::kI64, {2}, InputRole::kScalar);
}

std::string OnnxImporter::random_name(const OnnxNode& node) {
  const std::string path = node.name.empty() ? node.op : node.name;
  const int before = random_names_[path]++;
  return before == 0 ? path : path + "." + std::to_string(before);
}

// --- a node ---

GraphBuilder& OnnxCall::build() const { return importer_.build(); }

int64_t OnnxCall::version() const {
  for (const OnnxScope* scope = &scope_; scope; scope = scope->outer)
    if (const auto found = scope->versions->find(node_.domain); found != scope->versions->end()) return found->second;
  return node_.domain.empty() ? 0 : 1;
}

void OnnxCall::refuse(const std::string& why, const std::string& remedy) const {
  throw UnsupportedOp({.what = why, .remedy = remedy});
}

OnnxValue OnnxCall::value(size_t input) const {
  if (!has(input)) refuse("input " + std::to_string(input) + " is missing");
  const OnnxValue* found = scope_.find(node_.inputs[input]);
  if (!found)
    throw FormatError({.what = "a value is read before it is made", .found = "'" + node_.inputs[input] + "'"});
  return *found;
}

Tensor OnnxCall::input(size_t input) const {
  const OnnxValue found = value(input);
  if (!found.tensor.valid())
    refuse("input " + std::to_string(input) + " is no tensor", found.list ? "" : "Give a value that is computed");
  return found.tensor;
}

Tensor OnnxCall::input_if(size_t input) const {
  if (!has(input)) return {};
  return value(input).tensor;
}

std::vector<Tensor> OnnxCall::all_inputs(size_t from) const {
  std::vector<Tensor> made;
  for (size_t i = from; i < inputs(); ++i) made.push_back(input(i));
  return made;
}

const std::vector<Tensor>& OnnxCall::list(size_t input) const {
  const OnnxValue found = value(input);
  if (!found.list) refuse("input " + std::to_string(input) + " is no sequence");
  return *scope_.find(node_.inputs[input])->list;
}

const OnnxAttribute* OnnxCall::find(std::string_view attribute) const {
  const OnnxAttribute* found = node_.find(attribute);
  if (!found || found->refers_to.empty()) return found;
  for (const OnnxScope* scope = &scope_; scope; scope = scope->outer)
    if (scope->attributes)
      for (const OnnxAttribute& each : *scope->attributes)
        if (each.name == found->refers_to) return &each;
  return nullptr;
}

int64_t OnnxCall::integer(std::string_view attribute, std::optional<int64_t> absent) const {
  if (const OnnxAttribute* found = find(attribute)) return found->integer;
  if (!absent) refuse("attribute '" + std::string(attribute) + "' is missing");
  return *absent;
}

double OnnxCall::number(std::string_view attribute, std::optional<double> absent) const {
  if (const OnnxAttribute* found = find(attribute))
    return found->kind == OnnxAttributeKind::kInt ? static_cast<double>(found->integer) : found->number;
  if (!absent) refuse("attribute '" + std::string(attribute) + "' is missing");
  return *absent;
}

std::string OnnxCall::text(std::string_view attribute, const std::string& absent) const {
  const OnnxAttribute* found = find(attribute);
  return found ? std::string(found->text) : absent;
}

std::vector<int64_t> OnnxCall::integers(std::string_view attribute, const std::vector<int64_t>& absent) const {
  const OnnxAttribute* found = find(attribute);
  return found ? found->integers : absent;
}

std::vector<double> OnnxCall::numbers(std::string_view attribute, const std::vector<double>& absent) const {
  const OnnxAttribute* found = find(attribute);
  if (!found) return absent;
  return {found->numbers.begin(), found->numbers.end()};
}

std::vector<std::string> OnnxCall::texts(std::string_view attribute) const {
  const OnnxAttribute* found = find(attribute);
  if (!found) return {};
  return {found->texts.begin(), found->texts.end()};
}

HostTensor OnnxCall::tensor(std::string_view attribute) const {
  const OnnxAttribute* found = find(attribute);
  if (!found || !found->tensor) refuse("attribute '" + std::string(attribute) + "' is missing");
  return importer_.read(*found->tensor);
}

const OnnxGraph& OnnxCall::graph(std::string_view attribute) const {
  const OnnxAttribute* found = find(attribute);
  if (!found || !found->graph) refuse("attribute '" + std::string(attribute) + "' is missing");
  return *found->graph;
}

DType OnnxCall::dtype(std::string_view attribute, std::optional<DType> absent) const {
  const OnnxAttribute* found = find(attribute);
  if (!found && absent) return *absent;
  return checked_onnx_dtype(static_cast<int32_t>(integer(attribute)), "attribute '" + std::string(attribute) + "'");
}

int OnnxCall::axis(std::string_view attribute, int rank, std::optional<int64_t> absent) const {
  if (rank == 0) refuse("the operand has no dimensions");
  return normalize_axis(integer(attribute, absent), rank, "attribute '" + std::string(attribute) + "'");
}

const TensorData* OnnxCall::known(Tensor tensor) const { return importer_.known(tensor); }

const HostTensor& OnnxCall::must_know(size_t input, const std::string& what) const {
  const TensorData* found = known(this->input(input));
  if (!found)
    refuse(what + " must be known before the model runs; data decide input " + std::to_string(input) + " ('" +
               node_.inputs[input] + "')",
           "Give the model's input a value with --bind");
  return found->tensor();
}

std::vector<int64_t> OnnxCall::known_integers(size_t input, const std::string& what) const {
  const HostTensor& tensor = must_know(input, what);
  std::vector<int64_t> made;
  for (int64_t i = 0; i < tensor.elements(); ++i)
    made.push_back(load_integer(tensor.data.data(), tensor.type.dtype, i));
  return made;
}

std::vector<double> OnnxCall::known_numbers(size_t input, const std::string& what) const {
  return must_know(input, what).values();
}

int64_t OnnxCall::known_integer(size_t input, const std::string& what) const {
  const std::vector<int64_t> all = known_integers(input, what);
  if (all.size() != 1) refuse(what + " is not one number");
  return all[0];
}

double OnnxCall::known_number(size_t input, const std::string& what) const {
  const std::vector<double> all = known_numbers(input, what);
  if (all.size() != 1) refuse(what + " is not one number");
  return all[0];
}

std::vector<int64_t> OnnxCall::integers_of(size_t input, std::string_view attribute,
                                           const std::vector<int64_t>& absent) const {
  if (has(input)) return known_integers(input, "'" + std::string(attribute) + "'");
  return integers(attribute, absent);
}

Tensor OnnxCall::constant(HostTensor data) const { return ops::constant(build(), TensorData(std::move(data))); }

Tensor OnnxCall::constant(DType dtype, const Shape& shape, const std::vector<double>& values) const {
  return constant(HostTensor::of(dtype, shape, values));
}

Tensor OnnxCall::integer_constant(const Shape& shape, const std::vector<int64_t>& values, DType dtype) const {
  HostTensor made({dtype, shape});
  for (size_t i = 0; i < values.size(); ++i) store_integer(made.data.data(), dtype, static_cast<int64_t>(i), values[i]);
  return constant(std::move(made));
}

Tensor OnnxCall::full(DType dtype, const Shape& shape, double value) const {
  return ops::full(build(), dtype, shape, value);
}

}  // namespace ramet::front
