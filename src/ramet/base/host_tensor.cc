#include "ramet/base/host_tensor.h"

#include "ramet/base/error.h"

namespace ramet {

HostTensor::HostTensor(TensorType tensor_type) : type(std::move(tensor_type)) {
  data.resize(static_cast<size_t>(type.bytes()));
}

HostTensor HostTensor::of(DType dtype, Shape shape, const std::vector<double>& values) {
  HostTensor tensor(TensorType{dtype, std::move(shape)});
  if (static_cast<int64_t>(values.size()) != tensor.elements())
    throw Error({.what = "the number of values is not that of the tensor's elements",
                 .where = tensor.type.text(),
                 .found = std::to_string(values.size()),
                 .expected = std::to_string(tensor.elements())});
  for (size_t i = 0; i < values.size(); ++i) tensor.set(static_cast<int64_t>(i), values[i]);
  return tensor;
}

std::vector<double> HostTensor::values() const {
  std::vector<double> result(static_cast<size_t>(elements()));
  for (size_t i = 0; i < result.size(); ++i) result[i] = get(static_cast<int64_t>(i));
  return result;
}

std::vector<float> HostTensor::floats() const {
  std::vector<float> result(static_cast<size_t>(elements()));
  for (size_t i = 0; i < result.size(); ++i) result[i] = static_cast<float>(get(static_cast<int64_t>(i)));
  return result;
}

}  // namespace ramet
