#include "ramet/ir/attribute.h"

#include <charconv>
#include <cmath>

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

}  // namespace

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

std::string text_of(const Attribute& attribute) {
  struct Printer {
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const { return float_text(value); }
    std::string operator()(const std::string& value) const { return quote(value); }
    std::string operator()(const std::vector<int64_t>& value) const { return list_text(value); }
    std::string operator()(DType value) const { return std::string(name_of(value)); }
    static std::string list_text(const std::vector<int64_t>& value) {
      std::string text = "[";
      for (size_t i = 0; i < value.size(); ++i) text += (i ? "," : "") + std::to_string(value[i]);
      return text + "]";
    }
  };
  return std::visit(Printer{}, attribute);
}

}  // namespace ramet::ir
