#include "ramet/front/index_support.h"

#include <algorithm>

#include "ramet/base/host_tensor.h"

namespace ramet::front {

Tensor at_least_vector(Tensor a) { return a.shape().rank() == 0 ? reshape(a, {1}) : a; }

Tensor integer_constant(const Translation& at, const Shape& shape, const std::vector<int64_t>& numbers) {
  const auto [least, greatest] = std::minmax_element(numbers.begin(), numbers.end());
  const bool narrow = numbers.empty() || (*least >= INT32_MIN && *greatest <= INT32_MAX);
  HostTensor tensor({narrow ? DType::kI32 : DType::kI64, shape});
  for (size_t i = 0; i < numbers.size(); ++i)
    store_integer(tensor.data.data(), tensor.type.dtype, static_cast<int64_t>(i), numbers[i]);
  return constant(at.build(), TensorData(std::move(tensor)));
}

Tensor flat(Tensor a) { return a.shape().rank() == 1 ? a : reshape(a, {a.shape().elements()}); }

std::vector<int64_t> integers_for(const Translation& at, std::string_view name, size_t count,
                                  const std::vector<int64_t>& absent) {
  std::vector<int64_t> found = at.integers(name, absent);
  if (found.size() == 1) found.resize(count, found.front());
  if (found.size() != count)
    at.refuse("argument '" + std::string(name) + "' has " + std::to_string(found.size()) + " numbers, not " +
              std::to_string(count));
  return found;
}

}  // namespace ramet::front
