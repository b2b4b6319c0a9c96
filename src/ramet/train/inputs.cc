#include "ramet/train/inputs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "ramet/base/error.h"

namespace ramet {
namespace {

/// The first integer of a tensor that is outside [low, high], or -1.
template <typename T>
int64_t first_outside(const NamedTensor& tensor, double low, double high) {
  const int64_t count = tensor.type.elements();
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, tensor.bytes.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    const auto number = static_cast<double>(value);
    if (!(number >= low && number <= high)) return i;
  }
  return -1;
}

int64_t first_outside(const NamedTensor& tensor, const InputSpec& input) {
  const double low = input.low.value_or(-std::numeric_limits<double>::infinity()),
               high = input.high.value_or(std::numeric_limits<double>::infinity());
  switch (tensor.type.dtype) {
    case DType::kI32: return first_outside<int32_t>(tensor, low, high);
    case DType::kI64: return first_outside<int64_t>(tensor, low, high);
    case DType::kU8:
    case DType::kBool: return first_outside<uint8_t>(tensor, low, high);
    case DType::kF32: return first_outside<float>(tensor, low, high);
    default: break;
  }
  for (int64_t i = 0; i < tensor.type.elements(); ++i) {
    const double value = load_element(tensor.bytes.data(), tensor.type.dtype, i);
    if (!(value >= low && value <= high)) return i;
  }
  return -1;
}

std::string text_of(double value) {
  if (value == static_cast<double>(static_cast<int64_t>(value))) return std::to_string(static_cast<int64_t>(value));
  return std::to_string(value);
}

std::string limits_of(const InputSpec& input) {
  if (!input.low) return "at most " + text_of(*input.high);
  if (!input.high) return "at least " + text_of(*input.low);
  return text_of(*input.low) + " to " + text_of(*input.high);
}

}  // namespace

void check_signature(const std::vector<InputSpec>& inputs,
                     const std::vector<std::pair<std::string, TensorType>>& given, const std::string& source) {
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

void check_values(const std::vector<InputSpec>& inputs, const Batch& batch, const std::string& source) {
  if (batch.tensors.empty()) return;
  for (const InputSpec& input : inputs) {
    const auto found = std::find_if(batch.tensors.begin(), batch.tensors.end(),
                                    [&](const NamedTensor& tensor) { return tensor.name == input.name; });
    if (found == batch.tensors.end() || found->type != input.type ||
        std::ssize(found->bytes) != input.type.bytes())
      throw Error({.what = "a batch is not what its source said it would be",
                   .where = source + ", samples from " + std::to_string(batch.first_sample) + " on",
                   .found = found == batch.tensors.end() ? "no '" + input.name + "'"
                                                         : "'" + input.name + "' " + found->type.text() + " of " +
                                                               std::to_string(found->bytes.size()) + " bytes",
                   .expected = "'" + input.name + "' " + input.type.text()});
    if (!input.low && !input.high) continue;
    const int64_t at = first_outside(*found, input);
    if (at < 0) continue;
    const int64_t each = std::max<int64_t>(1, found->type.elements() / std::max<int64_t>(1, batch.count));
    throw Error({.what = "a number of the data is outside what the model takes",
                 .where = source + ", input '" + input.name + "', sample " +
                          std::to_string(batch.first_sample + at / each),
                 .found = text_of(load_element(found->bytes.data(), found->type.dtype, at)) + " at element " +
                          std::to_string(at % each),
                 .expected = limits_of(input),
                 .remedy = "Correct the data, or make the model for it"});
  }
}

int64_t count_nonzero(const NamedTensor& tensor) {
  const size_t size = size_of(tensor.type.dtype);
  static constexpr std::byte kZero[16] = {};
  int64_t count = 0;
  if (is_floating(tensor.type.dtype)) {
    for (int64_t i = 0; i < tensor.type.elements(); ++i)
      count += load_element(tensor.bytes.data(), tensor.type.dtype, i) != 0;
    return count;
  }
  for (size_t at = 0; at + size <= tensor.bytes.size(); at += size)
    count += std::memcmp(tensor.bytes.data() + at, kZero, size) != 0;
  return count;
}

}  // namespace ramet
