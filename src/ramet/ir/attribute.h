#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/base/host_tensor.h"

namespace ramet::ir {

/// A tensor that a graph carries. Copies share its bytes, which never change.
class TensorData {
 public:
  /// An empty tensor of f32.
  TensorData();
  explicit TensorData(HostTensor tensor);

  const HostTensor& tensor() const { return *tensor_; }
  const TensorType& type() const { return tensor_->type; }
  const std::vector<std::byte>& bytes() const { return tensor_->data; }
  /// Of type and bytes.
  const Hash& hash() const { return hash_; }
  friend bool operator==(const TensorData& a, const TensorData& b) { return a.hash_ == b.hash_; }

 private:
  std::shared_ptr<const HostTensor> tensor_;
  Hash hash_;
};

/// A compile-time constant of a node.
using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, DType, TensorData>;

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
  const TensorData& get_tensor(const std::string& name) const;
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
/// read back to the same bits and always carry a '.', 'e', "inf" or "nan". A tensor of at most 16 elements prints them,
/// as in tensor(i32[2], [1,2]); a larger one, or one with NaN, prints its hash and its little-endian bytes in base64,
/// as in tensor(f32[64], "HASH", "BASE64").
std::string text_of(const Attribute& attribute);
/// The same, but of a tensor of more than 16 elements the hash alone: for listings and keys, not to be read back.
std::string short_text_of(const Attribute& attribute);

}  // namespace ramet::ir
