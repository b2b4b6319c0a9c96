#include "ramet/data/checked.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "ramet/base/error.h"

namespace ramet::data {
namespace {

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

std::string limits_of(const ExpectedTensor& expected) {
  if (expected.low && expected.high) return number_text(*expected.low) + " to " + number_text(*expected.high);
  return expected.low ? number_text(*expected.low) + " or more" : number_text(*expected.high) + " or less";
}

template <typename T>
int64_t first_outside(const std::byte* data, int64_t elements, double low, double high) {
  const auto* values = reinterpret_cast<const T*>(data);
  for (int64_t i = 0; i < elements; ++i)
    if (const auto value = static_cast<double>(values[i]); !(value >= low && value <= high)) return i;
  return -1;
}

class CheckedSource final : public Source {
 public:
  CheckedSource(std::shared_ptr<const Source> source, std::vector<ExpectedTensor> limited)
      : source_(std::move(source)), limited_(std::move(limited)) {}

  Signature signature(int64_t count) const override { return source_->signature(count); }
  void fill(int64_t first, int64_t count, const Places& places) const override {
    source_->fill(first, count, places);
    const Signature signature = source_->signature(count);
    for (const ExpectedTensor& expected : limited_)
      for (size_t i = 0; i < signature.size(); ++i)
        if (signature[i].first == expected.name)
          check_values(expected, signature[i].second, places.tensors[i], count,
                       [&](int64_t sample) { return source_->text_of(first + sample); });
  }
  int64_t epoch_of(int64_t index) const override { return source_->epoch_of(index); }
  int64_t epoch_samples(int64_t epoch) const override { return source_->epoch_samples(epoch); }
  Hash identity() const override { return source_->identity(); }
  bool repeatable() const override { return source_->repeatable(); }
  bool by_step() const override { return source_->by_step(); }
  int64_t first_sample() const override { return source_->first_sample(); }
  std::string text_of(int64_t index) const override { return source_->text_of(index); }
  int64_t host_bytes() const override { return source_->host_bytes(); }

 private:
  std::shared_ptr<const Source> source_;
  std::vector<ExpectedTensor> limited_;
};

}  // namespace

void check_values(const ExpectedTensor& expected, const TensorType& type, const std::byte* data, int64_t samples,
                  const std::function<std::string(int64_t sample)>& text_of) {
  if (!expected.low && !expected.high) return;
  const double low = expected.low.value_or(-INFINITY), high = expected.high.value_or(INFINITY);
  const int64_t elements = type.elements();
  int64_t found = -1;
  switch (type.dtype) {
    case DType::kI32: found = first_outside<int32_t>(data, elements, low, high); break;
    case DType::kI64: found = first_outside<int64_t>(data, elements, low, high); break;
    case DType::kF32: found = first_outside<float>(data, elements, low, high); break;
    case DType::kBool:
    case DType::kU8: found = first_outside<uint8_t>(data, elements, low, high); break;
    default:
      for (int64_t i = 0; i < elements && found < 0; ++i)
        if (const double value = load_element(data, type.dtype, i); !(value >= low && value <= high)) found = i;
  }
  if (found < 0) return;
  const int64_t each = elements / samples;
  throw Error(
      {.what = "a value of the data is outside what the model takes",
       .where = "'" + expected.name + "' of " + text_of(found / each) + ", element " + std::to_string(found % each),
       .found = number_text(load_element(data, type.dtype, found)),
       .expected = limits_of(expected)});
}

std::shared_ptr<const Source> make_checked(std::shared_ptr<const Source> source, std::vector<ExpectedTensor> expected,
                                           int64_t samples) {
  const Signature signature = source->signature(samples);
  std::vector<std::string> names;
  for (const auto& each : signature) names.push_back(each.first);
  for (const ExpectedTensor& each : expected) {
    const auto found = std::find(names.begin(), names.end(), each.name);
    if (found == names.end()) {
      std::string all;
      for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
      const std::string near = nearest_name(each.name, names);
      throw Error({.what = "the data has no tensor for an input of the model",
                   .where = "'" + each.name + "' " + each.type.text(),
                   .found = all.empty() ? "no tensor" : all,
                   .remedy = near.empty() ? "" : "Rename '" + near + "', if that is meant"});
    }
    const TensorType& type = signature[static_cast<size_t>(found - names.begin())].second;
    if (type != each.type)
      throw Error({.what = type.dtype == each.type.dtype ? "the data gives another shape than the model's input has"
                                                         : "the data gives another type than the model's input has",
                   .where = "'" + each.name + "'",
                   .found = type.text(),
                   .expected = each.type.text()});
  }
  std::erase_if(expected, [](const ExpectedTensor& each) { return !each.low && !each.high; });
  if (expected.empty()) return source;
  return std::make_shared<CheckedSource>(std::move(source), std::move(expected));
}

}  // namespace ramet::data
