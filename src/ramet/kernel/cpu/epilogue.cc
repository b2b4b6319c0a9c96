#include "ramet/kernel/cpu/epilogue.h"

#include <algorithm>
#include <array>

#include "ramet/ops/epilogue.h"

namespace ramet::kernel {
namespace {

using Inputs = std::array<const void*, kMostEpilogueInputs>;

}  // namespace

Epilogue::Epilogue(const NodeSignature& node, int threads) {
  if (!has_epilogue(node)) return;
  const NodeSignature map = epilogue_map(node);
  own_inputs_ = static_cast<int>(node.inputs.size() - map.inputs.size() + 1);
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
