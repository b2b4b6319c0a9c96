// The bits of the CPU's kernels at sizes of models: the canonical orders of sums, the same bits for any threads and any
// part of the rows, and the reference where the case table's shapes are too small to meet every path.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "kernel/kernel_tools.h"
#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/random_fill.h"
#include "ramet/ops/reduce_order.h"

namespace ramet::tests {
namespace {

using Tensors = std::vector<HostTensor>;

HostTensor integers(Shape shape, int64_t below, uint64_t which, DType dtype = DType::kI32) {
  HostTensor out(TensorType{dtype, std::move(shape)});
  const RandomStream random(which, RandomPurpose::kTest, 0, 3);
  for (int64_t i = 0; i < out.elements(); ++i)
    out.set(i, random.below(static_cast<uint64_t>(i), static_cast<uint32_t>(below)));
  return out;
}
HostTensor scalar(double value) { return HostTensor::of(DType::kF32, {}, {value}); }

/// Runs by the Highway kernel on one, two and three threads, whose bits must be equal.
Tensors run(const std::string& op, const Tensors& inputs, const Attributes& attributes) {
  const NodeSignature node = node_of(op, inputs, attributes);
  const Tensors alone = interpret_node(node, cpu_backend(), inputs, 1, "hwy");
  for (int threads : {2, 3})
    EXPECT_EQ(interpret_node(node, cpu_backend(), inputs, threads, "hwy"), alone) << node.text() << ", " << threads;
  return alone;
}

void expect_reference(const std::string& op, const Tensors& inputs, const Attributes& attributes, double tolerance) {
  const NodeSignature node = node_of(op, inputs, attributes);
  const Tensors found = run(op, inputs, attributes), wanted = interpret_node(node, reference_backend(), inputs);
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(compare(found[i], wanted[i], tolerance), "") << node.text() << ", output " << i;
}

/// Rows [begin, end) of the first dimension.
HostTensor rows_of(const HostTensor& whole, int64_t begin, int64_t end) {
  std::vector<int64_t> dims = whole.type.shape.dims();
  const int64_t bytes = static_cast<int64_t>(whole.data.size()) / dims[0];
  dims[0] = end - begin;
  HostTensor part(TensorType{whole.type.dtype, Shape(dims)});
  std::memcpy(part.data.data(), whole.data.data() + begin * bytes, part.data.size());
  return part;
}

/// The outputs `kept` of the first rows alone are the first rows of the outputs.
void expect_rows_alone(const std::string& op, const Tensors& inputs, const std::vector<bool>& is_rows,
                       const Attributes& attributes, const std::vector<int>& kept) {
  const Tensors whole = run(op, inputs, attributes);
  const int64_t rows = whole[static_cast<size_t>(kept[0])].type.shape.dim(0);
  for (const auto& [begin, end] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {rows / 3, rows / 3 + 5}, {rows / 2, rows}}) {
    Tensors part = inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (is_rows[i]) part[i] = rows_of(inputs[i], begin, end);
    const Tensors found = run(op, part, attributes);
    for (int output : kept)
      EXPECT_EQ(found[static_cast<size_t>(output)], rows_of(whole[static_cast<size_t>(output)], begin, end))
          << op << ", output " << output;
  }
}

TEST(CpuRows, NormsAndTheirPartsAreEqual) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (int64_t width : {1, 15, 64, 77, 768, 1600}) {
      const int64_t rows = 131;
      const HostTensor a = random_tensor(dtype, {rows, width}, 1), gain = random_tensor(DType::kF32, {width}, 2);
      const HostTensor bias = random_tensor(DType::kF32, {width}, 3), dy = random_tensor(dtype, {rows, width}, 4);
      const Attributes epsilon{{"epsilon", 1e-3}};
      const double tolerance = dtype == DType::kF32 ? 1e-4 : 1.6e-2;
      expect_reference("layer_norm", {a, gain, bias}, epsilon, tolerance);
      expect_rows_alone("layer_norm", {a, gain, bias}, {true, false, false}, epsilon, {0, 1, 2});
      expect_rows_alone("rms_norm", {a, gain}, {true, false}, epsilon, {0, 1});
      expect_rows_alone("softmax", {a}, {true}, {{"axis", int64_t{1}}}, {0});
      expect_rows_alone("log_softmax", {a}, {true}, {{"axis", int64_t{1}}}, {0});
      const Tensors forward = run("layer_norm", {a, gain, bias}, epsilon);
      expect_reference("layer_norm_grad", {dy, a, gain, forward[1], forward[2]}, {}, tolerance);
      expect_rows_alone("layer_norm_grad", {dy, a, gain, forward[1], forward[2]}, {true, true, false, true, true}, {},
                        {0});
    }
}

TEST(CpuRows, GradientsOfGainAndBiasAreSumsOverRows) {
  for (int64_t rows : {1, 63, 64, 65, 200, 513}) {
    const int64_t width = 83;
    const HostTensor a = random_tensor(DType::kBF16, {rows, width}, 1),
                     dy = random_tensor(DType::kBF16, {rows, width}, 2);
    const HostTensor gain = random_tensor(DType::kF32, {width}, 3), mean = random_tensor(DType::kF32, {rows}, 4);
    const HostTensor rstd = random_tensor(DType::kF32, {rows}, 5);
    const Tensors found = run("layer_norm_grad", {dy, a, gain, mean, rstd}, {});
    std::vector<float> terms, slopes;
    for (int64_t i = 0; i < rows * width; ++i) {
      const auto row = i / width;
      const float normal =
          (static_cast<float>(a.get(i)) - static_cast<float>(mean.get(row))) * static_cast<float>(rstd.get(row));
      slopes.push_back(static_cast<float>(dy.get(i)));
      terms.push_back(slopes.back() * normal);
    }
    for (int64_t c = 0; c < width; ++c) {
      ASSERT_EQ(static_cast<float>(found[1].get(c)), canonical_sum_rows(terms.data() + c, rows, width))
          << rows << ", " << c;
      ASSERT_EQ(static_cast<float>(found[2].get(c)), canonical_sum_rows(slopes.data() + c, rows, width))
          << rows << ", " << c;
    }
  }
}

/// Columns [begin, end) of the last but one of the dimensions (of two: of the last one).
HostTensor middle_of(const HostTensor& whole, int dim, int64_t begin, int64_t end) {
  const Shape& shape = whole.type.shape;
  std::vector<int64_t> dims = shape.dims();
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < shape.rank(); ++i) (i < dim ? outer : i > dim ? inner : end) *= i == dim ? 1 : shape.dim(i);
  dims[static_cast<size_t>(dim)] = end - begin;
  HostTensor part(TensorType{whole.type.dtype, Shape(dims)});
  const size_t size = size_of(whole.type.dtype), run = static_cast<size_t>((end - begin) * inner) * size;
  for (int64_t o = 0; o < outer; ++o)
    std::memcpy(part.data.data() + static_cast<size_t>(o) * run,
                whole.data.data() + static_cast<size_t>((o * shape.dim(dim) + begin) * inner) * size, run);
  return part;
}

/// A part of the classes on a device: `parts` equal ones, this is number `position`.
Attributes class_part(int64_t chunks, int64_t parts, int64_t position) {
  Attributes attributes;
  if (chunks > 0) attributes.set("chunks", chunks);
  attributes.set("cuts", std::vector<int64_t>{1, 2, parts, 1, 1});
  attributes.set("position", std::vector<int64_t>{position});
  return attributes;
}

TEST(CpuRows, CrossEntropyOverLargeVocabularies) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (int64_t chunks : {1, 2, 8, 3}) {
      const int64_t rows = 7, classes = 5016;
      HostTensor logits = random_tensor(dtype, {rows, classes}, 1);
      for (int64_t i = 0; i < logits.elements(); ++i) logits.set(i, 20 * logits.get(i));
      HostTensor labels = integers({rows}, classes, 2);
      labels.set(3, -1);
      // Row 1: the label is the greatest; rows 2 and 4: another class, before it, is as great, in row 4 in another
      // chunk; row 5: one behind it is as great.
      logits.set(classes + static_cast<int64_t>(labels.get(1)), 32);
      labels.set(2, 400);
      logits.set(2 * classes + 400, 64);
      logits.set(2 * classes + 399, 64);
      labels.set(4, 5000);
      logits.set(4 * classes + 5000, 64);
      logits.set(4 * classes + 1, 64);
      labels.set(5, 1);
      logits.set(5 * classes + 1, 64);
      logits.set(5 * classes + 5000, 64);
      const Attributes whole_chunks{{"chunks", chunks}};
      const HostTensor statistics = run("softmax_statistics", {logits, labels}, whole_chunks)[0];
      expect_reference("softmax_statistics", {logits, labels}, whole_chunks, 2e-6);
      expect_rows_alone("softmax_statistics", {logits, labels}, {true, true}, whole_chunks, {0});
      const Tensors forward = run("cross_entropy", {statistics}, {});
      EXPECT_EQ(forward[1].get(0), rows - 1);
      EXPECT_EQ(forward[2].get(0), 2);
      expect_reference("cross_entropy", {statistics}, {}, 2e-6);
      const Tensors backward{statistics, forward[1], scalar(0.7)};
      expect_reference("cross_entropy_grad", backward, {}, 2e-6);
      expect_rows_alone("cross_entropy_grad", backward, {true, false, false}, {}, {0});
      const HostTensor slopes = run("cross_entropy_grad", backward, {})[0];
      expect_reference("softmax_statistics_grad", {logits, labels, statistics, slopes}, {},
                       dtype == DType::kF32 ? 2e-6 : 2e-3);
      expect_rows_alone("softmax_statistics_grad", {logits, labels, statistics, slopes}, {true, true, true, true}, {},
                        {0});
      const HostTensor gradient = run("softmax_statistics_grad", {logits, labels, statistics, slopes}, {})[0];
      // Devices that hold a part of the classes find what a single one does.
      for (int64_t parts = 2; parts <= chunks; ++parts) {
        if (chunks % parts != 0) continue;
        const int64_t width = classes / parts, held = chunks / parts;
        for (int64_t k = 0; k < parts; ++k) {
          const HostTensor local = middle_of(logits, 1, k * width, (k + 1) * width);
          const HostTensor wanted = middle_of(statistics, 1, k * held, (k + 1) * held);
          EXPECT_EQ(run("softmax_statistics", {local, labels}, class_part(held, parts, k))[0], wanted) << parts;
          const Tensors inputs{local, labels, wanted, middle_of(slopes, 1, k * held, (k + 1) * held)};
          EXPECT_EQ(run("softmax_statistics_grad", inputs, class_part(0, parts, k))[0],
                    middle_of(gradient, 1, k * width, (k + 1) * width))
              << parts;
        }
      }
      // Padding: what stands behind the classes may be anything, also where it fills a device's whole part.
      for (const int64_t real : {5015, 4180, 2500}) {
        HostTensor few = labels;
        for (int64_t row = 0; row < rows; ++row)
          if (few.get(row) >= real) few.set(row, 7);
        Attributes padded = whole_chunks;
        padded.set("classes", real);
        expect_reference("softmax_statistics", {logits, few}, padded, 2e-6);
        const HostTensor found = run("softmax_statistics", {logits, few}, padded)[0];
        const Attributes only{{"classes", real}};
        expect_reference("softmax_statistics_grad", {logits, few, found, slopes}, only,
                         dtype == DType::kF32 ? 2e-6 : 2e-3);
        const HostTensor whole = run("softmax_statistics_grad", {logits, few, found, slopes}, only)[0];
        for (int64_t row = 0; row < rows; ++row) EXPECT_EQ(whole.get(row * classes + real), 0);
        const int64_t width = classes / chunks;
        for (int64_t k = 0; k < chunks; ++k) {
          const HostTensor local = middle_of(logits, 1, k * width, (k + 1) * width),
                           own = middle_of(found, 1, k, k + 1);
          Attributes part = class_part(1, chunks, k).set("classes", real),
                     part_grad = class_part(0, chunks, k).set("classes", real);
          EXPECT_EQ(run("softmax_statistics", {local, few}, part)[0], own);
          EXPECT_EQ(run("softmax_statistics_grad", {local, few, own, middle_of(slopes, 1, k, k + 1)}, part_grad)[0],
                    middle_of(whole, 1, k * width, (k + 1) * width));
        }
      }
      labels.set(6, static_cast<double>(classes));
      EXPECT_THAT([&] { run("softmax_statistics", {logits, labels}, {}); },
                  testing::ThrowsMessage<Error>(
                      testing::AllOf(testing::HasSubstr("row 6"), testing::HasSubstr("less than 5016"))));
    }
}

/// The gradient has the precision of f32 however great the logits: no log-sum-exp of them stands between.
TEST(CpuRows, CrossEntropyOfGreatLogits) {
  const int64_t rows = 6, classes = 40;
  HostTensor logits = random_tensor(DType::kF32, {rows, classes}, 3);
  for (int64_t i = 0; i < logits.elements(); ++i) logits.set(i, logits.get(i) + 1000);
  const HostTensor labels = integers({rows}, classes, 2);
  for (int64_t chunks : {1, 8}) {
    const HostTensor statistics = run("softmax_statistics", {logits, labels}, {{"chunks", chunks}})[0];
    const HostTensor slope = random_tensor(DType::kF32, {rows}, 4), none({DType::kF32, {rows}});
    const HostTensor losses = run("cross_entropy_rows", {statistics}, {})[1];
    const HostTensor slopes = run("cross_entropy_rows_grad", {statistics, none, slope}, {})[0];
    const HostTensor gradient = run("softmax_statistics_grad", {logits, labels, statistics, slopes}, {})[0];
    for (int64_t row = 0; row < rows; ++row) {
      const auto at = [&](int64_t i) { return logits.get(row * classes + i) - 1000; };
      const int64_t label = static_cast<int64_t>(labels.get(row));
      double sum = 0;
      for (int64_t i = 0; i < classes; ++i) sum += std::exp(at(i));
      EXPECT_NEAR(losses.get(row), std::log(sum) - at(label), 2e-6 * losses.get(row));
      for (int64_t i = 0; i < classes; ++i) {
        const double share = std::exp(at(i)) / sum - (i == label);
        EXPECT_NEAR(gradient.get(row * classes + i), slope.get(row) * share, 1e-6 * std::fabs(slope.get(row) * share));
      }
    }
  }
}

TEST(CpuRows, CrossEntropyShowsNaN) {
  for (int64_t chunks : {1, 4}) {
    HostTensor logits = random_tensor(DType::kBF16, {3, 100}, 1);
    logits.set(150, NAN);
    for (int64_t i = 125; i < 150; ++i) logits.set(i, -INFINITY);  // a chunk of four
    const HostTensor statistics = run("softmax_statistics", {logits, integers({3}, 100, 2)}, {{"chunks", chunks}})[0];
    EXPECT_TRUE(std::isnan(run("cross_entropy", {statistics}, {})[0].get(0)));
    const HostTensor of_rows = run("cross_entropy_rows", {statistics}, {})[0];
    EXPECT_TRUE(std::isnan(of_rows.get(1)));
    EXPECT_FALSE(std::isnan(of_rows.get(0)));
    EXPECT_FALSE(std::isnan(of_rows.get(2)));
  }
}

TEST(CpuRows, SumsOverRowsInChunksAreThoseOfTheirParts) {
  // The sequence is cut, as a layout would: each device has its part of every sample.
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (const auto& [batch, length, width] :
         std::vector<std::array<int64_t, 3>>{{3, 24, 17}, {5, 96, 40}, {1, 8, 1}, {2, 240, 3}}) {
      const HostTensor dy = random_tensor(dtype, {batch, length, width}, 1),
                       a = random_tensor(dtype, {batch, length, width}, 2);
      const HostTensor gain = random_tensor(DType::kF32, {width}, 3),
                       mean = random_tensor(DType::kF32, {batch, length}, 4);
      const HostTensor rstd = random_tensor(DType::kF32, {batch, length}, 5);
      for (int64_t chunks : {2, 4, 8})
        for (int64_t parts = 2; parts <= chunks; parts *= 2) {
          const Attributes all{{"chunks", chunks}}, some{{"chunks", chunks / parts}};
          Attributes sum{{"axes", std::vector<int64_t>{0, 1}}, {"dtype", DType::kF32}}, part_sum = sum;
          sum.set("chunks", chunks);
          part_sum.set("chunks", chunks / parts);
          const Tensors whole = run("layer_norm_grad", {dy, a, gain, mean, rstd}, all);
          const Tensors rms = run("rms_norm_grad", {dy, a, gain, rstd}, all);
          const Tensors total = run("reduce_sum", {dy}, sum);
          expect_reference("layer_norm_grad", {dy, a, gain, mean, rstd}, all, dtype == DType::kF32 ? 1e-4 : 1.6e-2);
          expect_reference("reduce_sum", {dy}, sum, 1e-4);
          std::vector<Tensors> held;
          for (int64_t k = 0; k < parts; ++k) {
            const auto local = [&](const HostTensor& tensor) {
              return middle_of(tensor, 1, k * length / parts, (k + 1) * length / parts);
            };
            const Tensors part = run("layer_norm_grad", {local(dy), local(a), gain, local(mean), local(rstd)}, some);
            const Tensors rms_part = run("rms_norm_grad", {local(dy), local(a), gain, local(rstd)}, some);
            EXPECT_EQ(part[0], local(whole[0]));
            EXPECT_EQ(rms_part[0], local(rms[0]));
            held.push_back({part[1], part[2], rms_part[1], run("reduce_sum", {local(dy)}, part_sum)[0]});
          }
          const Tensors wanted{whole[1], whole[2], rms[1], total[0]};
          for (size_t which = 0; which < wanted.size(); ++which)
            for (int64_t c = 0; c < width; ++c) {
              const float joined = tree_combine<float>(
                  0, parts, [&](int64_t k) { return static_cast<float>(held[static_cast<size_t>(k)][which].get(c)); },
                  [](float x, float y) { return x + y; });
              ASSERT_EQ(joined, static_cast<float>(wanted[which].get(c))) << which << ", " << c;
            }
        }
    }
}

/// Elements [begin, end) of a tensor seen as a vector, and `padding` zeros.
HostTensor stretch(const HostTensor& whole, int64_t begin, int64_t end, int64_t padding = 0) {
  HostTensor part(TensorType{whole.type.dtype, Shape{end - begin + padding}});
  for (int64_t i = begin; i < end; ++i) part.set(i - begin, whole.get(i));
  return part;
}

TEST(CpuRows, SumsOfSquaresAreExactWhateverTheCuts) {
  const RandomStream random(5, RandomPurpose::kTest, 0, 9);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (int64_t elements : {1, 100, 4096, 4097, 50000, 300001}) {
      HostTensor a = random_tensor(dtype, {elements}, 1);
      // Magnitudes from denormals to the greatest.
      if (dtype != DType::kF16)
        for (int64_t i = 0; i < elements; i += 3)
          a.set(i, std::ldexp(a.get(i), static_cast<int>(random.below(static_cast<uint64_t>(i), 277)) - 149));
      const Tensors whole = run("sum_squares", {a}, {});
      EXPECT_EQ(interpret_node(node_of("sum_squares", {a}, {}), reference_backend(), {a}), whole) << elements;
      long double sum = 0;
      for (int64_t i = 0; i < elements; ++i)
        sum += static_cast<long double>(a.get(i)) * static_cast<long double>(a.get(i));
      const float value = static_cast<float>(run("from_exact", whole, {})[0].get(0));
      if (std::isfinite(static_cast<float>(sum)))
        EXPECT_NEAR(value / static_cast<double>(sum), 1, 1.3e-7) << elements;
      else
        EXPECT_EQ(value, INFINITY);
      for (uint64_t round = 0; round < 6; ++round) {
        Tensors parts;
        for (int64_t begin = 0; begin < elements || parts.empty();) {
          const int64_t most = elements - begin;
          const int64_t count = 1 + random.below(1000 * round + parts.size() + 1000000,
                                                 static_cast<uint32_t>(std::min<int64_t>(most, elements / 3 + 1)));
          parts.push_back(
              run("sum_squares", {stretch(a, begin, begin + count, static_cast<int64_t>(round * 37))}, {})[0]);
          begin += count;
        }
        EXPECT_EQ(run("exact_sum", parts, {}), whole) << elements << " in " << parts.size();
        // Grouped otherwise, and added by something that does not carry.
        HostTensor added(whole[0].type);
        for (const HostTensor& part : parts)
          for (int64_t k = 0; k < added.elements(); ++k) added.set(k, added.get(k) + part.get(k));
        EXPECT_EQ(run("exact_sum", {added}, {}), whole);
        EXPECT_EQ(run("from_exact", {added}, {}), run("from_exact", whole, {}));
      }
    }
}

TEST(CpuRows, SumsOfSquaresAreExactForEveryRangeOfMagnitudes) {
  const RandomStream random(6, RandomPurpose::kTest, 0, 9);
  for (const int range : {0, 1, 13, 14, 15, 16, 17, 33, 34, 35, 36, 60})
    for (const int greatest : {127, 0, -100}) {
      HostTensor a(TensorType{DType::kF32, Shape{9000}});
      for (int64_t i = 0; i < a.elements(); ++i) {
        const auto draw = static_cast<uint64_t>(i);
        const double mantissa = 0x800000 + random.below(2 * draw, 0x800000);
        const int down = static_cast<int>(random.below(2 * draw + 1, static_cast<uint32_t>(range + 1)));
        a.set(i, i % 7 == 3 ? 0 : std::ldexp(i % 2 ? mantissa : -mantissa, greatest - 23 - down));
      }
      EXPECT_EQ(interpret_node(node_of("sum_squares", {a}, {}), reference_backend(), {a}), run("sum_squares", {a}, {}))
          << range << " below " << greatest;
    }
}

TEST(CpuRows, SumsOfManyLikeSquaresDoNotOverflow) {
  // The largest mantissa, so often that entries must be emptied on the way.
  const float value = std::nextafter(2.0f, 0.0f);
  const HostTensor a = HostTensor::of(DType::kF32, {2000000}, std::vector<double>(2000000, value));
  const HostTensor found = run("from_exact", run("sum_squares", {a}, {}), {})[0];
  EXPECT_EQ(found.get(0), static_cast<float>(static_cast<double>(value) * static_cast<double>(value) * 2e6));
}

TEST(CpuRows, SumsOfSquaresRoundOnceAndShowWhatIsNotFinite) {
  const auto of = [](const std::vector<double>& values) {
    const HostTensor a = HostTensor::of(DType::kF32, {static_cast<int64_t>(values.size())}, values);
    return run("from_exact", run("sum_squares", {a}, {}), {})[0].get(0);
  };
  EXPECT_EQ(of({0, -0.0}), 0);
  EXPECT_EQ(of({3, 4}), 25);
  const double tie = std::ldexp(1, -12);  // its square is half a unit in the last place of 1
  EXPECT_EQ(of({1, tie}), 1);
  EXPECT_EQ(of({1, tie, std::ldexp(1, -149)}), 1 + std::ldexp(1, -23));  // anything above the tie decides
  EXPECT_EQ(of({std::ldexp(1, -75)}), std::ldexp(1, -150) > 0 ? 0 : 1);  // a tie with 0 goes to the even one
  EXPECT_EQ(of({std::ldexp(1, -75), std::ldexp(1, -149)}), std::ldexp(1, -149));
  EXPECT_EQ(of({3e38}), INFINITY);
  EXPECT_EQ(of({1, INFINITY, -INFINITY}), INFINITY);
  EXPECT_TRUE(std::isnan(of({1, INFINITY, NAN})));
}

TEST(CpuRows, OptimizersFollowTheReferenceAndKeepStatesWhole) {
  const Shape shape{9001};
  const Attributes adam{{"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", 1e-6}, {"weight_decay", 0.1}};
  for (DType gradient : {DType::kF32, DType::kBF16})
    for (bool decoupled : {true, false}) {
      const HostTensor w = random_tensor(DType::kF32, shape, 1), g = random_tensor(gradient, shape, 2),
                       m = random_tensor(DType::kF32, shape, 3);
      HostTensor v = random_tensor(DType::kF32, shape, 4);
      for (int64_t i = 0; i < v.elements(); ++i) v.set(i, std::fabs(v.get(i)));
      Attributes attributes = adam;
      attributes.set("decoupled", decoupled);
      const Tensors inputs{w, g, m, v, scalar(0.01), scalar(0.1), scalar(0.01), scalar(0.5)};
      expect_reference("adam", inputs, attributes, 2e-6);
      expect_rows_alone("adam", inputs, {true, true, true, true, false, false, false, false}, attributes, {0, 1, 2});
      Tensors broken = inputs;
      broken[7] = scalar(NAN);
      const Tensors kept = run("adam", broken, attributes);
      EXPECT_EQ(kept[0], w);
      EXPECT_EQ(kept[1], m);
      EXPECT_EQ(kept[2], v);
      for (double grad_scale : {0.5, static_cast<double>(INFINITY)}) {
        const Tensors all{w, g, m, v, scalar(0.1), scalar(0.01), scalar(grad_scale)};
        const Tensors found = run("lamb_direction", all, adam);
        const Tensors wanted = interpret_node(node_of("lamb_direction", all, adam), reference_backend(), all);
        for (size_t i = 0; i < 3; ++i) EXPECT_EQ(compare(found[i], wanted[i], 1e-5), "") << i;
        EXPECT_EQ(found[3], run("sum_squares", {found[2]}, {})[0]);
        EXPECT_EQ(found[4], run("sum_squares", {w}, {})[0]);
        EXPECT_EQ(found[4], wanted[4]);
        // A part of it alone, as a replica would hold it.
        Tensors flat = all;
        for (size_t i = 0; i < 4; ++i) flat[i] = stretch(all[i], 1234, 5678, 100);
        const Tensors part = run("lamb_direction", flat, adam);
        for (size_t i = 0; i < 3; ++i) EXPECT_EQ(part[i], stretch(found[i], 1234, 5678, 100)) << i;
      }
      expect_reference("lamb_apply", {w, m, scalar(2), scalar(3), scalar(0.1), scalar(1)}, {}, 2e-6);
      for (bool nesterov : {true, false})
        expect_reference("sgd", {w, g, m, scalar(0.1), scalar(0.5)},
                         {{"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", nesterov}}, 2e-6);
    }
}

TEST(CpuRows, ReductionsAreInTheirOrders) {
  const HostTensor a = random_tensor(DType::kF32, {5, 200, 37}, 1);
  const std::vector<float> values = a.floats();
  const auto axes = [](std::vector<int64_t> list) { return Attributes{{"axes", std::move(list)}}; };
  const Tensors middle = run("reduce_sum", {a}, axes({1})), last = run("reduce_sum", {a}, axes({2}));
  for (int64_t o = 0; o < 5; ++o) {
    for (int64_t c = 0; c < 37; ++c)
      ASSERT_EQ(static_cast<float>(middle[0].get(o * 37 + c)),
                canonical_sum_rows(values.data() + o * 200 * 37 + c, 200, 37));
    for (int64_t r = 0; r < 200; ++r)
      ASSERT_EQ(static_cast<float>(last[0].get(o * 200 + r)), canonical_sum(values.data() + (o * 200 + r) * 37, 37));
  }
  // In chunks of rows, which shards would hold.
  Attributes chunked = axes({1});
  chunked.set("chunks", int64_t{4});
  const Tensors four = run("reduce_sum", {a}, chunked);
  for (int64_t o = 0; o < 5; ++o)
    for (int64_t c = 0; c < 37; ++c) {
      const auto part = [&](int64_t chunk) {
        return canonical_sum_rows(values.data() + (o * 200 + chunk * 50) * 37 + c, 50, 37);
      };
      const float wanted = tree_combine<float>(0, 4, part, [](float x, float y) { return x + y; });
      ASSERT_EQ(static_cast<float>(four[0].get(o * 37 + c)), wanted);
    }
  for (const char* op : {"reduce_sum", "reduce_max", "reduce_min"})
    for (const std::vector<int64_t>& which : std::vector<std::vector<int64_t>>{{0}, {0, 2}, {0, 1}, {1, 2}, {0, 1, 2}})
      expect_reference(op, {random_tensor(DType::kBF16, {5, 200, 37}, 2)}, axes(which), 2e-2);
}

TEST(CpuRows, ScatterAddsInOrderOfPosition) {
  for (const auto& [rows, positions, width] :
       std::vector<std::array<int64_t, 3>>{{2, 300, 65}, {1000, 700, 33}, {300, 4000, 7}}) {
    const HostTensor indices = integers({positions}, rows, 1, positions == 700 ? DType::kI64 : DType::kI32);
    const HostTensor updates = random_tensor(DType::kBF16, {positions, width}, 2);
    std::vector<float> sums(static_cast<size_t>(rows * width), 0.0f);
    for (int64_t i = 0; i < positions; ++i)
      for (int64_t c = 0; c < width; ++c)
        sums[static_cast<size_t>(static_cast<int64_t>(indices.get(i)) * width + c)] +=
            static_cast<float>(updates.get(i * width + c));
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const Tensors found = run("scatter_add", {indices, updates}, {{"rows", rows}, {"dtype", dtype}});
      for (int64_t i = 0; i < rows * width; ++i) {
        const float wanted = sums[static_cast<size_t>(i)];
        ASSERT_EQ(static_cast<float>(found[0].get(i)), dtype == DType::kF32 ? wanted : bf16_to_f32(f32_to_bf16(wanted)))
            << i;
      }
    }
    expect_reference("gather", {random_tensor(DType::kBF16, {rows, width}, 3), indices}, {}, 0);
  }
}

TEST(CpuRows, CopiesOfEveryKind) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kI64, DType::kBool}) {
    const HostTensor a = integers({5, 3, 67, 34}, dtype == DType::kBool ? 2 : 100, 1, dtype);
    for (const std::vector<int64_t>& order : std::vector<std::vector<int64_t>>{
             {0, 1, 2, 3}, {0, 2, 1, 3}, {3, 2, 1, 0}, {0, 1, 3, 2}, {1, 0, 3, 2}, {2, 3, 0, 1}})
      expect_reference("transpose", {a}, {{"permutation", order}}, 0);
    using Ints = std::vector<int64_t>;
    expect_reference("slice", {a}, {{"start", Ints{1, 0, 3, 5}}, {"stop", Ints{4, 3, 60, 34}}}, 0);
    expect_reference("slice", {a},
                     {{"start", Ints{0, 0, 3, 5}}, {"stop", Ints{5, 3, 60, 34}}, {"stride", Ints{2, 1, 5, 3}}}, 0);
    expect_reference("pad", {a}, {{"low", Ints{0, 1, 2, 3}}, {"high", Ints{1, 0, 0, 2}}, {"value", 1.0}}, 0);
    expect_reference("concat", {a, a, a}, {{"axis", int64_t{2}}}, 0);
    expect_reference("split", {a}, {{"axis", int64_t{3}}, {"sizes", Ints{10, 0, 24}}}, 0);
    expect_reference("reverse", {a}, {{"axes", Ints{1, 3}}}, 0);
    expect_reference("broadcast_to", {integers({5, 1, 34}, 2, 2, dtype)}, {{"shape", Ints{3, 5, 6, 34}}}, 0);
  }
}

TEST(CpuRows, InitialValuesAreTheDefinition) {
  for (const char* kind : {"uniform", "normal", "truncated_normal"}) {
    const Attributes attributes{{"dtype", DType::kF32},
                                {"shape", std::vector<int64_t>{1003}},
                                {"kind", std::string(kind)},
                                {"a", 0.1},
                                {"b", 0.7},
                                {"seed", int64_t{5}},
                                {"tensor", int64_t{99}}};
    const Tensors found = run("random", {}, attributes);
    for (int64_t i = 0; i < 1003; ++i)
      ASSERT_EQ(static_cast<float>(found[0].get(i)),
                random_initial_value(random_kind_from_name(kind), 0.1, 0.7, 5, 99, static_cast<uint64_t>(i)));
  }
}

TEST(CpuRows, OrderOfElements) {
  HostTensor a = random_tensor(DType::kBF16, {6, 301}, 1);
  a.set(302, NAN);
  expect_reference("argmax", {a}, {{"axis", int64_t{1}}}, 0);
  expect_reference("argmin", {a}, {{"axis", int64_t{0}}}, 0);
  expect_reference("cumsum", {random_tensor(DType::kF32, {6, 301}, 2)}, {{"axis", int64_t{0}}}, 1e-5);
  expect_reference("cumsum", {integers({6, 301}, 1000, 2)}, {{"axis", int64_t{1}}, {"reverse", true}}, 0);
  const NodeSignature node = node_of("top_k", {a}, {{"k", int64_t{9}}});
  const Tensors wanted = interpret_node(node, reference_backend(), {a}), found = run("top_k", {a}, {{"k", int64_t{9}}});
  EXPECT_EQ(found[1], wanted[1]);
}

}  // namespace
}  // namespace ramet::tests
