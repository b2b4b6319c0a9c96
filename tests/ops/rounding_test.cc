#include "ramet/ops/rounding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/rounding.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"

namespace ramet::tests {
namespace {

constexpr DType kNarrow[] = {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2};

uint32_t code_at(const void* codes, DType dtype, size_t i) {
  return size_of(dtype) == 2 ? static_cast<const uint16_t*>(codes)[i] : static_cast<const uint8_t*>(codes)[i];
}
bool is_nan_code(uint32_t code, DType dtype) { return std::isnan(load_element(&code, dtype, 0)); }

/// All numbers of a format, what lies half way and a quarter of the way between neighbours, and f32's nearest to those.
std::vector<float> boundaries(DType dtype) {
  std::vector<float> values;
  const FloatFormat& format = format_of(dtype);
  const auto add = [&](double value) {
    const auto middle = static_cast<float>(value);
    for (const float near : {std::nextafter(middle, -INFINITY), middle, std::nextafter(middle, INFINITY)})
      values.insert(values.end(), {near, -near});
  };
  double before = 0;
  for (uint32_t code = 0; code <= format.largest(); ++code) {
    const double value = load_element(&code, dtype, 0);
    for (const double part : {0.25, 0.5, 0.75, 1.0}) add(before + part * (value - before));
    before = value;
  }
  const double step = before - [&] {
    const uint32_t code = format.largest() - 1;
    return load_element(&code, dtype, 0);
  }();
  for (const double beyond : {0.25, 0.5, 0.75, 1.0, 2.0}) add(before + beyond * step);
  for (const float special : {0.0f, 1e-45f, 1e-30f, 3e38f, INFINITY, NAN})
    values.insert(values.end(), {special, -special});
  return values;
}

TEST(RoundingLoops, AreTheDoubleReferenceAtAllBoundaries) {
  for (const DType dtype : kNarrow)
    for (const bool saturate : {false, true}) {
      const std::vector<float> values = boundaries(dtype);
      std::vector<uint16_t> draws(values.size());
      const RandomStream stream(3, RandomPurpose::kTest, 0, 1);
      for (size_t i = 0; i < draws.size(); ++i) draws[i] = stream.bits16(i);
      std::vector<uint16_t> codes(values.size());
      const auto count = static_cast<int64_t>(values.size());
      for (const bool drawn : {false, true}) {
        cpu::rounding_loops().narrow(dtype, values.data(), count, codes.data(), drawn ? draws.data() : nullptr,
                                     saturate);
        for (size_t i = 0; i < values.size(); ++i) {
          const uint32_t expected = drawn ? round_stochastic(values[i], dtype, draws[i], saturate)
                                          : round_nearest(values[i], dtype, saturate);
          const uint32_t found = code_at(codes.data(), dtype, i);
          if (is_nan_code(expected, dtype) && is_nan_code(found, dtype)) continue;
          ASSERT_EQ(found, expected) << name_of(dtype) << " " << values[i] << " draw " << draws[i]
                                     << (drawn ? " drawn" : "") << (saturate ? " saturating" : "");
        }
      }
    }
}

/// Subnormal numbers whose fraction is the very one that decides for their draw, and f32's nearest to them.
TEST(RoundingLoops, DecideAsTheReferenceAtTheLimitOfADraw) {
  std::vector<float> values;
  std::vector<uint16_t> draws;
  const RandomStream stream(3, RandomPurpose::kTest, 0, 2);
  for (uint64_t i = 0; i < 4096; ++i) {
    const uint16_t draw = stream.bits16(i);
    const auto value = static_cast<float>(std::ldexp(static_cast<double>(i % 64) + (2.0 * draw + 1) * 0x1p-17, -24));
    for (const float near : {std::nextafter(value, 0.0f), value, std::nextafter(value, 1.0f)})
      values.push_back(i % 2 ? -near : near), draws.push_back(draw);
  }
  std::vector<uint16_t> codes(values.size());
  cpu::rounding_loops().narrow(DType::kF16, values.data(), static_cast<int64_t>(values.size()), codes.data(),
                               draws.data(), false);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(codes[i], round_stochastic(values[i], DType::kF16, draws[i], false)) << values[i] << " draw " << draws[i];
}

/// Every pattern of the upper half of an f32, with lower halves that decide roundings.
TEST(RoundingLoops, AreTheDoubleReferenceOverAllUpperHalves) {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 65536; ++upper)
    for (const uint32_t lower : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
  std::vector<uint16_t> codes(values.size());
  for (const DType dtype : kNarrow) {
    cpu::rounding_loops().narrow(dtype, values.data(), static_cast<int64_t>(values.size()), codes.data(), nullptr,
                                 false);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t expected = round_nearest(values[i], dtype), found = code_at(codes.data(), dtype, i);
      if (std::isnan(values[i]) && is_nan_code(found, dtype)) continue;
      ASSERT_EQ(found, expected) << name_of(dtype) << " " << values[i];
    }
  }
}

TEST(RoundingLoops, WidenAllCodes) {
  for (const DType dtype : kNarrow) {
    const uint32_t all = 1u << (8 * size_of(dtype));
    std::vector<std::byte> codes(all * size_of(dtype) + 8);
    for (uint32_t code = 0; code < all; ++code)
      std::memcpy(codes.data() + code * size_of(dtype), &code, size_of(dtype));
    std::vector<float> values(all);
    // By an odd number, so that a tail is there.
    cpu::rounding_loops().widen(dtype, codes.data(), all - 3, values.data());
    cpu::rounding_loops().widen(dtype, codes.data() + (all - 3) * size_of(dtype), 3, values.data() + all - 3);
    for (uint32_t code = 0; code < all; ++code) {
      const double expected = load_element(codes.data(), dtype, code);
      ASSERT_TRUE(std::isnan(expected)
                      ? std::isnan(values[code])
                      : values[code] == expected && std::signbit(values[code]) == std::signbit(expected))
          << name_of(dtype) << " " << code;
    }
  }
}

TEST(RoundingLoops, SplitAndJoinKeepEveryNumber) {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 65536; ++upper)
    for (const uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
  const auto count = static_cast<int64_t>(values.size());
  std::vector<uint16_t> high(values.size()), low(values.size());
  std::vector<float> back(values.size());
  cpu::rounding_loops().split(values.data(), count, high.data(), low.data());
  cpu::rounding_loops().join(high.data(), low.data(), count, back.data());
  for (size_t i = 0; i < values.size(); ++i) {
    const SplitFloat halves = split_f32(values[i]);
    ASSERT_EQ(halves.high, high[i]);
    ASSERT_EQ(halves.low, low[i]);
    if (std::isnan(values[i])) {
      ASSERT_TRUE(std::isnan(back[i]));
      continue;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(values[i]));
    ASSERT_EQ(std::bit_cast<uint32_t>(join_f32(halves)), std::bit_cast<uint32_t>(values[i]));
    // The high half is what a cast gives, but for numbers exactly half way to a code that is odd.
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
    if ((bits & 0xffff) != 0x8000 || (bits >> 16 & 1)) {
      ASSERT_EQ(high[i], f32_to_bf16(values[i]));
    }
  }
}

/// The mean of 10^7 draws is the number itself, within 4 standard errors, also where f16 and f8 are subnormal.
TEST(StochasticRounding, IsUnbiased) {
  constexpr int64_t kDraws = 10'000'000, kPart = 1 << 16;
  const std::vector<std::pair<DType, float>> cases = {
      {DType::kF16, 1.0003f},  {DType::kF16, -0.3337f},   {DType::kF16, 1.3e-7f},  {DType::kF16, 2e-9f},
      {DType::kBF16, 1.001f},  {DType::kBF16, -3.33e-5f}, {DType::kF8E4M3, 1.03f}, {DType::kF8E4M3, 0.0011f},
      {DType::kF8E5M2, 2.81f}, {DType::kF8E5M2, 1.7e-6f}};
  uint64_t tensor = 0;
  for (const auto& [dtype, value] : cases) {
    const RandomStream stream(11, RandomPurpose::kRounding, 4, ++tensor);
    std::vector<float> values(kPart, value), wide(kPart);
    std::vector<uint16_t> codes(kPart), room(kPart + cpu::kDrawSlack);
    double sum = 0, squares = 0;
    for (int64_t done = 0; done < kDraws; done += kPart) {
      const int64_t count = std::min(kPart, kDraws - done);
      const uint16_t* draws = cpu::rounding_loops().draw(stream, static_cast<uint64_t>(done), count, room.data());
      cpu::rounding_loops().narrow(dtype, values.data(), count, codes.data(), draws, false);
      cpu::rounding_loops().widen(dtype, codes.data(), count, wide.data());
      for (int64_t i = 0; i < count; ++i) {
        const double error = static_cast<double>(wide[static_cast<size_t>(i)]) - value;
        sum += error, squares += error * error;
      }
    }
    const double mean = sum / kDraws, standard_error = std::sqrt(squares / kDraws / kDraws);
    EXPECT_GT(standard_error, 0) << name_of(dtype) << " " << value;
    EXPECT_LT(std::fabs(mean), 4 * standard_error) << name_of(dtype) << " " << value;
  }
}

/// Outputs that share an element's bits: any two shares of numbers below round up together as often as by chance.
TEST(StochasticRounding, OfTwoOutputsHardlyDependOnEachOther) {
  constexpr int kParts = 64, kWidth = 65536 / kParts;
  for (int first = 0; first < 4; ++first)
    for (int second = first + 1; second < 4; ++second) {
      std::vector<double> together(kParts * kParts);
      std::vector<bool> seen(65536);
      for (uint32_t bits = 0; bits < 65536; ++bits) {
        const auto a = static_cast<uint16_t>(bits * rounding_factor(first)),
                   b = static_cast<uint16_t>(bits * rounding_factor(second));
        together[static_cast<size_t>(a / kWidth * kParts + b / kWidth)] += 1.0 / 65536;
        EXPECT_FALSE(seen[b]);  // so that each is unbiased
        seen[b] = true;
      }
      std::vector<double> column(kParts);
      for (int i = 0; i < kParts; ++i) {
        double sum = 0;
        for (int j = 0; j < kParts; ++j) {
          sum += together[static_cast<size_t>(i * kParts + j)];
          column[static_cast<size_t>(j)] += sum;
          const double chance = static_cast<double>((i + 1) * (j + 1)) / (kParts * kParts);
          ASSERT_NEAR(column[static_cast<size_t>(j)], chance, 2e-4) << first << " " << second << " " << i << " " << j;
        }
      }
    }
}

TEST(StochasticRounding, LeavesNumbersOfTheFormat) {
  for (const DType dtype : kNarrow)
    for (uint32_t code = 0; code <= format_of(dtype).largest(); ++code)
      for (const uint16_t draw : {0, 1, 32768, 65535})
        ASSERT_EQ(round_stochastic(load_element(&code, dtype, 0), dtype, static_cast<uint16_t>(draw)), code)
            << name_of(dtype);
}

/// A state of f16 moments comes back as what it stood for, as far as f16 goes.
TEST(StateRoles, HoldSmallMomentsInHalves) {
  for (const double value : {1e-7, 3e-5, 0.01, 1.0, 50.0})
    for (const StateRole role : {StateRole::kMoment, StateRole::kSquare}) {
      const uint32_t code = round_nearest(state_stored(value, DType::kF16, role), DType::kF16, true);
      const double back = state_value(load_element(&code, DType::kF16, 0), DType::kF16, role);
      EXPECT_NEAR(back, value, value * 1e-3) << value;
    }
}

/// In f16 by vectors as by hand, whole vectors of normal numbers, of subnormal ones and of both.
TEST(StateRoles, AreTheSameByVectors) {
  const std::vector<float> all = boundaries(DType::kF16);
  const RandomStream stream(5, RandomPurpose::kTest, 0, 2);
  for (const StateRole role : {StateRole::kPlain, StateRole::kMoment, StateRole::kSquare}) {
    std::vector<float> values;
    for (const float value : all) {
      const float scaled = role == StateRole::kPlain ? value : value / kHalfStateScale;
      values.push_back(role == StateRole::kSquare ? std::fabs(scaled * scaled) : scaled);
    }
    const auto count = static_cast<int64_t>(values.size());
    std::vector<uint16_t> draws(values.size()), codes(values.size());
    for (size_t i = 0; i < draws.size(); ++i) draws[i] = stream.bits16(i);
    std::vector<float> back(values.size());
    for (const bool drawn : {false, true}) {
      cpu::rounding_loops().narrow_state(DType::kF16, role, values.data(), count, codes.data(),
                                         drawn ? draws.data() : nullptr, true);
      cpu::rounding_loops().widen_state(DType::kF16, role, codes.data(), count, back.data());
      for (size_t i = 0; i < values.size(); ++i) {
        const float stored = state_stored(values[i], DType::kF16, role);
        const uint32_t expected =
            drawn ? round_stochastic(stored, DType::kF16, draws[i], true) : round_nearest(stored, DType::kF16, true);
        if (is_nan_code(expected, DType::kF16) && is_nan_code(codes[i], DType::kF16)) continue;
        ASSERT_EQ(codes[i], expected) << values[i] << " draw " << draws[i];
        ASSERT_EQ(back[i], state_value(static_cast<float>(load_element(&expected, DType::kF16, 0)), DType::kF16, role));
      }
    }
  }
}

TEST(Narrow, RefusesWhatItCannotDo) {
  const auto error_of = [](Attributes attributes, std::vector<TensorType> inputs) {
    Graph graph("g");
    std::vector<ValueId> ids;
    for (const TensorType& type : inputs)
      ids.push_back(graph.add_input("in" + std::to_string(ids.size()), type, InputRole::kData));
    try {
      graph.add_node(OpRegistry::instance().get("narrow"), ids, std::move(attributes), "n");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const TensorType a{DType::kF32, {2}};
  EXPECT_THAT(error_of({{"dtype", DType::kI32}}, {a}), testing::HasSubstr("cannot round to this type"));
  EXPECT_THAT(error_of({{"dtype", DType::kF16}, {"rounding", std::string("up")}}, {a}),
              testing::AllOf(testing::HasSubstr("unknown rounding"), testing::HasSubstr("nearest or stochastic")));
  EXPECT_THAT(error_of({{"dtype", DType::kF16}, {"rounding", std::string("stochastic")}}, {a}),
              testing::HasSubstr("needs the attribute 'seed'"));
  EXPECT_THAT(error_of({{"dtype", DType::kF16},
                        {"rounding", std::string("stochastic")},
                        {"seed", int64_t{1}},
                        {"tensor", int64_t{2}}},
                       {a}),
              testing::HasSubstr("needs the counter as last input"));
  EXPECT_THAT(error_of({{"dtype", DType::kF16}}, {{DType::kI32, {2}}}), testing::HasSubstr("f"));
}

}  // namespace
}  // namespace ramet::tests
