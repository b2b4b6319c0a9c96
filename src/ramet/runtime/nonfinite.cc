#include <algorithm>
#include <cmath>
#include <cstdio>

#include "ramet/runtime/engine_state.h"

namespace ramet::runtime {
namespace {

/// What there is in a floating tensor.
struct Range {
  double low = INFINITY, high = -INFINITY;
  int64_t bad = 0, first_bad = -1;
};

Range range_of(const std::byte* data, const TensorType& type) {
  Range range;
  const int64_t count = type.elements();
  for (int64_t i = 0; i < count; ++i) {
    const double value = load_element(data, type.dtype, i);
    if (!std::isfinite(value)) {
      if (range.bad++ == 0) range.first_bad = i;
      continue;
    }
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  return range;
}

std::string text_of(const Range& range, const TensorType& type) {
  char text[96];
  if (range.low > range.high)
    std::snprintf(text, sizeof text, " without a finite element");
  else
    std::snprintf(text, sizeof text, " from %.6g to %.6g", range.low, range.high);
  return type.text() + text + (range.bad ? ", " + std::to_string(range.bad) + " not finite" : "");
}

}  // namespace

std::string NonFinite::text() const {
  std::string text = op + " '" + node + "'" + (origin.empty() ? "" : " of " + origin) + " in " + segment;
  if (lane > 0 || micro > 0) text += " (lane " + std::to_string(lane) + ", micro-batch " + std::to_string(micro) + ")";
  text += " gave " + std::to_string(count) + " numbers that are not finite, the first at element " +
          std::to_string(first) + " of " + output;
  for (size_t i = 0; i < inputs.size(); ++i) text += "\n  input " + std::to_string(i) + ": " + inputs[i];
  return text;
}

/// Runs a step instruction by instruction, leaving out those that change weights or optimizer states.
class NonFiniteSearch {
 public:
  explicit NonFiniteSearch(EngineState& engine)
      : engine_(engine), exe_(engine.exe_), trained_(engine.trained_buffers()) {}

  std::optional<NonFinite> run(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars) {
    std::optional<NonFinite> found = check_states();
    // With many devices all run the step to its end, whatever they find.
    const bool all = engine_.drains();
    if (found && !all) return found;
    engine_.watch_step(step, feed, scalars, [&](const ProgramStep& each) {
      std::optional<NonFinite> here = check_segment(each, all);
      if (!found) found = std::move(here);
      return !found || all;
    });
    return found;
  }

 private:
  std::optional<NonFinite> check_states() const {
    std::vector<std::byte> bytes;
    for (const StatePlace& state : exe_.states) {
      const TensorType& type = state.tensor.type;
      if (!is_trained(state.tensor.kind) || !is_floating(type.dtype)) continue;
      const Range range = range_of(engine_.state_data(state, bytes), type);
      if (range.bad == 0) continue;
      NonFinite found;
      found.segment = "the states before the step";
      found.op = std::string(name_of(state.tensor.kind));
      found.node = state.tensor.name;
      found.output = type.text();
      found.count = range.bad;
      found.first = range.first_bad;
      found.superstep = -1;
      return found;
    }
    return std::nullopt;
  }

  /// The first instruction of a run that made something that is not finite; `all`: the run goes on to its end.
  std::optional<NonFinite> check_segment(const ProgramStep& step, bool all) {
    const Segment& segment = exe_.segments[static_cast<size_t>(step.subject)];
    const CallTable& table = engine_.tables_[static_cast<size_t>(step.subject)];
    const int64_t micro = step.micro < 0 ? 0 : engine_.position_.replica * exe_.micro_batches() + step.micro;
    std::optional<NonFinite> found;
    for (size_t i = 0; i < segment.instructions.size(); ++i) {
      const Instruction& instruction = segment.instructions[i];
      if (EngineState::changes_any(instruction, trained_)) continue;
      const BoundCall& call = table.calls[i];
      if (instruction.call < 0 || found) {
        engine_.run_call(call);
        continue;
      }
      const NodeSignature& node = exe_.calls[static_cast<size_t>(instruction.call)].node;
      // Before the call: it may write over them.
      std::vector<std::string> inputs;
      for (size_t k = 0; k < node.inputs.size(); ++k)
        inputs.push_back(is_floating(node.inputs[k].dtype)
                             ? text_of(look_at(call.inputs[k], node.inputs[k]), node.inputs[k])
                             : node.inputs[k].text());
      engine_.run_call(call);
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        if (!is_floating(node.outputs[k].dtype)) continue;
        const Range range = look_at(call.outputs[k], node.outputs[k]);
        if (range.bad == 0) continue;
        found = NonFinite{segment.name,
                          instruction.name,
                          node.op->name,
                          micro / exe_.micro_batches_per_lane,
                          micro % exe_.micro_batches_per_lane,
                          node.outputs[k].text(),
                          range.bad,
                          range.first_bad,
                          inputs,
                          step.superstep,
                          instruction.origin};
        if (!all) return found;
        break;
      }
    }
    return found;
  }

  Range look_at(const void* data, const TensorType& type) {
    return range_of(engine_.host_bytes(data, type.bytes(), room_), type);
  }

  EngineState& engine_;
  const Executable& exe_;
  std::vector<bool> trained_;
  std::vector<std::byte> room_;
};

std::optional<NonFinite> EngineState::find_first_nonfinite(int64_t step, const Feed& feed,
                                                           std::span<const ScalarValue> scalars) {
  return NonFiniteSearch(*this).run(step, feed, scalars);
}

}  // namespace ramet::runtime
