#pragma once

#include <span>
#include <type_traits>
#include <utility>

#include "ramet/error.h"
#include "ramet/types.h"

namespace ramet::v0 {

/// The DType of the C++ type T: float, double, an integer type of 8 to 64 bits, bool, or std::byte (u8). Other types do
/// not compile.
template <typename T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>)
    return DType::kF32;
  else if constexpr (std::is_same_v<U, int32_t>)
    return DType::kI32;
  else if constexpr (std::is_same_v<U, int64_t>)
    return DType::kI64;
  else if constexpr (std::is_same_v<U, double>)
    return DType::kF64;
  else if constexpr (std::is_same_v<U, int8_t>)
    return DType::kI8;
  else if constexpr (std::is_same_v<U, int16_t>)
    return DType::kI16;
  else if constexpr (std::is_same_v<U, uint16_t>)
    return DType::kU16;
  else if constexpr (std::is_same_v<U, uint32_t>)
    return DType::kU32;
  else if constexpr (std::is_same_v<U, uint64_t>)
    return DType::kU64;
  else if constexpr (std::is_same_v<U, bool>)
    return DType::kBool;
  else if constexpr (std::is_same_v<U, uint8_t> || std::is_same_v<U, std::byte>)
    return DType::kU8;
  else
    static_assert(sizeof(T) == 0, "no element type of Ramet; use float, double, an integer of 8 to 64 bits, or bool");
}

/// A view of the caller's numbers, row-major and without gaps. It has no shape: the input that reads it has one. Error
/// where the input has another element type, or where the view does not hold a whole number of samples.
class ArrayView {
 public:
  ArrayView() = default;
  ArrayView(DType dtype, const void* data, int64_t elements)
      : dtype_(dtype), data_(static_cast<const std::byte*>(data)), elements_(elements) {}
  /// A view of a contiguous range, such as a std::vector, a std::array or a std::span.
  template <typename Range>
    requires requires(const Range& range) { std::span(range); }
  ArrayView(const Range& range) : ArrayView(std::span(range)) {}
  template <typename T, size_t N>
  ArrayView(std::span<T, N> numbers) : ArrayView(dtype_of<T>(), numbers.data(), static_cast<int64_t>(numbers.size())) {}

  DType dtype() const { return dtype_; }
  const std::byte* data() const { return data_; }
  int64_t elements() const { return elements_; }
  int64_t bytes() const { return elements_ * static_cast<int64_t>(size_of(dtype_)); }
  /// Elements [first, first + count); throws Error when the view does not have them all.
  ArrayView part(int64_t first, int64_t count) const {
    if (first < 0 || count < 0 || first > elements_ || count > elements_ - first)
      throw Error({.what = "a part of an array that reaches beyond it",
                   .found = "elements " + std::to_string(first) + " to " + std::to_string(first + count),
                   .expected = "0 to " + std::to_string(elements_)});
    return {dtype_, data_ + first * static_cast<int64_t>(size_of(dtype_)), count};
  }

 private:
  DType dtype_ = DType::kF32;
  const std::byte* data_ = nullptr;
  int64_t elements_ = 0;
};

/// Views, each with the name of the input that reads it.
using NamedViews = std::vector<std::pair<std::string, ArrayView>>;

/// A tensor that a program returned, row-major, with the name of the output.
class RAMET_API Array {
 public:
  Array() = default;
  /// Throws Error unless `bytes` has type.bytes() bytes.
  Array(std::string name, TensorType type, std::vector<std::byte> bytes);

  const std::string& name() const { return name_; }
  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  int64_t elements() const { return type_.elements(); }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// Element `index`, in row-major order, as a double; throws Error when it does not exist.
  double at(int64_t index) const;
  /// All elements, converted to float.
  std::vector<float> floats() const;
  /// For each row of the last dimension, the index of its greatest element; the first one among equals.
  std::vector<int64_t> argmax() const;

 private:
  std::string name_;
  TensorType type_;
  std::vector<std::byte> bytes_;
};

/// The arrays that a program returned.
class RAMET_API Arrays {
 public:
  Arrays() = default;
  explicit Arrays(std::vector<Array> all) : all_(std::move(all)) {}

  /// The array of that name; throws Error, with the known names, when it does not exist.
  const Array& operator[](std::string_view name) const;
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  size_t size() const { return all_.size(); }

 private:
  std::vector<Array> all_;
};

}  // namespace ramet::v0
