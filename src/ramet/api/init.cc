#include "ramet/api/contents.h"

#include <cmath>
#include <cstring>

#include "ramet/base/error.h"

namespace ramet::v0 {

Init Init::by(std::string name, std::function<double(int64_t element)> function) {
  Init init(Kind::kFunction, 0, 0);
  init.name_ = std::move(name), init.function_ = std::move(function);
  return init;
}

Init Init::numbers(const ArrayView& numbers) {
  Init init(Kind::kNumbers, 0, 0);
  init.dtype_ = numbers.dtype();
  init.bytes_.assign(numbers.data(), numbers.data() + numbers.bytes());
  return init;
}

}  // namespace ramet::v0

namespace ramet::api {

StateInit engine_init(const v0::Init& init, const TensorType& type, const std::string& name) {
  using Kind = v0::Init::Kind;
  const double a = init.first(), b = init.second();
  switch (init.kind()) {
    case Kind::kConstant: return {StateInit::Kind::kConstant, a, 0};
    case Kind::kNormal: return {StateInit::Kind::kNormal, a, b};
    case Kind::kTruncatedNormal: return {StateInit::Kind::kTruncatedNormal, a, b};
    case Kind::kUniform: return {StateInit::Kind::kUniform, a, b};
    case Kind::kIota: return StateInit::iota(a, b);
    case Kind::kFunction: return StateInit::by(init.name(), init.function());
    case Kind::kFanIn: {
      const int64_t rows = type.shape.rank() > 0 ? std::max<int64_t>(1, type.shape[0]) : 1;
      return {StateInit::Kind::kNormal, 0, a / std::sqrt(std::max(1.0, static_cast<double>(type.elements() / rows)))};
    }
    case Kind::kNumbers: break;
  }
  HostTensor tensor(type);
  if (init.dtype() != type.dtype || init.bytes().size() != tensor.data.size())
    throw Error({.what = "first numbers that are not those of the state",
                 .where = "'" + name + "'",
                 .found = std::to_string(init.bytes().size() / size_of(init.dtype())) + " numbers of " +
                          std::string(name_of(init.dtype())),
                 .expected = type.text()});
  std::memcpy(tensor.data.data(), init.bytes().data(), tensor.data.size());
  return StateInit::from(TensorData(std::move(tensor)));
}

std::vector<LogicalAxis> engine_axes(const std::vector<v0::WeightAxis>& axes, const TensorType& type,
                                     const std::string& name) {
  if (!axes.empty() && std::ssize(axes) != type.shape.rank())
    throw Error({.what = "another number of axes than dimensions",
                 .where = "'" + name + "'",
                 .found = std::to_string(axes.size()) + " axes",
                 .expected = "one for each dimension of " + type.text() + ", or none"});
  std::vector<LogicalAxis> made;
  for (const v0::WeightAxis& axis : axes) made.push_back({axis.name, axis.blocks});
  return made;
}

}  // namespace ramet::api
