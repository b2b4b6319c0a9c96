#include "ramet/weights/pickle.h"

#include <algorithm>
#include <array>
#include <set>

#include "ramet/weights/unpickler.h"

namespace ramet::weights {
namespace {

constexpr size_t kMostBytes = 64 << 20;  // names and shapes of tensors; a model of a trillion weights has less
constexpr int kDeepest = 4;              // tables in tables

struct TorchType {
  std::string_view storage, dtype;
  int64_t size;
};
constexpr std::array kTorchTypes = {TorchType{"FloatStorage", "f32", 4},     TorchType{"HalfStorage", "f16", 2},
                                    TorchType{"BFloat16Storage", "bf16", 2}, TorchType{"DoubleStorage", "f64", 8},
                                    TorchType{"LongStorage", "i64", 8},      TorchType{"IntStorage", "i32", 4},
                                    TorchType{"ShortStorage", "i16", 2},     TorchType{"CharStorage", "i8", 1},
                                    TorchType{"ByteStorage", "u8", 1},       TorchType{"BoolStorage", "bool", 1}};

/// The functions and classes that a pickle may name. A storage and a tensor are objects of the last two kinds.
enum TorchGlobal : int { kOrderedDict = 1, kRebuildParameter, kStorage, kRebuildTensor };

using Id = PickleValue::Id;

class TorchUnpickler final : public Unpickler {
 public:
  using Unpickler::Unpickler;

 private:
  int global(const std::string& module, const std::string& name, std::string& text) override {
    if (module == "collections" && name == "OrderedDict") return kOrderedDict;
    if (module == "torch._utils" && name == "_rebuild_tensor_v2") return kRebuildTensor;
    if (module == "torch._utils" && name == "_rebuild_parameter") return kRebuildParameter;
    if (module == "torch")
      for (const auto& type : kTorchTypes)
        if (type.storage == name) return text = type.dtype, kStorage;
    return 0;
  }
  std::string remedy() const override { return "plain tensors, best as safetensors"; }

  /// ('storage', torch.FloatStorage, '0', 'cpu', 123): a storage by its record.
  Id persistent(Id reference) override {
    const PickleValue& id = value(reference);
    const auto item = [&](size_t i) -> const PickleValue& { return value(id.items[i]); };
    if (id.kind != Kind::kTuple || id.items.size() != 5 || item(0).kind != Kind::kText || item(0).text != "storage" ||
        !is(id.items[1], Kind::kGlobal, kStorage) || item(2).kind != Kind::kText || item(4).kind != Kind::kInt ||
        item(4).number < 0 || item(2).text.empty() || item(2).text.size() > 100 ||
        item(2).text.find('/') != std::string::npos)
      refuse("a storage that is not told as PyTorch tells it");
    return make({.kind = Kind::kObject,
                 .what = kStorage,
                 .number = item(4).number,
                 .text = item(1).text,
                 .items = {id.items[2]}});
  }

  /// The only calls there are, all without any effect: an empty table, a tensor, a parameter of a tensor.
  Id call(const PickleValue& function, Id arguments) override {
    const std::vector<Id> args = value(arguments).items;
    switch (function.what) {
      case kOrderedDict:
        if (!args.empty()) refuse("a table made of arguments");
        return make({.kind = Kind::kDict});
      case kRebuildParameter:
        if (args.empty() || !is(args[0], Kind::kObject, kRebuildTensor)) refuse("a parameter of no tensor");
        return args[0];
      case kRebuildTensor:
        if (args.size() < 4 || !is(args[0], Kind::kObject, kStorage) || value(args[1]).kind != Kind::kInt ||
            value(args[2]).kind != Kind::kTuple || value(args[3]).kind != Kind::kTuple)
          refuse("a tensor that is not told as PyTorch tells it");
        return make({.kind = Kind::kObject, .what = kRebuildTensor, .items = {args[0], args[1], args[2], args[3]}});
      default: refuse("a call of what is no function");
    }
  }
};

/// Walks the finished table.
class Reader {
 public:
  explicit Reader(const TorchUnpickler& pickle) : pickle_(pickle) {}

  std::vector<PickledTensor> tensors(Id root) {
    collect(table_of(root), "", 0);
    if (tensors_.empty()) pickle_.refuse("there is no tensor in the file");
    return std::move(tensors_);
  }

 private:
  using Kind = PickleValue::Kind;

  /// The table itself, or the one inside that checkpoints of training scripts keep the weights in.
  Id table_of(Id root) const {
    const PickleValue& table = pickle_.value(root);
    if (table.kind != Kind::kDict) pickle_.refuse("the file holds no table");
    for (const std::string_view inside : {"state_dict", "model_state_dict", "model"})
      for (size_t i = 0; i + 1 < table.items.size(); i += 2)
        if (pickle_.value(table.items[i]).text == inside && pickle_.value(table.items[i + 1]).kind == Kind::kDict)
          return table.items[i + 1];
    return root;
  }

  void collect(Id id, const std::string& prefix, int depth) {
    const PickleValue& table = pickle_.value(id);
    for (size_t i = 0; i + 1 < table.items.size(); i += 2) {
      const PickleValue& key = pickle_.value(table.items[i]);
      const PickleValue& item = pickle_.value(table.items[i + 1]);
      if (key.kind != Kind::kText || key.text.size() > 1000) continue;
      // Each table once: a table may hold itself, and many times.
      if (item.kind == Kind::kDict && depth < kDeepest && walked_.insert(table.items[i + 1]).second)
        collect(table.items[i + 1], prefix + key.text + ".", depth + 1);
      if (item.kind == Kind::kObject && item.what == kRebuildTensor) add(prefix + key.text, item);
    }
  }

  std::vector<int64_t> numbers(Id id, const std::string& name) const {
    std::vector<int64_t> result;
    for (const Id item : pickle_.value(id).items) {
      const PickleValue& number = pickle_.value(item);
      if (number.kind != Kind::kInt || number.number < 0)
        pickle_.refuse("sizes of tensor '" + name + "' are no numbers");
      result.push_back(number.number);
    }
    return result;
  }

  void add(const std::string& name, const PickleValue& tensor) {
    const PickleValue& storage = pickle_.value(tensor.items[0]);
    PickledTensor result;
    result.name = name;
    result.storage = pickle_.value(storage.items[0]).text;
    result.dtype = storage.text;
    result.storage_elements = storage.number;
    result.offset = pickle_.value(tensor.items[1]).number;
    const std::vector<int64_t> dims = numbers(tensor.items[2], name);
    result.strides = numbers(tensor.items[3], name);
    result.shape = Shape(dims);
    // A name twice or a tensor of many dimensions is nothing that PyTorch writes of a model.
    if (dims.size() != result.strides.size() || dims.size() > 16 || !names_.insert(name).second || !fits(result))
      pickle_.refuse("tensor '" + name + "' does not lie in its storage", result.shape.text() + " from element " +
                                                                              std::to_string(result.offset) + " of " +
                                                                              std::to_string(result.storage_elements));
    if (tensors_.size() >= 1'000'000) pickle_.refuse("too many tensors");
    tensors_.push_back(std::move(result));
  }

  static bool fits(const PickledTensor& tensor) {
    if (tensor.offset < 0 || tensor.offset > tensor.storage_elements) return false;
    if (tensor.storage_elements > INT64_MAX / torch_dtype_size(tensor.dtype)) return false;
    int64_t last = tensor.offset, elements = 1;
    for (int i = 0; i < tensor.shape.rank(); ++i) {
      int64_t span = 0;
      if (__builtin_mul_overflow(elements, tensor.shape[i], &elements)) return false;
      if (tensor.shape[i] == 0) continue;
      if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[static_cast<size_t>(i)], &span)) return false;
      if (__builtin_add_overflow(last, span, &last)) return false;
    }
    // A storage repeated by strides of 0 is nothing that PyTorch saves of a weight, and could be of any size.
    return elements <= tensor.storage_elements && (elements == 0 || last < tensor.storage_elements);
  }

  const TorchUnpickler& pickle_;
  std::set<std::string> names_;
  std::set<Id> walked_;
  std::vector<PickledTensor> tensors_;
};

}  // namespace

int64_t torch_dtype_size(std::string_view dtype) {
  for (const auto& type : kTorchTypes)
    if (type.dtype == dtype) return type.size;
  return 0;
}

std::vector<PickledTensor> read_torch_pickle(std::string_view pickle, const std::string& source) {
  static const std::string kExpected = "a table of tensors as torch.save writes it";
  TorchUnpickler unpickler(pickle, source, kExpected);
  if (pickle.size() > kMostBytes)
    unpickler.refuse("a table of tensors of this size", std::to_string(pickle.size()) + " bytes");
  const Id root = unpickler.run();
  return Reader(unpickler).tensors(root);
}

}  // namespace ramet::weights
