#include <algorithm>

#include "ops/op_cases.h"
#include "ramet/base/rng.h"

namespace ramet::tests {
namespace {

using Dims = std::vector<int64_t>;
constexpr DType kF32 = DType::kF32;

/// With values that PyTorch 2.15 computed.
void add_peer_cases(std::vector<OpCase>& cases) {
  cases.push_back(
      {.op = "convolution",
       .name = "peer_2d",
       .inputs = {{{kF32, {1, 4, 4, 3}}, 0, 0, {1, 0,  -3, -1, -2, -1, 3,  0,  1, 2,  -1, -3, -2, 2, -1, 1,
                                                1, -1, 1,  -1, 3,  -1, 1,  -1, 1, 1,  -2, 0,  -2, 1, -2, -3,
                                                1, 2,  0,  1,  0,  -1, -2, 1,  1, -3, -3, 2,  3,  1, 2,  1}},
                  {{kF32, {4, 2, 3, 2}}, 0, 0, {1,  2,  3,  1,  0, 2,  0,  2, -2, 1,  -1, -1, 0,  -1, 3, -1,
                                                -2, -3, -3, -3, 0, 1,  -3, 2, -2, 0,  1,  2,  1,  1,  2, 2,
                                                0,  3,  2,  0,  3, -1, -2, 2, 0,  -2, -3, 0,  -3, 0,  2, 0}},
                  {{kF32, {4}}, 0, 0, {0, 2, 1, -2}}},
       .attributes = {{"strides", Dims{2, 1}},
                      {"dilations", Dims{1, 2}},
                      {"low", Dims{0, 1}},
                      {"high", Dims{2, 0}},
                      {"groups", int64_t{2}}},
       .expected = {{4, -16, -2, 15, -3, 5, 7, -3, -5, -19, 11, 12, -1, -6, 1, -5}}});
  cases.push_back(
      {.op = "convolution",
       .name = "peer_2d_last",
       .inputs = {{{kF32, {1, 4, 3, 4}}, 0, 0, {1,  -2, 1,  0, 0,  2,  1, -1, -3, -1, -2, -2, -1, 1,  0,  1,
                                                -2, 1,  -2, 1, -1, -1, 1, -3, 3,  1,  -2, -3, 0,  -1, -3, 2,
                                                1,  3,  1,  3, 2,  -1, 2, 1,  -1, 1,  0,  2,  -3, -1, 1,  1}},
                  {{kF32, {4, 2, 3, 2}}, 0, 0, {1,  2,  3,  1,  0, 2,  0,  2, -2, 1,  -1, -1, 0,  -1, 3, -1,
                                                -2, -3, -3, -3, 0, 1,  -3, 2, -2, 0,  1,  2,  1,  1,  2, 2,
                                                0,  3,  2,  0,  3, -1, -2, 2, 0,  -2, -3, 0,  -3, 0,  2, 0}},
                  {{kF32, {4}}, 0, 0, {0, 2, 1, -2}}},
       .attributes = {{"strides", Dims{2, 1}},
                      {"dilations", Dims{1, 2}},
                      {"low", Dims{0, 1}},
                      {"high", Dims{2, 0}},
                      {"groups", int64_t{2}},
                      {"channels_last", true}},
       .expected = {{4, -3, -5, -1, -16, 5, -19, -6, -2, 7, 11, 1, 15, -3, 12, -5}}});
  cases.push_back(
      {.op = "convolution_transposed",
       .name = "peer_1d",
       .inputs = {{{kF32, {2, 4, 3}}, 0, 0, {0, 2,  -3, 1, -1, 3, -2, 2, -1, 0, 1,  -1,
                                             3, -2, -1, 1, 0,  1, -1, 0, 1,  1, -2, 3}},
                  {{kF32, {4, 1, 4}}, 0, 0, {-3, 2, -2, 2, -3, -2, -3, 1, 3, -1, -3, -1, 1, 3, -1, 1}}},
       .attributes = {{"strides", Dims{3}},
                      {"dilations", Dims{2}},
                      {"low", Dims{1}},
                      {"high", Dims{1}},
                      {"output_padding", Dims{2}},
                      {"groups", int64_t{2}}},
       .expected = {{0, -2, -3, -3, 6,  1, -1, -12, 3,  -3, 0, -3, 0, 0, 2, 7,  6, 1,  -2, -7, -2, -1, 4,  0, 0, 0,
                     0, 4,  6,  -9, -4, 7, 4,  -4,  -4, -1, 0, -1, 0, 0, 4, -2, 2, -6, 8,  2,  8,  -2, -6, 0, 2, 0}}});
  cases.push_back(
      {.op = "convolution_transposed",
       .name = "peer_1d_last",
       .inputs = {{{kF32, {2, 3, 4}}, 0, 0, {0, 1, -2, 0, 2,  -1, 2, 1,  -3, 3, -1, -1,
                                             3, 1, -1, 1, -2, 0,  0, -2, -1, 1, 1,  3}},
                  {{kF32, {4, 1, 4}}, 0, 0, {-3, 2, -2, 2, -3, -2, -3, 1, 3, -1, -3, -1, 1, 3, -1, 1}}},
       .attributes = {{"strides", Dims{3}},
                      {"dilations", Dims{2}},
                      {"low", Dims{1}},
                      {"high", Dims{1}},
                      {"output_padding", Dims{2}},
                      {"groups", int64_t{2}},
                      {"channels_last", true}},
       .expected = {{0, 0, -2, 2, -3, 7,  -3, 6, 6,  1,  1, -2, -1, -7, -12, -2, 3,  -1, -3, 4,  0, 0, -3, 0, 0, 0,
                     0, 0, 4,  4, 6,  -2, -9, 2, -4, -6, 7, 8,  4,  2,  -4,  8,  -4, -2, -1, -6, 0, 0, -1, 2, 0, 0}}});
  // An output_padding of the stride or more: its gradients leave padding out, or cut the input.
  for (const int64_t around : {0, 1, 4})
    cases.push_back({.op = "convolution_transposed",
                     .name = "surplus_" + std::to_string(around),
                     .inputs = {{{kF32, {2, 4, 3, 2}}}, {{kF32, {4, 1, 2, 3}}}},
                     .attributes = {{"strides", Dims{2, 1}},
                                    {"dilations", Dims{5, 4}},
                                    {"low", Dims{1, 0}},
                                    {"high", Dims{around, 0}},
                                    {"output_padding", Dims{4, 3}},
                                    {"groups", int64_t{2}}}});
  cases.push_back(
      {.op = "convolution",
       .name = "peer_3d",
       .inputs = {{{kF32, {1, 2, 3, 2, 3}}, 0, 0, {-3, -2, 2,  3,  0,  0,  2,  1, 3,  -1, 1,  0,
                                                   3,  -3, -1, -3, 1,  -1, 1,  0, -1, -3, -2, 3,
                                                   -2, -3, -1, -2, -3, -1, -1, 1, 2,  -2, 1,  -1}},
                  {{kF32, {2, 2, 2, 2, 2}}, 0, 0, {-3, 3,  -3, 1, 0, -2, 3, 0, 2, -2, 0, -3, 1, -1, 2, -1,
                                                   -3, -3, 1,  0, 1, 3,  2, 2, 1, 3,  1, 3,  1, -3, 2, -3}}},
       .attributes = {{"strides", Dims{1, 2, 2}}, {"low", Dims{0, 1, 1}}, {"high", Dims{0, 1, 1}}},
       .expected = {{-4, 9, 19, -12, 9, -6, 9, -3, 13, 0, -15, 8, 3, -17, -6, -7}}});
  cases.push_back(
      {.op = "convolution_filter_grad",
       .name = "peer_2d",
       .inputs = {{{kF32, {2, 2, 4, 3}}, 0, 0, {-2, -1, 3, 3, 1, -1, -2, 3, 1,  0,  0,  -2, -1, 0,  -3, 3,
                                                1,  -3, 2, 0, 2, 2,  -2, 3, -2, -1, -2, -2, 2,  -3, 0,  1,
                                                -2, -1, 2, 0, 3, -1, -2, 3, 1,  2,  -1, -3, 3,  -3, 3,  -3}},
                  {{kF32, {2, 3, 2, 2}}, 0, 0, {1,  -2, -3, 3,  3, 3, -1, 3,  3, -1, 3,  0,
                                                -1, 3,  2,  -1, 2, 0, -2, -1, 0, -2, -3, 1}}},
       .attributes = {{"strides", Dims{2, 2}}, {"low", Dims{1, 1}}, {"high", Dims{1, 1}}, {"taps", Dims{3, 3}}},
       .expected = {{1, -13, 1,  7, -1,  -7,  2,  -10, 3,  2, -14, -1, 0,  -9, -5, -8, 12, 12,
                     1, 1,   -5, 5, 6,   -10, 1,  -2,  3,  2, -20, -3, 3,  -3, 4,  -6, 22, 1,
                     2, 12,  -3, 4, -13, 3,   -3, 19,  -3, 1, 2,   0,  -1, 16, 9,  0,  20, -12}}});
  cases.push_back(
      {.op = "convolution_filter_grad",
       .name = "peer_2d_last",
       .inputs = {{{kF32, {2, 4, 3, 2}}, 0, 0, {-2, -1, -1, 0, 3, -3, 3,  3,  1,  1, -1, -3, -2, 2,  3,  0,
                                                1,  2,  0,  2, 0, -2, -2, 3,  -2, 3, -1, -1, -2, -2, -2, 3,
                                                2,  1,  -3, 2, 0, -1, 1,  -3, -2, 3, -1, -3, 2,  3,  0,  -3}},
                  {{kF32, {2, 2, 2, 3}}, 0, 0, {1,  3, 3, -2, 3, -1, -3, -1, 3,  3,  3,  0,
                                                -1, 2, 0, 3,  0, -2, 2,  -2, -3, -1, -1, 1}}},
       .attributes = {{"strides", Dims{2, 2}},
                      {"low", Dims{1, 1}},
                      {"high", Dims{1, 1}},
                      {"taps", Dims{3, 3}},
                      {"channels_last", true}},
       .expected = {{1, -13, 1,  7, -1,  -7,  2,  -10, 3,  2, -14, -1, 0,  -9, -5, -8, 12, 12,
                     1, 1,   -5, 5, 6,   -10, 1,  -2,  3,  2, -20, -3, 3,  -3, 4,  -6, 22, 1,
                     2, 12,  -3, 4, -13, 3,   -3, 19,  -3, 1, 2,   0,  -1, 16, 9,  0,  20, -12}}});
}

CaseInput f32(Dims dims) { return {{kF32, Shape(std::move(dims))}, -1, 1}; }

Dims activations(int64_t samples, int64_t channels, const Dims& space, bool channels_last) {
  Dims dims{samples};
  if (!channels_last) dims.push_back(channels);
  dims.insert(dims.end(), space.begin(), space.end());
  if (channels_last) dims.push_back(channels);
  return dims;
}

/// What one drawn convolution is made of: sizes for the forward direction, from input to output.
struct Drawn {
  int64_t samples, channels, filters, groups, chunks;
  bool channels_last, bias;
  Dims input, output, taps, strides, dilations, low, high;
  Attributes attributes;
};

/// A convolution with one to three dimensions of space, of odd sizes, whose tensors have few elements.
Drawn draw(uint64_t number) {
  const RandomStream random(23, RandomPurpose::kTest, 0, number);
  uint64_t next = 0;
  const auto below = [&](uint32_t bound) { return static_cast<int64_t>(random.below(next++, bound)); };
  Drawn d;
  const size_t rank = static_cast<size_t>(1 + below(3));
  d.samples = below(8) == 0 ? 0 : 1 + below(2);
  d.groups = 1 + below(rank == 3 ? 2 : 3);
  const int64_t of_group = 1 + below(rank == 1 ? 4 : 2), filters_of_group = 1 + below(rank == 1 ? 4 : 2);
  d.channels = d.groups * of_group;
  d.filters = d.groups * filters_of_group;
  d.chunks = of_group % 2 == 0 && below(2) ? 2 : 1;
  d.channels_last = below(2);
  d.bias = below(2);
  for (size_t i = 0; i < rank; ++i) {
    d.taps.push_back(1 + below(rank == 1 ? 5 : 3 - static_cast<uint32_t>(rank) / 3));
    d.strides.push_back(1 + below(3));
    d.dilations.push_back(1 + below(rank == 1 ? 3 : 2));
    d.low.push_back(below(3));
    d.high.push_back(below(3));
    const int64_t reach = d.dilations[i] * (d.taps[i] - 1) + 1;
    const int64_t padded = std::max(reach, d.low[i] + d.high[i] + 1) + below(rank == 1 ? 9 : 4);
    d.input.push_back(padded - d.low[i] - d.high[i]);
    d.output.push_back((padded - reach) / d.strides[i] + 1);
  }
  d.attributes = {{"strides", d.strides}, {"dilations", d.dilations}, {"low", d.low}, {"high", d.high}};
  if (d.groups > 1) d.attributes.set("groups", d.groups);
  if (d.channels_last) d.attributes.set("channels_last", true);
  return d;
}

/// The case with one of four epilogues, whose inputs are of the result's shape, one a channel, or one number.
OpCase with_epilogue(OpCase op_case, uint64_t which, const Dims& result, bool channels_last) {
  op_case.name += "_epilogue";
  op_case.low_types = false;  // the result is rounded before the epilogue too: tests/kernel compares bits
  Dims of_channel(result.size() - 1, 1);
  of_channel[channels_last ? of_channel.size() - 1 : 0] = result[channels_last ? result.size() - 1 : 1];
  const auto set = [&](const char* program, std::vector<CaseInput> further) {
    op_case.attributes.set("epilogue", std::string(program));
    op_case.inputs.insert(op_case.inputs.end(), further.begin(), further.end());
    return op_case;
  };
  switch (which % 4) {
    case 0: return set("1:%1=gelu(%0)->%1", {});
    case 1: return set("2:%2=add(%0,%1);%3=silu(%2)->%3", {f32(result)});
    case 2: return set("3:%3=multiply(%0,%1);%4=add(%3,%2);%5=tanh(%4)->%5", {f32(of_channel), f32({})});
    default: return set("2:%2=subtract(%1,%0)->%2", {f32(of_channel)});
  }
}

/// Rectified linear units have no difference quotient at 0: values alone.
void add_epilogue_cases(std::vector<OpCase>& cases) {
  const CaseInput input{{kF32, {1, 3, 2}}, 0, 0, {1, -2, 3, 0, -1, 2}}, filter{{kF32, {2, 2, 1}}, 0, 0, {1, 2, -1, 1}},
      bias{{kF32, {2}}, 0, 0, {1, -1}}, residual{{kF32, {1, 3, 2}}, 0, 0, {1, 5, -3, 2, 0, -5}};
  // Without the epilogue: -2 -4, 4 -4, 4 2.
  const Attributes last{{"channels_last", true}};
  Attributes relu = last, sum = last, other = last;
  relu.set("epilogue", std::string("1:%1=relu(%0)->%1"));
  sum.set("epilogue", std::string("2:%2=add(%0,%1);%3=relu(%2)->%3"));
  other.set("epilogue", std::string("1:%1=is_finite(%0)->%1")).set("epilogue_dtype", DType::kBool);
  cases.push_back({.op = "convolution",
                   .name = "epilogue_relu",
                   .inputs = {input, filter, bias},
                   .attributes = relu,
                   .expected = {{0, 0, 4, 0, 4, 2}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "convolution",
                   .name = "epilogue_sum_relu",
                   .inputs = {input, filter, bias, residual},
                   .attributes = sum,
                   .expected = {{0, 1, 1, 0, 4, 0}},
                   .gradient_tolerance = 0});
  cases.push_back({.op = "convolution",
                   .name = "epilogue_of_another_type",
                   .inputs = {input, filter, bias},
                   .attributes = other,
                   .expected = {{1, 1, 1, 1, 1, 1}},
                   .gradient_tolerance = 0});
}

void add_drawn_cases(std::vector<OpCase>& cases) {
  constexpr uint64_t kDraws = 40;
  for (uint64_t number = 0; number < kDraws; ++number) {
    const Drawn d = draw(number);
    const std::string name = "drawn_" + std::to_string(number);
    Dims filter{d.filters, d.channels / d.groups};
    filter.insert(filter.end(), d.taps.begin(), d.taps.end());
    const CaseInput input = f32(activations(d.samples, d.channels, d.input, d.channels_last)),
                    output = f32(activations(d.samples, d.filters, d.output, d.channels_last));
    OpCase forward{.op = "convolution", .name = name, .inputs = {input, f32(filter)}, .attributes = d.attributes};
    if (d.bias) forward.inputs.push_back(f32({d.filters}));
    if (d.chunks > 1) forward.attributes.set("chunks", d.chunks);
    cases.push_back(forward);
    cases.push_back(with_epilogue(forward, number, output.type.shape.dims(), d.channels_last));

    OpCase transposed{
        .op = "convolution_transposed", .name = name, .inputs = {output, f32(filter)}, .attributes = d.attributes};
    Dims more;
    for (size_t i = 0; i < d.taps.size(); ++i)
      more.push_back(d.input[i] + d.low[i] + d.high[i] - (d.output[i] - 1) * d.strides[i] -
                     d.dilations[i] * (d.taps[i] - 1) - 1);
    transposed.attributes.set("output_padding", more);
    if (d.bias) transposed.inputs.push_back(f32({d.channels}));
    if (d.filters / d.groups % 2 == 0) transposed.attributes.set("chunks", int64_t{2});
    cases.push_back(transposed);
    cases.push_back(with_epilogue(transposed, number / 2, input.type.shape.dims(), d.channels_last));

    OpCase gradient{
        .op = "convolution_filter_grad", .name = name, .inputs = {input, output}, .attributes = d.attributes};
    gradient.attributes.set("taps", d.taps);
    if (d.bias) {
      gradient.attributes.set("accumulate", true);
      gradient.inputs.push_back(f32(filter));
    }
    cases.push_back(gradient);
  }
}

}  // namespace

void add_convolution_cases(std::vector<OpCase>& cases) {
  add_peer_cases(cases);
  add_epilogue_cases(cases);
  add_drawn_cases(cases);
}

}  // namespace ramet::tests
