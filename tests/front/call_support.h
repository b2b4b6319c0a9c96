#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/front/expand_complex.h"
#include "ramet/front/importer.h"
#include "ramet/front/program.h"
#include "ramet/kernel/interpret.h"
#include "ramet/kernel/kernel.h"

namespace ramet::tests {

/// Arguments of a recorded call.
namespace traced {

using Kind = front::TracedArgument::Kind;

inline front::TracedArgument none() { return {}; }
inline front::TracedArgument flag(bool value) {
  return {.kind = Kind::kBool, .flag = value, .integer = value, .number = value ? 1.0 : 0.0};
}
inline front::TracedArgument integer(int64_t value) {
  return {.kind = Kind::kInt, .integer = value, .number = static_cast<double>(value)};
}
inline front::TracedArgument number(double value) { return {.kind = Kind::kFloat, .number = value}; }
inline front::TracedArgument text(std::string value) { return {.kind = Kind::kText, .text = std::move(value)}; }
inline front::TracedArgument tensor(std::string name) { return {.kind = Kind::kTensor, .text = std::move(name)}; }
inline front::TracedArgument list(std::vector<front::TracedArgument> elements) {
  return {.kind = Kind::kList, .list = std::move(elements)};
}
inline front::TracedArgument integers(const std::vector<int64_t>& values) {
  std::vector<front::TracedArgument> elements;
  for (int64_t value : values) elements.push_back(integer(value));
  return list(std::move(elements));
}

}  // namespace traced

inline HostTensor f32(const Shape& shape, const std::vector<double>& values) {
  return HostTensor::of(DType::kF32, shape, values);
}
inline HostTensor i64(const Shape& shape, const std::vector<double>& values) {
  return HostTensor::of(DType::kI64, shape, values);
}

/// One recorded call with its operands: translated, and computed by the reference kernels.
struct RecordedCall {
  std::string op;
  std::vector<std::pair<std::string, front::TracedArgument>> arguments;
  std::vector<TensorType> results;
  std::map<std::string, HostTensor> operands{};  ///< that the program reads as data
  std::map<std::string, HostTensor> known{};     ///< that are constants of the program
  std::string overload = "default";
  std::vector<std::string> complex{};  ///< names of complex values

  /// The results, or an Error with the reasons why the call was refused.
  std::vector<HostTensor> run() const {
    front::TracedProgram program;
    front::Importer::Options options;
    for (const auto& [name, value] : operands) {
      program.types[name] = value.type;
      options.inputs[name] = {.from = front::InputValue::From::kData, .name = name, .type = value.type};
    }
    for (const auto& [name, value] : known) {
      program.types[name] = value.type;
      options.inputs[name] = {
          .from = front::InputValue::From::kConstant, .name = name, .type = value.type, .data = TensorData(value)};
    }
    front::TracedCall call{.op = op, .overload = overload, .arguments = arguments};
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string name = "result" + std::to_string(i);
      call.outputs.push_back(name);
      program.types[name] = results[i];
      program.outputs.push_back({.value = name, .target = name});
    }
    program.complex.insert(complex.begin(), complex.end());
    program.calls.push_back(call);
    program = front::expand_complex(std::move(program));
    Graph graph;
    front::Importer importer(program, graph, options);
    importer.run();
    if (!importer.refusals().empty()) front::throw_refusals("module", importer.refusals());
    std::map<std::string, HostTensor> feeds;
    for (const auto& output : program.outputs) importer.build().output(output.value, importer.value(output.value));
    for (const auto& input : graph.inputs()) {
      const std::string& name = graph.value(input.value).name;
      feeds[name] = operands.at(name);
    }
    return kernel::interpret(graph, kernel::reference_backend(), feeds);
  }
};

}  // namespace ramet::tests
