#include <cmath>

#include "ops/op_cases.h"
#include "ramet/base/rng.h"

// Resizing, sampling at positions, patches: lines with numbers of PyTorch, and cases drawn at random.

namespace ramet::tests {
namespace {

constexpr DType kF32 = DType::kF32;
using Dims = std::vector<int64_t>;

/// Draws from a fixed seed.
class Draws {
 public:
  explicit Draws(uint64_t purpose) : stream_(20, RandomPurpose::kTest, 0, purpose) {}
  /// An integer in [low, high].
  int64_t number(int64_t low, int64_t high) {
    return low + stream_.below(next_++, static_cast<uint32_t>(high - low + 1));
  }
  bool coin() { return number(0, 1) == 1; }
  double unit() { return stream_.uniform(next_++); }
  template <typename Value>
  Value one_of(std::initializer_list<Value> values) {
    return *(values.begin() + number(0, static_cast<int64_t>(values.size()) - 1));
  }
  Dims numbers(int64_t count, int64_t low, int64_t high) {
    Dims all;
    for (int64_t i = 0; i < count; ++i) all.push_back(number(low, high));
    return all;
  }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

/// [N, C, space...] or [N, space..., C]
Shape activation(int64_t n, int64_t c, const Dims& space, bool channels_last) {
  Dims dims{n};
  if (!channels_last) dims.push_back(c);
  dims.insert(dims.end(), space.begin(), space.end());
  if (channels_last) dims.push_back(c);
  return Shape(dims);
}

CaseInput f32(Shape shape) { return {{kF32, std::move(shape)}}; }
CaseInput given(Shape shape, std::vector<double> values) { return {{kF32, std::move(shape)}, 0, 0, std::move(values)}; }

// --- resample ---

void draw_resample(std::vector<OpCase>& cases) {
  Draws draw(1);
  for (int i = 0; i < 60; ++i) {
    const int64_t dims = draw.number(1, 3);
    const bool last = draw.coin(), transposed = draw.coin();
    const Dims from = draw.numbers(dims, 1, dims == 3 ? 4 : 9), to = draw.numbers(dims, 1, dims == 3 ? 5 : 12);
    const std::string method = draw.one_of<std::string>({"nearest", "linear", "cubic"});
    const bool wide = method != "nearest" && draw.coin();
    Attributes attributes{{"sizes", to}, {"method", method}};
    attributes.set("coordinates", wide ? draw.one_of<std::string>({"half_pixel", "corners"})
                                       : draw.one_of<std::string>({"half_pixel", "corners", "asymmetric"}));
    if (method == "nearest")
      attributes.set("rounding", draw.one_of<std::string>({"floor", "ceil", "half_down", "half_up"}));
    if (wide) attributes.set("antialias", true);
    if (method == "cubic" && draw.coin()) attributes.set("cubic", -0.5);
    if (last) attributes.set("channels_last", true);
    if (transposed) attributes.set("transposed", true);
    if (draw.number(0, 3) == 0) {
      std::vector<double> steps;
      for (int64_t d = 0; d < dims; ++d) steps.push_back(draw.coin() ? 0 : 0.3 + 1.5 * draw.unit());
      attributes.set("steps", TensorData(HostTensor::of(kF32, Shape{dims}, steps)));
    }
    cases.push_back(
        {.op = "resample",
         .name = "drawn_" + std::to_string(i),
         .inputs = {f32(activation(draw.number(0, 9) == 0 ? 0 : draw.number(1, 2), draw.number(1, 3), from, last))},
         .attributes = attributes});
  }
}

// --- grid_sample ---

/// A coordinate whose position is at least a tenth of an element away from all where the gradient jumps: elements and
/// the middles between them.
double smooth_coordinate(Draws& draw, int64_t size, bool corners) {
  const double part = draw.coin() ? 0.1 + 0.3 * draw.unit() : 0.6 + 0.3 * draw.unit();
  const double position = static_cast<double>(draw.number(-3, size + 2)) + part;
  if (corners) return size == 1 ? 0.3 : position / (static_cast<double>(size - 1) / 2) - 1;
  return (position + 0.5) / (static_cast<double>(size) / 2) - 1;
}

void draw_grid_sample(std::vector<OpCase>& cases) {
  Draws draw(2);
  for (int i = 0; i < 48; ++i) {
    const int64_t dims = draw.number(1, 3), n = draw.number(1, 2), c = draw.one_of<int64_t>({1, 2, 4});
    const bool last = draw.coin(), corners = draw.coin();
    const std::string method = draw.one_of<std::string>({"nearest", "linear", "cubic"});
    const Dims space = draw.numbers(dims, 1, dims == 3 ? 3 : 4), places = draw.numbers(dims, dims == 3 ? 1 : 0, 3);
    Attributes attributes{{"method", method},
                          {"padding", draw.one_of<std::string>({"zeros", "border", "reflection"})},
                          {"corners", corners},
                          {"channels_last", last}};
    Dims grid_dims{n};
    grid_dims.insert(grid_dims.end(), places.begin(), places.end());
    grid_dims.push_back(dims);
    const Shape grid_shape(grid_dims);
    std::vector<double> coordinates;
    for (int64_t e = 0; e < grid_shape.elements(); ++e)
      coordinates.push_back(smooth_coordinate(draw, space[static_cast<size_t>(dims - 1 - e % dims)], corners));
    const CaseInput a = f32(activation(n, c, space, last)), dy = f32(activation(n, c, places, last)),
                    grid = given(grid_shape, coordinates);
    const std::string name = "drawn_" + std::to_string(i);
    // In a narrower type a rounded position may be another element's; positions stay f32 (OpDef::full_inputs).
    cases.push_back({.op = "grid_sample", .name = name, .inputs = {a, grid}, .attributes = attributes});
    Attributes backward = attributes;
    if (c > 1 && draw.coin()) backward.set("chunks", int64_t{2});
    cases.push_back({.op = "grid_position_grad", .name = name, .inputs = {dy, a, grid}, .attributes = backward});
    cases.push_back(
        {.op = "grid_sample_grad", .name = name, .inputs = {dy, grid}, .attributes = attributes.set("sizes", space)});
  }
}

// --- patches ---

void draw_patches(std::vector<OpCase>& cases) {
  Draws draw(3);
  for (int i = 0; i < 30; ++i) {
    const int64_t dims = draw.number(1, 3), n = draw.number(0, 9) == 0 ? 0 : draw.number(1, 2), c = draw.number(1, 2);
    const bool last = draw.coin();
    const Dims taps = draw.numbers(dims, 1, dims == 3 ? 2 : 3), strides = draw.numbers(dims, 1, 3),
               dilations = draw.numbers(dims, 1, 2), low = draw.numbers(dims, 0, 2), high = draw.numbers(dims, 0, 2);
    Dims space;
    int64_t patches = 1, all_taps = 1;
    for (size_t d = 0; d < taps.size(); ++d) {
      const int64_t least = dilations[d] * (taps[d] - 1) + 1 - low[d] - high[d];
      space.push_back(std::max<int64_t>(least, 1) + draw.number(0, dims == 3 ? 1 : 4));
      patches *= (space[d] + low[d] + high[d] - dilations[d] * (taps[d] - 1) - 1) / strides[d] + 1;
      all_taps *= taps[d];
    }
    Attributes attributes{{"taps", taps}, {"low", low}, {"high", high}};
    if (draw.coin()) attributes.set("channels_last", last);
    const bool channels_last = attributes.has("channels_last") && last;
    attributes.set("strides", strides).set("dilations", dilations);
    const std::string name = "drawn_" + std::to_string(i);
    const Shape columns = channels_last ? Shape{n, patches, c * all_taps} : Shape{n, c * all_taps, patches};
    cases.push_back({.op = "im2col",
                     .name = name,
                     .inputs = {f32(activation(n, c, space, channels_last))},
                     .attributes = attributes});
    cases.push_back(
        {.op = "col2im", .name = name, .inputs = {f32(columns)}, .attributes = attributes.set("sizes", space)});
  }
  cases.push_back({.op = "im2col",
                   .name = "integers",
                   .inputs = {{{DType::kI64, {1, 1, 3}}, 0, 0, {1, -2, 3}}},
                   .attributes = {{"taps", Dims{2}}, {"low", Dims{1}}},
                   .expected = {{0, 1, -2, 1, -2, 3}}});
  // Wide enough for whole vectors, and several rows of channels.
  cases.push_back({.op = "im2col",
                   .name = "wide",
                   .inputs = {f32({2, 2, 5, 37})},
                   .attributes = {{"taps", Dims{3, 3}}, {"low", Dims{1, 1}}, {"high", Dims{1, 1}}},
                   .gradient_tolerance = 0});
  cases.push_back(
      {.op = "col2im",
       .name = "wide",
       .inputs = {f32({2, 18, 185})},
       .attributes = {{"taps", Dims{3, 3}}, {"low", Dims{1, 1}}, {"high", Dims{1, 1}}, {"sizes", Dims{5, 37}}},
       .gradient_tolerance = 0});
}

void add_wide_images(std::vector<OpCase>& cases) {
  for (bool last : {false, true})
    for (const char* method : {"nearest", "linear", "cubic"})
      for (bool transposed : {false, true}) {
        const std::string name =
            std::string("wide_") + method + (last ? "_last" : "") + (transposed ? "_transposed" : "");
        Attributes attributes{{"sizes", transposed ? Dims{7, 21} : Dims{13, 43}},
                              {"method", method},
                              {"channels_last", last},
                              {"transposed", transposed}};
        const Dims from = transposed ? Dims{13, 43} : Dims{7, 21};
        cases.push_back({.op = "resample",
                         .name = name,
                         .inputs = {f32(activation(2, 18, from, last))},
                         .attributes = attributes,
                         .gradient_tolerance = 0});
      }
  for (bool last : {false, true}) {
    const CaseInput a = f32(activation(2, 70, {5, 6}, last)), dy = f32(activation(2, 70, {3, 49}, last)),
                    grid{{kF32, {2, 3, 49, 2}}, -1.2, 1.2};
    const Attributes attributes{{"channels_last", last}};
    const std::string name = last ? "wide_last" : "wide";
    const std::vector<std::pair<std::string, std::vector<CaseInput>>> ops{
        {"grid_sample", {a, grid}}, {"grid_position_grad", {dy, a, grid}}, {"grid_sample_grad", {dy, grid}}};
    for (const auto& [op, inputs] : ops) {
      OpCase wide{.op = op, .name = name, .inputs = inputs, .attributes = attributes, .gradient_tolerance = 0};
      if (op == "grid_sample_grad") wide.attributes.set("sizes", Dims{5, 6});
      if (op == "grid_position_grad") wide.attributes.set("chunks", int64_t{2});
      cases.push_back(wide);
    }
  }
}

// --- lines whose numbers PyTorch computed (torch 2.15, f32) ---

void add_resample_peers(std::vector<OpCase>& cases) {
  const CaseInput image = given({1, 1, 2, 3}, {1, 2, 4, -3, 5, 0.5});
  const std::string corners = "corners", asymmetric = "asymmetric";
  // torch.nn.functional.interpolate(image, size=(3, 5), mode=...)
  const auto line = [&](const std::string& name, Attributes attributes, std::vector<double> expected) {
    attributes.set("sizes", Dims{3, 5});
    cases.push_back({.op = "resample",
                     .name = "peer_" + name,
                     .inputs = {image},
                     .attributes = attributes,
                     .expected = {expected}});
  };
  line("nearest", {{"coordinates", asymmetric}}, {1, 1, 2, 2, 4, 1, 1, 2, 2, 4, -3, -3, 5, 5, 0.5});
  line("nearest_exact", {{"rounding", "half_up"}}, {1, 1, 2, 4, 4, -3, -3, 5, 0.5, 0.5, -3, -3, 5, 0.5, 0.5});
  line("linear", {{"method", "linear"}},
       {1, 1.4000001, 2, 3.20000029, 4, -1, 0.800000191, 3.5, 2.75, 2.25, -3, 0.200000435, 5, 2.29999948, 0.5});
  line("linear_corners", {{"method", "linear"}, {"coordinates", corners}},
       {1, 1.5, 2, 3, 4, -1, 1.25, 3.5, 2.875, 2.25, -3, 1, 5, 2.75, 0.5});
  line("cubic", {{"method", "cubic"}},
       {1.30955601, 1.31483424, 1.73958373, 3.33714676, 4.54998732, -1.4319998, 0.836000979, 3.5, 3.0589993, 2.13000035,
        -4.1735549, 0.357168227, 5.26041651, 2.78085327, -0.289984941});
  line("cubic_corners", {{"method", "cubic"}, {"coordinates", corners}},
       {1, 1.3125, 2, 3.09375, 4, -1, 1.3671875, 3.5, 3.296875, 2.25, -3, 1.421875, 5, 3.5, 0.5});
  line("cubic_antialias", {{"method", "cubic"}, {"antialias", true}, {"cubic", -0.5}},
       {1.22244215, 1.34367609, 1.80263209, 3.40293598, 4.41348028, -1.33962238, 0.634328425, 3.5, 2.889925, 2.15566039,
        -3.9016881, -0.0750196055, 5.19736862, 2.37691355, -0.102160141});
  const CaseInput squares = given({1, 1, 7}, {0, 1, 4, 9, 16, 25, 36});
  const auto squares_line = [&](const std::string& name, int64_t size, Attributes attributes, double scale,
                                std::vector<double> expected) {
    attributes.set("sizes", Dims{size});
    if (scale > 0) attributes.set("steps", TensorData(HostTensor::of(kF32, Shape{1}, {1 / scale})));
    cases.push_back({.op = "resample",
                     .name = "peer_squares_" + name,
                     .inputs = {squares},
                     .attributes = attributes,
                     .expected = {expected}});
  };
  squares_line("linear_antialias", 3, {{"method", "linear"}, {"antialias", true}}, 0,
               {1.28571415, 9.94117737, 26.9999981});
  squares_line("cubic_antialias", 3, {{"method", "cubic"}, {"antialias", true}, {"cubic", -0.5}}, 0,
               {0.677419841, 9.36385822, 28.0645142});
  squares_line("linear_scale", 11, {{"method", "linear"}}, 1.7,
               {0, 0.382352948, 0.970588326, 2.67647076, 4.73529482, 7.67647171, 11.2647066, 15.3823557, 20.5,
                25.9705887, 32.4411774});
  squares_line("nearest_scale", 4, {{"coordinates", asymmetric}}, 0.6, {0, 1, 9, 25});
}

void add_grid_sample_peers(std::vector<OpCase>& cases) {
  const CaseInput image = given({1, 1, 2, 3}, {1, 2, 4, -3, 5, 0.5});
  CaseInput grid = given({1, 2, 2, 2}, {-0.9, -0.3, 0.2, 0.7, 1.3, 0.1, -1.4, 1.2});
  grid.differentiate = false;  // some of the positions are where the gradient jumps
  struct Line {
    const char *method, *padding;
    bool corners;
    std::vector<double> expected;
  };
  // torch.nn.functional.grid_sample(image, grid, ...)
  const Line lines[] = {
      {"linear", "zeros", false, {0.130000055, 2.9199996, 0.0950003639, 0}},
      {"linear", "zeros", true, {-0.0549999215, 3.84500003, 1.4525001, -1.62000012}},
      {"linear", "border", false, {0.200000048, 3.64999962, 1.89999986, -3}},
      {"linear", "border", true, {-0.0549999215, 3.84500003, 2.07500005, -3}},
      {"linear", "reflection", false, {0.200000048, 3.64999962, 1.89999986, -2.20000076}},
      {"linear", "reflection", true, {-0.0549999215, 3.84500003, 2.54750013, 0.319999754}},
      {"nearest", "zeros", false, {1, 5, 0, 0}},
      {"nearest", "reflection", true, {1, 5, 0.5, -3}},
      {"cubic", "zeros", false, {-0.0660226271, 4.00381851, 0.0823545009, 0.0623292476}},
      {"cubic", "zeros", true, {-0.101498984, 5.11785269, 1.5478605, -2.67324328}},
      {"cubic", "border", false, {0.0484570339, 4.81449318, 1.8544749, -3.18900084}},
      {"cubic", "border", true, {-0.0575358085, 4.65320683, 1.87526596, -4.15292692}},
      {"cubic", "reflection", false, {-0.0848356336, 4.86149025, 1.78753197, -2.84631109}},
      {"cubic", "reflection", true, {-0.0649775639, 4.72390223, 2.51865315, -0.39198482}},
  };
  for (const Line& line : lines)
    cases.push_back({.op = "grid_sample",
                     .name = std::string("peer_") + line.method + "_" + line.padding + (line.corners ? "_corners" : ""),
                     .inputs = {image, grid},
                     .attributes = {{"method", line.method}, {"padding", line.padding}, {"corners", line.corners}},
                     .expected = {line.expected}});
}

}  // namespace

void add_resize_cases(std::vector<OpCase>& cases) {
  add_resample_peers(cases);
  add_grid_sample_peers(cases);
  draw_resample(cases);
  draw_grid_sample(cases);
  draw_patches(cases);
  add_wide_images(cases);
}

}  // namespace ramet::tests
