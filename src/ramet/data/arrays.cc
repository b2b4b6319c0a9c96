#include "ramet/data/arrays.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <set>

#include "ramet/base/error.h"
#include "ramet/data/sample_order.h"

namespace ramet::data {
namespace {

/// Element types that are delivered as another unless the model takes them as they are.
struct Replaced {
  std::string_view name;
  DType delivered;
};
constexpr Replaced kReplaced[] = {{"f64", DType::kF32}, {"i8", DType::kI32},  {"i16", DType::kI32},
                                  {"u16", DType::kI32}, {"u32", DType::kI64}, {"u64", DType::kI64}};

/// Converts `count` elements from `from`, which need not be aligned; gives the first that does not fit, or -1.
using Convert = int64_t (*)(const std::byte* from, std::byte* to, int64_t count);

template <typename From, typename To>
int64_t convert_integers(const std::byte* from, std::byte* to, int64_t count) {
  auto* const out = reinterpret_cast<To*>(to);
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    if (!std::in_range<To>(value)) return i;
    out[i] = static_cast<To>(value);
  }
  return -1;
}

template <typename From, float (*As)(From)>
int64_t convert_floats(const std::byte* from, std::byte* to, int64_t count) {
  auto* const out = reinterpret_cast<float*>(to);
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    out[i] = As(value);
  }
  return -1;
}

float as_float(double value) { return static_cast<float>(value); }

template <typename To>
Convert to_integer(std::string_view stored) {
  if (stored == "i8") return convert_integers<int8_t, To>;
  if (stored == "i16") return convert_integers<int16_t, To>;
  if (stored == "i32") return convert_integers<int32_t, To>;
  if (stored == "i64") return convert_integers<int64_t, To>;
  if (stored == "u8" || stored == "bool") return convert_integers<uint8_t, To>;
  if (stored == "u16") return convert_integers<uint16_t, To>;
  if (stored == "u32") return convert_integers<uint32_t, To>;
  if (stored == "u64") return convert_integers<uint64_t, To>;
  return nullptr;
}

/// Null: the bytes are copied, or there is no way (then `possible` is false).
Convert conversion(std::string_view stored, DType delivered, bool& possible) {
  possible = true;
  if (stored == name_of(delivered)) return nullptr;
  Convert found = nullptr;
  if (delivered == DType::kI32) found = to_integer<int32_t>(stored);
  if (delivered == DType::kI64) found = to_integer<int64_t>(stored);
  if (delivered == DType::kI8) found = to_integer<int8_t>(stored);
  if (delivered == DType::kI16) found = to_integer<int16_t>(stored);
  if (delivered == DType::kU8) found = to_integer<uint8_t>(stored);
  if (delivered == DType::kU16) found = to_integer<uint16_t>(stored);
  if (delivered == DType::kU32) found = to_integer<uint32_t>(stored);
  if (delivered == DType::kU64) found = to_integer<uint64_t>(stored);
  if (delivered == DType::kF32) {
    if (stored == "f64") found = convert_floats<double, as_float>;
    if (stored == "f16") found = convert_floats<uint16_t, f16_to_f32>;
    if (stored == "bf16") found = convert_floats<uint16_t, bf16_to_f32>;
  }
  possible = found != nullptr;
  return found;
}

std::string place_of(const ArrayColumn& column) {
  return (column.where.empty() ? "" : column.where + ": ") + "'" + column.name + "'";
}

class ArraySource final : public Source {
 public:
  ArraySource(std::vector<ArrayColumn> columns, ArrayOptions options) : options_(std::move(options)) {
    if (columns.empty()) throw Error({.what = "no array to read samples from"});
    std::set<std::string> names;
    for (ArrayColumn& column : columns) add(std::move(column), names);
    for (const auto& [name, type] : options_.types)
      if (!names.contains(name))
        throw Error({.what = "a type is given for an array that is not there", .where = "'" + name + "'"});
    order_.emplace(samples_, OrderOptions{options_.shuffle, options_.seed, options_.held_out, options_.evaluation});
  }

  Signature signature(int64_t count) const override {
    Signature signature;
    for (const Column& column : columns_) {
      std::vector<int64_t> dims = column.array.shape.dims();
      dims[0] = count;
      signature.emplace_back(column.array.name, TensorType{column.type, Shape(std::move(dims))});
    }
    return signature;
  }

  void fill(int64_t first, int64_t count, const Places& places) const override {
    check_samples(first, count);
    const std::vector<int64_t> rows = order_->rows(first, count);
    for (int64_t i = 0; i < count; ++i)
      for (size_t k = 0; k < columns_.size(); ++k)
        copy_row(columns_[k], rows[static_cast<size_t>(i)], places.tensors[k], i);
  }

  int64_t epoch_of(int64_t index) const override { return order_->epoch_of(index); }
  int64_t epoch_samples(int64_t) const override { return order_->size(); }
  std::string text_of(int64_t index) const override { return "row " + std::to_string(order_->row(index)); }
  int64_t host_bytes() const override {
    int64_t bytes = 0;
    for (const Column& column : columns_) bytes += column.array.host_bytes;
    return bytes;
  }

  Hash identity() const override {
    std::call_once(hashed_, [this] { hash_ = hash_contents(); });
    return hash_;
  }

 private:
  struct Column {
    ArrayColumn array;
    DType type = DType::kF32;
    Convert convert = nullptr;
    int64_t row_elements = 0, row_bytes = 0, place_bytes = 0;
  };

  void add(ArrayColumn array, std::set<std::string>& names) {
    if (!names.insert(array.name).second)
      throw Error({.what = "two arrays have one name", .where = place_of(array), .remedy = "Rename one of them"});
    if (array.shape.rank() == 0)
      throw Error({.what = "an array without dimensions has no samples", .where = place_of(array)});
    if (columns_.empty()) samples_ = array.shape[0];
    if (array.shape[0] != samples_)
      throw Error({.what = "arrays have different numbers of samples, their first dimension",
                   .where = place_of(array),
                   .found = std::to_string(array.shape[0]),
                   .expected = std::to_string(samples_) + ", as '" + columns_[0].array.name + "' has"});
    if (samples_ == 0) throw Error({.what = "an array has no samples", .where = place_of(array)});
    Column column;
    const auto asked = options_.types.find(array.name);
    column.type = asked == options_.types.end() ? delivered_type(array.stored) : asked->second;
    bool possible = true;
    column.convert = conversion(array.stored, column.type, possible);
    if (!possible)
      throw Error({.what = "an array cannot be delivered in the type that the model takes",
                   .where = place_of(array),
                   .found = array.stored,
                   .expected = std::string(name_of(column.type)),
                   .remedy = "Convert the file, or let the model take " +
                             std::string(name_of(delivered_type(array.stored))) + " and cast it"});
    column.row_elements = array.shape.elements() / samples_;
    column.row_bytes = column.row_elements * stored_size(array.stored);
    column.place_bytes = column.row_elements * static_cast<int64_t>(size_of(column.type));
    column.array = std::move(array);
    columns_.push_back(std::move(column));
  }

  static void copy_row(const Column& column, int64_t row, std::byte* place, int64_t sample) {
    const std::byte* const from = column.array.data + row * column.row_bytes;
    std::byte* const to = place + sample * column.place_bytes;
    if (!column.convert) {
      if (column.row_bytes > 0) std::memcpy(to, from, static_cast<size_t>(column.row_bytes));
      return;
    }
    if (const int64_t bad = column.convert(from, to, column.row_elements); bad >= 0)
      throw Error(
          {.what = "a number of an array does not fit the type that the model takes",
           .where = place_of(column.array) + ", row " + std::to_string(row) + ", element " + std::to_string(bad),
           .found = column.array.stored,
           .expected = std::string(name_of(column.type))});
  }

  Hash hash_contents() const {
    constexpr int64_t kPiece = int64_t{16} << 20;
    int64_t total = 0, done = 0;
    for (const Column& column : columns_) total += column.row_bytes * samples_;
    Hasher hasher;
    hasher.update("arrays");
    for (const Column& column : columns_) {
      hasher.update("\n" + column.array.name + " " + column.array.stored + column.array.shape.text() + " " +
                    std::string(name_of(column.type)) + "\n");
      const int64_t bytes = column.row_bytes * samples_;
      for (int64_t at = 0; at < bytes; at += kPiece) {
        const int64_t piece = std::min(kPiece, bytes - at);
        hasher.update(column.array.data + at, static_cast<size_t>(piece));
        done += piece;
        if (options_.progress) options_.progress(done, total);
      }
    }
    return source_identity(
        "arrays", hasher.digest().hex(),
        {order_->options().shuffle ? 1.0 : 0.0, static_cast<double>(options_.seed >> 32),
         static_cast<double>(options_.seed & 0xFFFFFFFFu), options_.held_out, options_.evaluation ? 1.0 : 0.0});
  }

  ArrayOptions options_;
  std::vector<Column> columns_;
  int64_t samples_ = 0;  // of the arrays
  std::optional<SampleOrder> order_;
  mutable std::once_flag hashed_;
  mutable Hash hash_;
};

}  // namespace

DType delivered_type(std::string_view stored) {
  for (const Replaced& each : kReplaced)
    if (each.name == stored) return each.delivered;
  return dtype_from_name(stored);
}

int64_t stored_size(std::string_view stored) { return static_cast<int64_t>(size_of(dtype_from_name(stored))); }

std::shared_ptr<const Source> make_array_source(std::vector<ArrayColumn> columns, ArrayOptions options) {
  return std::make_shared<ArraySource>(std::move(columns), std::move(options));
}

}  // namespace ramet::data
