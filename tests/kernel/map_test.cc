// The CPU map evaluator: values against the meanings of the op table, sums against the canonical orders bit by bit,
// and the same bits whatever the threads, blocks, tails and aliases.

#include <bit>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "kernel/map_tools.h"
#include "ramet/ops/random_bits.h"
#include "ramet/ops/reduce_order.h"

namespace ramet::tests {
namespace {

/// Numbers of every sign, reproducible, small integers for integer types.
Bytes filled(DType dtype, Shape shape, uint64_t seed) {
  Bytes bytes({dtype, std::move(shape)});
  const RandomStream stream(seed, RandomPurpose::kTest, 0, 0);
  for (int64_t i = 0; i < bytes.type.elements(); ++i) {
    const double u = stream.uniform(static_cast<uint64_t>(i));
    bytes.set(i, dtype == DType::kBool ? u < 0.5 : is_floating(dtype) ? 6 * u - 3 : std::floor(u * 21) - 10);
  }
  return bytes;
}

Bytes counter(int64_t step, int64_t micro) {
  Bytes bytes({DType::kI64, Shape{2}});
  bytes.set(0, static_cast<double>(step));
  bytes.set(1, static_cast<double>(micro));
  return bytes;
}

int64_t broadcast_index(const Shape& shape, const Shape& space, int64_t at) {
  int64_t result = 0, scale = 1;
  for (int axis = -1; axis >= -space.rank(); --axis) {
    const int64_t coordinate = at % space.dim(axis);
    at /= space.dim(axis);
    if (-axis > shape.rank()) continue;
    if (shape.dim(axis) != 1) result += coordinate * scale;
    scale *= shape.dim(axis);
  }
  return result;
}

/// Sums of leading dimensions are exact here; the test of values compares element by element.
void expect_near(const Bytes& got, const std::vector<double>& wanted, double tolerance, const std::string& what) {
  for (int64_t i = 0; i < got.type.elements(); ++i) {
    const double exact = wanted[static_cast<size_t>(i)];
    ASSERT_NEAR(got.get(i), exact, tolerance * std::max(1.0, std::fabs(exact))) << what << ", element " << i;
  }
}

void expect_same_bits(const std::vector<Bytes>& a, const std::vector<Bytes>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].data == b[i].data) continue;
    const auto differs = std::mismatch(a[i].data.begin(), a[i].data.end(), b[i].data.begin());
    const int64_t at = (differs.first - a[i].data.begin()) / static_cast<int64_t>(size_of(a[i].type.dtype));
    ADD_FAILURE() << what << ", output " << i << ", element " << at << ": " << a[i].get(at) << " and " << b[i].get(at);
  }
}

TEST(CpuMap, EveryFloatOpMeansWhatTheTableSays) {
  const Shape space{7, 141};
  for (const MapOpInfo& info : map_op_table()) {
    if (!info.scalar || info.types == MapOpTypes::kSelect || info.types == MapOpTypes::kDropout) continue;
    const std::string name(info.name);
    std::string text = std::to_string(info.arity) + ":%" + std::to_string(info.arity) + "=" + name;
    if (info.parameters == 1) text += "[0.375]";
    if (info.parameters == 2) text += "[-0.75,1.25]";
    text += info.arity == 1 ? "(%0)->%1" : "(%0,%1)->%2";
    std::vector<Bytes> inputs;
    for (int i = 0; i < info.arity; ++i) {
      inputs.push_back(filled(DType::kF32, space, static_cast<uint64_t>(i) + 1));
      const auto is_one_of = [&](std::initializer_list<const char*> names) {
        return std::any_of(names.begin(), names.end(), [&](const char* known) { return name == known; });
      };
      for (int64_t e = 0; e < space.elements(); ++e) {
        const double x = inputs.back().get(e);
        if (is_one_of({"log", "sqrt", "rsqrt", "power", "log1p", "log2", "log10", "lgamma", "digamma", "trigamma"}))
          inputs.back().set(e, std::fabs(x) + 0.01);
        if (is_one_of({"asin", "acos", "atanh"})) inputs.back().set(e, x / 3.1);
        if (name == "acosh") inputs.back().set(e, 1.01 + std::fabs(x));
      }
    }
    const bool test = info.types == MapOpTypes::kCompare || info.types == MapOpTypes::kTest;
    const auto results = run(text, space, inputs, {{test ? DType::kBool : DType::kF32, space}}, 1);
    std::vector<double> wanted;
    for (int64_t e = 0; e < space.elements(); ++e)
      wanted.push_back(info.scalar(inputs[0].get(e), info.arity > 1 ? inputs[1].get(e) : 0, 0,
                                   info.parameters == 1 ? 0.375 : -0.75, 1.25));
    expect_near(results[0], wanted, 2e-6, name);
  }
}

TEST(CpuMap, EveryIntegerOpMeansWhatTheTableSays) {
  const Shape space{3, 77};
  for (const MapOpInfo& info : map_op_table()) {
    if (!info.integer || info.types == MapOpTypes::kSelect) continue;
    for (DType dtype : {DType::kI32, DType::kI64, DType::kBool, DType::kI8, DType::kI16, DType::kU8, DType::kU16,
                        DType::kU32, DType::kU64}) {
      const bool logical = info.types == MapOpTypes::kLogical;
      if (logical != (dtype == DType::kBool) && info.types != MapOpTypes::kCompare) continue;
      const std::string name(info.name);
      const std::string text = std::to_string(info.arity) + ":%" + std::to_string(info.arity) + "=" + name +
                               (info.arity == 1 ? "(%0)->%1" : "(%0,%1)->%2");
      std::vector<Bytes> inputs;
      for (int i = 0; i < info.arity; ++i) inputs.push_back(filled(dtype, space, static_cast<uint64_t>(i) + 5));
      const DType result = info.types == MapOpTypes::kCompare || logical ? DType::kBool : dtype;
      const auto results = run(text, space, inputs, {{result, space}}, 2);
      for (int64_t e = 0; e < space.elements(); ++e) {
        const auto b = info.arity > 1 ? static_cast<int64_t>(inputs[1].get(e)) : 0;
        const int64_t meant = integer_meaning(info, dtype, static_cast<int64_t>(inputs[0].get(e)), b, 0);
        ASSERT_EQ(load_integer(results[0].data.data(), result, e), wrap_integer(meant, result))
            << name << " of " << name_of(dtype) << ", element " << e;
      }
    }
  }
}

TEST(CpuMap, OperandsBroadcastByEveryStride) {
  const Shape space{4, 3, 5, 37};
  const std::vector<Shape> shapes{{4, 3, 5, 37}, {37},          {4, 3, 5, 1}, {1},   {},
                                  {3, 1, 37},    {4, 1, 5, 37}, {4, 1, 1, 1}, {5, 1}};
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3})
    for (const Shape& shape : shapes) {
      const std::vector<Bytes> inputs{filled(DType::kF32, space, 1), filled(dtype, shape, 2)};
      const auto results = run("2:%2=subtract(%0,%1)->%2", space, inputs, {{DType::kF32, space}}, 3);
      for (int64_t e = 0; e < space.elements(); ++e)
        ASSERT_EQ(
            static_cast<float>(results[0].get(e)),
            static_cast<float>(inputs[0].get(e)) - static_cast<float>(inputs[1].get(broadcast_index(shape, space, e))))
            << inputs[1].type.text() << ", element " << e;
    }
}

TEST(CpuMap, SameBitsForAnyThreadsAndSplitOfRows) {
  const std::string text =
      "4:%4=add(%0,%1);%5=round_bf16(%4);%6=gelu(%5);%7=dropout[0.1,7,99](%6,%3);%8=add(%7,%2)->%5,%8,sum_last(%8)";
  for (int64_t columns : {1, 3, 16, 37, 768, 1030, 3072}) {
    const int64_t rows = columns > 1000 ? 40 : 131;
    const Shape space{rows, columns};
    const std::vector<Bytes> inputs{filled(DType::kBF16, space, 1), filled(DType::kF32, {columns}, 2),
                                    filled(DType::kBF16, space, 3), counter(5, 0)};
    const std::vector<TensorType> outputs{{DType::kBF16, space}, {DType::kF32, space}, {DType::kF32, Shape{rows}}};
    const auto alone = run(text, space, inputs, outputs, 1);
    for (int threads : {2, 3})
      expect_same_bits(alone, run(text, space, inputs, outputs, threads), std::to_string(threads));
    // The first rows by themselves.
    const int64_t part = rows / 3;
    std::vector<Bytes> first = inputs;
    for (size_t i : {0, 2}) {
      first[i] = Bytes({inputs[i].type.dtype, Shape{part, columns}});
      std::memcpy(first[i].data.data(), inputs[i].data.data(), first[i].data.size());
    }
    const auto some =
        run(text, Shape{part, columns}, first,
            {{DType::kBF16, {part, columns}}, {DType::kF32, {part, columns}}, {DType::kF32, Shape{part}}}, 2);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(0, std::memcmp(some[i].data.data(), alone[i].data.data(), some[i].data.size())) << columns << ", " << i;
  }
}

TEST(CpuMap, SumsAreInTheCanonicalOrders) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {3, 5}, {64, 16}, {65, 17}, {200, 40}, {130, 768}, {193, 3072}, {700, 3}, {5, 2050}}) {
    const Shape space{rows, columns};
    const std::vector<Bytes> inputs{filled(DType::kBF16, space, 1), filled(DType::kF32, space, 2)};
    std::vector<float> products;
    for (int64_t e = 0; e < space.elements(); ++e)
      products.push_back(static_cast<float>(inputs[0].get(e)) * static_cast<float>(inputs[1].get(e)));
    for (int threads : {1, 3}) {
      const auto results = run("2:%2=multiply(%0,%1)->sum_rows(%2),%2,sum_last(%2),sum_rows(%1)", space, inputs,
                               {{DType::kF32, Shape{columns}},
                                {DType::kF32, space},
                                {DType::kF32, Shape{rows}},
                                {DType::kBF16, Shape{columns}}},
                               threads);
      for (int64_t c = 0; c < columns; ++c) {
        ASSERT_EQ(static_cast<float>(results[0].get(c)), canonical_sum_rows(products.data() + c, rows, columns)) << c;
        const float plain =
            canonical_sum_rows(reinterpret_cast<const float*>(inputs[1].data.data()) + c, rows, columns);
        ASSERT_EQ(static_cast<float>(results[3].get(c)), bf16_to_f32(f32_to_bf16(plain))) << c;
      }
      for (int64_t r = 0; r < rows; ++r)
        ASSERT_EQ(static_cast<float>(results[2].get(r)), canonical_sum(products.data() + r * columns, columns)) << r;
    }
  }
}

TEST(CpuMap, DropoutDrawsByLogicalElement) {
  for (int64_t elements : {1, 7, 100, 5003}) {
    for (int64_t micro : {0, 3}) {
      const Shape space{elements};
      const std::vector<Bytes> inputs{filled(DType::kBF16, space, 1), counter(11, micro)};
      const auto results =
          run("2:%2=dropout[0.25,42,123456789012345](%0,%1)->%2", space, inputs, {{DType::kF32, space}}, 3);
      const DropoutDraw draw(0.25, 42, 123456789012345, reinterpret_cast<const int64_t*>(inputs[1].data.data()),
                             elements);
      for (int64_t e = 0; e < elements; ++e)
        ASSERT_EQ(static_cast<float>(results[0].get(e)), static_cast<float>(inputs[0].get(e)) * draw.factor(e)) << e;
    }
  }
}

TEST(CpuMap, OutputsMayLieOverInputs) {
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (int64_t elements : {5, 1024, 5000}) {
      const Shape space{elements};
      const std::vector<Bytes> inputs{filled(dtype, space, 1), filled(dtype, space, 2)};
      // The first output is made early; the input under it is read once more afterwards, and copied out.
      const std::string text = "2:%2=add(%0,%1);%3=multiply(%2,%0);%4=subtract(%3,%1)->%2,%4,%0";
      const std::vector<TensorType> outputs(3, {dtype, space});
      const auto apart = run(text, space, inputs, outputs, 2);
      for (int alias : {0, 1}) expect_same_bits(apart, run(text, space, inputs, outputs, 2, alias), "in place");
      // An input that is copied out is read by the last step alone: nothing before may take its register.
      const std::vector<Bytes> three{inputs[0], inputs[1], filled(dtype, space, 3)};
      const std::string late = "3:%3=multiply(%0,%1);%4=add(%3,%0);%5=multiply(%4,%2)->%4,%2,%5";
      const auto expected = run(late, space, three, outputs, 2);
      for (int alias : {0, 1}) expect_same_bits(expected, run(late, space, three, outputs, 2, alias), "in place, late");
    }
}

TEST(CpuMap, RoundsAsTheUnfusedChainDoes) {
  const Shape space{3, 1000};
  const std::vector<Bytes> inputs{filled(DType::kBF16, space, 1), filled(DType::kBF16, space, 2)};
  const TensorType narrow{DType::kBF16, space};
  const auto fused = run("2:%2=add(%0,%1);%3=round_bf16(%2);%4=gelu_tanh(%3);%5=round_bf16(%4);%6=scale[0.3](%5)->%6",
                         space, inputs, {narrow}, 1);
  const auto sum = run("2:%2=add(%0,%1)->%2", space, inputs, {narrow}, 1);
  const auto gelu = run("1:%1=gelu_tanh(%0)->%1", space, sum, {narrow}, 1);
  expect_same_bits(fused, run("1:%1=scale[0.3](%0)->%1", space, gelu, {narrow}, 1), "chain");
}

TEST(CpuMap, LooksUpBf16NumbersWithTheBitsOfTheFunction) {
  // All numbers of bf16, beside the same in f32, from which the function computes.
  const Shape space{1 << 16};
  Bytes narrow({DType::kBF16, space}), wide({DType::kF32, space});
  for (int64_t i = 0; i < space.elements(); ++i) {
    const auto bits = static_cast<uint32_t>(i);
    const uint32_t widened = bits << 16;
    std::memcpy(narrow.data.data() + i * 2, &bits, 2);
    std::memcpy(wide.data.data() + i * 4, &widened, 4);
  }
  const Bytes gradient = filled(DType::kBF16, space, 5), wide_gradient = filled(DType::kF32, space, 6);
  for (const std::string op : {"gelu", "gelu_tanh", "silu", "softplus"})
    for (const DType result : {DType::kF32, DType::kBF16})
      for (const bool rounds : {false, true}) {
        const std::vector<TensorType> outputs{{result, space}};
        const std::string one = "1:%1=" + op + (rounds ? "(%0);%2=round_bf16(%1)->%2" : "(%0)->%1");
        const std::string two = "2:%2=" + op + (rounds ? "_grad(%0,%1);%3=round_bf16(%2)->%3" : "_grad(%0,%1)->%2");
        const auto of = [&](const std::string& text, const std::vector<Bytes>& inputs, int threads) {
          return with_one_nan(run(text, space, inputs, outputs, threads));
        };
        expect_same_bits(of(one, {wide}, 1), of(one, {narrow}, 2), op);
        const std::string after = "1:%1=round_bf16(%0);%2=" + op + (rounds ? "(%1);%3=round_bf16(%2)->%3" : "(%1)->%2");
        expect_same_bits(of(one, {wide}, 1), of(after, {wide}, 2), op + " of rounded");
        if (op == "softplus") continue;
        for (const Bytes& other : {gradient, wide_gradient})
          expect_same_bits(of(two, {wide, other}, 1), of(two, {narrow, other}, 2), op + "_grad");
      }
}

TEST(CpuMap, ValuesThatAreRoundedKeepTheirBitsAndTheirSumsAreRounded) {
  const Shape space{130, 48}, row{48};
  const std::vector<Bytes> inputs{filled(DType::kF32, space, 1), filled(DType::kF32, space, 2)};
  const auto wide = run("2:%2=multiply(%0,%1);%3=round_bf16(%2)->%3", space, inputs, {{DType::kF32, space}}, 1);
  std::vector<float> values;
  for (int64_t e = 0; e < space.elements(); ++e) values.push_back(static_cast<float>(wide[0].get(e)));
  const auto narrow =
      run("2:%2=multiply(%0,%1);%3=round_bf16(%2);%4=negate(%3)->%3,sum_rows(%3),sum_last(%3),%4", space, inputs,
          {{DType::kBF16, space}, {DType::kBF16, row}, {DType::kBF16, Shape{130}}, {DType::kF32, space}}, 2);
  for (int64_t e = 0; e < space.elements(); ++e) ASSERT_EQ(narrow[0].get(e), values[static_cast<size_t>(e)]) << e;
  for (int64_t c = 0; c < 48; ++c)
    ASSERT_EQ(static_cast<float>(narrow[1].get(c)),
              bf16_to_f32(f32_to_bf16(canonical_sum_rows(values.data() + c, 130, 48))))
        << c;
  for (int64_t r = 0; r < 130; ++r)
    ASSERT_EQ(static_cast<float>(narrow[2].get(r)), bf16_to_f32(f32_to_bf16(canonical_sum(values.data() + r * 48, 48))))
        << r;
}

TEST(CpuMap, CastsAsElementsDo) {
  const std::vector<double> values{0,     -0.0,  1,     -1,   1.5, -2.5,     3e9,       -3e9, 1e20,
                                   -1e20, 65504, 70000, 1e-8, NAN, INFINITY, -INFINITY, 300};
  const Shape space{static_cast<int64_t>(values.size())};
  for (DType from : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E5M2, DType::kI32, DType::kI64, DType::kBool,
                     DType::kI8, DType::kI16, DType::kU8, DType::kU16, DType::kU32, DType::kU64})
    for (DType to : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kI32, DType::kI64, DType::kBool,
                     DType::kI8, DType::kI16, DType::kU8, DType::kU16, DType::kU32, DType::kU64}) {
      Bytes input({from, space}), wanted({to, space});
      for (size_t i = 0; i < values.size(); ++i) input.set(static_cast<int64_t>(i), values[i]);
      for (int64_t i = 0; i < space.elements(); ++i) {
        const double value = input.get(i);
        if (is_integer(to) && !is_floating(from))
          store_integer(wanted.data.data(), to, i, load_integer(input.data.data(), from, i));
        else
          wanted.set(i, to == DType::kBool ? value != 0 : value);
      }
      const DType reg = is_floating(to) ? DType::kF32 : to;
      const auto got = run("1:%1=cast[" + std::string(name_of(reg)) + "](%0)->%1", space, {input}, {{to, space}}, 1);
      for (int64_t i = 0; i < space.elements(); ++i) {
        const double a = got[0].get(i), b = wanted.get(i);
        if (size_of(from) == 8 && std::fabs(input.get(i)) > 0x1p62) continue;  // the oracle is double
        if (std::isnan(b))
          EXPECT_TRUE(std::isnan(a)) << name_of(from) << " to " << name_of(to);
        else
          EXPECT_EQ(a, b) << name_of(from) << " to " << name_of(to) << " of " << input.get(i);
      }
    }
}

TEST(CpuMap, RoundingToBf16IsExactForAllUpperHalves) {
  const Shape space{1 << 18};
  Bytes input({DType::kF32, space});
  for (int64_t i = 0; i < space.elements(); ++i) {
    constexpr uint32_t kLow[] = {0x0001, 0x7fff, 0x8000, 0x8001};
    const uint32_t bits = static_cast<uint32_t>(i >> 2) << 16 | kLow[i & 3];
    std::memcpy(input.data.data() + i * 4, &bits, 4);
  }
  const auto narrow = run("1:%1=cast[f32](%0)->%1", space, {input}, {{DType::kBF16, space}}, 2);
  const auto half = run("1:%1=cast[f32](%0)->%1", space, {input}, {{DType::kF16, space}}, 2);
  for (int64_t i = 0; i < space.elements(); ++i) {
    float value;
    uint16_t bits, half_bits;
    std::memcpy(&value, input.data.data() + i * 4, 4);
    std::memcpy(&bits, narrow[0].data.data() + i * 2, 2);
    std::memcpy(&half_bits, half[0].data.data() + i * 2, 2);
    ASSERT_EQ(bits, f32_to_bf16(value)) << value;
    if (!std::isnan(value)) {
      ASSERT_EQ(half_bits, f32_to_f16(value)) << value;
    }
  }
}

TEST(CpuMap, SelectsAndEmptySpaces) {
  const Shape space{5, 33};
  const std::vector<Bytes> inputs{filled(DType::kBool, space, 1), filled(DType::kBF16, {33}, 2),
                                  filled(DType::kF32, {5, 1}, 3)};
  const auto picked = run("3:%3=select(%0,%1,%2)->%3", space, inputs, {{DType::kF32, space}}, 2);
  for (int64_t e = 0; e < space.elements(); ++e)
    EXPECT_EQ(picked[0].get(e), inputs[0].get(e) ? inputs[1].get(e % 33) : inputs[2].get(e / 33));
  const auto none = run("1:%1=exp(%0)->%1,sum_rows(%1)", {0, 4}, {Bytes({DType::kF32, {0, 4}})},
                        {{DType::kF32, {0, 4}}, {DType::kF32, Shape{4}}}, 2);
  for (int64_t c = 0; c < 4; ++c) EXPECT_EQ(none[1].get(c), 0);
  const auto hollow =
      run("1:%1=exp(%0)->sum_last(%1)", {3, 0}, {Bytes({DType::kF32, {3, 0}})}, {{DType::kF32, Shape{3}}}, 2);
  for (int64_t r = 0; r < 3; ++r) EXPECT_EQ(hollow[0].get(r), 0);
}

}  // namespace
}  // namespace ramet::tests
