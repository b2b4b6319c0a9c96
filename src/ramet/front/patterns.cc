#include "ramet/front/patterns.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace ramet::front {
namespace {

using Kind = TracedArgument::Kind;

/// Checks of types at run time, which a program of fixed types does not need.
bool only_checks(const TracedCall& call) { return call.op == "aten._assert_tensor_metadata"; }

bool is_one_of(const std::string& op, std::initializer_list<std::string_view> ops) {
  return std::any_of(ops.begin(), ops.end(), [&](std::string_view each) { return op == each; });
}

}  // namespace

TracedArgument tensor_argument(const std::string& name) { return {.kind = Kind::kTensor, .text = name}; }
TracedArgument number_argument(double number) { return {.kind = Kind::kFloat, .number = number}; }
TracedArgument integer_argument(int64_t number) {
  return {.kind = Kind::kInt, .integer = number, .number = static_cast<double>(number)};
}
TracedArgument flag_argument(bool flag) {
  return {.kind = Kind::kBool, .flag = flag, .integer = flag, .number = flag ? 1.0 : 0.0};
}
TracedArgument list_argument(const std::vector<int64_t>& numbers) {
  TracedArgument list{.kind = Kind::kList};
  for (const int64_t number : numbers) list.list.push_back(integer_argument(number));
  return list;
}

std::string tensor_of(const TracedCall& call, std::string_view name) {
  const TracedArgument* argument = call.find(name);
  return argument && argument->kind == Kind::kTensor ? argument->text : "";
}

std::optional<double> number_of(const TracedArgument& argument) {
  if (argument.kind == Kind::kFloat || argument.kind == Kind::kInt) return argument.number;
  return std::nullopt;
}

std::optional<double> number_of(const TracedCall& call, std::string_view name, std::optional<double> absent) {
  const TracedArgument* argument = call.find(name);
  return argument && argument->given() ? number_of(*argument) : absent;
}

TracedCall call_like(const TracedCall& like, const std::string& op,
                     std::vector<std::pair<std::string, TracedArgument>> arguments) {
  return {
      .op = op, .overload = "default", .arguments = std::move(arguments), .module = like.module, .origin = like.origin};
}

// --- the program ---

PatternProgram::PatternProgram(TracedProgram program, Known known)
    : program_(std::move(program)), known_(std::move(known)) {
  std::erase_if(program_.calls, only_checks);
  for (size_t i = 0; i < program_.calls.size(); ++i)
    for (const std::string& output : program_.calls[i].outputs) makers_[output] = i;
  count_reads();
  find_gradients();
}

void PatternProgram::find_gradients() {
  for (const TracedInput& input : program_.inputs)
    if (input.kind == TracedInput::Kind::kParameter) differentiable_.insert(input.value);
  for (const TracedCall& call : program_.calls) {
    if (call.op == "ramet.stop_gradient") continue;
    bool any = false;
    each_tensor_of(call, [&](const std::string& name) { any = any || has_gradient(name); });
    if (any) differentiable_.insert(call.outputs.begin(), call.outputs.end());
  }
}

void PatternProgram::count_reads() {
  for (const TracedCall& call : program_.calls) each_tensor_of(call, [&](const std::string& name) { ++reads_[name]; });
  for (const TracedOutput& output : program_.outputs) ++reads_[output.value];
}

const TensorType* PatternProgram::type(const std::string& name) const {
  const auto found = program_.types.find(name);
  return found == program_.types.end() ? nullptr : &found->second;
}

const TracedCall* PatternProgram::maker(const std::string& value) const {
  if (const auto found = makers_.find(value); found != makers_.end()) return &program_.calls[found->second];
  const auto inserted = inserted_makers_.find(value);
  return inserted == inserted_makers_.end() ? nullptr : &inserted_[inserted->second].second;
}

int PatternProgram::reads(const std::string& value) const {
  const auto found = reads_.find(value);
  return found == reads_.end() ? 0 : found->second;
}

std::string PatternProgram::behind_copies(std::string value) const {
  for (;;) {
    const TracedCall* call = maker(value);
    if (!call || !is_one_of(call->op, {"aten.clone", "aten.alias", "aten._to_copy", "aten.to", "aten.contiguous"}))
      return value;
    const std::string before = tensor_of(*call, "self");
    const TensorType *from = type(before), *to = type(value);
    if (!from || !to || *from != *to) return value;
    value = before;
  }
}

const TracedCall* PatternProgram::inner(const TracedArgument* value,
                                        std::initializer_list<std::string_view> ops) const {
  if (!value || value->kind != Kind::kTensor || !read_once(value->text)) return nullptr;
  std::string name = value->text;
  // Copies between the two are read once too.
  for (const std::string behind = behind_copies(name); name != behind;) {
    name = tensor_of(*maker(name), "self");
    if (!read_once(name)) return nullptr;
  }
  const TracedCall* call = maker(name);
  return call && is_one_of(call->op, ops) && call->outputs[0] == name ? call : nullptr;
}

std::string PatternProgram::insert(size_t before, TracedCall call, TensorType type) {
  const std::string name = "fused_" + std::to_string(names_++);
  call.outputs = {name};
  each_tensor_of(call, [&](const std::string& read) { ++reads_[read]; });
  program_.types[name] = std::move(type);
  inserted_makers_[name] = inserted_.size();
  inserted_.emplace_back(before, std::move(call));
  return name;
}

void PatternProgram::replace(size_t index, TracedCall call) {
  TracedCall& old = program_.calls[index];
  each_tensor_of(old, [&](const std::string& name) { --reads_[name]; });
  each_tensor_of(call, [&](const std::string& name) { ++reads_[name]; });
  call.outputs = old.outputs;
  old = std::move(call);
  replaced_.insert(index);
}

std::vector<MadeCall> PatternProgram::made_calls() const {
  std::vector<MadeCall> made;
  size_t next = 0;
  const auto insert_before = [&](size_t at) {
    for (; next < inserted_.size() && inserted_[next].first <= at; ++next)
      made.push_back({inserted_[next].first, false, inserted_[next].second});
  };
  for (const size_t at : replaced_) {
    insert_before(at);
    made.push_back({at, true, program_.calls[at]});
  }
  return made;  // what stands behind the last replacement is read by none
}

TracedProgram PatternProgram::finish() {
  std::vector<TracedCall> calls;
  size_t next = 0;
  for (size_t i = 0; i < program_.calls.size(); ++i) {
    for (; next < inserted_.size() && inserted_[next].first == i; ++next) calls.push_back(inserted_[next].second);
    calls.push_back(program_.calls[i]);
  }
  // From the end: what nobody reads is left out, and reads nothing.
  std::set<std::string, std::less<>> read;
  for (const TracedOutput& output : program_.outputs) read.insert(output.value);
  std::vector<TracedCall> kept;
  for (size_t i = calls.size(); i-- > 0;) {
    const bool wanted =
        calls[i].outputs.empty() || std::any_of(calls[i].outputs.begin(), calls[i].outputs.end(),
                                                [&](const std::string& output) { return read.count(output) != 0; });
    if (!wanted) continue;
    each_tensor_of(calls[i], [&](const std::string& name) { read.insert(name); });
    kept.push_back(std::move(calls[i]));
  }
  std::reverse(kept.begin(), kept.end());
  program_.calls = std::move(kept);
  return std::move(program_);
}

// --- products and sums of element-wise calls ---

Factors factors_of(const PatternProgram& program, const std::string& value, bool root, int depth) {
  constexpr int kMostCalls = 16;  // no pattern has a longer chain of products
  const TracedCall* call = program.maker(value);
  const auto leaf = [&] { return Factors{1, {value}}; };
  if (!call || call->outputs.size() != 1 || (!root && !program.read_once(value)) || depth == kMostCalls) return leaf();
  const auto part = [&](const char* name) {
    const TracedArgument* argument = call->find(name);
    if (!argument) return Factors{std::nan("")};
    if (const auto number = number_of(*argument)) return Factors{*number};
    return argument->kind == Kind::kTensor ? factors_of(program, argument->text, false, depth + 1)
                                           : Factors{std::nan("")};
  };
  Factors made;
  if (call->op == "aten.mul") {
    made = part("self");
    const Factors other = part("other");
    made.number *= other.number;
    made.values.insert(made.values.end(), other.values.begin(), other.values.end());
  } else if (call->op == "aten.div" && !call->find("rounding_mode") && number_of(*call, "other")) {
    made = part("self");
    made.number /= *number_of(*call, "other");
  } else if (call->op == "aten.square" || call->op == "aten.pow") {
    const auto exponent = call->op == "aten.square" ? 2 : number_of(*call, "exponent");
    const std::string base = tensor_of(*call, "self");
    if (base.empty() || !exponent || (*exponent != 2 && *exponent != 3)) return leaf();
    made.values.assign(static_cast<size_t>(*exponent), base);
  } else {
    return leaf();
  }
  // Types that change within the product are not those of one function.
  const TensorType* type = program.type(value);
  for (const std::string& each : made.values)
    if (!type || !program.type(each) || program.type(each)->dtype != type->dtype) return leaf();
  return std::isnan(made.number) ? leaf() : made;
}

std::string plus_number(const PatternProgram& program, const std::string& value, double number) {
  const TracedCall* call = program.maker(value);
  if (!call || call->op != "aten.add" || !program.read_once(value) || number_of(*call, "alpha", 1) != 1) return "";
  for (const auto& [one, two] : {std::pair("self", "other"), std::pair("other", "self")})
    if (const auto given = number_of(*call, one); given && std::fabs(*given - number) <= 1e-7 * std::fabs(number))
      return tensor_of(*call, two);
  return "";
}

void fuse_calls(PatternProgram& program) {
  for (size_t i = 0; i < program.calls().size(); ++i) {
    if (program.calls()[i].outputs.empty()) continue;
    for (const auto fuse :
         {fuse_attention, fuse_rotary, fuse_gelu, fuse_layer_norm, fuse_rms_norm, fuse_norm_weight, fuse_cross_entropy})
      if (fuse(program, i)) break;
    fuse_grouped_heads(program, i);  // in attention that was found too
  }
}

TracedProgram fuse_patterns(TracedProgram program) {
  PatternProgram patterns(std::move(program));
  fuse_calls(patterns);
  return patterns.finish();
}

}  // namespace ramet::front
