#include "ramet/weights/pickle.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <unordered_map>

#include "ramet/base/error_types.h"

namespace ramet::weights {
namespace {

constexpr size_t kMostBytes = 64 << 20;   // names and shapes of tensors; a model of a trillion weights has less
constexpr size_t kMostValues = 20 << 20;  // what those bytes can make
constexpr int kDeepest = 4;               // tables in tables

struct TorchType {
  std::string_view storage, dtype;
  int64_t size;
};
constexpr std::array kTorchTypes = {TorchType{"FloatStorage", "f32", 4},     TorchType{"HalfStorage", "f16", 2},
                                    TorchType{"BFloat16Storage", "bf16", 2}, TorchType{"DoubleStorage", "f64", 8},
                                    TorchType{"LongStorage", "i64", 8},      TorchType{"IntStorage", "i32", 4},
                                    TorchType{"ShortStorage", "i16", 2},     TorchType{"CharStorage", "i8", 1},
                                    TorchType{"ByteStorage", "u8", 1},       TorchType{"BoolStorage", "bool", 1}};

/// The functions and classes that a pickle may name.
enum class Global { kNone, kOrderedDict, kRebuildTensor, kRebuildParameter, kStorage };

using Id = uint32_t;  // of a value: its number, so that a table may hold itself and nothing leaks

struct Value {
  enum class Kind : uint8_t { kNone, kBool, kInt, kFloat, kText, kTuple, kList, kDict, kGlobal, kStorage, kTensor };
  Kind kind = Kind::kNone;
  Global global = Global::kNone;
  int64_t number = 0;
  std::string text;       // a text; the type of a storage
  std::vector<Id> items;  // of a tuple or list; keys and values of a table in turn; parts of a tensor
};

class Unpickler {
 public:
  Unpickler(std::string_view bytes, const std::string& source) : bytes_(bytes), source_(source) {}

  Id run() {
    if (bytes_.size() > kMostBytes) refuse("a table of tensors of this size", std::to_string(bytes_.size()) + " bytes");
    for (;;) {
      const auto code = static_cast<uint8_t>(take(1)[0]);
      if (code == '.') break;
      step(code);
    }
    if (stack_.size() != 1 || !marks_.empty()) refuse("a pickle that ends with more or less than one value");
    return stack_[0];
  }
  const Value& value(Id id) const { return values_[id]; }
  [[noreturn]] void refuse(const std::string& what, const std::string& found = "",
                           const std::string& remedy = "") const {
    throw FormatError({.what = what,
                       .where = source_ + " byte " + std::to_string(at_),
                       .found = found,
                       .expected = "a table of tensors as torch.save writes it",
                       .remedy = remedy});
  }

 private:
  using Kind = Value::Kind;

  std::string_view take(size_t count) {
    if (count > bytes_.size() - at_) refuse("a pickle that is cut short");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  uint64_t take_number(size_t bytes) {
    const std::string_view raw = take(bytes);
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; ++i) number |= static_cast<uint64_t>(static_cast<uint8_t>(raw[i])) << 8 * i;
    return number;
  }
  std::string take_line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos || end - at_ > 1000) refuse("a pickle that is cut short");
    const std::string line(take(end - at_));
    take(1);
    return line;
  }

  Id make(Value value) {
    if (values_.size() >= kMostValues) refuse("a pickle that makes too many values");
    values_.push_back(std::move(value));
    return static_cast<Id>(values_.size() - 1);
  }
  void push(Value value) { stack_.push_back(make(std::move(value))); }
  void push_text(std::string_view text) { push({.kind = Kind::kText, .text = std::string(text), .items = {}}); }
  void push_int(int64_t number) { push({.kind = Kind::kInt, .number = number, .text = {}, .items = {}}); }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Id pop() {
    if (stack_.size() <= floor()) refuse("a pickle that takes what it has not made");
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }
  Value& top(Kind kind) {
    if (stack_.size() <= floor() || values_[stack_.back()].kind != kind)
      refuse("a pickle that fills what it has not made");
    return values_[stack_.back()];
  }
  std::vector<Id> pop_mark() {
    if (marks_.empty()) refuse("a pickle that takes what it has not made");
    const auto begin = stack_.begin() + static_cast<int64_t>(marks_.back());
    std::vector<Id> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  void push_tuple(std::vector<Id> items) { push({.kind = Kind::kTuple, .text = {}, .items = std::move(items)}); }
  void pop_tuple(size_t count) {
    std::vector<Id> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push_tuple(std::move(items));
  }
  void remember(uint64_t number) {
    if (stack_.size() <= floor()) refuse("a pickle that remembers what it has not made");
    memo_[number] = stack_.back();
  }
  void recall(uint64_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) refuse("a pickle that recalls what it has not made");
    stack_.push_back(found->second);
  }

  /// Refuses all names but a few: here is where a malicious file ends.
  void push_global(const std::string& module, const std::string& name) {
    Value value{.kind = Kind::kGlobal, .text = {}, .items = {}};
    if (module == "collections" && name == "OrderedDict") {
      value.global = Global::kOrderedDict;
    } else if (module == "torch._utils" && name == "_rebuild_tensor_v2") {
      value.global = Global::kRebuildTensor;
    } else if (module == "torch._utils" && name == "_rebuild_parameter") {
      value.global = Global::kRebuildParameter;
    } else if (module == "torch") {
      for (const auto& type : kTorchTypes)
        if (type.storage == name) value.global = Global::kStorage, value.text = type.dtype;
    }
    if (value.global == Global::kNone)
      refuse("the pickle names a function that no table of tensors needs, and is refused; nothing of it was run",
             "'" + (module + "." + name).substr(0, 200) + "'",
             "Do not load this file with other programs either unless you trust who made it; save plain tensors, best "
             "as safetensors");
    push(std::move(value));
  }

  /// ('storage', torch.FloatStorage, '0', 'cpu', 123): a storage by its record.
  void push_storage() {
    const Value& id = values_[pop()];
    const auto item = [&](size_t i) -> const Value& { return values_[id.items[i]]; };
    if (id.kind != Kind::kTuple || id.items.size() != 5 || item(0).kind != Kind::kText || item(0).text != "storage" ||
        item(1).global != Global::kStorage || item(2).kind != Kind::kText || item(4).kind != Kind::kInt ||
        item(4).number < 0 || item(2).text.empty() || item(2).text.size() > 100 ||
        item(2).text.find('/') != std::string::npos)
      refuse("a storage that is not told as PyTorch tells it");
    Value storage{.kind = Kind::kStorage, .number = item(4).number, .text = item(1).text, .items = {id.items[2]}};
    push(std::move(storage));
  }

  /// The only calls there are, all without any effect: an empty table, a tensor, a parameter of a tensor.
  void call() {
    const Id arguments = pop(), function = pop();
    const Value& args = values_[arguments];
    if (values_[function].kind != Kind::kGlobal || args.kind != Kind::kTuple) refuse("a call of what is no function");
    switch (values_[function].global) {
      case Global::kOrderedDict:
        if (!args.items.empty()) refuse("a table made of arguments");
        return push({.kind = Kind::kDict, .text = {}, .items = {}});
      case Global::kRebuildParameter:
        if (args.items.empty() || values_[args.items[0]].kind != Kind::kTensor) refuse("a parameter of no tensor");
        return stack_.push_back(args.items[0]);
      case Global::kRebuildTensor:
        if (args.items.size() < 4 || values_[args.items[0]].kind != Kind::kStorage ||
            values_[args.items[1]].kind != Kind::kInt || values_[args.items[2]].kind != Kind::kTuple ||
            values_[args.items[3]].kind != Kind::kTuple)
          refuse("a tensor that is not told as PyTorch tells it");
        return push(
            {.kind = Kind::kTensor, .text = {}, .items = {args.items[0], args.items[1], args.items[2], args.items[3]}});
      case Global::kStorage:
      case Global::kNone: refuse("a call of what is no function");
    }
  }

  void set_items(std::vector<Id> items) {
    if (items.size() % 2 != 0) refuse("a table with a key without a value");
    Value& table = top(Kind::kDict);
    table.items.insert(table.items.end(), items.begin(), items.end());
  }

  /// A whole number of up to eight bytes, two's complement.
  void push_long(size_t bytes) {
    if (bytes > 8) refuse("a whole number beyond 64 bits");
    uint64_t number = take_number(bytes);
    if (bytes > 0 && bytes < 8 && (number >> (8 * bytes - 1)) != 0) number |= ~uint64_t{0} << 8 * bytes;
    push_int(static_cast<int64_t>(number));
  }

  void step(uint8_t code) {
    switch (code) {
      case 0x80:  // PROTO
        if (const uint64_t version = take_number(1); version < 2 || version > 5)
          refuse("a pickle of an unknown protocol", std::to_string(version));
        return;
      case 0x95: take(8); return;                         // FRAME
      case '(': marks_.push_back(stack_.size()); return;  // MARK
      case '0': pop(); return;                            // POP
      case '2': recall_top(); return;                     // DUP
      case 'N': push({}); return;                         // NONE
      case 0x88:
      case 0x89: push({.kind = Kind::kBool, .number = code == 0x88, .text = {}, .items = {}}); return;
      case 'K': push_int(static_cast<int64_t>(take_number(1))); return;                  // BININT1
      case 'M': push_int(static_cast<int64_t>(take_number(2))); return;                  // BININT2
      case 'J': push_int(static_cast<int32_t>(take_number(4))); return;                  // BININT
      case 0x8a: push_long(take_number(1)); return;                                      // LONG1
      case 'G': take(8), push({.kind = Kind::kFloat, .text = {}, .items = {}}); return;  // BINFLOAT; not needed
      case 'X': push_text(take(take_number(4))); return;                                 // BINUNICODE
      case 0x8c: push_text(take(take_number(1))); return;                                // SHORT_BINUNICODE
      case 0x8d: push_text(take(take_number(8))); return;                                // BINUNICODE8
      case 'U': push_text(take(take_number(1))); return;                                 // SHORT_BINSTRING
      case 'T': push_text(take(take_number(4))); return;                                 // BINSTRING
      case ')': push_tuple({}); return;                                                  // EMPTY_TUPLE
      case 't': push_tuple(pop_mark()); return;                                          // TUPLE
      case 0x85:
      case 0x86:
      case 0x87: pop_tuple(code - 0x84u); return;                              // TUPLE1 to TUPLE3
      case ']': push({.kind = Kind::kList, .text = {}, .items = {}}); return;  // EMPTY_LIST
      case 'a': {
        const Id item = pop();
        top(Kind::kList).items.push_back(item);
        return;
      }  // APPEND
      case 'e': {  // APPENDS
        const std::vector<Id> items = pop_mark();
        Value& list = top(Kind::kList);
        list.items.insert(list.items.end(), items.begin(), items.end());
        return;
      }
      case '}': push({.kind = Kind::kDict, .text = {}, .items = {}}); return;  // EMPTY_DICT
      case 's': {
        const Id item = pop(), key = pop();
        set_items({key, item});
        return;
      }  // SETITEM
      case 'u': set_items(pop_mark()); return;     // SETITEMS
      case 'q': remember(take_number(1)); return;  // BINPUT
      case 'r': remember(take_number(4)); return;  // LONG_BINPUT
      case 0x94: remember(memo_.size()); return;   // MEMOIZE
      case 'h': recall(take_number(1)); return;    // BINGET
      case 'j': recall(take_number(4)); return;    // LONG_BINGET
      case 'c': {                                  // GLOBAL
        const std::string module = take_line();
        return push_global(module, take_line());
      }
      case 0x93: {  // STACK_GLOBAL
        const Id name = pop(), module = pop();
        if (values_[name].kind != Kind::kText || values_[module].kind != Kind::kText) refuse("a name that is no text");
        return push_global(std::string(values_[module].text), std::string(values_[name].text));
      }
      case 'Q': push_storage(); return;           // BINPERSID
      case 'R': call(); return;                   // REDUCE
      case 'b': pop(), top(Kind::kDict); return;  // BUILD: attributes of a table (its version); no tensor is there
      default: break;
    }
    char name[8];
    std::snprintf(name, sizeof name, "0x%02x", code);
    refuse("the pickle does what no table of tensors needs, and is refused; nothing of it was run",
           std::string("opcode ") + name, "Save plain tensors, best as safetensors");
  }
  void recall_top() {
    if (stack_.size() <= floor()) refuse("a pickle that takes what it has not made");
    stack_.push_back(stack_.back());
  }

  std::string_view bytes_;
  const std::string& source_;
  size_t at_ = 0;
  std::vector<Value> values_;
  std::vector<Id> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, Id> memo_;
};

/// Walks the finished table.
class Reader {
 public:
  explicit Reader(const Unpickler& pickle) : pickle_(pickle) {}

  std::vector<PickledTensor> tensors(Id root) {
    collect(table_of(root), "", 0);
    if (tensors_.empty()) pickle_.refuse("there is no tensor in the file");
    return std::move(tensors_);
  }

 private:
  using Kind = Value::Kind;

  /// The table itself, or the one inside that checkpoints of training scripts keep the weights in.
  Id table_of(Id root) const {
    const Value& table = pickle_.value(root);
    if (table.kind != Kind::kDict) pickle_.refuse("the file holds no table");
    for (const std::string_view inside : {"state_dict", "model_state_dict", "model"})
      for (size_t i = 0; i + 1 < table.items.size(); i += 2)
        if (pickle_.value(table.items[i]).text == inside && pickle_.value(table.items[i + 1]).kind == Kind::kDict)
          return table.items[i + 1];
    return root;
  }

  void collect(Id id, const std::string& prefix, int depth) {
    const Value& table = pickle_.value(id);
    for (size_t i = 0; i + 1 < table.items.size(); i += 2) {
      const Value& key = pickle_.value(table.items[i]);
      const Value& item = pickle_.value(table.items[i + 1]);
      if (key.kind != Kind::kText || key.text.size() > 1000) continue;
      // Each table once: a table may hold itself, and many times.
      if (item.kind == Kind::kDict && depth < kDeepest && walked_.insert(table.items[i + 1]).second)
        collect(table.items[i + 1], prefix + key.text + ".", depth + 1);
      if (item.kind == Kind::kTensor) add(prefix + key.text, item);
    }
  }

  std::vector<int64_t> numbers(Id id, const std::string& name) const {
    std::vector<int64_t> result;
    for (const Id item : pickle_.value(id).items) {
      const Value& number = pickle_.value(item);
      if (number.kind != Kind::kInt || number.number < 0)
        pickle_.refuse("sizes of tensor '" + name + "' are no numbers");
      result.push_back(number.number);
    }
    return result;
  }

  void add(const std::string& name, const Value& tensor) {
    const Value& storage = pickle_.value(tensor.items[0]);
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

  const Unpickler& pickle_;
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
  Unpickler unpickler(pickle, source);
  const Id root = unpickler.run();
  return Reader(unpickler).tensors(root);
}

}  // namespace ramet::weights
