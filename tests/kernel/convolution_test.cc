// The CPU's convolutions on shapes of several panels, chunks and blocks of positions, against the reference, and
// against themselves: whatever is cut, and however the operands lie, the bits are the same.

#include <gtest/gtest.h>

#include <algorithm>

#include "kernel/kernel_tools.h"
#include "ramet/kernel/cpu/convolution_dense.h"
#include "ramet/kernel/interpret.h"

namespace ramet::tests {
namespace {

using Dims = std::vector<int64_t>;

struct Shapes {
  std::string name;
  int64_t samples, channels, filters, groups, chunks;
  Dims input, taps, strides, dilations, low, high;

  Dims output() const {
    Dims extents;
    for (size_t i = 0; i < input.size(); ++i)
      extents.push_back((input[i] + low[i] + high[i] - dilations[i] * (taps[i] - 1) - 1) / strides[i] + 1);
    return extents;
  }
  Dims more() const {
    Dims padding;
    for (size_t i = 0; i < input.size(); ++i)
      padding.push_back(input[i] + low[i] + high[i] - (output()[i] - 1) * strides[i] - dilations[i] * (taps[i] - 1) -
                        1);
    return padding;
  }
};

std::vector<Shapes> all_shapes() {
  return {{"panels", 2, 40, 70, 1, 1, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
          {"wide_1x1", 2, 24, 136, 1, 2, {6, 5}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
          {"strided_1x1", 2, 24, 40, 1, 1, {6, 7}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
          {"odd_chunks", 2, 20, 100, 1, 4, {9, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 0}, {1, 2}},
          {"groups", 2, 16, 24, 4, 2, {13, 8}, {5, 3}, {1, 2}, {2, 2}, {4, 2}, {4, 1}},
          {"image", 2, 3, 18, 1, 1, {20, 19}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}},
          {"patches", 2, 3, 20, 1, 1, {12, 16}, {4, 4}, {4, 4}, {1, 1}, {0, 0}, {0, 0}},
          {"line", 2, 33, 48, 1, 3, {21}, {9}, {2}, {1}, {5}, {1}},
          {"groups_of_many_taps", 2, 100, 160, 5, 1, {40}, {64}, {1}, {1}, {32}, {31}},
          {"block", 2, 6, 10, 1, 1, {4, 5, 6}, {2, 2, 3}, {1, 2, 1}, {1, 1, 2}, {1, 0, 2}, {0, 1, 2}},
          {"one_position", 4, 50, 20, 1, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
          {"depthwise_7x7", 2, 70, 70, 70, 1, {15, 14}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}},
          {"depthwise_5x5_strided", 2, 35, 35, 35, 1, {11, 20}, {5, 5}, {2, 2}, {1, 1}, {2, 1}, {2, 2}},
          {"depthwise_3x3_strided", 2, 48, 48, 48, 1, {9, 17}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
          {"depthwise_line", 2, 19, 19, 19, 1, {30}, {4}, {1}, {3}, {4}, {5}}};
}

Dims activations(int64_t samples, int64_t channels, const Dims& space, bool last) {
  Dims dims{samples};
  if (!last) dims.push_back(channels);
  dims.insert(dims.end(), space.begin(), space.end());
  if (last) dims.push_back(channels);
  return dims;
}

/// A part of a tensor along one axis.
HostTensor slice_of(const HostTensor& whole, int axis, int64_t begin, int64_t end) {
  Dims dims = whole.type.shape.dims();
  const int64_t extent = dims[static_cast<size_t>(axis)], inner = whole.type.shape.strides()[static_cast<size_t>(axis)];
  dims[static_cast<size_t>(axis)] = end - begin;
  HostTensor part({whole.type.dtype, Shape(dims)});
  const int64_t run = (end - begin) * inner;
  for (int64_t i = 0; i < part.elements(); ++i)
    part.set(i, whole.get(i / run * extent * inner + begin * inner + i % run));
  return part;
}

/// The channels in front, or behind.
HostTensor reordered(const HostTensor& tensor, bool to_last) {
  const Dims& dims = tensor.type.shape.dims();
  const int64_t channels = to_last ? dims[1] : dims.back();
  const int64_t positions = tensor.elements() / std::max<int64_t>(1, dims[0] * channels);
  const Dims space = to_last ? Dims(dims.begin() + 2, dims.end()) : Dims(dims.begin() + 1, dims.end() - 1);
  HostTensor made({tensor.type.dtype, Shape(activations(dims[0], channels, space, to_last))});
  for (int64_t n = 0; n < dims[0]; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < positions; ++p) {
        const int64_t first = (n * channels + c) * positions + p, last = (n * positions + p) * channels + c;
        made.set(to_last ? last : first, tensor.get(to_last ? first : last));
      }
  return made;
}

enum class Which { kForward, kTransposed, kFilter };

struct Call {
  std::string op;
  std::vector<HostTensor> inputs;
  Attributes attributes;
  HostTensor run(const Backend& backend, int threads = 1) const {
    return interpret_node(node_of(op, inputs, attributes), backend, inputs, threads)[0];
  }
};

Call call_of(const Shapes& s, Which which, DType dtype, bool last) {
  Call call;
  call.attributes = {{"strides", s.strides}, {"dilations", s.dilations}, {"low", s.low}, {"high", s.high}};
  call.attributes.set("groups", s.groups).set("channels_last", last);
  Dims filter{s.filters, s.channels / s.groups};
  filter.insert(filter.end(), s.taps.begin(), s.taps.end());
  const auto input = [&](uint64_t seed) {
    return random_tensor(dtype, Shape(activations(s.samples, s.channels, s.input, true)), seed);
  };
  const auto output = [&](uint64_t seed) {
    return random_tensor(dtype, Shape(activations(s.samples, s.filters, s.output(), true)), seed);
  };
  const HostTensor weights = random_tensor(dtype, Shape(filter), 2);
  switch (which) {
    case Which::kForward:
      call.op = "convolution";
      call.inputs = {input(1), weights, random_tensor(DType::kF32, {s.filters}, 3)};
      if (s.chunks > 1) call.attributes.set("chunks", s.chunks);
      break;
    case Which::kTransposed:
      call.op = "convolution_transposed";
      call.inputs = {output(1), weights, random_tensor(DType::kF32, {s.channels}, 3)};
      call.attributes.set("output_padding", s.more());
      if (s.filters / s.groups % 2 == 0) call.attributes.set("chunks", int64_t{2});
      break;
    case Which::kFilter:
      call.op = "convolution_filter_grad";
      call.inputs = {input(1), output(2)};
      call.attributes.set("taps", s.taps);
      break;
  }
  if (last) return call;
  call.inputs[0] = reordered(call.inputs[0], false);
  if (which == Which::kFilter) call.inputs[1] = reordered(call.inputs[1], false);
  return call;
}

class Convolutions : public testing::TestWithParam<Shapes> {
 protected:
  template <typename Check>
  void for_all(const Check& check) {
    for (Which which : {Which::kForward, Which::kTransposed, Which::kFilter})
      for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(static_cast<int>(which)));
        check(which, dtype);
      }
  }
};

TEST_P(Convolutions, AgreeWithTheReferenceOnAnyTeam) {
  for_all([&](Which which, DType dtype) {
    const Call call = call_of(GetParam(), which, dtype, true);
    const HostTensor wanted = call.run(reference_backend()), found = call.run(cpu_backend());
    const double tolerance = found.type.dtype == DType::kF32 ? 1e-4 : found.type.dtype == DType::kBF16 ? 1.6e-2 : 4e-3;
    EXPECT_EQ(compare(found, wanted, tolerance), "");
    for (int threads : {2, 3, 7}) EXPECT_EQ(call.run(cpu_backend(), threads), found) << threads;
  });
}

TEST_P(Convolutions, TheOrderOfDimensionsChangesNoBit) {
  for_all([&](Which which, DType dtype) {
    const HostTensor last = call_of(GetParam(), which, dtype, true).run(cpu_backend()),
                     first = call_of(GetParam(), which, dtype, false).run(cpu_backend(), 2);
    EXPECT_EQ(which == Which::kFilter ? first : reordered(first, true), last);
  });
}

TEST_P(Convolutions, SamplesAndChannelsOfTheResultMayBeCut) {
  const Shapes& s = GetParam();
  for_all([&](Which which, DType dtype) {
    const Call whole = call_of(s, which, dtype, true);
    const HostTensor all = whole.run(cpu_backend());
    if (which != Which::kFilter) {
      Call part = whole;
      part.inputs[0] = slice_of(whole.inputs[0], 0, 1, s.samples);
      EXPECT_EQ(part.run(cpu_backend()), slice_of(all, 0, 1, s.samples));
    }
    if (s.groups > 1) return;
    const int channel_axis = all.type.shape.rank() - 1;
    const int64_t made = which == Which::kTransposed ? s.channels : s.filters, cut = made / 3 + 1;
    Call part = whole;
    if (which == Which::kFilter) {
      part.inputs[1] = slice_of(whole.inputs[1], whole.inputs[1].type.shape.rank() - 1, cut, made);
      EXPECT_EQ(part.run(cpu_backend(), 2), slice_of(all, 0, cut, made));
      return;
    }
    part.inputs[1] = slice_of(whole.inputs[1], which == Which::kTransposed ? 1 : 0, cut, made);
    part.inputs[2] = slice_of(whole.inputs[2], 0, cut, made);
    EXPECT_EQ(part.run(cpu_backend(), 2), slice_of(all, channel_axis, cut, made));
  });
}

TEST_P(Convolutions, ABlockedFilterGivesTheSameBits) {
  for_all([&](Which which, DType dtype) {
    if (which == Which::kFilter) return;
    const Call plain = call_of(GetParam(), which, dtype, true);
    const auto layout = cpu_backend().blocking(node_of(plain.op, plain.inputs, plain.attributes), 1);
    if (!layout) return;
    // From f32 numbers that round to the filter's.
    const HostTensor wide = HostTensor::of(DType::kF32, plain.inputs[1].type.shape, plain.inputs[1].values());
    const Call block{"block", {wide}, {{"format", layout->format}, {"bytes", layout->bytes}, {"dtype", dtype}}};
    Call blocked = plain;
    blocked.inputs[1] = block.run(cpu_backend(), 3);
    blocked.attributes.set("b_blocked", layout->format)
        .set("b_shape", plain.inputs[1].type.shape.dims())
        .set("b_dtype", dtype);
    EXPECT_EQ(blocked.run(cpu_backend(), 2), plain.run(cpu_backend()));
  });
}

struct Following {
  std::string program;
  std::vector<Shape> further;  // of the inputs behind the result
};

/// Activations, a residual sum with one, and factors and terms of channels and of all.
std::vector<Following> all_following(const Shape& result, bool last) {
  const int rank = result.rank();
  Dims of_channel(static_cast<size_t>(rank) - 1, 1), of_sample(static_cast<size_t>(rank), 1);
  of_channel[last ? of_channel.size() - 1 : 0] = result[last ? rank - 1 : 1];
  of_sample[0] = result[0];
  return {{"1:%1=relu(%0)->%1", {}},
          {"2:%2=add(%0,%1);%3=relu(%2)->%3", {result}},
          {"2:%2=add(%1,%0)->%2", {result}},
          {"2:%2=add(%1,%0);%3=gelu(%0);%4=multiply(%2,%3)->%4", {result}},
          {"2:%2=subtract(%0,%1)->%2", {result}},
          {"3:%3=multiply(%0,%1);%4=add(%3,%2);%5=clamp[-0.5,2](%4)->%5", {Shape(of_channel), result}},
          {"3:%3=multiply(%0,%1);%4=maximum(%3,%2)->%4", {Shape(of_sample), Shape{}}}};
}

TEST_P(Convolutions, AnEpilogueGivesTheBitsOfANodeOfItsOwn) {
  for_all([&](Which which, DType dtype) {
    if (which == Which::kFilter) return;
    for (bool last : {true, false}) {
      const Call plain = call_of(GetParam(), which, dtype, last);
      const HostTensor result = plain.run(cpu_backend());
      for (const Following& following : all_following(result.type.shape, last)) {
        SCOPED_TRACE(following.program);
        Call joined = plain;
        joined.attributes.set("epilogue", following.program);
        Call apart{"map", {result}, {{"program", following.program}, {"shape", result.type.shape.dims()}}};
        apart.attributes.set("dtypes", std::string(name_of(dtype)));
        for (const Shape& shape : following.further) {
          const HostTensor more = random_tensor(dtype, shape, 5 + joined.inputs.size());
          joined.inputs.push_back(more);
          apart.inputs.push_back(more);
        }
        ASSERT_EQ(cpu_backend().choose(node_of(joined.op, joined.inputs, joined.attributes), 1).name,
                  cpu_backend().choose(node_of(plain.op, plain.inputs, plain.attributes), 1).name);
        const HostTensor expected = apart.run(cpu_backend());
        for (int threads : {1, 2, 5}) ASSERT_EQ(joined.run(cpu_backend(), threads), expected) << threads;
      }
    }
  });
}

/// Large results are written around the caches.
TEST(LargeConvolution, HasTheBitsOfItsSamples) {
  constexpr int64_t kSample = 64 * 64 * 64 * 4;
  const int64_t samples = kernel::streamed_bytes() / kSample + 1;
  if (samples > 128) GTEST_SKIP() << "results are large from " << samples << " MiB on here";
  Call whole = call_of({"large", samples, 8, 64, 1, 1, {64, 64}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
                       Which::kForward, DType::kF32, true);
  for (const bool adds : {true, false}) {
    if (adds) {
      whole.inputs.push_back(random_tensor(DType::kF32, {samples, 64, 64, 64}, 4));
      whole.attributes.set("epilogue", std::string("2:%2=add(%0,%1);%3=relu(%2)->%3"));
    } else {
      whole.inputs.pop_back();
      whole.attributes.set("epilogue", std::string("1:%1=relu(%0)->%1"));
    }
    const HostTensor all = whole.run(cpu_backend(), 2);
    for (const int64_t i : {int64_t{0}, samples / 2, samples - 1}) {
      Call part = whole;
      for (const size_t input : {size_t{0}, size_t{3}})
        if (input < part.inputs.size()) part.inputs[input] = slice_of(whole.inputs[input], 0, i, i + 1);
      EXPECT_EQ(slice_of(all, 0, i, i + 1), part.run(cpu_backend())) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernel, Convolutions, testing::ValuesIn(all_shapes()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ramet::tests
