#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ramet/base/dtype.h"

namespace ramet::ir {

/// A compile-time constant of a node.
using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, DType>;

/// Named constants of a node, in order of name. Reading one that is absent or of another kind throws Error
/// naming it; `get_*_or` gives a default instead when absent.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, Attribute>> items) : items_(items) {}

  bool has(const std::string& name) const { return items_.count(name) != 0; }
  Attributes& set(const std::string& name, Attribute value);
  void erase(const std::string& name) { items_.erase(name); }

  bool get_bool(const std::string& name) const;
  int64_t get_int(const std::string& name) const;
  double get_float(const std::string& name) const;  ///< an int is accepted
  const std::string& get_string(const std::string& name) const;
  const std::vector<int64_t>& get_ints(const std::string& name) const;
  DType get_dtype(const std::string& name) const;
  bool get_bool_or(const std::string& name, bool otherwise) const { return has(name) ? get_bool(name) : otherwise; }
  int64_t get_int_or(const std::string& name, int64_t otherwise) const { return has(name) ? get_int(name) : otherwise; }
  double get_float_or(const std::string& name, double otherwise) const {
    return has(name) ? get_float(name) : otherwise;
  }
  std::string get_string_or(const std::string& name, const std::string& otherwise) const {
    return has(name) ? get_string(name) : otherwise;
  }

  bool empty() const { return items_.empty(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  std::map<std::string, Attribute> items_;
};

/// One attribute as the text form prints it: true, 3, 0.5, "text", [1,2], bf16. Floats print so that they
/// read back to the same bits and always carry a '.', 'e', "inf" or "nan".
std::string text_of(const Attribute& attribute);

}  // namespace ramet::ir
