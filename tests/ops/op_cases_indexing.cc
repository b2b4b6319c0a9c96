#include <algorithm>

#include "ops/op_cases.h"
#include "ramet/base/rng.h"
#include "ramet/ops/index_space.h"

namespace ramet::tests {
namespace {

using Dims = std::vector<int64_t>;

constexpr DType kF32 = DType::kF32, kI32 = DType::kI32, kI64 = DType::kI64;

CaseInput f32(Shape shape, double low = -1, double high = 1) { return {{kF32, std::move(shape)}, low, high}; }
CaseInput given(DType dtype, Shape shape, std::vector<double> values) {
  return {.type = {dtype, std::move(shape)}, .values = std::move(values)};
}
/// Values in a mixed order, no two nearer than 0.1 when their number is no multiple of 7.
CaseInput distinct(const Shape& shape, double offset = 0.03) {
  std::vector<double> values;
  const int64_t count = shape.elements();
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i * 7 % count - count / 2) * 0.1 + offset);
  if (values.empty()) return f32(shape);
  return given(kF32, shape, values);
}

void add_hand_made(std::vector<OpCase>& cases) {
  cases.push_back(
      {.op = "take",
       .name = "rows and columns",
       .inputs = {given(kI32, {2, 3}, {1, 2, 3, 4, 5, 6}), given(kI32, {2, 1}, {1, 0}), given(kI64, {2}, {2, -2})},
       .attributes = {{"axes", Dims{0, 1}}, {"from_end", true}},
       .expected = {{6, 5, 3, 2}}});
  cases.push_back({.op = "take",
                   .name = "a scalar index",
                   .inputs = {f32({4, 6}), given(kI32, {}, {3})},
                   .attributes = {{"axes", Dims{0}}}});
  cases.push_back({.op = "take",
                   .name = "no positions",
                   .inputs = {f32({4, 6}), {{kI32, {0}}}},
                   .attributes = {{"axes", Dims{1}}}});
  // torch.tensor([[1., 2.], [3., 4.]]).scatter(0, [[1, 0], [1, 1]], [[5., 6.], [7., 8.]])
  cases.push_back({.op = "put",
                   .name = "the last one wins",
                   .inputs = {given(kF32, {2, 2}, {1, 2, 3, 4}), given(kF32, {2, 2}, {5, 6, 7, 8}),
                              given(kI64, {2, 2}, {1, 0, 1, 1})},
                   .attributes = {{"axes", Dims{0}}, {"along", Dims{-1, 1}}, {"by", "set"}},
                   .expected = {{1, 6, 7, 8}}});
  cases.push_back({.op = "put",
                   .name = "bools or",
                   .inputs = {given(DType::kBool, {4}, {0, 1, 0, 1}), given(DType::kBool, {3}, {1, 0, 0}),
                              given(kI32, {3}, {2, 1, 0})},
                   .attributes = {{"axes", Dims{0}}, {"by", "max"}},
                   .expected = {{0, 1, 1, 1}}});
  cases.push_back({.op = "put",
                   .name = "bools and, without self",
                   .inputs = {given(DType::kBool, {4}, {0, 0, 0, 1}), given(DType::kBool, {3}, {1, 1, 0}),
                              given(kI32, {3}, {2, 0, 0})},
                   .attributes = {{"axes", Dims{0}}, {"by", "min"}, {"include_self", false}},
                   .expected = {{0, 0, 1, 1}}});
  cases.push_back(
      {.op = "put",
       .name = "i32 wraps",
       .inputs = {given(kI32, {2}, {2147483647, 65536}), given(kI32, {2}, {1, 1}), given(kI32, {2}, {0, 0})},
       .attributes = {{"axes", Dims{0}}, {"by", "add"}},
       .expected = {{-2147483647, 65536}}});
  // The gradient of a factor is the product of the others, also among zeros.
  cases.push_back(
      {.op = "put",
       .name = "products with zeros",
       .inputs = {given(kF32, {4}, {2, 0, 3, 0}), given(kF32, {5}, {0, 5, 0, 7, 2}), given(kI32, {5}, {0, 0, 1, 2, 2})},
       .attributes = {{"axes", Dims{0}}, {"by", "mul"}},
       .expected = {{0, 0, 42, 0}}});
  cases.push_back({.op = "put",
                   .name = "nothing put",
                   .inputs = {f32({4, 2}), f32({0, 2}), {{kI32, {0}}}},
                   .attributes = {{"axes", Dims{0}}, {"by", "add"}}});
}

/// A tensor, index tensors and attributes, drawn: axes kept, run along or addressed in any order, indices of both types
/// that broadcast, extents that are odd, even and empty.
struct DrawnSpace {
  Shape whole;
  std::vector<CaseInput> indices;
  Attributes attributes;
};

class Draw {
 public:
  explicit Draw(uint64_t seed) : stream_(seed, RandomPurpose::kTest, 1, 0) {}
  int64_t below(int64_t bound) { return stream_.below(next_++, static_cast<uint32_t>(bound)); }
  bool chance(int64_t of) { return below(of) == 0; }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

DrawnSpace draw_space(Draw& draw) {
  const int64_t rank = 1 + draw.below(4);
  Dims whole;
  for (int64_t i = 0; i < rank; ++i) whole.push_back(1 + draw.below(5));
  Dims axes, space, along;
  const int64_t addressed = draw.below(rank);  // at least this one
  for (int64_t axis = 0; axis < rank; ++axis) {
    const int64_t kind = axis == addressed ? 0 : draw.below(3);
    if (kind == 0) axes.push_back(axis);
    if (kind != 1) continue;
    const int64_t extent = whole[static_cast<size_t>(axis)];
    const int64_t place = draw.below(static_cast<int64_t>(space.size()) + 1);
    space.insert(space.begin() + place, draw.chance(3) ? 1 + draw.below(extent) : extent);
    along.insert(along.begin() + place, axis);
  }
  for (int64_t more = draw.below(3); more > 0; --more) {
    const int64_t place = draw.below(static_cast<int64_t>(space.size()) + 1);
    space.insert(space.begin() + place, draw.chance(12) ? 0 : 1 + draw.below(4));
    along.insert(along.begin() + place, -1);
  }
  if (axes.size() > 1 && draw.chance(2)) std::swap(axes.front(), axes.back());
  DrawnSpace drawn{Shape(whole), {}, {{"axes", axes}}};
  if (std::any_of(along.begin(), along.end(), [](int64_t axis) { return axis >= 0; }))
    drawn.attributes.set("along", along);
  const int64_t kept = rank - static_cast<int64_t>(axes.size()) -
                       std::count_if(along.begin(), along.end(), [](int64_t axis) { return axis >= 0; });
  if (const int64_t before = draw.below(kept + 1); before > 0) drawn.attributes.set("before", before);
  const bool from_end = draw.chance(3);
  if (from_end) drawn.attributes.set("from_end", true);
  for (size_t n = 0; n < axes.size(); ++n) {
    Dims dims = space;
    // Only the first index tensor surely has the whole space.
    for (int64_t& extent : dims)
      if (n > 0 && draw.chance(3)) extent = 1;
    const int64_t extent = whole[static_cast<size_t>(axes[n])];
    CaseInput index{{draw.chance(2) ? kI32 : kI64, Shape(dims)}};
    for (int64_t i = 0; i < index.type.elements(); ++i)
      index.values.push_back(static_cast<double>(draw.below(extent) - (from_end && draw.chance(2) ? extent : 0)));
    drawn.indices.push_back(std::move(index));
  }
  return drawn;
}

std::string number(int i) { return (i < 10 ? "drawn 0" : "drawn ") + std::to_string(i); }

void add_drawn_takes(std::vector<OpCase>& cases) {
  Draw draw(11);
  for (int i = 0; i < 40; ++i) {
    const DrawnSpace drawn = draw_space(draw);
    OpCase next{.op = "take", .name = number(i), .inputs = {f32(drawn.whole)}, .attributes = drawn.attributes};
    if (i % 8 == 7) next.inputs[0] = {{kI64, drawn.whole}, -9, 9};
    next.inputs.insert(next.inputs.end(), drawn.indices.begin(), drawn.indices.end());
    cases.push_back(std::move(next));
  }
}

void add_drawn_puts(std::vector<OpCase>& cases) {
  Draw draw(12);
  const std::vector<std::string> ways{"set", "add", "mul", "min", "max"};
  for (int i = 0; i < 60; ++i) {
    const DrawnSpace drawn = draw_space(draw);
    OpCase next{.op = "put", .name = number(i), .inputs = {f32(drawn.whole)}, .attributes = drawn.attributes};
    const std::string& by = ways[static_cast<size_t>(i) % ways.size()];
    next.name += " by " + by;
    next.attributes.set("by", by);
    if (draw.chance(3)) next.attributes.set("include_self", false);
    NodeSignature node;
    node.attributes = drawn.attributes;
    node.inputs = {{kF32, drawn.whole}};
    for (const CaseInput& index : drawn.indices) node.inputs.push_back(index.type);
    node.op = &OpRegistry::instance().get("take");
    const Shape picked = IndexSpace(node, 1).picked();
    if (by == "min" || by == "max")  // no ties, where differences would not be the gradient
      next.inputs = {distinct(drawn.whole), distinct(picked, 0.08)};
    else if (by == "mul")
      next.inputs = {f32(drawn.whole, 0.5, 1.5), f32(picked, 0.5, 1.5)};
    else
      next.inputs.push_back(f32(picked));
    if (i % 6 == 5)
      for (size_t input : {0, 1})
        next.inputs[input] = {{i % 4 == 1 ? kI32 : kI64, next.inputs[input].type.shape}, -9, 9};
    next.inputs.insert(next.inputs.end(), drawn.indices.begin(), drawn.indices.end());
    cases.push_back(std::move(next));
  }
}

void add_orders(std::vector<OpCase>& cases) {
  cases.push_back({.op = "sort",
                   .name = "values",
                   .inputs = {given(kI32, {6}, {3, 9, 1, 9, 4, 1})},
                   .attributes = {{"axis", 0}},
                   .expected = {{1, 1, 3, 4, 9, 9}, {2, 5, 0, 4, 1, 3}}});
  cases.push_back({.op = "sort",
                   .name = "values, descending",
                   .inputs = {given(kI64, {6}, {3, 9, 1, 9, 4, 1})},
                   .attributes = {{"axis", 0}, {"descending", true}},
                   .expected = {{9, 9, 4, 3, 1, 1}, {1, 3, 4, 0, 2, 5}}});
  cases.push_back({.op = "top_k",
                   .name = "least of columns",
                   .inputs = {given(kI32, {4, 2}, {3, 9, 1, 9, 4, 1, 1, 7})},
                   .attributes = {{"k", 2}, {"axis", 0}, {"least", true}},
                   .expected = {{1, 1, 1, 7}, {1, 2, 3, 3}}});
  cases.push_back({.op = "search_sorted",
                   .name = "values",
                   .inputs = {given(kF32, {5}, {1, 3, 3, 5, 7}), given(kF32, {6}, {0, 1, 3, 4, 7, 8})},
                   .expected = {{0, 0, 1, 3, 4, 5}}});
  cases.push_back({.op = "search_sorted",
                   .name = "values, right",
                   .inputs = {given(kI32, {2, 3}, {1, 3, 5, 2, 2, 2}), given(kI32, {2, 2}, {3, 0, 2, 9})},
                   .attributes = {{"right", true}},
                   .expected = {{2, 0, 3, 3}}});
  cases.push_back({.op = "search_sorted", .name = "of nothing", .inputs = {{{kI64, {0}}}, {{kI64, {2, 2}}, 0, 3}}});
  // torch.cumprod, torch.cummax and torch.cummin of small tensors
  cases.push_back({.op = "cumprod",
                   .name = "zeros",
                   .inputs = {given(kF32, {2, 4}, {2, 0, 3, 4, 5, 0.5, 0, 0})},
                   .attributes = {{"axis", 1}},
                   .expected = {{2, 0, 0, 0, 5, 2.5, 0, 0}}});
  cases.push_back({.op = "cumprod",
                   .name = "i32 wraps",
                   .inputs = {given(kI32, {4}, {65536, 3, 32768, 2})},
                   .attributes = {{"axis", 0}},
                   .expected = {{65536, 196608, -2147483648.0, 0}}});
  cases.push_back({.op = "cummax",
                   .name = "last of equals",
                   .inputs = {given(kF32, {5}, {1, 3, 2, 3, 0})},
                   .attributes = {{"axis", 0}},
                   .expected = {{1, 3, 3, 3, 3}, {0, 1, 1, 3, 3}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "cummin",
                   .name = "last of equals",
                   .inputs = {given(kI32, {5}, {2, 1, 3, 1, 0})},
                   .attributes = {{"axis", 0}},
                   .expected = {{2, 1, 1, 1, 0}, {0, 1, 1, 3, 4}}});
  cases.push_back({.op = "linear_scan",
                   .name = "values",
                   .inputs = {given(kF32, {4}, {9, 2, 0, 3}), given(kF32, {4}, {1, 1, 5, 1})},
                   .attributes = {{"axis", 0}},
                   .expected = {{1, 3, 5, 16}}});
  cases.push_back({.op = "linear_scan",
                   .name = "values, from the end by the factor behind",
                   .inputs = {given(kF32, {4}, {9, 2, 0, 3}), given(kF32, {4}, {1, 1, 5, 1})},
                   .attributes = {{"axis", 0}, {"reverse", true}, {"shifted", true}},
                   .expected = {{3, 1, 8, 1}}});
}

void add_drawn_orders(std::vector<OpCase>& cases) {
  Draw draw(13);
  int count = 0;
  for (const char* op : {"sort", "top_k", "cummax", "cummin", "cumprod", "linear_scan"})
    for (int i = 0; i < 8; ++i) {
      Dims dims;
      for (int64_t rank = 1 + draw.below(3); rank > 0; --rank) dims.push_back(draw.chance(15) ? 0 : 1 + draw.below(6));
      const int64_t axis = draw.below(static_cast<int64_t>(dims.size()));
      OpCase next{.op = op, .name = number(count++), .inputs = {distinct(Shape(dims))}, .attributes = {{"axis", axis}}};
      const std::string name = op;
      const bool scans = name == "cumprod" || name == "linear_scan";
      if (name == "sort" && draw.chance(2)) next.attributes.set("descending", true);
      if (name == "top_k") {
        next.attributes.set("k", draw.below(dims[static_cast<size_t>(axis)] + 1));
        if (draw.chance(2)) next.attributes.set("least", true);
      }
      if (scans && draw.chance(2)) next.attributes.set("reverse", true);
      if (scans) next.inputs[0] = f32(Shape(dims));
      if (name == "linear_scan") {
        next.inputs.push_back(f32(Shape(dims)));
        if (draw.chance(2)) next.attributes.set("shifted", true);
      } else if (i % 4 == 3) {
        next.inputs[0] = {{draw.chance(2) ? kI32 : kI64, Shape(dims)}, -4, 4};
      }
      if (!scans) next.gradient_outputs = {0};
      cases.push_back(std::move(next));
    }
}

}  // namespace

void add_indexing_cases(std::vector<OpCase>& cases) {
  add_hand_made(cases);
  add_drawn_takes(cases);
  add_drawn_puts(cases);
  add_orders(cases);
  add_drawn_orders(cases);
}

}  // namespace ramet::tests
