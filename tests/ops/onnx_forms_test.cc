// The forms of ops in ONNX files, by the operators of ONNX alone: each case of the op table is written as a file, and
// read back without the text that names the op.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ops/op_cases.h"
#include "ramet/base/error_types.h"
#include "ramet/base/file.h"
#include "ramet/front/onnx_export.h"
#include "ramet/front/onnx_program.h"
#include "ramet/front/onnx_writer.h"
#include "ramet/ir/builder.h"
#include "ramet/kernel/interpret.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

constexpr double kTolerance = 2e-5;  // of the greatest element, in f32

std::string input_name(size_t i) { return "in" + std::to_string(i); }

/// The case's node alone, with so many of its outputs.
Graph graph_of(const OpCase& op_case, size_t count) {
  Graph graph("graph");
  GraphBuilder build(graph);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < op_case.inputs.size(); ++i)
    inputs.push_back(build.input(input_name(i), op_case.inputs[i].type.dtype, op_case.inputs[i].type.shape));
  const std::vector<Tensor> outputs = build.ops(op_case.op, inputs, op_case.attributes);
  for (size_t i = 0; i < count; ++i) build.output("out" + std::to_string(i), outputs[i]);
  return graph;
}

/// Writes the case with all outputs that its form gives: none of those that only gradients read. False where these
/// attributes have no form.
bool write(const OpCase& op_case, const std::filesystem::path& path) {
  for (size_t count = signature_of(op_case).outputs.size(); count > 0; --count) try {
      front::write_onnx(path, graph_of(op_case, count), "model", {});
      return true;
    } catch (const UnsupportedOp&) {
    }
  return false;
}

/// The results of the file by the bodies of its functions.
std::vector<HostTensor> by_bodies(const std::filesystem::path& path, const std::vector<HostTensor>& inputs) {
  const std::string bytes = read_file(path);
  front::OnnxModel model = front::parse_onnx(bytes, path.string());
  for (front::OnnxNode& node : model.graph.nodes)
    std::erase_if(node.attributes, [](const auto& each) { return each.name == front::kOnnxOpAttribute; });
  front::OnnxFeeds feeds;
  for (const front::OnnxValueInfo& input : model.graph.inputs)
    for (size_t i = 0; i < inputs.size(); ++i)
      if (input.name == input_name(i)) feeds[input.name] = {.tensors = {inputs[i]}};
  const front::OnnxProgram program = front::import_onnx_program(model, feeds, {});
  std::map<std::string, HostTensor> given;
  for (const auto& [name, from] : program.inputs) given[name] = feeds.at(from.first).tensors.at(from.second);
  return interpret(program.graph, cpu_backend(), given);
}

/// NaN like NaN, infinities equal, the rest within kTolerance of the greatest expected element.
void expect_near(const HostTensor& found, const HostTensor& expected) {
  ASSERT_EQ(found.type, expected.type);
  double most = 1;
  for (int64_t i = 0; i < expected.elements(); ++i)
    if (std::isfinite(expected.get(i))) most = std::max(most, std::fabs(expected.get(i)));
  for (int64_t i = 0; i < expected.elements(); ++i) {
    const double a = found.get(i), b = expected.get(i);
    if (std::isnan(b) ? std::isnan(a) : a == b) continue;
    ASSERT_NEAR(a, b, is_floating(expected.type.dtype) ? kTolerance * most : 0) << "element " << i;
  }
}

TEST(OnnxForms, ComputeWhatTheOpsDo) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.onnx";
  std::set<std::string> forms, compared;
  for (const OpCase& op_case : op_cases()) {
    if (!front::find_onnx_form(op_case.op) || !op_case.in_reference) continue;
    SCOPED_TRACE(op_case.op + "/" + op_case.name);
    forms.insert(op_case.op);
    if (!write(op_case, path)) continue;
    const std::vector<HostTensor> inputs = inputs_of(op_case);
    const std::vector<HostTensor> expected = interpret_node(signature_of(op_case), reference_backend(), inputs);
    const std::vector<HostTensor> found = by_bodies(path, inputs);
    ASSERT_LE(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i]);
    compared.insert(op_case.op);
  }
  for (const std::string& op : forms) EXPECT_TRUE(compared.count(op)) << "no case of " << op << " was written";
}

}  // namespace
}  // namespace ramet::tests
