// The changes of a module's buffers that a step can defer to its update.
#include <cmath>
#include <functional>

#include "ramet/front/importer.h"
#include "ramet/front/patterns.h"

namespace ramet::front {
namespace {

using Kind = TracedArgument::Kind;

/// Finds out how one buffer changes.
class FoldFinder {
 public:
  explicit FoldFinder(const TracedProgram& program) : program_(program) {
    for (const TracedCall& call : program.calls) {
      for (const std::string& output : call.outputs) producers_[output] = &call;
      for (const auto& [name, argument] : call.arguments) add_readers(argument, call);
    }
    for (const TracedOutput& output : program.outputs)
      if (output.kind == TracedOutput::Kind::kUser) users_.insert(output.value);
  }

  std::optional<BufferFold> find(const std::string& buffer, const std::string& next) {
    buffer_ = buffer, fold_ = {};
    const TracedCall* last = producer(next);
    if (!last || read_elsewhere(next, nullptr) || !match(*last)) {
      // A value that no old one goes into, if no call reads the old one.
      fold_ = {};
      fold_.by = "last", fold_.value = next;
    }
    // Readers of the old value would see that of the step's beginning.
    const auto readers = readers_.find(buffer);
    if (readers != readers_.end())
      for (const TracedCall* reader : readers->second)
        if (!fold_.skip.count(reader)) return std::nullopt;
    if (users_.count(buffer)) return std::nullopt;
    return fold_;
  }

 private:
  void add_readers(const TracedArgument& argument, const TracedCall& call) {
    if (argument.kind == Kind::kTensor) readers_[argument.text].insert(&call);
    for (const TracedArgument& one : argument.list) add_readers(one, call);
  }
  const TracedCall* producer(const std::string& name) const {
    const auto found = producers_.find(name);
    return found == producers_.end() ? nullptr : found->second;
  }
  /// Whether a call other than `by`, or an output for the user, reads the value.
  bool read_elsewhere(const std::string& name, const TracedCall* by) const {
    if (users_.count(name)) return true;
    const auto readers = readers_.find(name);
    if (readers == readers_.end()) return false;
    for (const TracedCall* reader : readers->second)
      if (reader != by) return true;
    return false;
  }

  static const TracedArgument* argument(const TracedCall& call, const char* name) {
    const TracedArgument* found = call.find(name);
    return found && found->given() ? found : nullptr;
  }
  static std::optional<double> number(const TracedArgument* argument) {
    if (!argument || (argument->kind != Kind::kInt && argument->kind != Kind::kFloat)) return std::nullopt;
    return argument->number;
  }
  bool is_buffer(const TracedArgument* argument) const {
    return argument && argument->kind == Kind::kTensor && argument->text == buffer_;
  }
  static bool is_tensor(const TracedArgument* argument) { return argument && argument->kind == Kind::kTensor; }

  /// Value and factor of a product with a number whose only reader is `by`.
  struct Product {
    const TracedCall* call;
    const TracedArgument* value;
    double factor;
  };
  std::optional<Product> product(const TracedArgument* of, const TracedCall& by) const {
    if (!is_tensor(of)) return std::nullopt;
    const TracedCall* call = producer(of->text);
    if (!call || call->op != "aten.mul" || read_elsewhere(of->text, &by)) return std::nullopt;
    const TracedArgument *self = argument(*call, "self"), *other = argument(*call, "other");
    if (const auto factor = number(other); factor && is_tensor(self)) return Product{call, self, *factor};
    if (const auto factor = number(self); factor && is_tensor(other)) return Product{call, other, *factor};
    return std::nullopt;
  }

  bool match(const TracedCall& last) {
    fold_.skip = {&last};
    const TracedArgument *self = argument(last, "self"), *other = argument(last, "other");
    if (last.op == "aten.lerp") {
      const TracedArgument* end = argument(last, "end");
      const auto weight = number(argument(last, "weight"));
      if (!is_buffer(self) || !is_tensor(end) || !weight) return false;
      return average(*end, *weight);
    }
    if (last.op == "aten.copy") {
      const TracedArgument* source = argument(last, "src");
      if (!is_buffer(self) || !is_tensor(source)) return false;
      fold_.by = "last", fold_.value = source->text;
      return true;
    }
    if (last.op == "aten.maximum" || last.op == "aten.minimum") {
      if (is_buffer(other)) std::swap(self, other);
      if (!is_buffer(self) || !is_tensor(other)) return false;
      fold_.by = last.op == "aten.maximum" ? "max" : "min", fold_.value = other->text;
      return true;
    }
    if (last.op == "aten.add" || last.op == "aten.sub") return match_sum(last, self, other);
    return false;
  }

  bool match_sum(const TracedCall& last, const TracedArgument* self, const TracedArgument* other) {
    double alpha = number(argument(last, "alpha")).value_or(1);
    if (last.op == "aten.sub") alpha = -alpha;
    if (is_buffer(self)) {
      if (const auto term = number(other)) return sum("", *term * alpha);
      return is_tensor(other) && alpha == 1 && sum(other->text, 0);
    }
    if (is_buffer(other) && alpha == 1) {
      if (const auto term = number(self)) return sum("", *term);
      return is_tensor(self) && sum(self->text, 0);
    }
    // The average a buffer + b value, in any order.
    const auto first = product(self, last), second = product(other, last);
    if (first && is_buffer(first->value) && second && is_close(first->factor + alpha * second->factor, 1)) {
      fold_.skip.insert({first->call, second->call});
      return average(*second->value, alpha * second->factor);
    }
    if (first && is_buffer(first->value) && is_tensor(other) && is_close(first->factor + alpha, 1)) {
      fold_.skip.insert(first->call);
      return average(*other, alpha);
    }
    if (second && is_buffer(second->value) && first && is_close(first->factor + alpha * second->factor, 1)) {
      fold_.skip.insert({first->call, second->call});
      return average(*first->value, first->factor);
    }
    return false;
  }
  static bool is_close(double a, double b) { return std::fabs(a - b) < 1e-12; }
  bool sum(std::string value, double number) {
    fold_.by = "sum", fold_.value = std::move(value), fold_.number = number;
    return true;
  }
  bool average(const TracedArgument& value, double momentum) {
    if (momentum < 0 || momentum > 1) return false;
    fold_.by = "average", fold_.value = value.text, fold_.momentum = momentum;
    return true;
  }

  const TracedProgram& program_;
  std::map<std::string, const TracedCall*, std::less<>> producers_{};
  std::map<std::string, std::set<const TracedCall*>, std::less<>> readers_{};
  std::set<std::string, std::less<>> users_{};
  std::string buffer_{};
  BufferFold fold_{};
};

}  // namespace

namespace {

/// Writes the calls that change one running statistic: the mean over samples of `each` [samples, channels].
class StatisticWriter {
 public:
  StatisticWriter(TracedProgram& program, std::vector<TracedCall>& calls, const TracedCall& norm)
      : program_(program), calls_(calls), norm_(norm) {}

  std::string call(const std::string& op, std::vector<std::pair<std::string, TracedArgument>> arguments,
                   const Shape& shape) {
    const std::string name = norm_.outputs[0] + "." + op.substr(5) + std::to_string(calls_.size());
    calls_.push_back({.op = op,
                      .overload = "default",
                      .arguments = std::move(arguments),
                      .outputs = {name},
                      .module = norm_.module,
                      .origin = norm_.origin});
    program_.types[name] = {DType::kF32, shape};
    return name;
  }
  void update(const TracedInput& buffer, const std::string& each, double momentum) {
    const Shape& shape = program_.types.at(buffer.value).shape;
    const std::string mean = call("aten.mean", {{"self", tensor_argument(each)}, {"dim", integer_argument(0)}}, shape);
    const std::string next = call("aten.lerp",
                                  {{"self", tensor_argument(buffer.value)},
                                   {"end", tensor_argument(mean)},
                                   {"weight", number_argument(momentum)}},
                                  shape);
    program_.outputs.push_back({TracedOutput::Kind::kBufferMutation, next, buffer.target});
  }

 private:
  TracedProgram& program_;
  std::vector<TracedCall>& calls_;
  const TracedCall& norm_;
};

/// The input of the buffer that an argument names; null where it is none of [channels] f32.
const TracedInput* statistic(const TracedProgram& program, const TracedCall& norm, const char* name, int64_t channels) {
  const TracedArgument* argument = norm.find(name);
  if (!argument || argument->kind != Kind::kTensor) return nullptr;
  for (const TracedInput& input : program.inputs)
    if (input.value == argument->text && input.kind == TracedInput::Kind::kBuffer) {
      const auto type = program.types.find(input.value);
      return type != program.types.end() && type->second == TensorType{DType::kF32, Shape{channels}} ? &input : nullptr;
    }
  return nullptr;
}

/// The calls that change the statistics of an instance norm of x [samples, channels, space...]. Whether there are any.
bool add_statistics(TracedProgram& program, std::vector<TracedCall>& calls, const TracedCall& norm) {
  const TracedArgument *x = norm.find("input"), *momentum = norm.find("momentum");
  const auto type = x ? program.types.find(x->text) : program.types.end();
  if (type == program.types.end() || type->second.shape.rank() < 3 || !momentum || norm.outputs.size() != 1)
    return false;
  const int64_t samples = type->second.shape[0], channels = type->second.shape[1];
  const TracedInput *mean = statistic(program, norm, "running_mean", channels),
                    *variance = statistic(program, norm, "running_var", channels);
  if (!mean || !variance || type->second.dtype != DType::kF32) return false;
  TracedArgument space{.kind = Kind::kList};
  for (int axis = 2; axis < type->second.shape.rank(); ++axis) space.list.push_back(integer_argument(axis));
  const TracedInput of_mean = *mean, of_variance = *variance;
  StatisticWriter writer(program, calls, norm);
  const Shape each{samples, channels};
  writer.update(of_mean, writer.call("aten.mean", {{"self", *x}, {"dim", space}}, each), momentum->number);
  writer.update(of_variance,
                writer.call("aten.var", {{"self", *x}, {"dim", space}, {"correction", integer_argument(1)}}, each),
                momentum->number);
  return true;
}

}  // namespace

void record_statistics(TracedProgram& program) {
  std::vector<TracedCall> calls;
  for (TracedCall& call : program.calls) {
    const TracedArgument* own = call.find("use_input_stats");
    if (call.op == "aten.instance_norm" && own && own->flag && add_statistics(program, calls, call))
      std::erase_if(call.arguments, [](const auto& argument) { return argument.first.starts_with("running_"); });
    calls.push_back(call);
  }
  program.calls = std::move(calls);
}

std::map<std::string, BufferFold, std::less<>> recognise_folds(const TracedProgram& program) {
  std::map<std::string, std::string, std::less<>> buffers;
  for (const TracedInput& input : program.inputs)
    if (input.kind == TracedInput::Kind::kBuffer) buffers[input.target] = input.value;
  FoldFinder finder(program);
  std::map<std::string, BufferFold, std::less<>> folds;
  for (const TracedOutput& output : program.outputs) {
    if (output.kind != TracedOutput::Kind::kBufferMutation) continue;
    const auto buffer = buffers.find(output.target);
    if (buffer == buffers.end() || buffer->second == output.value) continue;
    if (auto fold = finder.find(buffer->second, output.value)) folds[output.target] = std::move(*fold);
  }
  return folds;
}

}  // namespace ramet::front
