#pragma once

#include "ramet/base/house.h"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "ramet/base/dtype.h"

namespace ramet::front {

using Json = nlohmann::json;

/// Parses a text; throws FormatError where it is no JSON.
Json parse_torch_text(std::string_view text, const std::string& source);

/// An element type of torch.
struct TorchDType {
  int64_t number;
  const char* name;
  std::optional<DType> dtype;
};

/// The member that a union of torch.export's format has: its name and its value.
struct Member {
  std::string_view name;
  const Json& value;
};

/// Typed access to a text of torch.export: all functions throw FormatError with the place, and nothing else.
class TorchFields {
 public:
  explicit TorchFields(std::string source) : source_(std::move(source)) {}

  const Json& field(const Json& of, const char* name) const;
  const Json& object(const Json& of, const char* name) const;
  const Json& list(const Json& of, const char* name) const;
  /// The text of a field.
  std::string text(const Json& of, const char* name) const { return text_of(field(of, name), name); }
  std::string text_of(const Json& value, std::string_view name) const;
  int64_t integer(const Json& value, std::string_view name) const;
  double number(const Json& value, std::string_view name) const;
  bool flag(const Json& value, std::string_view name) const;
  Member member(const Json& of, std::string_view name) const;
  const TorchDType& scalar_type(const Json& value) const;
  /// The word of a number, one of `words`.
  template <size_t N>
  std::string word(const std::array<const char*, N>& words, int64_t number, const char* name) const {
    if (number < 0 || number >= static_cast<int64_t>(N))
      refuse("'" + std::string(name) + "' of a program of torch.export is out of range", std::to_string(number));
    return words[static_cast<size_t>(number)];
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& found = "", const std::string& expected = "",
                           const std::string& remedy = "") const;
  [[noreturn]] void refuse_kind(std::string_view name, const Json& value, const std::string& expected) const;

  /// The part of the text that is read, for messages.
  void at(std::string part) { at_ = std::move(part); }

 private:
  std::string source_, at_{};
};

}  // namespace ramet::front
