#include "ramet/ops/map_program.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/ir/op.h"

namespace ramet::ops {
namespace {

std::string step_text(const MapProgram::Step& step);

/// What a step may cast to.
std::vector<DType> cast_types() {
  std::vector<DType> types{DType::kF32, DType::kF64, DType::kBool};
  for (int i = 0; i < kDTypeCount; ++i)
    if (is_integer(static_cast<DType>(i))) types.push_back(static_cast<DType>(i));
  return types;
}

/// Reads the text form of a program, with the place in every error.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  MapProgram run() {
    MapProgram program;
    program.inputs = static_cast<int>(integer(kMostInputs, "the number of inputs"));
    expect(":");
    while (text_.substr(at_, 2) != "->") {
      if (!program.steps.empty()) expect(";");
      program.steps.push_back(step(program));
    }
    expect("->");
    do program.outputs.push_back(output(program));
    while (accept(","));
    if (at_ != text_.size()) fail("the end");
    return program;
  }

 private:
  static constexpr uint64_t kMostInputs = 1024, kMostSteps = 65536;

  [[noreturn]] void fail(const std::string& expected) const {
    const std::string rest(text_.substr(std::min(at_, text_.size()), 20));
    throw Error({.what = "a map program that does not parse",
                 .where = "map program, character " + std::to_string(at_ + 1),
                 .found = rest.empty() ? "the end" : "'" + rest + "'",
                 .expected = expected});
  }
  bool accept(std::string_view token) {
    if (text_.substr(std::min(at_, text_.size()), token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail("'" + std::string(token) + "'");
  }
  template <typename T>
  T number(const std::string& expected) {
    T value{};
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || end == begin) fail(expected);
    at_ += static_cast<size_t>(end - begin);
    return value;
  }
  uint64_t integer(uint64_t most, const std::string& meaning) {
    const size_t start = at_;
    const uint64_t value = number<uint64_t>(meaning);
    if (value > most) at_ = start, fail(meaning + ", at most " + std::to_string(most));
    return value;
  }
  double real() {
    const double value = number<double>("a number");
    if (std::isnan(value)) fail("a number other than nan");
    return value;
  }
  std::string_view word() {
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    if (at_ == begin) fail("a name");
    return text_.substr(begin, at_ - begin);
  }
  int value(int count) {
    expect("%");
    if (count == 0) fail("a value that is known before");
    return static_cast<int>(integer(static_cast<uint64_t>(count - 1), "a value that is known before"));
  }

  MapProgram::Step step(const MapProgram& program) {
    if (program.steps.size() >= kMostSteps) fail("at most " + std::to_string(kMostSteps) + " steps");
    expect("%" + std::to_string(program.values()) + "=");
    MapProgram::Step step;
    const size_t start = at_;
    const std::string_view name = word();
    try {
      step.op = map_op_index(name);
    } catch (const Error& error) {
      at_ = start;
      fail("a map op" + (error.parts().remedy.empty() ? "" : ". " + error.parts().remedy));
    }
    immediates(step);
    expect("(");
    for (int i = 0; i < step.info().arity; ++i) {
      if (i) expect(",");
      step.operands.push_back(value(program.values()));
    }
    expect(")");
    return step;
  }

  void immediates(MapProgram::Step& step) {
    const MapOpInfo& info = step.info();
    if (info.types == MapOpTypes::kCast) {
      expect("[");
      const size_t start = at_;
      const std::string_view name = word();
      const auto known = cast_types();
      const auto found = std::find_if(known.begin(), known.end(), [&](DType dtype) { return name_of(dtype) == name; });
      if (found == known.end()) at_ = start, fail("f32, f64, an integer type or bool");
      step.dtype = *found;
      expect("]");
    } else if (info.types == MapOpTypes::kDropout) {
      expect("[");
      step.parameter = real();
      expect(",");
      step.seed = number<uint64_t>("the seed");
      expect(",");
      step.tensor = number<uint64_t>("the tensor's id");
      expect("]");
      if (!(step.parameter >= 0 && step.parameter < 1)) fail("a dropout rate in [0, 1)");
    } else if (info.parameters > 0) {
      expect("[");
      step.parameter = real();
      if (info.parameters > 1) expect(","), step.second = real();
      expect("]");
    }
  }

  MapProgram::Output output(const MapProgram& program) {
    MapProgram::Output output;
    if (accept("sum_rows("))
      output.reduce = MapProgram::Reduce::kSumRows;
    else if (accept("sum_last("))
      output.reduce = MapProgram::Reduce::kSumLast;
    output.value = value(program.values());
    if (output.reduce != MapProgram::Reduce::kNone) expect(")");
    return output;
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::string real_text(double value) {
  char buffer[40];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

std::string step_text(const MapProgram::Step& step) {
  const MapOpInfo& info = step.info();
  std::string text(info.name);
  if (info.types == MapOpTypes::kCast)
    text += "[" + std::string(name_of(step.dtype)) + "]";
  else if (info.types == MapOpTypes::kDropout)
    text += "[" + real_text(step.parameter) + "," + std::to_string(step.seed) + "," + std::to_string(step.tensor) + "]";
  else if (info.parameters > 0)
    text += "[" + real_text(step.parameter) + (info.parameters > 1 ? "," + real_text(step.second) : "") + "]";
  text += "(";
  for (size_t i = 0; i < step.operands.size(); ++i) text += (i ? ",%" : "%") + std::to_string(step.operands[i]);
  return text + ")";
}

/// f32 for every float but f64: what a value of a program is.
DType widened(DType dtype) { return is_floating(dtype) && dtype != DType::kF64 ? DType::kF32 : dtype; }

DType result_type(const MapProgram::Step& step, const std::vector<DType>& operands, const std::string& where) {
  const auto fail = [&](const std::string& expected) -> void {
    std::string found;
    for (DType dtype : operands) found += (found.empty() ? "" : ", ") + std::string(name_of(dtype));
    throw Error({.what = "element types that '" + std::string(step.info().name) + "' does not take",
                 .where = where,
                 .found = found,
                 .expected = expected,
                 .remedy = "Cast the operands first"});
  };
  const auto all_equal = [&](size_t from) {
    for (size_t i = from + 1; i < operands.size(); ++i)
      if (operands[i] != operands[from]) return false;
    return true;
  };
  const DType first = operands.at(0);
  switch (step.info().types) {
    case MapOpTypes::kNumber:
      if (!all_equal(0) || first == DType::kBool) fail("floats, or integers of one type");
      if (!is_floating(first) && !step.info().integer) fail("floats");
      return first;
    case MapOpTypes::kFloat:
      if (!all_equal(0) || !is_floating(first)) fail("floats");
      return first;
    case MapOpTypes::kCompare:
      if (!all_equal(0)) fail("floats, integers of one type, or bools");
      return DType::kBool;
    case MapOpTypes::kTest:
      if (!is_floating(first)) fail("floats");
      return DType::kBool;
    case MapOpTypes::kLogical:
      if (!all_equal(0) || first != DType::kBool) fail("bools");
      return DType::kBool;
    case MapOpTypes::kSelect:
      if (first != DType::kBool || !all_equal(1)) fail("a bool and two values of one kind");
      return operands.at(1);
    case MapOpTypes::kAny: return first;
    case MapOpTypes::kInteger:
      if (!all_equal(0) || !is_integer(first)) fail("integers of one type");
      return first;
    case MapOpTypes::kCast: return step.dtype;
    case MapOpTypes::kDropout:
      if (!is_floating(first) || operands.at(1) != DType::kI64) fail("floats and the counter i64[2]");
      return first;
  }
  internal_error("map_value_types", "unknown type class");
}

}  // namespace

int64_t integer_meaning(const MapOpInfo& info, DType dtype, int64_t a, int64_t b, int64_t c) {
  if (dtype != DType::kU64 || !info.natural) return info.integer(a, b, c);
  return static_cast<int64_t>(info.natural(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
}

MapProgram MapProgram::parse(std::string_view text) { return Parser(text).run(); }

std::string MapProgram::text() const {
  std::string text = std::to_string(inputs) + ":";
  for (size_t i = 0; i < steps.size(); ++i)
    text += (i ? ";%" : "%") + std::to_string(static_cast<size_t>(inputs) + i) + "=" + step_text(steps[i]);
  text += "->";
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string value = "%" + std::to_string(outputs[i].value);
    const Reduce reduce = outputs[i].reduce;
    text += i ? "," : "";
    text += reduce == Reduce::kNone ? value : (reduce == Reduce::kSumRows ? "sum_rows(" : "sum_last(") + value + ")";
  }
  return text;
}

std::vector<bool> MapProgram::counters() const {
  std::vector<bool> result(static_cast<size_t>(inputs), false);
  for (const Step& step : steps)
    if (step.info().types == MapOpTypes::kDropout && step.operands[1] < inputs)
      result[static_cast<size_t>(step.operands[1])] = true;
  return result;
}

bool MapProgram::draws() const {
  return std::any_of(steps.begin(), steps.end(),
                     [](const Step& step) { return step.info().types == MapOpTypes::kDropout; });
}

std::vector<DType> map_value_types(const MapProgram& program, std::span<const DType> inputs, const std::string& where) {
  if (static_cast<int>(inputs.size()) != program.inputs)
    throw Error({.what = "the map program has another number of inputs",
                 .where = where,
                 .found = std::to_string(inputs.size()),
                 .expected = std::to_string(program.inputs)});
  const std::vector<bool> counters = program.counters();
  std::vector<DType> types;
  for (DType dtype : inputs) types.push_back(widened(dtype));
  for (const MapProgram::Step& step : program.steps) {
    std::vector<DType> operands;
    for (size_t i = 0; i < step.operands.size(); ++i) {
      const int operand = step.operands[i];
      const bool wants_counter = step.info().types == MapOpTypes::kDropout && i == 1;
      const bool is_counter = operand < program.inputs && counters[static_cast<size_t>(operand)];
      if (wants_counter != is_counter)
        throw Error({.what = wants_counter ? "the counter of a dropout step must be an input of the program"
                                           : "the counter of a dropout step is read as a tensor",
                     .where = where + ", step " + step_text(step)});
      operands.push_back(types[static_cast<size_t>(operand)]);
    }
    types.push_back(result_type(step, operands, where + ", step " + step_text(step)));
  }
  return types;
}

MapProgram map_program_of(const NodeSignature& node) {
  if (node.op->name == "map") return MapProgram::parse(node.attributes.get_string("program"));
  if (node.op->map_op.find(':') != std::string::npos) return MapProgram::parse(node.op->map_op);
  MapProgram program;
  program.inputs = static_cast<int>(node.inputs.size());
  MapProgram::Step step;
  step.op = map_op_index(node.op->map_op);
  const MapOpInfo& info = step.info();
  for (int i = 0; i < program.inputs; ++i) step.operands.push_back(i);
  if (info.types == MapOpTypes::kCast) {
    step.dtype = widened(node.attributes.get_dtype("dtype"));
  } else if (info.types == MapOpTypes::kDropout) {
    step.parameter = node.attributes.get_float("rate");
    step.seed = static_cast<uint64_t>(node.attributes.get_int("seed"));
    step.tensor = static_cast<uint64_t>(node.attributes.get_int("tensor"));
  } else {
    if (info.parameters > 0) step.parameter = node.attributes.get_float("parameter");
    if (info.parameters > 1) step.second = node.attributes.get_float("second");
  }
  program.steps.push_back(std::move(step));
  program.outputs.push_back({program.inputs, MapProgram::Reduce::kNone});
  return program;
}

Shape map_space_of(const NodeSignature& node) {
  if (node.op->name == "map") return Shape(node.attributes.get_ints("shape"));
  return node.outputs.at(0).shape;
}

std::vector<std::pair<int, int>> map_aliases(const NodeSignature& node) {
  const MapProgram program = map_program_of(node);
  const Shape space = map_space_of(node);
  const std::vector<bool> counters = program.counters();
  std::vector<std::pair<int, int>> pairs;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const bool whole =
          node.inputs[i].elements() == space.elements() && node.outputs[o].elements() == space.elements();
      if (!counters[i] && whole && program.outputs[o].reduce == MapProgram::Reduce::kNone &&
          size_of(node.inputs[i].dtype) == size_of(node.outputs[o].dtype))
        pairs.emplace_back(static_cast<int>(i), static_cast<int>(o));
    }
  return pairs;
}

}  // namespace ramet::ops
