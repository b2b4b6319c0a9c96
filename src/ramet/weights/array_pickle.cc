#include "ramet/weights/array_pickle.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "ramet/weights/unpickler.h"

namespace ramet::weights {
namespace {

using Id = PickleValue::Id;
using Kind = PickleValue::Kind;

/// The functions and classes that a pickle may name. Objects are of the kinds kDtype, kArray and kMatrix.
enum ArrayGlobal : int { kReconstruct = 1, kArrayClass, kDtype, kMatrix, kDefaultDict, kListClass, kArray };

/// The element type of NumPy's code, such as "f4"; nothing for others.
std::optional<DType> type_of(std::string_view code) {
  static constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"f2", DType::kF16}, {"f4", DType::kF32}, {"f8", DType::kF64}, {"i1", DType::kI8},
      {"i2", DType::kI16}, {"i4", DType::kI32}, {"i8", DType::kI64}, {"u1", DType::kU8},
      {"u2", DType::kU16}, {"u4", DType::kU32}, {"u8", DType::kU64}, {"b1", DType::kBool}};
  for (const auto& [name, type] : kTypes)
    if (name == code) return type;
  return {};
}

/// An array is an object of items {shape, dtype, data}, and `number` 1 where it lies in Fortran's order. A matrix is an
/// object of item {its table}. A dtype is an object of text "f4", and `number` 1 where it is big-endian.
class ArrayUnpickler final : public Unpickler {
 public:
  using Unpickler::Unpickler;

  PickledArray array(Id id) const {
    const PickleValue& object = value(id);
    if (!is(id, Kind::kObject, kArray) || object.items.size() != 3) refuse("a value that is no array of numbers");
    const PickleValue& dtype = value(object.items[1]);
    const auto type = type_of(dtype.text);
    if (!type) refuse("an array whose elements are not numbers", "'" + dtype.text + "'");
    if (dtype.number == 1 && size_of(*type) > 1) refuse("a big-endian array");
    const std::vector<int64_t> dims = numbers(object.items[0]);
    if (object.number == 1 && dims.size() > 1) refuse("an array in Fortran's order");
    const PickleValue& data = value(object.items[2]);
    uint64_t bytes = size_of(*type);
    for (const int64_t extent : dims)
      if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes))
        refuse("an array of impossible extents");
    if (data.kind != Kind::kText || data.text.size() != bytes)
      refuse("an array with other bytes than its extents say", std::to_string(data.text.size()) + " bytes");
    return {*type, Shape(dims), data.text};
  }

  PickledRows rows(Id id) const {
    if (is(id, Kind::kObject, kArray)) {  // of one object
      const PickleValue& list = value(value(id).items.size() == 3 ? value(id).items[2] : id);
      if (list.kind != Kind::kList || list.items.size() != 1) refuse("an array that does not hold one matrix");
      id = list.items[0];
    }
    if (!is(id, Kind::kObject, kMatrix) || value(id).items.size() != 1) refuse("a value that is no sparse matrix");
    const Id table = value(id).items[0];
    const std::vector<int64_t> shape = numbers(entry(table, "_shape"));
    if (shape.size() != 2 || shape[0] < 0 || shape[1] < 0) refuse("a matrix without two extents");
    PickledRows result{shape[0], shape[1], wholes(entry(table, "indptr")), wholes(entry(table, "indices")), {}};
    const PickledArray values = array(entry(table, "data"));
    const auto entries = static_cast<int64_t>(result.columns.size());
    if (values.shape.rank() != 1 || values.elements() != entries) refuse("a matrix with unequal entries");
    for (int64_t i = 0; i < entries; ++i) result.values.push_back(static_cast<float>(values.real(i)));
    if (std::ssize(result.pointers) != result.rows + 1 || result.pointers.front() != 0 ||
        result.pointers.back() != entries)
      refuse("a matrix whose rows do not cover its entries");
    for (int64_t i = 0; i < result.rows; ++i)
      if (result.pointers[static_cast<size_t>(i)] > result.pointers[static_cast<size_t>(i) + 1])
        refuse("a matrix whose rows do not cover its entries");
    for (const int64_t column : result.columns)
      if (column < 0 || column >= result.columns_count)
        refuse("a matrix with an entry outside its columns", std::to_string(column));
    return result;
  }

  PickledLists lists(Id id) const {
    const PickleValue& table = value(id);
    if (table.kind != Kind::kDict) refuse("a value that is no table of lists");
    PickledLists result;
    for (size_t i = 0; i + 1 < table.items.size(); i += 2) {
      if (value(table.items[i]).kind != Kind::kInt) refuse("a table with a key that is no whole number");
      result.emplace_back(value(table.items[i]).number, numbers(table.items[i + 1]));
    }
    return result;
  }

 private:
  int global(const std::string& module, const std::string& name, std::string&) override {
    const std::string whole = module + "." + name;
    if (whole == "numpy.core.multiarray._reconstruct" || whole == "numpy._core.multiarray._reconstruct")
      return kReconstruct;
    if (whole == "numpy.ndarray") return kArrayClass;
    if (whole == "numpy.dtype") return kDtype;
    if (whole == "scipy.sparse.csr.csr_matrix" || whole == "scipy.sparse._csr.csr_matrix") return kMatrix;
    if (whole == "collections.defaultdict") return kDefaultDict;
    if (whole == "__builtin__.list" || whole == "builtins.list") return kListClass;
    return 0;
  }
  std::string remedy() const override { return "plain arrays, as .npz"; }

  Id call(const PickleValue& function, Id arguments) override {
    const std::vector<Id> args = value(arguments).items;
    switch (function.what) {
      case kReconstruct:
        if (args.empty() || !is(args[0], Kind::kGlobal, kArrayClass)) refuse("an array of another class");
        return make({.kind = Kind::kObject, .what = kArray});
      case kDtype:
        if (args.empty() || value(args[0]).kind != Kind::kText || value(args[0]).text.size() > 20)
          refuse("an element type without a name");
        return make({.kind = Kind::kObject, .what = kDtype, .text = value(args[0]).text});
      case kMatrix:
        if (!args.empty()) refuse("a matrix made of arguments");
        return make({.kind = Kind::kObject, .what = kMatrix});
      case kDefaultDict:
        if (args.size() != 1 || !is(args[0], Kind::kGlobal, kListClass)) refuse("a table of other things than lists");
        return make({.kind = Kind::kDict});
      default: refuse("a call that gives no array, matrix or table");
    }
  }

  void build(Id object, Id state) override {
    const PickleValue& given = value(state);
    if (is(object, Kind::kObject, kMatrix) && given.kind == Kind::kDict) {
      change(object).items = {state};
    } else if (is(object, Kind::kObject, kDtype) && given.kind == Kind::kTuple && given.items.size() >= 2) {
      const bool big = value(given.items[1]).text == ">";
      change(object).number = big ? 1 : 0;
    } else if (is(object, Kind::kObject, kArray) && given.kind == Kind::kTuple && given.items.size() == 5 &&
               is(given.items[2], Kind::kObject, kDtype)) {
      const bool fortran = value(given.items[3]).number != 0;
      std::vector<Id> parts{given.items[1], given.items[2], given.items[4]};
      change(object).items = std::move(parts);
      change(object).number = fortran ? 1 : 0;
    } else {
      Unpickler::build(object, state);
    }
  }

  std::vector<int64_t> numbers(Id id) const {
    const PickleValue& list = value(id);
    if (list.kind != Kind::kTuple && list.kind != Kind::kList) refuse("a value that is no list of numbers");
    std::vector<int64_t> result;
    for (const Id item : list.items) {
      if (value(item).kind != Kind::kInt) refuse("a list with an item that is no whole number");
      result.push_back(value(item).number);
    }
    return result;
  }

  std::vector<int64_t> wholes(Id id) const {
    const PickledArray from = array(id);
    if (is_floating(from.dtype) || from.shape.rank() != 1) refuse("a list of indices that are no whole numbers");
    std::vector<int64_t> result;
    for (int64_t i = 0; i < from.elements(); ++i) result.push_back(from.whole(i));
    return result;
  }

  /// A value of a table by its key.
  Id entry(Id id, const std::string& key) const {
    const PickleValue& table = value(id);
    for (size_t i = 0; i + 1 < table.items.size(); i += 2)
      if (value(table.items[i]).kind == Kind::kText && value(table.items[i]).text == key) return table.items[i + 1];
    refuse("a matrix without '" + key + "'");
  }
};

const std::string kExpected = "a NumPy array, a sparse matrix by rows, or a table of lists of numbers";

template <typename T>
T element(const PickledArray& array, int64_t i) {
  T value;
  std::memcpy(&value, array.bytes.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

double PickledArray::real(int64_t i) const {
  switch (dtype) {
    case DType::kF16: return f16_to_f32(element<uint16_t>(*this, i));
    case DType::kF32: return element<float>(*this, i);
    case DType::kF64: return element<double>(*this, i);
    default: return static_cast<double>(whole(i));
  }
}

int64_t PickledArray::whole(int64_t i) const {
  switch (dtype) {
    case DType::kI8: return element<int8_t>(*this, i);
    case DType::kI16: return element<int16_t>(*this, i);
    case DType::kI32: return element<int32_t>(*this, i);
    case DType::kI64: return element<int64_t>(*this, i);
    case DType::kU8:
    case DType::kBool: return element<uint8_t>(*this, i);
    case DType::kU16: return element<uint16_t>(*this, i);
    case DType::kU32: return element<uint32_t>(*this, i);
    case DType::kU64: return static_cast<int64_t>(element<uint64_t>(*this, i));
    default: {
      const double number = real(i);
      return std::abs(number) < 9e18 ? static_cast<int64_t>(number) : 0;
    }
  }
}

PickledArray read_array_pickle(std::string_view pickle, const std::string& source) {
  ArrayUnpickler unpickler(pickle, source, kExpected);
  const Id root = unpickler.run();
  return unpickler.array(root);
}

PickledRows read_sparse_pickle(std::string_view pickle, const std::string& source) {
  ArrayUnpickler unpickler(pickle, source, kExpected);
  const Id root = unpickler.run();
  return unpickler.rows(root);
}

PickledLists read_lists_pickle(std::string_view pickle, const std::string& source) {
  ArrayUnpickler unpickler(pickle, source, kExpected);
  const Id root = unpickler.run();
  return unpickler.lists(root);
}

}  // namespace ramet::weights
