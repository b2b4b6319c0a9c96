#include "ramet/front/torch_fields.h"

#include <limits>

#include "ramet/base/error_types.h"

namespace ramet::front {
namespace {

/// torch's numbers of element types (ScalarType of torch/_export/serde/schema.py).
constexpr std::array<TorchDType, 22> kScalarTypes = {{
    {1, "u8", DType::kU8},
    {2, "i8", DType::kI8},
    {3, "i16", DType::kI16},
    {4, "i32", DType::kI32},
    {5, "i64", DType::kI64},
    {6, "f16", DType::kF16},
    {7, "f32", DType::kF32},
    {8, "f64", DType::kF64},
    {9, "complex32", std::nullopt},
    {10, "complex64", std::nullopt},
    {11, "complex128", std::nullopt},
    {12, "bool", DType::kBool},
    {13, "bf16", DType::kBF16},
    {28, "u16", DType::kU16},
    {29, "f8e4m3", DType::kF8E4M3},
    {30, "f8e5m2", DType::kF8E5M2},
    {31, "float8_e4m3fnuz", std::nullopt},
    {32, "float8_e5m2fnuz", std::nullopt},
    {33, "float8_e8m0fnu", std::nullopt},
    {34, "u32", DType::kU32},
    {35, "u64", DType::kU64},
    {0, "unknown", std::nullopt},
}};
}  // namespace

Json parse_torch_text(std::string_view text, const std::string& source) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw FormatError({.what = "a text of torch.export is no JSON", .where = source, .found = error.what()});
  }
}

void TorchFields::refuse(const std::string& what, const std::string& found, const std::string& expected,
                         const std::string& remedy) const {
  throw FormatError({.what = what,
                     .where = at_.empty() ? source_ : source_ + ": " + at_,
                     .found = found,
                     .expected = expected,
                     .remedy = remedy});
}

const Json& TorchFields::field(const Json& of, const char* name) const {
  if (!of.is_object()) refuse("a program of torch.export has no object where one must be", of.type_name(), name);
  const auto found = of.find(name);
  if (found == of.end()) refuse("a program of torch.export lacks a field", "", name);
  return *found;
}
const Json& TorchFields::object(const Json& of, const char* name) const {
  const Json& value = field(of, name);
  if (!value.is_object()) refuse_kind(name, value, "an object");
  return value;
}
const Json& TorchFields::list(const Json& of, const char* name) const {
  const Json& value = field(of, name);
  if (!value.is_array()) refuse_kind(name, value, "a list");
  return value;
}
std::string TorchFields::text_of(const Json& value, std::string_view name) const {
  if (!value.is_string()) refuse_kind(name, value, "a text");
  return value.get<std::string>();
}
int64_t TorchFields::integer(const Json& value, std::string_view name) const {
  if (!value.is_number_integer()) refuse_kind(name, value, "an integer");
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    refuse_kind(name, value, "an integer of 64 bits");
  return value.get<int64_t>();
}
double TorchFields::number(const Json& value, std::string_view name) const {
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) {
    const std::string word = value.get<std::string>();
    if (word == "Infinity") return std::numeric_limits<double>::infinity();
    if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  refuse_kind(name, value, "a number");
}
bool TorchFields::flag(const Json& value, std::string_view name) const {
  if (!value.is_boolean()) refuse_kind(name, value, "true or false");
  return value.get<bool>();
}
Member TorchFields::member(const Json& of, std::string_view name) const {
  if (!of.is_object() || of.size() != 1) refuse_kind(name, of, "an object with one field");
  return {of.begin().key(), *of.begin()};
}
void TorchFields::refuse_kind(std::string_view name, const Json& value, const std::string& expected) const {
  refuse("'" + std::string(name) + "' of a program of torch.export is of the wrong kind", value.type_name(), expected);
}

const TorchDType& TorchFields::scalar_type(const Json& value) const {
  const int64_t wanted = integer(value, "dtype");
  for (const TorchDType& type : kScalarTypes)
    if (type.number == wanted) return type;
  refuse("an element type that is not known", std::to_string(wanted));
}

}  // namespace ramet::front
