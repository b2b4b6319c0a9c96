#include "ramet/front/expand_complex.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "ramet/front/patterns.h"
#include "ramet/front/table.h"

namespace ramet::front {
namespace {

using Kind = TracedArgument::Kind;
using Arguments = std::vector<std::pair<std::string, TracedArgument>>;

/// Calls that give f(a) + i f(b) for a + i b. Their operands are the arguments of kOperands; others are the same in
/// both.
constexpr std::string_view kByParts[] = {
    "aten._unsafe_view", "aten.alias",   "aten.cat",    "aten.clone",  "aten.constant_pad_nd",  "aten.contiguous",
    "aten.copy",         "aten.cumsum",  "aten.detach", "aten.expand", "aten.flatten",          "aten.flip",
    "aten.gather",       "aten.index",   "aten.mean",   "aten.neg",    "aten.index_put",        "aten.index_select",
    "aten.masked_fill",  "aten.movedim", "aten.narrow", "aten.pad",    "aten.permute",          "aten.repeat",
    "aten.reshape",      "aten.roll",    "aten.select", "aten.slice",  "aten.select_scatter",   "aten.slice_scatter",
    "aten.split",        "aten.squeeze", "aten.stack",  "aten.sum",    "aten.split_with_sizes", "aten.t",
    "aten.transpose",    "aten.unbind",  "aten.where",  "aten.view",   "aten.unflatten",        "aten.unsqueeze",
    "aten.full",         "aten.ones",    "aten.zeros",  "aten.to",     "aten.full_like",        "aten.zeros_like",
    "aten._to_copy",     "aten.chunk",   "aten.tril",   "aten.triu",   "aten.ones_like",        "aten.lift_fresh_copy",
};
constexpr std::string_view kOperands[] = {"self",   "tensors", "src",        "source", "other",
                                          "values", "value",   "fill_value", "input"};
constexpr std::string_view kProducts[] = {"aten.mul",    "aten.mm",  "aten.bmm", "aten.matmul",
                                          "aten.einsum", "aten.dot", "aten.mv"};

template <size_t N>
bool holds(const std::string_view (&list)[N], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

class Expansion {
 public:
  explicit Expansion(TracedProgram program) : program_(std::move(program)) {}

  TracedProgram run() {
    std::vector<TracedCall> before = std::move(program_.calls);
    program_.calls.clear();
    for (TracedCall& call : before) {
      now_ = &call;
      if (concerns(call) && expand()) continue;
      each_tensor_of(call, [&](const std::string& name) { make_pair(name); });
      program_.calls.push_back(std::move(call));
    }
    now_ = nullptr;
    for (const TracedOutput& output : program_.outputs) make_pair(output.value);
    return std::move(program_);
  }

 private:
  struct Parts {
    std::string real, imaginary;
  };

  bool is_complex(const std::string& name) const { return program_.complex.count(name) != 0; }

  bool concerns(const TracedCall& call) const {
    bool any =
        std::any_of(call.outputs.begin(), call.outputs.end(), [&](const auto& name) { return is_complex(name); });
    each_tensor_of(call, [&](const std::string& name) { any = any || is_complex(name); });
    return any;
  }

  /// A call more, at the place of the one that is expanded; returns its result.
  std::string add(std::string result, TensorType type, std::string op, std::string overload, Arguments arguments) {
    program_.types.insert_or_assign(result, std::move(type));
    TracedCall call{
        .op = std::move(op), .overload = std::move(overload), .arguments = std::move(arguments), .outputs = {result}};
    if (now_) call.module = now_->module, call.origin = now_->origin;
    program_.calls.push_back(std::move(call));
    return result;
  }
  std::string temporary() { return "complex." + std::to_string(count_++); }

  TensorType part_type(const std::string& name) const {
    TensorType type = program_.types.find(name)->second;
    if (!is_complex(name)) return type;
    std::vector<int64_t> dims = type.shape.dims();
    dims.pop_back();
    type.shape = Shape(std::move(dims));
    return type;
  }

  /// The parts of a complex tensor; of a real one itself, and no imaginary part.
  Parts parts(const std::string& name) {
    if (!is_complex(name)) return {name, ""};
    if (const auto found = parts_.find(name); found != parts_.end()) return found->second;
    const std::string pair = add(temporary(), program_.types.find(name)->second, "aten.view_as_real", "default",
                                 {{"self", tensor_argument(name)}});
    const auto part = [&](int64_t index) {
      return add(temporary(), part_type(name), "aten.select", "int",
                 {{"self", tensor_argument(pair)}, {"dim", integer_argument(-1)}, {"index", integer_argument(index)}});
    };
    Parts made{part(0), part(1)};
    parts_[name] = made;
    return made;
  }

  /// Sees to it that a complex tensor is there as a pair of parts in its last dimension.
  void make_pair(const std::string& name) {
    const auto found = parts_.find(name);
    if (found == parts_.end() || pending_.erase(name) == 0) return;
    const TensorType type = program_.types.find(name)->second;
    const std::string pair =
        add(temporary(), type, "aten.stack", "default",
            {{"tensors",
              TracedArgument{.kind = Kind::kList,
                             .list = {tensor_argument(found->second.real), tensor_argument(found->second.imaginary)}}},
             {"dim", integer_argument(-1)}});
    add(name, type, "aten.view_as_complex", "default", {{"self", tensor_argument(pair)}});
  }

  /// The parts that a call's result has from now on; it becomes a pair where one is read.
  void set(const std::string& name, Parts made) {
    parts_[name] = std::move(made);
    pending_.insert(name);
  }

  std::string zeros_like(const std::string& real) {
    return add(temporary(), part_type(real), "aten.zeros_like", "default", {{"self", tensor_argument(real)}});
  }
  std::string one(const std::string& op, const std::string& a) {
    return add(temporary(), part_type(a), op, "default", {{"self", tensor_argument(a)}});
  }
  std::string two(const std::string& op, const std::string& a, const std::string& b, const TensorType& type) {
    return add(temporary(), type, op, "Tensor", {{"self", tensor_argument(a)}, {"other", tensor_argument(b)}});
  }

  /// The same argument for one of the two parts.
  TracedArgument part_of(const TracedArgument& argument, bool imaginary, bool operand) {
    TracedArgument made = argument;
    if (made.kind == Kind::kText && made.text.starts_with("complex")) made.text = "f32";
    if (!operand) return made;
    if (made.kind == Kind::kTensor) {
      const Parts each = parts(made.text);
      made.text = !imaginary ? each.real : each.imaginary.empty() ? zeros_like(each.real) : each.imaginary;
    } else if (imaginary && (made.kind == Kind::kInt || made.kind == Kind::kFloat)) {
      made.integer = 0;
      made.number = 0;
    }
    for (TracedArgument& each : made.list) each = part_of(each, imaginary, true);
    return made;
  }

  bool by_parts() {
    const TracedCall& call = *now_;
    std::vector<Parts> made(call.outputs.size());
    for (const bool imaginary : {false, true}) {
      TracedCall part = call;
      if (imaginary && (call.op == "aten.ones" || call.op == "aten.ones_like"))
        part.op = call.op == "aten.ones" ? "aten.zeros" : "aten.zeros_like";
      for (auto& [name, argument] : part.arguments) argument = part_of(argument, imaginary, holds(kOperands, name));
      for (size_t i = 0; i < call.outputs.size(); ++i) {
        if (call.outputs[i].empty()) continue;
        part.outputs[i] = temporary();
        program_.types.insert_or_assign(part.outputs[i], part_type(call.outputs[i]));
        (imaginary ? made[i].imaginary : made[i].real) = part.outputs[i];
      }
      program_.calls.push_back(std::move(part));
    }
    for (size_t i = 0; i < call.outputs.size(); ++i)
      if (!call.outputs[i].empty()) set(call.outputs[i], made[i]);
    return true;
  }

  /// The two tensors of a product or a sum; the second is "" where it is a number.
  std::pair<std::string, std::string> operands() const {
    std::vector<std::string> found;
    each_tensor_of(*now_, [&](const std::string& name) { found.push_back(name); });
    if (found.size() == 1) found.emplace_back();
    return found.size() == 2 ? std::pair(found[0], found[1]) : std::pair<std::string, std::string>();
  }

  /// The call with other tensors in the places of its own.
  std::string with(const std::string& a, const std::string& b, const TensorType& type) {
    Arguments arguments = now_->arguments;
    size_t at = 0;
    const std::function<void(TracedArgument&)> replace = [&](TracedArgument& argument) {
      if (argument.kind == Kind::kTensor) argument.text = at++ == 0 ? a : b;
      for (TracedArgument& each : argument.list) replace(each);
    };
    for (auto& [name, argument] : arguments) replace(argument);
    return add(temporary(), type, now_->op, now_->overload, std::move(arguments));
  }

  /// (a + i b) (c + i d), of any product that is linear in both.
  bool product() {
    const auto [first, second] = operands();
    if (!is_complex(first) && !is_complex(second)) return false;
    const std::string result = now_->outputs.at(0);
    const TensorType type = part_type(result);
    const Parts a = parts(first), b = second.empty() ? Parts() : parts(second);
    if (a.imaginary.empty() || b.imaginary.empty()) {
      const auto scaled = [&](bool imaginary) {
        return with(a.imaginary.empty() || !imaginary ? a.real : a.imaginary,
                    b.imaginary.empty() || !imaginary ? b.real : b.imaginary, type);
      };
      const std::string real = scaled(false);
      set(result, {real, scaled(true)});
      return true;
    }
    const std::string rr = with(a.real, b.real, type), ii = with(a.imaginary, b.imaginary, type);
    const std::string ri = with(a.real, b.imaginary, type), ir = with(a.imaginary, b.real, type);
    const std::string real = two("aten.sub", rr, ii, type);
    set(result, {real, two("aten.add", ri, ir, type)});
    return true;
  }

  /// A sum or a difference; what is real has no imaginary part to add.
  bool sum() {
    const auto [first, second] = operands();
    if (first.empty()) return false;
    const std::string result = now_->outputs.at(0);
    const TensorType type = part_type(result);
    const Parts a = parts(first);
    if (second.empty()) {  // a number
      if (a.imaginary.empty()) return false;
      set(result, {with(a.real, "", type), a.imaginary});
      return true;
    }
    const Parts b = parts(second);
    const auto imaginary_of = [&](const Parts& each) {
      return each.imaginary.empty() ? zeros_like(each.real) : each.imaginary;
    };
    const std::string real = with(a.real, b.real, type);
    set(result, {real, with(imaginary_of(a), imaginary_of(b), type)});
    return true;
  }

  /// a / b, for a complex b: a conj(b) / |b|^2.
  bool quotient() {
    const auto [first, second] = operands();
    if (first.empty()) return false;
    const Parts b = second.empty() ? Parts() : parts(second);
    if (b.imaginary.empty()) return product();
    const Parts a = parts(first);
    const std::string result = now_->outputs.at(0);
    const TensorType type = part_type(result), own = part_type(second);
    const std::string square =
        two("aten.add", two("aten.mul", b.real, b.real, own), two("aten.mul", b.imaginary, b.imaginary, own), own);
    const auto times = [&](const std::string& x, const std::string& y) { return two("aten.mul", x, y, type); };
    std::string real = times(a.real, b.real), imaginary = one("aten.neg", times(a.real, b.imaginary));
    if (!a.imaginary.empty()) {
      real = two("aten.add", real, times(a.imaginary, b.imaginary), type);
      imaginary = two("aten.add", times(a.imaginary, b.real), imaginary, type);
    }
    real = two("aten.div", real, square, type);
    set(result, {real, two("aten.div", imaginary, square, type)});
    return true;
  }

  /// radius e^(i angle)
  void set_polar(const std::string& result, const std::string& radius, const std::string& angle) {
    const TensorType type = part_type(result);
    const std::string real = two("aten.mul", radius, one("aten.cos", angle), type);
    set(result, {real, two("aten.mul", radius, one("aten.sin", angle), type)});
  }

  /// Calls with a form of their own; false for those without.
  bool special() {
    const std::string self = tensor_of(*now_, "self"), result = now_->outputs.at(0), &op = now_->op;
    if (op == "aten.complex") return set(result, {tensor_of(*now_, "real"), tensor_of(*now_, "imag")}), true;
    if (op == "aten.polar") return set_polar(result, tensor_of(*now_, "abs"), tensor_of(*now_, "angle")), true;
    if (!is_complex(self)) return false;
    const Parts a = parts(self);
    if (op == "aten._conj" || op == "aten.conj" || op == "aten._conj_physical" || op == "aten.conj_physical")
      return set(result, {a.real, one("aten.neg", a.imaginary)}), true;
    if (op == "aten.resolve_conj" || op == "aten.resolve_neg") return set(result, a), true;
    if (op == "aten.exp") return set_polar(result, one("aten.exp", a.real), a.imaginary), true;
    if (op == "aten.abs" || op == "aten.angle") {
      const bool size = op == "aten.abs";
      add(result, part_type(a.real), size ? "aten.hypot" : "aten.atan2", "default",
          {{"self", tensor_argument(size ? a.real : a.imaginary)},
           {"other", tensor_argument(size ? a.imaginary : a.real)}});
      return true;
    }
    if (op == "aten.real" && parts_.count(self)) return rename(a.real, result), true;
    if (op == "aten.imag" && parts_.count(self)) return rename(a.imaginary, result), true;
    return false;
  }
  void rename(const std::string& value, const std::string& result) {
    add(result, part_type(value), "aten.alias", "default", {{"self", tensor_argument(value)}});
  }

  bool known_types() const {
    bool known = true;
    each_tensor_of(*now_, [&](const std::string& name) { known = known && program_.types.count(name) != 0; });
    for (const std::string& name : now_->outputs) known = known && (name.empty() || program_.types.count(name) != 0);
    return known && !now_->outputs.empty();
  }

  bool expand() {
    if (!known_types()) return false;
    if (special()) return true;
    const OperatorEntry* entry = find_operator(now_->op);
    if (entry && entry->complex) return false;
    const bool all = std::all_of(now_->outputs.begin(), now_->outputs.end(),
                                 [&](const auto& name) { return name.empty() || is_complex(name); });
    if (!all) return false;
    if (holds(kProducts, now_->op)) return product();
    if (now_->op == "aten.add" || now_->op == "aten.sub") return sum();
    if (now_->op == "aten.div") return quotient();
    return holds(kByParts, now_->op) && by_parts();
  }

  TracedProgram program_;
  const TracedCall* now_ = nullptr;     ///< the call that is expanded
  std::map<std::string, Parts> parts_;  ///< of complex tensors
  std::set<std::string> pending_;       ///< those that are no pair yet
  int64_t count_ = 0;
};

}  // namespace

TracedProgram expand_complex(TracedProgram program) {
  return program.complex.empty() ? program : Expansion(std::move(program)).run();
}

}  // namespace ramet::front
