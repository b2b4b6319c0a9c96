#include "ramet/front/aten_network.h"

#include "ramet/front/table.h"
#include "ramet/ops/build.h"

namespace ramet::front {

Tensor with_samples(Tensor a, int rank) {
  if (a.shape().rank() >= rank) return a;
  std::vector<int64_t> dims{1};
  dims.insert(dims.end(), a.shape().dims().begin(), a.shape().dims().end());
  return reshape(a, Shape(dims));
}

Tensor in_shape_of_result(const Translation& at, Tensor a, size_t index) {
  const Shape& wanted = at.result(index).shape;
  return a.shape() == wanted ? a : reshape(a, wanted);
}

std::vector<int64_t> spread(const Translation& at, std::string_view name, size_t count,
                            const std::vector<int64_t>& absent) {
  std::vector<int64_t> values = at.integers(name, absent);
  if (values.size() == 1) values.resize(count, values[0]);
  if (!values.empty() && values.size() != count)
    at.refuse("argument '" + std::string(name) + "' has " + std::to_string(values.size()) + " numbers for " +
              std::to_string(count) + " dimensions");
  return values;
}

Tensor in_f32(Tensor a) { return a.dtype() == DType::kF32 || a.dtype() == DType::kF64 ? a : cast(a, DType::kF32); }
Tensor without_gradient(Tensor a) { return map_unary("stop_gradient", a); }

LossReduction reduction_of(const Translation& at) {
  const int64_t number = at.integer("reduction", 1);
  if (number < 0 || number > 2) at.refuse("unknown reduction " + std::to_string(number));
  return number == 0 ? LossReduction::kNone : number == 1 ? LossReduction::kMean : LossReduction::kSum;
}

DrawBy draws_of(const Translation& at) { return {at.counter(), at.seed(), at.random_name()}; }

std::span<const OperatorEntry> network_operators() {
  static const std::vector<OperatorEntry> all = [] {
    std::vector<OperatorEntry> joined;
    for (const auto part : {convolution_operators(), pooling_operators(), norm_operators(), activation_operators(),
                            embedding_operators()})
      joined.insert(joined.end(), part.begin(), part.end());
    return joined;
  }();
  return all;
}

}  // namespace ramet::front
