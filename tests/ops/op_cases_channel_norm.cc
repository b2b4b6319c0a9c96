#include "ops/op_cases.h"
#include "ramet/base/rng.h"

// Cases of what norms over channels are made of: moments, sums for gradients, the normalising map.

namespace ramet::tests {
namespace {

constexpr DType kF32 = DType::kF32;

CaseInput f32(Shape shape, double low = -1, double high = 1) { return {{kF32, std::move(shape)}, low, high}; }

/// [N, C, space...] in either layout.
Shape layout(int64_t samples, int64_t channels, const std::vector<int64_t>& space, bool last) {
  std::vector<int64_t> dims{samples};
  if (!last) dims.push_back(channels);
  dims.insert(dims.end(), space.begin(), space.end());
  if (last) dims.push_back(channels);
  return Shape(dims);
}

void add_by_hand(std::vector<OpCase>& cases) {
  // Channel 0 has 1, 2, 5, 8, channel 1 has 3, 3, 3, 7.
  cases.push_back({.op = "channel_moments",
                   .name = "by_hand",
                   .inputs = {{{kF32, {2, 2, 2}}, 0, 0, {1, 2, 3, 3, 5, 8, 3, 7}}},
                   .expected = {{4, 4}, {7.5, 3}}});
  cases.push_back({.op = "channel_moments",
                   .name = "by_hand_groups",
                   .inputs = {{{kF32, {2, 2, 2}}, 0, 0, {1, 2, 3, 6, 5, 8, 3, 8}}},
                   .attributes = {{"groups", int64_t{1}}},
                   .expected = {{3, 6}, {3.5, 4.5}}});
  // The second sample has two rows in use, the third none.
  cases.push_back(
      {.op = "channel_moments",
       .name = "by_hand_used",
       .inputs = {{{kF32, {3, 3, 1}}, 0, 0, {1, 2, 6, 5, 9, 100, 7, 7, 7}}, {{DType::kI32, {3}}, 0, 0, {4, 2, -1}}},
       .attributes = {{"groups", int64_t{1}}, {"channels_last", true}},
       .expected = {{3, 7, 0}, {14.0 / 3, 4, 0}}});
  cases.push_back({.op = "channel_sums",
                   .name = "by_hand",
                   .inputs = {{{kF32, {3, 2}}, 0, 0, {1, 2, 3, 4, 5, 6}},
                              {{kF32, {3, 2}}, 0, 0, {1, 0, 0, 1, 2, 0}},
                              {{kF32, {1, 2}}, 0, 0, {1, 0.5}}},
                   .expected = {{9, 12}, {0 - 3 + 5, -1 + 2 - 3}}});
  cases.push_back({.op = "normalize_channels",
                   .name = "by_hand",
                   .inputs = {{{kF32, {1, 2, 2}}, 0, 0, {1, 2, 3, 4}},
                              {{kF32, {1, 2, 1}}, 0, 0, {1, 2}},
                              {{kF32, {1, 2, 1}}, 0, 0, {2, 3}},
                              {{kF32, {1, 2, 1}}, 0, 0, {0, 10}}},
                   .expected = {{0, 2, 13, 16}}});
  cases.push_back({.op = "channel_moments", .name = "no_channels", .inputs = {f32({4, 0, 3})}});
  cases.push_back({.op = "channel_moments",
                   .name = "groups_of_no_samples",
                   .inputs = {f32({0, 4, 3})},
                   .attributes = {{"groups", int64_t{2}}}});
}

/// All ops of a norm on one shape. Large ones are not differentiated, which takes a run for each element.
void add_shape(std::vector<OpCase>& cases, const std::string& name, int64_t samples, int64_t channels,
               const std::vector<int64_t>& space, int64_t groups, bool last, double center = 0) {
  const Shape shape = layout(samples, channels, space, last);
  const std::vector<int64_t> ones(space.size(), 1);
  const Shape vector = layout(1, channels, ones, last), each = layout(samples, channels, ones, last);
  const double tolerance = shape.elements() > 200 ? 0 : 1e-3;
  const bool low_types = center == 0;
  const CaseInput a = f32(shape, center - 1, center + 1);
  Attributes of_batch, of_groups{{"groups", groups}}, of_samples{{"each_sample", true}};
  for (Attributes* attributes : {&of_batch, &of_groups, &of_samples})
    if (last) attributes->set("channels_last", true);
  const auto add = [&](const char* op, const char* form, std::vector<CaseInput> inputs, const Attributes& attributes) {
    cases.push_back({.op = op,
                     .name = name + form,
                     .inputs = std::move(inputs),
                     .attributes = attributes,
                     .gradient_tolerance = tolerance,
                     .low_types = low_types});
  };
  add("channel_moments", "", {a}, of_batch);
  add("channel_moments", "_groups", {a}, of_groups);
  add("channel_sums", "", {f32(shape), a, f32(vector)}, of_batch);
  add("channel_sums", "_each_sample", {f32(shape), a, f32(each)}, of_samples);
  add("channel_sums", "_each_sample_one_mean", {f32(shape), a, f32(vector)}, of_samples);
  add("normalize_channels", "", {a, f32(vector), f32(vector), f32(vector)}, of_batch);
  add("normalize_channels", "_each_sample", {a, f32(each), f32(each), f32(vector)}, of_batch);
}

/// Moments of the rows of [samples, rows, channels] that are in use.
void add_used(std::vector<OpCase>& cases, const std::string& name, const Shape& shape, int64_t groups,
              std::vector<double> used) {
  cases.push_back({.op = "channel_moments",
                   .name = "used_" + name,
                   .inputs = {f32(shape), {{DType::kI32, {shape[0]}}, 0, 0, std::move(used)}},
                   .attributes = {{"groups", groups}, {"channels_last", true}},
                   .gradient_tolerance = shape.elements() > 200 ? 0 : 1e-3});
}

}  // namespace

void add_channel_norm_cases(std::vector<OpCase>& cases) {
  add_by_hand(cases);
  for (const bool last : {false, true}) {
    const std::string suffix = last ? "_last" : "_first";
    add_shape(cases, "matrix" + suffix, 6, 4, {}, 2, last);
    add_shape(cases, "one_place" + suffix, 5, 6, {1, 1}, 3, last);
    add_shape(cases, "rows" + suffix, 3, 4, {5}, 4, last);
    add_shape(cases, "volume" + suffix, 2, 2, {2, 3, 2}, 1, last);
    // More than a block of rows or of a span, and more than one tile of channels.
    add_shape(cases, "blocks" + suffix, 5, 70, {17, 7}, 10, last, 3);
    add_shape(cases, "spans" + suffix, 2, 3, {41, 59}, 3, last, 3);
    add_shape(cases, "many_blocks" + suffix, 9, 5, {331}, 1, last);
  }
  add_used(cases, "few_rows", {2, 5, 6}, 3, {4, 5});
  add_used(cases, "rows_of_blocks", {3, 64 * 9 + 5, 70}, 70, {64 * 9 + 5, 64 * 4, 64 * 5 + 1});
  add_used(cases, "no_rows", {2, 3, 4}, 4, {0, 1});
  const RandomStream stream(29, RandomPurpose::kTest, 0, 0);
  uint64_t next = 0;
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(stream.uniform(next++) * static_cast<double>(high - low + 1));
  };
  for (int i = 0; i < 16; ++i) {
    const int64_t samples = draw(1, 4), groups = draw(1, 3), channels = groups * draw(1, 3);
    std::vector<int64_t> space;
    for (int64_t dims = draw(0, 3); dims > 0; --dims) space.push_back(draw(1, 4));
    add_shape(cases, "drawn_" + std::to_string(i), samples, channels, space, groups, draw(0, 1) == 1);
  }
}

}  // namespace ramet::tests
