#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_resize.h"
#include "ramet/transform/differentiate.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

using testing::ElementsAreArray;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;
constexpr DType kF32 = DType::kF32;

/// 0, 1, 2, ...
HostTensor counting(const Shape& shape) {
  HostTensor tensor(TensorType{kF32, shape});
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, static_cast<double>(i));
  return tensor;
}

/// What `build` makes of `a`, by the CPU's kernels.
template <typename Build>
HostTensor computed(const HostTensor& a, const Build& build) {
  Graph graph("test");
  GraphBuilder builder(graph);
  builder.output("result", build(builder.input("a", a.type.dtype, a.type.shape)));
  return kernel::interpret(graph, kernel::cpu_backend(), {{"a", a}})[0];
}

/// The message of what `build` throws.
template <typename Build>
std::string refusal(const Shape& shape, const Build& build) {
  return error_of([&] { computed(counting(shape), build); });
}

// --- tables ---

TEST(TapTable, KeepsWhatItDoesNotResize) {
  for (ResampleMethod method : {ResampleMethod::kNearest, ResampleMethod::kLinear, ResampleMethod::kCubic})
    for (ResampleCoordinates coordinates :
         {ResampleCoordinates::kHalfPixel, ResampleCoordinates::kCorners, ResampleCoordinates::kAsymmetric}) {
      const TapTable table = tap_table({.method = method, .coordinates = coordinates}, 5, 5);
      EXPECT_TRUE(table.is_identity(5));
      EXPECT_EQ(table.weights, std::vector<float>(5, 1.0f)) << "an identity has one tap an element";
    }
  EXPECT_FALSE(tap_table({}, 5, 5, 0.9f).is_identity(5));
  EXPECT_FALSE(tap_table({}, 5, 4).is_identity(5));
}

TEST(TapTable, WeightsOfAnElementAddUpToOne) {
  for (bool antialias : {false, true})
    for (ResampleMethod method : {ResampleMethod::kLinear, ResampleMethod::kCubic})
      for (int64_t outputs : {1, 3, 7, 20}) {
        const TapTable table = tap_table({.method = method, .antialias = antialias}, 7, outputs);
        for (int64_t i = 0; i < outputs; ++i) {
          float sum = 0;
          for (int64_t t = table.starts[static_cast<size_t>(i)]; t < table.starts[static_cast<size_t>(i) + 1]; ++t)
            sum += table.weights[static_cast<size_t>(t)];
          EXPECT_NEAR(sum, 1, 1e-6) << outputs << " outputs, element " << i;
        }
      }
}

TEST(TapTable, TransposedTwiceIsItself) {
  const TapTable table = tap_table({.antialias = true}, 7, 3), back = table.transposed(7).transposed(3);
  EXPECT_EQ(back.starts, table.starts);
  EXPECT_EQ(back.taps, table.taps);
  EXPECT_EQ(back.weights, table.weights);
}

// --- builders ---

TEST(Resize, AnIdentityGoesAway) {
  Graph graph("test");
  GraphBuilder build(graph);
  const Tensor a = build.input("a", kF32, {1, 2, 4, 6});
  resize(a, {4, 6}, {.rule = resample_rule_of_mode("bilinear", true)});
  resize(a, {4, 7}, {.rule = resample_rule_of_mode("bilinear", true)});
  const auto simplified = [&](NodeId id) {
    const NodeSignature node = graph.signature(id);
    const std::vector<Tensor> inputs{a};
    SimplifyContext context{build, node, inputs};
    return node.op->simplify(context).id;
  };
  EXPECT_EQ(simplified(0), a.id);
  EXPECT_EQ(simplified(1), kNoValue);
}

TEST(Resize, KnowsPyTorchsModes) {
  EXPECT_EQ(resample_rule_of_mode("nearest").coordinates, ResampleCoordinates::kAsymmetric);
  EXPECT_EQ(resample_rule_of_mode("nearest-exact").rounding, ResampleRounding::kHalfUp);
  EXPECT_EQ(resample_rule_of_mode("bicubic").cubic, -0.75);
  EXPECT_EQ(resample_rule_of_mode("bicubic", false, true).cubic, -0.5);
  EXPECT_THROW(resample_rule_of_mode("area"), Error);
  EXPECT_THROW(resample_rule_of_mode("nearest", true), Error);
}

TEST(Resize, SaysWhatDoesNotFit) {
  const auto with = [](std::vector<int64_t> sizes, ResizeOptions options = {}) {
    return [=](Tensor a) { return resize(a, sizes, options); };
  };
  EXPECT_THAT(
      refusal({1, 2, 4}, with({3, 3})),
      HasSubstr("attribute 'sizes' has the wrong length; found 2 extents; expected 1, one a dimension of space"));
  EXPECT_THAT(refusal({2, 4}, with({3})), HasSubstr("input 0 (a) has the wrong rank"));
  EXPECT_THAT(refusal({1, 2, 4}, with({0})), HasSubstr("an extent of space is out of range; found 0"));
  EXPECT_THAT(refusal({1, 2, 0}, with({3})), HasSubstr("an extent of space is out of range; found 0"));
  EXPECT_THAT(refusal({1, 2, 4}, with({3}, {.rule = {.method = ResampleMethod::kNearest, .antialias = true}})),
              HasSubstr("the nearest element has no antialiasing"));
  EXPECT_THAT(refusal({1, 2, 4}, with({3}, {.scales = {1, 2}})), HasSubstr("attribute 'steps' has the wrong type"));
  EXPECT_THAT(refusal({1, 2, 4}, with({3}, {.scales = {1e-30}})), HasSubstr("a step is out of range"));
  EXPECT_THAT(refusal({1, 2, 4},
                      [](Tensor a) {
                        return a.builder->op("resample", {a}, {{"sizes", std::vector<int64_t>{2}}, {"method", "area"}});
                      }),
              HasSubstr("attribute 'method' has an unknown value; found \"area\"; expected \"nearest\", \"linear\""));
}

// torch.nn.functional.affine_grid(theta, (1, 1, 2, 3))
TEST(AffineGrid, IsThatOfPyTorch) {
  const HostTensor theta = HostTensor::of(kF32, {1, 2, 3}, {1, 0.5, -0.25, 0.1, 2, 0.3});
  const auto grid = [&](bool corners) {
    return computed(theta, [&](Tensor a) { return affine_grid(a, {2, 3}, corners); }).floats();
  };
  EXPECT_THAT(grid(false),
              Pointwise(FloatNear(1e-6f), {-1.16666675f, -0.76666671f, -0.5f, -0.7f, 0.166666687f, -0.633333325f,
                                           -0.666666687f, 1.23333335f, 0.0f, 1.3f, 0.666666687f, 1.36666679f}));
  EXPECT_THAT(grid(true), Pointwise(FloatNear(1e-6f), {-1.75f, -1.8f, -0.75f, -1.7f, 0.25f, -1.6f, -0.75f, 2.2f, 0.25f,
                                                       2.3f, 1.25f, 2.4f}));
  EXPECT_THROW(computed(theta, [](Tensor a) { return affine_grid(a, {2, 3, 4}); }), Error);
}

// Coordinates that are huge, infinite or NaN make no kernel read memory outside the image.
TEST(GridSample, HasNoPositionOutOfMemory) {
  const HostTensor image = counting({1, 1, 3, 3});
  for (double wild : {1e30, -1e30, 3e9, double(INFINITY), double(-INFINITY), double(NAN)})
    for (const char* padding : {"zeros", "border", "reflection"})
      for (const char* method : {"nearest", "linear", "cubic"}) {
        const HostTensor result = computed(image, [&](Tensor a) {
          const Tensor grid = constant(*a.builder, TensorData(HostTensor::of(kF32, {1, 1, 2, 2}, {wild, 0, 0, wild})));
          return grid_sample(a, grid, {.method = method, .padding = padding});
        });
        for (double value : result.values()) EXPECT_TRUE(value >= -1 && value <= 9) << wild << " " << padding;
      }
}

TEST(GridSample, SaysWhatDoesNotFit) {
  const auto refused = [](Shape a, Shape grid, GridSampleOptions options = {}) {
    return refusal(a, [&](Tensor x) { return grid_sample(x, x.builder->input("grid", kF32, grid), options); });
  };
  EXPECT_THAT(refused({1, 2, 3, 3}, {1, 2, 2, 3}), HasSubstr("expected 2 coordinates a position"));
  EXPECT_THAT(refused({2, 2, 3, 3}, {1, 2, 2, 2}), HasSubstr("numbers of samples differ"));
  EXPECT_THAT(refused({1, 2, 3, 3, 3}, {1, 2, 2, 2}), HasSubstr("input 0 (a) has the wrong rank"));
  EXPECT_THAT(refused({1, 2, 0, 3}, {1, 2, 2, 2}), HasSubstr("an extent of space is out of range"));
  EXPECT_THAT(refused({1, 2, 3, 3}, {1, 2, 2, 2}, {.padding = "circular"}), HasSubstr("\"circular\""));
}

// torch.nn.functional.pixel_shuffle(torch.arange(8.).reshape(1, 4, 1, 2), 2)
TEST(PixelShuffle, IsThatOfPyTorch) {
  const HostTensor shuffled = computed(counting({1, 4, 1, 2}), [](Tensor a) { return pixel_shuffle(a, 2); });
  EXPECT_EQ(shuffled.type.shape, (Shape{1, 1, 2, 4}));
  EXPECT_THAT(shuffled.floats(), ElementsAreArray({0, 2, 1, 3, 4, 6, 5, 7}));
}

TEST(PixelShuffle, ChannelsLastIsTheSame) {
  const HostTensor a = counting({2, 8, 3, 2});
  const auto first = computed(a, [](Tensor x) { return pixel_shuffle(x, 2); });
  const auto last =
      computed(a, [](Tensor x) { return transpose(pixel_shuffle(transpose(x, {0, 2, 3, 1}), 2, true), {0, 3, 1, 2}); });
  EXPECT_EQ(first, last);
  const auto back = [&](bool channels_last) {
    return computed(first, [&](Tensor x) {
      if (!channels_last) return pixel_unshuffle(x, 2);
      return transpose(pixel_unshuffle(transpose(x, {0, 2, 3, 1}), 2, true), {0, 3, 1, 2});
    });
  };
  EXPECT_EQ(back(false), a);
  EXPECT_EQ(back(true), a);
  EXPECT_THAT(refusal({1, 6, 2, 2}, [](Tensor x) { return pixel_shuffle(x, 2); }),
              HasSubstr("the factor does not fit"));
  EXPECT_THAT(refusal({1, 6, 2, 3}, [](Tensor x) { return pixel_unshuffle(x, 2); }),
              HasSubstr("the factor does not fit"));
}

TEST(ChannelShuffle, InterleavesGroups) {
  EXPECT_THAT(computed(counting({1, 6, 1}), [](Tensor a) { return channel_shuffle(a, 2); }).floats(),
              ElementsAreArray({0, 3, 1, 4, 2, 5}));
  EXPECT_THAT(computed(counting({1, 1, 6}), [](Tensor a) { return channel_shuffle(a, 2, true); }).floats(),
              ElementsAreArray({0, 3, 1, 4, 2, 5}));
}

// torch.nn.functional.unfold and fold, kernel (2, 2), padding (0, 1), stride (1, 2)
TEST(Patches, AreThoseOfPyTorch) {
  const PatchOptions options{.taps = {2, 2}, .strides = {1, 2}, .low = {0, 1}, .high = {0, 1}};
  const HostTensor columns = computed(counting({1, 1, 2, 3}), [&](Tensor a) { return im2col(a, options); });
  EXPECT_EQ(columns.type.shape, (Shape{1, 4, 2}));
  EXPECT_THAT(columns.floats(), ElementsAreArray({0, 1, 0, 2, 0, 4, 3, 5}));
  const HostTensor image =
      computed(counting({1, 4, 2}), [&](Tensor a) { return col2im(add_scalar(a, 1), {2, 3}, options); });
  EXPECT_THAT(image.floats(), ElementsAreArray({3, 2, 4, 7, 6, 8}));
}

TEST(Patches, SayWhatDoesNotFit) {
  EXPECT_THAT(refusal({1, 1, 2, 3}, [](Tensor a) { return im2col(a, {.taps = {3, 3}}); }),
              HasSubstr("a patch is larger than the padded image; found 3 elements along dimension 0 of space"));
  EXPECT_THAT(refusal({1, 1, 2, 3}, [](Tensor a) { return im2col(a, {.taps = {3}}); }),
              HasSubstr("attribute 'taps' has the wrong length"));
  EXPECT_THAT(refusal({1, 1, 2, 3}, [](Tensor a) { return im2col(a, {.taps = {1, 1}, .strides = {0, 1}}); }),
              HasSubstr("attribute 'strides' is out of range"));
  EXPECT_THAT(refusal({1, 5, 2}, [](Tensor a) { return col2im(a, {2, 3}, {.taps = {2, 2}}); }),
              HasSubstr("rows are no channels of patches; found 5"));
  EXPECT_THAT(refusal({1, 4, 3}, [](Tensor a) { return col2im(a, {2, 3}, {.taps = {2, 2}}); }),
              HasSubstr("the number of columns is not that of patches; found 3; expected 2"));
}

// --- bits ---

/// Values of the CPU's kernels do not depend on how channels are laid out, or on the number of threads.
TEST(Resize, BitsDoNotDependOnTheLayoutOfChannels) {
  HostTensor image = counting({2, 5, 9, 21});
  for (int64_t i = 0; i < image.elements(); ++i) image.set(i, static_cast<double>(i * 7919 % 1000) / 777 - 0.6);
  for (const char* mode : {"nearest", "bilinear", "bicubic"})
    for (std::vector<int64_t> sizes : {std::vector<int64_t>{13, 50}, {4, 11}}) {
      const ResizeOptions options{.rule = resample_rule_of_mode(mode)};
      const auto first = computed(image, [&](Tensor a) { return resize(a, sizes, options); });
      const auto last = computed(image, [&](Tensor a) {
        ResizeOptions other = options;
        other.channels_last = true;
        return transpose(resize(transpose(a, {0, 2, 3, 1}), sizes, other), {0, 3, 1, 2});
      });
      EXPECT_EQ(first, last) << mode;
    }
}

}  // namespace
}  // namespace ramet::tests
