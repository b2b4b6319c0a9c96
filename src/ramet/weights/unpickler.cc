#include "ramet/weights/unpickler.h"

#include <cstdio>

#include "ramet/base/error_types.h"

namespace ramet::weights {
namespace {

constexpr size_t kMostBytes = 256 << 20;
constexpr size_t kMostValues = 20 << 20;

}  // namespace

Unpickler::Id Unpickler::run() {
  if (bytes_.size() > kMostBytes) refuse("a pickle of this size", std::to_string(bytes_.size()) + " bytes");
  for (;;) {
    const auto code = static_cast<uint8_t>(take(1)[0]);
    if (code == '.') break;
    if (!step_value(code)) step(code);
  }
  if (stack_.size() != 1 || !marks_.empty()) refuse("a pickle that ends with more or less than one value");
  return stack_[0];
}

void Unpickler::refuse(const std::string& what, const std::string& found, const std::string& remedy) const {
  throw FormatError({.what = what,
                     .where = source_ + " byte " + std::to_string(at_),
                     .found = found,
                     .expected = expected_,
                     .remedy = remedy});
}

Unpickler::Id Unpickler::persistent(Id) { refuse("a pickle that asks for values that are not in it"); }

void Unpickler::build(Id object, Id) {
  if (values_[object].kind != Kind::kDict) refuse("a pickle that fills what it has not made");
}

std::string_view Unpickler::take(uint64_t count) {
  if (count > bytes_.size() - at_) refuse("a pickle that is cut short");
  at_ += count;
  return bytes_.substr(at_ - count, count);
}

uint64_t Unpickler::take_number(size_t bytes) {
  const std::string_view raw = take(bytes);
  uint64_t number = 0;
  for (size_t i = 0; i < bytes; ++i) number |= static_cast<uint64_t>(static_cast<uint8_t>(raw[i])) << 8 * i;
  return number;
}

std::string Unpickler::take_line() {
  const size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos || end - at_ > 1000) refuse("a pickle that is cut short");
  const std::string line(take(end - at_));
  take(1);
  return line;
}

Unpickler::Id Unpickler::make(PickleValue value) {
  if (values_.size() >= kMostValues) refuse("a pickle that makes too many values");
  values_.push_back(std::move(value));
  return static_cast<Id>(values_.size() - 1);
}

Unpickler::Id Unpickler::top() const {
  if (stack_.size() <= floor()) refuse("a pickle that takes what it has not made");
  return stack_.back();
}

Unpickler::Id Unpickler::pop() {
  const Id id = top();
  stack_.pop_back();
  return id;
}

PickleValue& Unpickler::top(Kind kind) {
  if (stack_.size() <= floor() || values_[stack_.back()].kind != kind)
    refuse("a pickle that fills what it has not made");
  return values_[stack_.back()];
}

std::vector<Unpickler::Id> Unpickler::pop_mark() {
  if (marks_.empty()) refuse("a pickle that takes what it has not made");
  const auto begin = stack_.begin() + static_cast<int64_t>(marks_.back());
  std::vector<Id> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

void Unpickler::pop_tuple(size_t count) {
  std::vector<Id> items(count);
  for (size_t i = count; i-- > 0;) items[i] = pop();
  push_tuple(std::move(items));
}

void Unpickler::remember(uint64_t number) {
  if (stack_.size() <= floor()) refuse("a pickle that remembers what it has not made");
  memo_[number] = stack_.back();
}

void Unpickler::recall(uint64_t number) {
  const auto found = memo_.find(number);
  if (found == memo_.end()) refuse("a pickle that recalls what it has not made");
  stack_.push_back(found->second);
}

/// Refuses all names but a few: here is where a malicious file ends.
void Unpickler::push_global(const std::string& module, const std::string& name) {
  PickleValue value{.kind = Kind::kGlobal};
  value.what = global(module, name, value.text);
  if (value.what == 0)
    refuse("the pickle names a function that no file of this kind needs, and is refused; nothing of it was run",
           "'" + (module + "." + name).substr(0, 200) + "'",
           "Do not load this file with other programs either unless you trust who made it; " + remedy());
  push(std::move(value));
}

void Unpickler::call_top() {
  const Id arguments = pop(), function = pop();
  if (values_[function].kind != Kind::kGlobal || values_[arguments].kind != Kind::kTuple)
    refuse("a call of what is no function");
  stack_.push_back(call(PickleValue(values_[function]), arguments));
}

void Unpickler::set_items(const std::vector<Id>& items) {
  if (items.size() % 2 != 0) refuse("a table with a key without a value");
  PickleValue& table = top(Kind::kDict);
  table.items.insert(table.items.end(), items.begin(), items.end());
}

/// A whole number of up to eight bytes, two's complement.
void Unpickler::push_long(size_t bytes) {
  if (bytes > 8) refuse("a whole number beyond 64 bits");
  uint64_t number = take_number(bytes);
  if (bytes > 0 && bytes < 8 && (number >> (8 * bytes - 1)) != 0) number |= ~uint64_t{0} << 8 * bytes;
  push_int(static_cast<int64_t>(number));
}

/// The opcodes that push a number or a text.
bool Unpickler::step_value(uint8_t code) {
  switch (code) {
    case 'N': push({}); return true;  // NONE
    case 0x88:
    case 0x89: push({.kind = Kind::kBool, .number = code == 0x88}); return true;
    case 'K': push_int(static_cast<int64_t>(take_number(1))); return true;  // BININT1
    case 'M': push_int(static_cast<int64_t>(take_number(2))); return true;  // BININT2
    case 'J': push_int(static_cast<int32_t>(take_number(4))); return true;  // BININT
    case 0x8a: push_long(take_number(1)); return true;                      // LONG1
    case 'G': take(8), push({.kind = Kind::kFloat}); return true;           // BINFLOAT; not needed
    case 'X':                                                               // BINUNICODE
    case 'B':                                                               // BINBYTES
    case 'T': push_text(take(take_number(4))); return true;                 // BINSTRING
    case 0x8c:                                                              // SHORT_BINUNICODE
    case 'C':                                                               // SHORT_BINBYTES
    case 'U': push_text(take(take_number(1))); return true;                 // SHORT_BINSTRING
    case 0x8d:                                                              // BINUNICODE8
    case 0x8e: push_text(take(take_number(8))); return true;                // BINBYTES8
    case ')': push_tuple({}); return true;                                  // EMPTY_TUPLE
    case ']': push({.kind = Kind::kList}); return true;                     // EMPTY_LIST
    case '}': push({.kind = Kind::kDict}); return true;                     // EMPTY_DICT
    default: return false;
  }
}

void Unpickler::step(uint8_t code) {
  switch (code) {
    case 0x80:  // PROTO
      if (const uint64_t version = take_number(1); version < 2 || version > 5)
        refuse("a pickle of an unknown protocol", std::to_string(version));
      return;
    case 0x95: take(8); return;                         // FRAME
    case '(': marks_.push_back(stack_.size()); return;  // MARK
    case '0': pop(); return;                            // POP
    case '2': stack_.push_back(top()); return;          // DUP
    case 't': push_tuple(pop_mark()); return;           // TUPLE
    case 0x85:
    case 0x86:
    case 0x87: pop_tuple(code - 0x84u); return;  // TUPLE1 to TUPLE3
    case 'a': {                                  // APPEND
      const Id item = pop();
      top(Kind::kList).items.push_back(item);
      return;
    }
    case 'e': {  // APPENDS
      const std::vector<Id> items = pop_mark();
      PickleValue& list = top(Kind::kList);
      list.items.insert(list.items.end(), items.begin(), items.end());
      return;
    }
    case 's': {  // SETITEM
      const Id item = pop(), key = pop();
      set_items({key, item});
      return;
    }
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
    case 'Q': stack_.push_back(persistent(pop())); return;  // BINPERSID
    case 0x81:                                              // NEWOBJ
    case 'R': call_top(); return;                           // REDUCE
    case 'b': {                                             // BUILD
      const Id state = pop();
      build(top(), state);
      return;
    }
    default: break;
  }
  char name[8];
  std::snprintf(name, sizeof name, "0x%02x", code);
  refuse("the pickle does what no file of this kind needs, and is refused; nothing of it was run",
         std::string("opcode ") + name, "Save " + remedy());
}

}  // namespace ramet::weights
