#include "ramet/train/inputs.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "ramet/base/error.h"
#include "ramet/model/array_file.h"

namespace ramet::train {

void check_signature(const std::vector<InputSpec>& inputs, const std::vector<std::pair<std::string, TensorType>>& given,
                     const std::string& source) {
  std::vector<std::string> wrong;
  std::set<std::string> names;
  for (const auto& [name, type] : given)
    if (!names.insert(name).second) wrong.push_back("'" + name + "' is there twice");
  for (const InputSpec& input : inputs) {
    const auto found =
        std::find_if(given.begin(), given.end(), [&](const auto& tensor) { return tensor.first == input.name; });
    if (found == given.end()) {
      const std::string near = nearest_name(input.name, names);
      wrong.push_back("'" + input.name + "' " + input.type.text() + " is missing" +
                      (near.empty() ? "" : " (there is '" + near + "')"));
    } else if (found->second.dtype != input.type.dtype) {
      wrong.push_back("'" + input.name + "' has elements of " + std::string(name_of(found->second.dtype)) + ", not " +
                      std::string(name_of(input.type.dtype)));
    } else if (found->second != input.type) {
      wrong.push_back("'" + input.name + "' is " + found->second.text() + ", not " + input.type.text());
    }
  }
  if (wrong.empty()) return;
  std::string found, expected;
  for (const std::string& each : wrong) found += (found.empty() ? "" : "; ") + each;
  for (const InputSpec& input : inputs)
    expected += (expected.empty() ? "" : ", ") + input.name + " " + input.type.text();
  throw Error({.what = "the tensors are not those that the model reads",
               .where = source,
               .found = found,
               .expected = expected,
               .remedy = "Give these tensors for a micro-batch, or declare the model's inputs as the data has them"});
}

std::shared_ptr<const Source> open_inputs(std::vector<ArrayColumn> arrays, const std::vector<InputSpec>& inputs,
                                          ArrayOptions options, int64_t samples, const std::string& source) {
  options.types = types_of(arrays, inputs);
  Signature given;
  for (const ArrayColumn& array : arrays) {
    std::vector<int64_t> dims = array.shape.dims();
    if (!dims.empty()) dims[0] = samples;
    const auto type = options.types.find(array.name);
    given.emplace_back(array.name, TensorType{type == options.types.end() ? DType::kU8 : type->second, Shape(dims)});
  }
  check_signature(inputs, given, source);
  std::erase_if(arrays, [&](const ArrayColumn& array) { return !options.types.count(array.name); });
  return make_array_source(std::move(arrays), std::move(options));
}

int64_t count_nonzero(const TensorType& type, const std::byte* data) {
  const int64_t elements = type.elements();
  int64_t count = 0;
  if (is_floating(type.dtype)) {
    for (int64_t i = 0; i < elements; ++i) count += load_element(data, type.dtype, i) != 0;
    return count;
  }
  static constexpr std::byte kZero[16] = {};
  const size_t size = size_of(type.dtype);
  for (int64_t i = 0; i < elements; ++i) count += std::memcmp(data + static_cast<size_t>(i) * size, kZero, size) != 0;
  return count;
}

}  // namespace ramet::train
