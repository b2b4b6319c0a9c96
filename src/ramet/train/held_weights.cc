#include "ramet/train/held_weights.h"

#include <cstring>

#include "ramet/base/rounding.h"
#include "ramet/kernel/cpu/rounding.h"

namespace ramet::train {

HeldForm held_form(const TrainOptions& options) {
  if (options.weights == "split") return {DType::kBF16, true};
  return {dtype_from_name(options.weights), false};
}

RoundingBy drawn_rounding(GraphBuilder& build, const TrainOptions& options, const std::string& name) {
  const ValueId known = build.graph().find_input("counter");
  const Tensor counter =
      known != kNoValue ? build.tensor(known) : build.input("counter", DType::kI64, {2}, InputRole::kScalar);
  return {counter, options.seed, name};
}

std::vector<StateTensor> held_weights(const std::vector<StateTensor>& weights, HeldForm form) {
  std::vector<StateTensor> states;
  for (StateTensor weight : weights) {
    weight.type.dtype = form.dtype;
    states.push_back(weight);
    if (!form.split) continue;
    weight.of = weight.name;
    weight.name = low_half_of(weight.name);
    weight.role = "low half";
    weight.low_half = true;
    weight.type.dtype = DType::kU16;
    weight.init = {};
    states.push_back(std::move(weight));
  }
  return states;
}

HeldBytes hold(std::span<const float> values, HeldForm form) {
  HeldBytes held;
  const auto count = static_cast<int64_t>(values.size());
  held.weight.resize(values.size() * size_of(form.dtype));
  if (form.split) {
    held.low.resize(values.size() * 2);
    cpu::rounding_loops().split(values.data(), count, reinterpret_cast<uint16_t*>(held.weight.data()),
                                reinterpret_cast<uint16_t*>(held.low.data()));
  } else {
    cpu::rounding_loops().narrow(form.dtype, values.data(), count, held.weight.data(), nullptr, false);
  }
  return held;
}

void release(const HeldBytes& held, HeldForm form, std::span<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  if (form.split)
    cpu::rounding_loops().join(reinterpret_cast<const uint16_t*>(held.weight.data()),
                               reinterpret_cast<const uint16_t*>(held.low.data()), count, values.data());
  else
    cpu::rounding_loops().widen(form.dtype, held.weight.data(), count, values.data());
}

}  // namespace ramet::train
