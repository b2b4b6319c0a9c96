#include "ramet/kernel/cpu/epilogue.h"

#include <algorithm>
#include <array>

#include "ramet/ops/epilogue.h"

namespace ramet::kernel {
namespace {

using Inputs = std::array<const void*, kMostEpilogueInputs>;

/// The program as a sum and ReLU, if it is that; `own` is the number of the node's inputs before the epilogue's.
std::optional<SumAndRelu> sum_and_relu(const NodeSignature& map, int own) {
  const MapProgram program = map_program_of(map);
  if (program.steps.empty() || program.inputs > 2 || map.outputs[0].dtype != DType::kF32) return {};
  for (const TensorType& input : map.inputs)
    if (input != map.outputs[0]) return {};
  SumAndRelu found;
  int value = 0;
  for (const MapProgram::Step& step : program.steps) {
    const bool adds = step.info().name == "add" && value == 0 && program.inputs == 2 && found.addend < 0;
    if (adds ? step.operands != std::vector{0, 1} && step.operands != std::vector{1, 0}
             : step.info().name != "relu" || found.relu || step.operands != std::vector{value})
      return {};
    if (adds)
      found.addend = own;
    else
      found.relu = true;
    value = program.inputs + static_cast<int>(&step - program.steps.data());
  }
  if (value != program.outputs[0].value) return {};
  return found;
}

}  // namespace

Epilogue::Epilogue(const NodeSignature& node, int threads) {
  if (!has_epilogue(node)) return;
  const NodeSignature map = epilogue_map(node);
  own_inputs_ = static_cast<int>(node.inputs.size() - map.inputs.size() + 1);
  simple_ = sum_and_relu(map, own_inputs_);
  elements_ = map.outputs[0].elements();
  evaluator_ =
      std::make_unique<cpu::MapEvaluator>(map_program_of(map), map_space_of(map), map.inputs, map.outputs, threads);
}

void Epilogue::apply(const KernelContext& context, void* scratch, int rank, int64_t begin, int64_t end) const {
  if (empty() || begin == end) return;
  Inputs inputs;
  inputs[0] = context.outputs[0];
  const auto further = context.inputs.subspan(static_cast<size_t>(own_inputs_));
  std::copy(further.begin(), further.end(), inputs.begin() + 1);
  evaluator_->run_part({inputs.data(), further.size() + 1}, context.outputs, scratch, rank, begin, end);
}

void Epilogue::apply_to_all(const KernelContext& context, void* scratch) const {
  if (empty()) return;
  constexpr int64_t kGrain = 4096;  // least elements that are worth a thread's waking
  context.team.split(elements_, kGrain,
                     [&](int64_t begin, int64_t end, int rank) { apply(context, scratch, rank, begin, end); });
}

std::string refuse_epilogue(const NodeSignature& node) {
  if (!has_epilogue(node)) return "";
  const NodeSignature map = epilogue_map(node);
  for (const auto* types : {&map.inputs, &map.outputs})
    for (const TensorType& type : *types)
      if (type.dtype == DType::kF64) return "epilogues are computed in f32";
  if (size_of(map.inputs[0].dtype) != size_of(map.outputs[0].dtype))
    return "the epilogue gives elements of another size, so that they cannot lie where the result was";
  return "";
}

}  // namespace ramet::kernel
