// ONNX's operators whose results have sizes that depend on values: these must be known before the model runs.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "ramet/front/onnx_support.h"
#include "ramet/front/onnx_table.h"
#include "ramet/ops/build_indexing.h"

namespace ramet::front {
namespace {

using Values = std::vector<OnnxValue>;
using namespace ops;

constexpr int64_t kMostElements = int64_t{1} << 22;

Values non_zero(const OnnxCall& at) {
  const HostTensor& a = at.must_know(0, "the operand of NonZero");
  const std::vector<int64_t> strides = a.type.shape.strides();
  const int64_t rank = std::max<int64_t>(a.type.shape.rank(), 1);
  std::vector<int64_t> found;
  for (int64_t i = 0; i < a.elements(); ++i)
    if (a.get(i) != 0) found.push_back(i);
  std::vector<int64_t> rows;
  for (int64_t d = 0; d < rank; ++d)
    for (const int64_t i : found)
      rows.push_back(
          a.type.shape.rank() == 0 ? 0 : i / strides[static_cast<size_t>(d)] % a.type.shape.dim(static_cast<int>(d)));
  return {at.integer_constant({rank, std::ssize(found)}, rows)};
}

Values compress(const OnnxCall& at) {
  Tensor a = at.input(0);
  const std::vector<double> condition = at.known_numbers(1, "the condition of Compress");
  int axis = 0;
  if (at.has("axis"))
    axis = at.axis("axis", a.shape().rank());
  else
    a = flat(a);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < std::min(std::ssize(condition), a.dim(axis)); ++i)
    if (condition[static_cast<size_t>(i)] != 0) kept.push_back(i);
  return {index_select(a, at.integer_constant({std::ssize(kept)}, kept), axis, true)};
}

/// Slices along an axis (or elements), each once: the slices, where each first stands, which each is, and how often.
Values unique(const OnnxCall& at) {
  Tensor a = at.input(0);
  if (!at.has("axis")) a = flat(a);
  const int axis = at.has("axis") ? at.axis("axis", a.shape().rank()) : 0;
  const TensorData* known = at.known(a);
  if (!known) (void)at.must_know(0, "the operand of Unique");
  const HostTensor& from = known->tensor();
  if (from.elements() > kMostElements) at.refuse("the operand of Unique is too large");
  const int64_t count = a.dim(axis);
  int64_t inner = 1;
  for (int i = axis + 1; i < a.shape().rank(); ++i) inner *= a.dim(i);
  const int64_t outer = count == 0 ? 0 : from.elements() / (count * inner);
  const auto order = [&](int64_t x, int64_t y) {  // -1, 0 or 1
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        const double p = from.get((o * count + x) * inner + i), q = from.get((o * count + y) * inner + i);
        if (p != q) return p < q ? -1 : 1;
      }
    return 0;
  };
  std::vector<int64_t> sorted(static_cast<size_t>(count));
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](int64_t x, int64_t y) { return order(x, y) < 0; });
  struct Group {
    int64_t first, number;
    std::vector<int64_t> members;
  };
  std::vector<Group> groups;
  for (const int64_t each : sorted)
    if (!groups.empty() && order(groups.back().first, each) == 0)
      groups.back().members.push_back(each);
    else
      groups.push_back({each, 0, {each}});
  if (!at.flag("sorted", true))
    std::sort(groups.begin(), groups.end(), [](const Group& x, const Group& y) { return x.first < y.first; });
  std::vector<int64_t> firsts, which(static_cast<size_t>(count)), counts;
  for (size_t g = 0; g < groups.size(); ++g) {
    firsts.push_back(groups[g].first), counts.push_back(std::ssize(groups[g].members));
    for (const int64_t each : groups[g].members) which[static_cast<size_t>(each)] = static_cast<int64_t>(g);
  }
  const int64_t number = std::ssize(groups);
  const Tensor first = at.integer_constant({number}, firsts);
  return {index_select(a, first, axis, true), first, at.integer_constant({count}, which),
          at.integer_constant({number}, counts)};
}

/// One box as corners in order.
struct Box {
  double y1, x1, y2, x2;
  double area() const { return (y2 - y1) * (x2 - x1); }
};
double overlap(const Box& a, const Box& b) {
  const double h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1), w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (h <= 0 || w <= 0) return 0;
  const double joined = a.area() + b.area() - h * w;
  return joined <= 0 ? 0 : h * w / joined;
}

Values non_max_suppression(const OnnxCall& at) {
  const HostTensor &boxes = at.must_know(0, "the boxes"), &scores = at.must_know(1, "the scores");
  if (boxes.type.shape.rank() != 3 || scores.type.shape.rank() != 3 || boxes.type.shape[2] != 4)
    at.refuse("boxes or scores have the wrong shape");
  const int64_t batch = boxes.type.shape[0], count = boxes.type.shape[1], classes = scores.type.shape[1];
  if (scores.type.shape[0] != batch || scores.type.shape[2] != count || scores.elements() > kMostElements)
    at.refuse("boxes and scores do not fit each other");
  const int64_t most = at.has(2) ? at.known_integer(2, "the most boxes of a class") : 0;
  const double limit = at.has(3) ? at.known_number(3, "the threshold of overlap") : 0;
  const bool has_least = at.has(4);
  const double least = has_least ? at.known_number(4, "the threshold of scores") : 0;
  const bool centres = at.integer("center_point_box", 0) == 1;
  const auto box = [&](int64_t b, int64_t i) {
    const auto get = [&](int64_t k) { return boxes.get((b * count + i) * 4 + k); };
    if (centres) return Box{get(1) - get(3) / 2, get(0) - get(2) / 2, get(1) + get(3) / 2, get(0) + get(2) / 2};
    return Box{std::min(get(0), get(2)), std::min(get(1), get(3)), std::max(get(0), get(2)), std::max(get(1), get(3))};
  };
  std::vector<int64_t> chosen;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t c = 0; c < classes; ++c) {
      const auto score = [&](int64_t i) { return scores.get((b * classes + c) * count + i); };
      std::vector<int64_t> order, kept;
      for (int64_t i = 0; i < count; ++i)
        if (!has_least || score(i) > least) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return score(x) > score(y); });
      for (const int64_t i : order) {
        if (std::ssize(kept) >= most) break;
        if (std::none_of(kept.begin(), kept.end(), [&](int64_t k) { return overlap(box(b, k), box(b, i)) > limit; }))
          kept.push_back(i), chosen.insert(chosen.end(), {b, c, i});
      }
    }
  return {at.integer_constant({std::ssize(chosen) / 3, 3}, chosen)};
}

constexpr OnnxEntry kEntries[] = {
    {"Compress", compress},
    {"NonMaxSuppression", non_max_suppression},
    {"NonZero", non_zero},
    {"Unique", unique},
};

}  // namespace

std::span<const OnnxEntry> onnx_selection_operators() { return kEntries; }

}  // namespace ramet::front
