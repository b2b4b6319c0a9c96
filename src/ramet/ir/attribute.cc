#include "ramet/ir/attribute.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "ramet/base/base64.h"
#include "ramet/base/error.h"

namespace ramet::ir {
namespace {

template <typename T>
const T& get(const std::map<std::string, Attribute>& items, const std::string& name, const char* kind) {
  const auto found = items.find(name);
  if (found == items.end()) throw Error({.what = "missing attribute '" + name + "'", .expected = kind});
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  throw Error(
      {.what = "attribute '" + name + "' is of the wrong kind", .found = text_of(found->second), .expected = kind});
}

std::string quote(const std::string& text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      quoted += '\\', quoted += c;
    else if (c == '\n')
      quoted += "\\n";
    else
      quoted += c;
  }
  return quoted + "\"";
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

constexpr int64_t kPrintedElements = 16;

/// The elements as a list, or nothing where the list would not read back to the same bytes.
std::string elements_text(const HostTensor& tensor) {
  std::string text = "[";
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (i) text += ",";
    if (tensor.type.dtype == DType::kI64 || tensor.type.dtype == DType::kU64) {
      const int64_t value = load_integer(tensor.data.data(), tensor.type.dtype, i);
      text += is_unsigned(tensor.type.dtype) ? std::to_string(static_cast<uint64_t>(value)) : std::to_string(value);
      continue;
    }
    const double value = tensor.get(i);
    if (std::isnan(value)) return "";
    HostTensor again(TensorType{tensor.type.dtype, Shape{1}});
    again.set(0, value);
    const size_t size = again.data.size();
    if (std::memcmp(again.data.data(), tensor.data.data() + static_cast<size_t>(i) * size, size) != 0) return "";
    text += is_floating(tensor.type.dtype) ? float_text(value) : std::to_string(static_cast<int64_t>(value));
  }
  return text + "]";
}

std::string tensor_text(const TensorData& data, bool whole) {
  const HostTensor& tensor = data.tensor();
  const std::string head = "tensor(" + tensor.type.text() + ", ";
  const std::string elements = tensor.elements() <= kPrintedElements ? elements_text(tensor) : "";
  if (!elements.empty()) return head + elements + ")";
  return head + quote(data.hash().hex()) + (whole ? ", " + quote(base64(tensor.data)) : "") + ")";
}

struct AttributePrinter {
  bool whole;
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return float_text(value); }
  std::string operator()(const std::string& value) const { return quote(value); }
  std::string operator()(const std::vector<int64_t>& value) const {
    std::string text = "[";
    for (size_t i = 0; i < value.size(); ++i) text += (i ? "," : "") + std::to_string(value[i]);
    return text + "]";
  }
  std::string operator()(DType value) const { return std::string(name_of(value)); }
  std::string operator()(const TensorData& value) const { return tensor_text(value, whole); }
};

}  // namespace

TensorData::TensorData() : TensorData(HostTensor(TensorType{DType::kF32, Shape{0}})) {}

TensorData::TensorData(HostTensor tensor) : tensor_(std::make_shared<const HostTensor>(std::move(tensor))) {
  if (static_cast<int64_t>(tensor_->data.size()) != tensor_->type.bytes())
    throw Error({.what = "a tensor has another number of bytes than its type",
                 .where = tensor_->type.text(),
                 .found = std::to_string(tensor_->data.size()),
                 .expected = std::to_string(tensor_->type.bytes())});
  hash_ = Hasher().update(tensor_->type.text() + "\n").update(tensor_->data.data(), tensor_->data.size()).digest();
}

Attributes& Attributes::set(const std::string& name, Attribute value) {
  items_[name] = std::move(value);
  return *this;
}

bool Attributes::get_bool(const std::string& name) const { return get<bool>(items_, name, "true or false"); }
int64_t Attributes::get_int(const std::string& name) const { return get<int64_t>(items_, name, "an integer"); }
double Attributes::get_float(const std::string& name) const {
  const auto found = items_.find(name);
  if (found != items_.end())
    if (const auto* integer = std::get_if<int64_t>(&found->second)) return static_cast<double>(*integer);
  return get<double>(items_, name, "a number");
}
const std::string& Attributes::get_string(const std::string& name) const {
  return get<std::string>(items_, name, "a string");
}
const std::vector<int64_t>& Attributes::get_ints(const std::string& name) const {
  return get<std::vector<int64_t>>(items_, name, "a list of integers");
}
DType Attributes::get_dtype(const std::string& name) const { return get<DType>(items_, name, "an element type"); }
const TensorData& Attributes::get_tensor(const std::string& name) const {
  return get<TensorData>(items_, name, "a tensor");
}

std::string text_of(const Attribute& attribute) { return std::visit(AttributePrinter{true}, attribute); }
std::string short_text_of(const Attribute& attribute) { return std::visit(AttributePrinter{false}, attribute); }

}  // namespace ramet::ir
