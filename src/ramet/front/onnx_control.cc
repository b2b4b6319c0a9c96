// ONNX's control flow: conditions and numbers of steps that are known before the model runs.
#include "ramet/base/error_types.h"
#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/front/onnx_tensor.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

constexpr int64_t kMostSteps = 65'536;

bool is_true(const OnnxCall& at, Tensor condition, const std::string& what) {
  const TensorData* known = at.known(condition);
  if (!known)
    at.refuse(what + " must be known before the model runs", "Give the model's inputs that decide it with --bind");
  if (known->type().elements() != 1) at.refuse(what + " is not one truth value");
  return known->tensor().get(0) != 0;
}

Values if_(const OnnxCall& at) {
  const bool condition = is_true(at, at.input(0), "the condition of If");
  return at.importer().run_inner(at.graph(condition ? "then_branch" : "else_branch"), at.scope(), {});
}

/// What the steps of a loop gave for one output, along a new axis.
Tensor stacked(const OnnxCall& at, const std::vector<Tensor>& parts, const OnnxValueInfo& output, int64_t axis) {
  if (!parts.empty()) return stack(parts, axis);
  std::vector<int64_t> dims;
  for (const auto& extent : output.shape) {
    if (!extent.extent) at.refuse("a loop without steps gives a result whose shape is not known");
    dims.push_back(*extent.extent);
  }
  dims.insert(dims.begin() + normalize_axis(axis, static_cast<int>(dims.size()) + 1, "a scan's output"), 0);
  return at.full(checked_onnx_dtype(output.type, "'" + output.name + "'"), Shape(dims), 0);
}

Values loop(const OnnxCall& at) {
  const OnnxGraph& body = at.graph("body");
  const size_t carried = at.inputs() > 2 ? at.inputs() - 2 : 0;
  if (body.outputs.size() < carried + 1 || body.inputs.size() != carried + 2)
    at.refuse("the body of Loop has another number of inputs or outputs than the node");
  const int64_t steps = at.has(0) ? at.known_integer(0, "the number of steps of Loop") : INT64_MAX;
  bool goes_on = !at.has(1) || is_true(at, at.input(1), "the condition of Loop");
  Values state;
  for (size_t i = 0; i < carried; ++i) state.push_back(at.has(i + 2) ? at.value(i + 2) : OnnxValue());
  std::vector<std::vector<Tensor>> scans(body.outputs.size() - carried - 1);
  Tensor condition = at.full(DType::kBool, {}, 1);
  for (int64_t i = 0; goes_on && i < steps; ++i) {
    if (i >= kMostSteps) at.refuse("a loop has more than " + std::to_string(kMostSteps) + " steps");
    Values inputs = {at.integer_constant({}, {i}), condition};
    inputs.insert(inputs.end(), state.begin(), state.end());
    const Values made = at.importer().run_inner(body, at.scope(), inputs);
    if (!made[0].tensor.valid()) at.refuse("the body of Loop gives no condition");
    for (size_t k = 0; k < carried; ++k) state[k] = made[k + 1];
    for (size_t k = 0; k < scans.size(); ++k) {
      if (!made[carried + 1 + k].tensor.valid()) at.refuse("the body of Loop gives no tensor");
      scans[k].push_back(made[carried + 1 + k].tensor);
    }
    condition = made[0].tensor;
    goes_on = is_true(at, condition, "the condition of Loop");
  }
  for (size_t k = 0; k < scans.size(); ++k) state.emplace_back(stacked(at, scans[k], body.outputs[carried + 1 + k], 0));
  return state;
}

/// Scan over operands, of one sample where the operator has samples (opset 8).
Values scan_over(const OnnxCall& at, Values state, const std::vector<Tensor>& operands) {
  const OnnxGraph& body = at.graph("body");
  const size_t carried = state.size();
  if (body.outputs.size() < carried || body.inputs.size() != carried + operands.size())
    at.refuse("the body of Scan has another number of inputs or outputs than the node");
  const size_t results = body.outputs.size() - carried;
  const bool old = at.version() < 9;
  const auto list = [&](const char* name, size_t count) {
    std::vector<int64_t> made = at.integers(name);
    made.resize(std::max(made.size(), count), 0);
    return made;
  };
  const std::vector<int64_t> axes = list("scan_input_axes", operands.size()),
                             reversed = list(old ? "directions" : "scan_input_directions", operands.size()),
                             out_axes = list("scan_output_axes", results),
                             out_reversed = list("scan_output_directions", results);
  const auto extent = [&](size_t k) {
    return operands[k].dim(normalize_axis(axes[k], operands[k].shape().rank(), "scan_input_axes"));
  };
  const int64_t steps = operands.empty() ? 0 : extent(0);
  if (steps > kMostSteps) at.refuse("a scan has more than " + std::to_string(kMostSteps) + " steps");
  std::vector<std::vector<Tensor>> scans(results);
  for (int64_t i = 0; i < steps; ++i) {
    Values inputs = state;
    for (size_t k = 0; k < operands.size(); ++k) {
      if (extent(k) != steps) at.refuse("the operands of Scan differ in their number of steps");
      inputs.emplace_back(select_index(operands[k], axes[k], reversed[k] ? steps - 1 - i : i));
    }
    const Values made = at.importer().run_inner(body, at.scope(), inputs);
    for (size_t k = 0; k < carried; ++k) state[k] = made[k];
    for (size_t k = 0; k < results; ++k) {
      if (!made[carried + k].tensor.valid()) at.refuse("the body of Scan gives no tensor");
      scans[k].insert(out_reversed[k] ? scans[k].begin() : scans[k].end(), made[carried + k].tensor);
    }
  }
  for (size_t k = 0; k < results; ++k)
    state.emplace_back(stacked(at, scans[k], body.outputs[carried + k], out_axes[k]));
  return state;
}

Values scan(const OnnxCall& at) {
  const bool old = at.version() < 9;
  const size_t first = old ? 1 : 0;
  const auto count = static_cast<size_t>(at.integer("num_scan_inputs"));
  if (at.integer("num_scan_inputs") < 1 || count + first > at.inputs()) at.refuse("num_scan_inputs is out of range");
  if (old && at.has(0)) at.refuse("the lengths of Scan in operator set 8 are not supported");
  const std::vector<Tensor> all = at.all_inputs(first);
  const size_t carried = all.size() - count;
  if (!old) {
    const Values state(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(carried));
    return scan_over(at, state, {all.begin() + static_cast<std::ptrdiff_t>(carried), all.end()});
  }
  std::vector<std::vector<Tensor>> results;
  for (const Tensor& each : all)
    if (each.shape().rank() == 0 || each.dim(0) != all[0].dim(0)) at.refuse("operands have no, or other, samples");
  for (int64_t sample = 0; sample < all[0].dim(0); ++sample) {
    Values state;
    std::vector<Tensor> operands;
    for (size_t k = 0; k < all.size(); ++k)
      if (k < carried)
        state.emplace_back(select_index(all[k], 0, sample));
      else
        operands.push_back(select_index(all[k], 0, sample));
    const Values made = scan_over(at, state, operands);
    results.resize(made.size());
    for (size_t k = 0; k < made.size(); ++k) results[k].push_back(made[k].tensor);
  }
  Values made;
  for (const std::vector<Tensor>& parts : results) made.emplace_back(stack(parts, 0));
  return made;
}

/// The body for each element of the first sequence; other inputs are sequences of the same length, or tensors.
Values sequence_map(const OnnxCall& at) {
  const OnnxGraph& body = at.graph("body");
  const size_t steps = at.list(0).size();
  std::vector<std::vector<Tensor>> results(body.outputs.size());
  for (size_t i = 0; i < steps; ++i) {
    Values inputs;
    for (size_t k = 0; k < at.inputs(); ++k) {
      const OnnxValue value = at.value(k);
      if (value.list && value.list->size() != steps) at.refuse("the sequences differ in length");
      inputs.push_back(value.list ? OnnxValue((*value.list)[i]) : value);
    }
    const Values made = at.importer().run_inner(body, at.scope(), inputs);
    for (size_t k = 0; k < made.size(); ++k) results[k].push_back(made[k].tensor);
  }
  Values made;
  for (std::vector<Tensor>& parts : results) made.emplace_back(std::move(parts));
  return made;
}

constexpr OnnxEntry kEntries[] = {{"If", if_}, {"Loop", loop}, {"Scan", scan}, {"SequenceMap", sequence_map}};

}  // namespace

std::span<const OnnxEntry> onnx_control_operators() { return kEntries; }

}  // namespace ramet::front
