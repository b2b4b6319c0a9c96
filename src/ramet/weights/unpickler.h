#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::weights {

/// A value that a pickle builds.
struct PickleValue {
  enum class Kind : uint8_t { kNone, kBool, kInt, kFloat, kText, kTuple, kList, kDict, kGlobal, kObject };
  using Id = uint32_t;  // number of a value, so that a table may hold itself and nothing leaks
  Kind kind = Kind::kNone;
  int what = 0;  ///< which global or kind of object, as the derived Unpickler numbers them; 0: none
  int64_t number = 0;
  std::string text{};       ///< a text; whatever the derived Unpickler keeps of an object
  std::vector<Id> items{};  ///< of a tuple or list; keys and values of a table in turn; parts of an object
};

/// Reads a pickle without running it. A pickle is a program: it names functions and calls them. This class knows the
/// opcodes that build numbers, texts, lists and tables. A derived class says which names may stand in a file of its
/// kind, and what values their calls give. Everything else is refused by its name.
class Unpickler {
 public:
  using Id = PickleValue::Id;
  using Kind = PickleValue::Kind;

  /// `source` names the file in errors, `expected` the kind of file; both must live as long as this.
  Unpickler(std::string_view bytes, const std::string& source, const std::string& expected)
      : bytes_(bytes), source_(source), expected_(expected) {}
  virtual ~Unpickler() = default;

  /// Reads the pickle; the number of its one value.
  Id run();
  const PickleValue& value(Id id) const { return values_[id]; }
  /// Throws FormatError with the file's name and the place that was read.
  [[noreturn]] void refuse(const std::string& what, const std::string& found = "",
                           const std::string& remedy = "") const;

 protected:
  /// The number (not 0) of a function or class that a file of this kind may name; 0 refuses the name. May set the
  /// value's text.
  virtual int global(const std::string& module, const std::string& name, std::string& text) = 0;
  /// The value of a call of `function`. It must have no effect.
  virtual Id call(const PickleValue& function, Id arguments) = 0;
  /// The object that a persistent id means; by default there is none.
  virtual Id persistent(Id id);
  /// Gives an object its state. By default only tables have one, which is dropped.
  virtual void build(Id object, Id state);
  /// What to do about a name that is refused.
  virtual std::string remedy() const = 0;

  Id make(PickleValue value);
  PickleValue& change(Id id) { return values_[id]; }
  bool is(Id id, Kind kind, int what = 0) const { return values_[id].kind == kind && values_[id].what == what; }

 private:
  std::string_view take(uint64_t count);
  uint64_t take_number(size_t bytes);
  std::string take_line();
  void push(PickleValue value) { stack_.push_back(make(std::move(value))); }
  void push_text(std::string_view text) { push({.kind = Kind::kText, .text = std::string(text)}); }
  void push_int(int64_t number) { push({.kind = Kind::kInt, .number = number}); }
  void push_long(size_t bytes);
  void push_global(const std::string& module, const std::string& name);
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Id pop();
  PickleValue& top(Kind kind);
  Id top() const;
  std::vector<Id> pop_mark();
  void push_tuple(std::vector<Id> items) { push({.kind = Kind::kTuple, .items = std::move(items)}); }
  void pop_tuple(size_t count);
  void remember(uint64_t number);
  void recall(uint64_t number);
  void call_top();
  void set_items(const std::vector<Id>& items);
  bool step_value(uint8_t code);
  void step(uint8_t code);

  std::string_view bytes_;
  const std::string& source_;
  const std::string& expected_;
  size_t at_ = 0;
  std::vector<PickleValue> values_;
  std::vector<Id> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, Id> memo_;
};

}  // namespace ramet::weights
