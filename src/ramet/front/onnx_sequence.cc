// ONNX's sequences, whose lengths are known before the model runs, and its optionals.
#include <algorithm>

#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_shapes.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

/// A position in a list of `size`, of which one may stand behind the last.
size_t place(const OnnxCall& at, size_t input, size_t size, bool behind) {
  const auto count = static_cast<int64_t>(size);
  int64_t index = at.known_integer(input, "a position in a sequence");
  if (index < 0) index += count;
  if (index < 0 || index > count - (behind ? 0 : 1)) at.refuse("a position lies outside of its sequence");
  return static_cast<size_t>(index);
}

Values construct(const OnnxCall& at) { return {OnnxValue(at.all_inputs())}; }
Values empty(const OnnxCall&) { return {OnnxValue(std::vector<Tensor>{})}; }
Values element(const OnnxCall& at) {
  const std::vector<Tensor>& list = at.list(0);
  return {list[place(at, 1, list.size(), false)]};
}
Values insert(const OnnxCall& at) {
  std::vector<Tensor> list = at.list(0);
  const size_t where = at.has(2) ? place(at, 2, list.size(), true) : list.size();
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(where), at.input(1));
  return {OnnxValue(std::move(list))};
}
Values erase(const OnnxCall& at) {
  std::vector<Tensor> list = at.list(0);
  if (list.empty()) at.refuse("nothing can be erased from an empty sequence");
  const size_t where = at.has(1) ? place(at, 1, list.size(), false) : list.size() - 1;
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(where));
  return {OnnxValue(std::move(list))};
}
Values length(const OnnxCall& at) { return {at.integer_constant({}, {std::ssize(at.list(0))})}; }

Values split(const OnnxCall& at) {
  const Tensor a = at.input(0);
  const int axis = at.axis("axis", a.shape().rank(), 0);
  const int64_t extent = a.dim(axis);
  std::vector<int64_t> sizes;
  bool keeps = true;
  if (at.has(1)) {
    sizes = at.known_integers(1, "the sizes of the parts");
    if (at.input(1).shape().rank() == 0) {
      const int64_t size = sizes[0];
      if (size < 1) at.refuse("a part has no elements");
      sizes.clear();
      for (int64_t from = 0; from < extent; from += size) sizes.push_back(std::min(size, extent - from));
    }
  } else {
    sizes.assign(static_cast<size_t>(extent), 1);
    keeps = at.flag("keepdims", true);
  }
  std::vector<Tensor> parts;
  int64_t from = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || from + size > extent) at.refuse("the parts are larger than their dimension");
    parts.push_back(keeps ? slice_axis(a, axis, from, from + size) : select_index(a, axis, from));
    from += size;
  }
  return {OnnxValue(std::move(parts))};
}

Values join(const OnnxCall& at) {
  const std::vector<Tensor>& list = at.list(0);
  if (list.empty()) at.refuse("an empty sequence cannot be joined");
  const bool fresh = at.flag("new_axis");
  const int axis = at.axis("axis", list[0].shape().rank() + (fresh ? 1 : 0));
  return {fresh ? stack(list, axis) : list.size() == 1 ? list[0] : concat(list, axis)};
}

Values optional(const OnnxCall& at) { return {at.has(0) ? at.value(0) : OnnxValue()}; }
Values has_element(const OnnxCall& at) {
  const bool given = at.has(0) && at.value(0).given();
  return {at.full(DType::kBool, {}, given ? 1 : 0)};
}
Values get_element(const OnnxCall& at) {
  const OnnxValue value = at.value(0);
  if (!value.given()) at.refuse("an empty optional has no element");
  return {value};
}

constexpr OnnxEntry kEntries[] = {
    {"ConcatFromSequence", join},
    {"Optional", optional},
    {"OptionalGetElement", get_element},
    {"OptionalHasElement", has_element},
    {"SequenceAt", element},
    {"SequenceConstruct", construct},
    {"SequenceEmpty", empty},
    {"SequenceErase", erase},
    {"SequenceInsert", insert},
    {"SequenceLength", length},
    {"SplitToSequence", split},
};

}  // namespace

std::span<const OnnxEntry> onnx_sequence_operators() { return kEntries; }

}  // namespace ramet::front
