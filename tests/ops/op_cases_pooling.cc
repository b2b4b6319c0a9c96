#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "ops/op_cases.h"
#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/interpret.h"

// Cases of pooling: by PyTorch, by hand, and drawn at random.

namespace ramet::tests {
namespace {

using Ints = std::vector<int64_t>;
constexpr DType kF32 = DType::kF32;

/// Numbers a distance apart in an order of their own, so that small changes change no maximum.
std::vector<double> spaced(const Shape& shape) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.elements(); ++i) values.push_back(static_cast<double>(i * 37 % 101) * 0.125 - 6);
  return values;
}

/// Dimension 1 as the last.
std::vector<double> channels_last(const std::vector<double>& values, const Shape& shape) {
  std::vector<double> moved;
  const int64_t channels = shape[1], space = shape.elements() / (shape[0] * channels);
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t s = 0; s < space; ++s)
      for (int64_t c = 0; c < channels; ++c)
        moved.push_back(values[static_cast<size_t>((n * channels + c) * space + s)]);
  return moved;
}
Shape channels_last(const Shape& shape) {
  Ints dims = shape.dims();
  std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  return Shape(dims);
}

struct Peer {
  std::string op, name;
  Shape shape;
  Attributes attributes;
  std::vector<std::vector<double>> expected;  ///< in the order of channels first
};

/// By PyTorch 2.15 on the numbers of `spaced`, in f64.
std::vector<Peer> peers() {
  return {
      {"max_pool",
       "one_dimension",
       {1, 2, 7},
       {{"taps", Ints{3}}, {"strides", Ints{2}}, {"low", Ints{1}}, {"high", Ints{1}}, {"flat_indices", true}},
       {{-1.375, 3.25, 4.5, 4.5, 5.75, 5.75, 2.375, 3.625}, {1, 2, 5, 5, 1, 1, 3, 6}}},
      {"max_pool",
       "dilated_ceil",
       {1, 2, 6, 7},
       {{"taps", Ints{3, 2}},
        {"strides", Ints{2, 3}},
        {"low", Ints{1, 0}},
        {"high", Ints{1, 0}},
        {"dilations", Ints{1, 2}},
        {"ceil_mode", true},
        {"flat_indices", true}},
       {{3.25, 4.5,   3.625, 4.875, 6.125, 5.25, 6.5,   5.625, 5.25,  4.375, 5.625,  -5.75,
         6,    3.875, 1.375, 6,     5.5,   3,    5.875, 5.5,   4.625, 5.875, -2.125, -0.875},
        {2, 5, 13, 16, 19, 27, 30, 38, 27, 35, 38, 41, 7, 12, 6, 7, 26, 20, 37, 26, 34, 37, 38, 41}}},
      {"max_pool",
       "three_dimensions",
       {1, 1, 3, 4, 5},
       {{"taps", Ints{2, 2, 2}}, {"ceil_mode", true}, {"flat_indices", true}},
       {{4.5, 5.75, 4, 6.5, 5.625, 6.125, 4.75, 3.5, 6, 2.625, 5.125, 3.875},
        {5, 8, 24, 30, 38, 19, 46, 43, 49, 51, 57, 54}}},
      {"average_pool",
       "ceil_with_padding",
       {1, 2, 5, 6},
       {{"taps", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"low", Ints{1, 1}}, {"high", Ints{1, 1}}, {"ceil_mode", true}},
       {{-1.0833333333333333,
         0.19444444444444445,
         -0.6527777777777778,
         -0.1875,
         0.875,
         1.2361111111111112,
         -0.7361111111111112,
         -1.5625,
         0.8472222222222222,
         0.9861111111111112,
         0.1388888888888889,
         0.20833333333333334,
         0.2638888888888889,
         0.1111111111111111,
         -0.7361111111111112,
         -0.22916666666666666,
         0.7916666666666666,
         1.1111111111111112,
         -0.8611111111111112,
         -1.625,
         0.7916666666666666,
         0.9027777777777778,
         0.05555555555555555,
         0.16666666666666666}}},
      {"average_pool",
       "ceil_without_padding",
       {1, 2, 5, 6},
       {{"taps", Ints{3, 3}},
        {"strides", Ints{2, 2}},
        {"low", Ints{1, 1}},
        {"high", Ints{1, 1}},
        {"ceil_mode", true},
        {"count_padding", false}},
       {{-2.4375, 0.2916666666666667,  -0.9791666666666666, -0.5625,
         1.3125,  1.2361111111111112,  -0.7361111111111112, -3.125,
         1.90625, 1.4791666666666667,  0.20833333333333334, 0.625,
         0.59375, 0.16666666666666666, -1.1041666666666667, -0.6875,
         1.1875,  1.1111111111111112,  -0.8611111111111112, -3.25,
         1.78125, 1.3541666666666667,  0.08333333333333333, 0.5}}},
      {"average_pool",
       "divisor",
       {1, 2, 5, 6},
       {{"taps", Ints{2, 3}}, {"divisor", int64_t{5}}},
       {{-0.15, -1.175, 0.8, -0.225, 2.225, -1.325, 0.65, -0.375}}},
      {"average_pool",
       "three_dimensions",
       {1, 1, 4, 3, 5},
       {{"taps", Ints{2, 3, 2}}, {"strides", Ints{2, 1, 3}}, {"low", Ints{1, 1, 0}}, {"high", Ints{1, 1, 0}}},
       {{-0.53125, -0.11458333333333333, -0.8020833333333334, -0.17708333333333334, -0.1875, 0.22916666666666666,
         0.9791666666666666, 0.7604166666666666, 0.40625, 0.6041666666666666, -0.4375, 0.3958333333333333,
         0.4583333333333333, 0.875, 0.15625, 0.78125, -0.25, 0.16666666666666666}}},
      {"average_pool",
       "adaptive",
       {1, 2, 5, 7},
       {{"sizes", Ints{3, 4}}},
       {{-0.125,
         0.5,
         -0.7708333333333334,
         0.90625,
         0.041666666666666664,
         0.6666666666666666,
         0.09722222222222222,
         2.125,
         -0.84375,
         0.8333333333333334,
         -0.4375,
         0.1875,
         0.78125,
         0.3541666666666667,
         1.1875,
         -1.34375,
         2,
         -0.18055555555555555,
         0.6527777777777778,
         -0.125,
         0.0625,
         0.6875,
         1.5208333333333333,
         1.09375}}},
      {"max_pool",
       "adaptive",
       {1, 2, 5, 7},
       {{"sizes", Ints{3, 4}}, {"flat_indices", true}},
       {{5.75,  5.75,  4.5,   4.5,  5.75, 5.75,  6.125, 6.125, 2.75,  6.5,   4,     5.25,
         4.375, 5.625, 5.625, 2.25, 6,    5.125, 6.375, 3.875, 5.125, 5.125, 6.375, 5.5},
        {8, 8, 5, 5, 8, 8, 19, 19, 21, 30, 24, 27, 0, 3, 3, 5, 14, 22, 25, 19, 22, 22, 25, 33}}},
  };
}

void add_peers(std::vector<OpCase>& cases) {
  for (const Peer& peer : peers()) {
    OpCase first{.op = peer.op,
                 .name = peer.name,
                 .inputs = {{{kF32, peer.shape}, 0, 0, spaced(peer.shape)}},
                 .attributes = peer.attributes,
                 .expected = peer.expected};
    OpCase last = first;
    last.name += "_channels_last";
    last.attributes.set("channels_last", true);
    last.inputs[0].type.shape = channels_last(peer.shape);
    last.inputs[0].values = channels_last(spaced(peer.shape), peer.shape);
    const Shape pooled = signature_of(first).outputs[0].shape;
    for (auto& expected : last.expected) expected = channels_last(expected, pooled);
    cases.push_back(std::move(first));
    cases.push_back(std::move(last));
  }
}

void add_by_hand(std::vector<OpCase>& cases) {
  const double nan = std::nan(""), least = -std::numeric_limits<double>::infinity();
  // The last NaN of a window wins, as in PyTorch; of equals the first; a window of -inf gives its first element.
  cases.push_back({.op = "max_pool",
                   .name = "nan_and_ties",
                   .inputs = {{{kF32, {1, 1, 12}}, 0, 0, {1, nan, 3, nan, 5, 5, 2, 5, least, least, least, least}}},
                   .attributes = {{"taps", Ints{4}}, {"flat_indices", true}},
                   .expected = {{nan, 5, least}, {3, 4, 8}},
                   .gradient_tolerance = 0,
                   .low_types = false});
  cases.push_back({.op = "max_pool",
                   .name = "numbers_of_taps",
                   .inputs = {{{kF32, {1, 1, 2, 4}}, 0, 0, {1, 8, 3, 4, 5, 6, 7, 2}}},
                   .attributes = {{"taps", Ints{2, 2}}, {"low", Ints{1, 1}}, {"high", Ints{1, 1}}},
                   .expected = {{1, 8, 4, 5, 7, 2}, {3, 2, 2, 1, 1, 0}}});
  cases.push_back({.op = "max_pool",
                   .name = "more_than_256_taps",
                   .inputs = {{{kF32, {2, 2, 300}}, 0, 0, {}}},
                   .attributes = {{"sizes", Ints{1}}},
                   .gradient_tolerance = 0});
  for (const bool last : {false, true}) {
    cases.push_back({.op = "average_pool",
                     .name = last ? "no_samples_channels_last" : "no_samples",
                     .inputs = {{{kF32, last ? Shape{0, 4, 4, 3} : Shape{0, 3, 4, 4}}}},
                     .attributes = {{"taps", Ints{2, 2}}, {"channels_last", last}}});
    cases.push_back({.op = "max_pool",
                     .name = last ? "no_channels_channels_last" : "no_channels",
                     .inputs = {{{kF32, last ? Shape{2, 4, 0} : Shape{2, 0, 4}}}},
                     .attributes = {{"taps", Ints{2}}, {"channels_last", last}}});
  }
}

/// Draws of one seed, one after another.
class Draws {
 public:
  /// An integer in [low, high].
  int64_t operator()(int64_t low, int64_t high) {
    const RandomStream stream(17, RandomPurpose::kTest, 0, 0);
    return low + static_cast<int64_t>(stream.uniform(next_++) * static_cast<double>(high - low + 1));
  }
  bool coin() { return (*this)(0, 1) == 1; }

 private:
  uint64_t next_ = 0;
};

/// Spatial extents and attributes of a pooling, valid or not.
std::pair<Ints, Attributes> drawn_windows(Draws& draw, bool max) {
  const int64_t count = draw(1, 3), most = count == 1 ? 12 : count == 2 ? 6 : 4;
  Ints space, taps, strides, dilations, low, high, sizes;
  for (int64_t dim = 0; dim < count; ++dim) {
    space.push_back(draw(1, most));
    taps.push_back(draw(1, 3));
    strides.push_back(draw(1, 3));
    dilations.push_back(draw(1, 2));
    low.push_back(draw(0, taps.back() / 2));
    high.push_back(draw(0, taps.back() - 1));
    sizes.push_back(draw(1, space.back() + 1));
  }
  Attributes attributes;
  if (draw(0, 3) == 0) {
    attributes.set("sizes", sizes);
  } else {
    attributes.set("taps", taps).set("low", low).set("high", high);
    if (draw(0, 3) > 0) attributes.set("strides", strides);
    if (draw.coin()) attributes.set("dilations", dilations);
    attributes.set("ceil_mode", draw.coin());
  }
  if (max) return {space, attributes.set("flat_indices", draw.coin())};
  attributes.set("count_padding", draw.coin());
  if (draw(0, 3) == 0) attributes.set("divisor", draw(1, 7));
  return {space, attributes};
}

/// A pooling of drawn windows and channels; nothing when its type rule refuses it.
std::optional<OpCase> drawn_case(Draws& draw, bool max, bool wide, const std::string& name) {
  auto [space, attributes] = drawn_windows(draw, max);
  const bool last = draw.coin();
  attributes.set("channels_last", last);
  Ints dims{draw(1, 2)};
  const int64_t channels = wide ? draw(15, 70) : draw(1, 4);
  if (!last) dims.push_back(channels);
  dims.insert(dims.end(), space.begin(), space.end());
  if (last) dims.push_back(channels);
  const Shape shape(dims);
  if (!wide && shape.elements() > 160) return std::nullopt;
  OpCase made{.op = max ? "max_pool" : "average_pool",
              .name = name,
              .inputs = {{{kF32, shape}, 0, 0, spaced(shape)}},
              .attributes = attributes};
  if (wide) made.gradient_tolerance = 0;
  try {
    signature_of(made);
  } catch (const Error&) {
    return std::nullopt;
  }
  return made;
}

/// The gradient op of a pooling, with indices that this pooling gives.
OpCase gradient_case(const OpCase& pool) {
  const NodeSignature node = signature_of(pool);
  OpCase made{.op = pool.op + "_grad", .name = pool.name, .inputs = {}, .attributes = pool.attributes};
  made.inputs.push_back({node.outputs[0]});
  if (node.outputs.size() > 1) {
    const HostTensor index = interpret_node(node, reference_backend(), inputs_of(pool)).at(1);
    made.inputs.push_back({node.outputs[1], 0, 0, index.values(), false});
  }
  const Ints& dims = node.inputs[0].shape.dims();
  const bool last = pool.attributes.get_bool_or("channels_last", false);
  made.attributes.set("space", last ? Ints(dims.begin() + 1, dims.end() - 1) : Ints(dims.begin() + 2, dims.end()));
  return made;
}

}  // namespace

void add_pooling_cases(std::vector<OpCase>& cases) {
  const size_t before = cases.size();
  add_peers(cases);
  add_by_hand(cases);
  Draws draw;
  for (const bool max : {true, false})
    for (const bool wide : {false, true})
      for (int made = 0; made < (wide ? 12 : 25);) {
        const std::string name = "drawn_" + std::string(wide ? "wide_" : "") + std::to_string(made);
        if (std::optional<OpCase> drawn = drawn_case(draw, max, wide, name)) cases.push_back(*drawn), ++made;
      }
  for (size_t i = before, end = cases.size(); i < end; ++i) {
    const OpCase pool = cases[i];
    if (pool.name == "nan_and_ties") continue;
    cases.push_back(gradient_case(pool));
  }
}

}  // namespace ramet::tests
