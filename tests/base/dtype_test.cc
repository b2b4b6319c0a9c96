#include "ramet/base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "ramet/base/error.h"

namespace ramet::tests {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A small float format as its definition reads, and the functions under test for it.
struct SmallFloat {
  const char* name;
  DType dtype;
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;
  std::function<uint32_t(float)> encode;
  std::function<float(uint32_t)> decode;

  uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
  uint32_t top() const { return (1u << exponent_bits) - 1; }
  uint32_t mantissa_mask() const { return (1u << mantissa_bits) - 1; }
  bool is_nan(uint32_t bits) const {
    const uint32_t exponent = bits >> mantissa_bits & top(), mantissa = bits & mantissa_mask();
    return exponent == top() && (has_infinity ? mantissa != 0 : mantissa == mantissa_mask());
  }
  bool is_infinite(uint32_t bits) const {
    return has_infinity && (bits >> mantissa_bits & top()) == top() && (bits & mantissa_mask()) == 0;
  }
  /// The value by the definition, in double.
  double value(uint32_t bits) const {
    const int exponent = static_cast<int>(bits >> mantissa_bits & top());
    const double fraction = (bits & mantissa_mask()) / static_cast<double>(1u << mantissa_bits);
    const double magnitude = is_infinite(bits) ? HUGE_VAL
                             : exponent == 0   ? std::pow(2.0, 1 - bias) * fraction
                                               : std::pow(2.0, exponent - bias) * (1 + fraction);
    return bits & sign_bit() ? -magnitude : magnitude;
  }
  uint32_t largest_finite() const {
    uint32_t bits = sign_bit() - 1;
    while (is_nan(bits) || is_infinite(bits)) --bits;
    return bits;
  }
};

std::vector<SmallFloat> small_floats() {
  return {{"f16", DType::kF16, 5, 10, 15, true, f32_to_f16,
           [](uint32_t b) { return f16_to_f32(static_cast<uint16_t>(b)); }},
          {"bf16", DType::kBF16, 8, 7, 127, true, f32_to_bf16,
           [](uint32_t b) { return bf16_to_f32(static_cast<uint16_t>(b)); }},
          {"f8e4m3", DType::kF8E4M3, 4, 3, 7, false, f32_to_f8e4m3,
           [](uint32_t b) { return f8e4m3_to_f32(static_cast<uint8_t>(b)); }},
          {"f8e5m2", DType::kF8E5M2, 5, 2, 15, true, f32_to_f8e5m2,
           [](uint32_t b) { return f8e5m2_to_f32(static_cast<uint8_t>(b)); }}};
}

TEST(DType, EveryPatternDecodesToItsDefinition) {
  for (const auto& format : small_floats())
    for (uint32_t bits = 0; bits < 2 * format.sign_bit(); ++bits) {
      const float value = format.decode(bits);
      if (format.is_nan(bits)) {
        ASSERT_TRUE(std::isnan(value)) << format.name << " " << bits;
      } else {
        ASSERT_EQ(static_cast<double>(value), format.value(bits)) << format.name << " " << bits;
        ASSERT_EQ(std::signbit(value), (bits & format.sign_bit()) != 0) << format.name << " " << bits;
      }
    }
}

TEST(DType, EveryPatternSurvivesTheWayThere) {
  for (const auto& format : small_floats())
    for (uint32_t bits = 0; bits < 2 * format.sign_bit(); ++bits) {
      const uint32_t back = format.encode(format.decode(bits));
      if (format.is_nan(bits)) {
        ASSERT_TRUE(format.is_nan(back)) << format.name << " " << bits;
      } else {
        ASSERT_EQ(back, bits) << format.name;
      }
    }
}

// Between each two neighbours: the midpoint goes to the even one, and the floats beside it to the nearer one.
TEST(DType, RoundsToNearestEvenBetweenAllNeighbours) {
  for (const auto& format : small_floats())
    for (uint32_t low = 0; low < format.largest_finite(); ++low) {
      const double middle = (format.value(low) + format.value(low + 1)) / 2;
      const auto tie = static_cast<float>(middle);
      const uint32_t even = low % 2 == 0 ? low : low + 1;
      for (const uint32_t sign : {0u, format.sign_bit()}) {
        const float direction = sign ? -1 : 1;
        if (static_cast<double>(tie) == middle) {
          ASSERT_EQ(format.encode(direction * tie), sign | even) << format.name << " tie after " << low;
        }
        ASSERT_EQ(format.encode(direction * std::nextafter(tie, 0.0f)), sign | low) << format.name << " " << low;
        ASSERT_EQ(format.encode(direction * std::nextafter(tie, kInfinity)), sign | (low + 1))
            << format.name << " " << low;
      }
    }
}

TEST(DType, OverflowsAsTheFormatSays) {
  for (const auto& format : small_floats()) {
    const uint32_t last = format.largest_finite();
    const double step = format.value(last) - format.value(last - 1);
    // Half a step beyond the largest is a tie between it and the value that would come next.
    const auto edge = static_cast<float>(format.value(last) + step / 2);
    const auto overflow = [&](uint32_t bits) {
      return format.has_infinity ? format.is_infinite(bits) : format.is_nan(bits);
    };
    EXPECT_EQ(format.encode(std::nextafter(edge, 0.0f)), last) << format.name;
    if (last % 2 == 0) {
      EXPECT_EQ(format.encode(edge), last) << format.name;
    } else {
      EXPECT_TRUE(overflow(format.encode(edge))) << format.name;
    }
    EXPECT_TRUE(overflow(format.encode(std::nextafter(edge, kInfinity)))) << format.name;
    EXPECT_TRUE(overflow(format.encode(kInfinity)));
    EXPECT_TRUE(overflow(format.encode(-kInfinity)));
    EXPECT_EQ(format.encode(-kInfinity) & format.sign_bit(), format.sign_bit());
  }
}

TEST(DType, TinyValuesBecomeZeroWithTheirSign) {
  for (const auto& format : small_floats()) {
    const auto half = static_cast<float>(format.value(1) / 2);
    EXPECT_EQ(format.encode(half), 0u) << format.name;
    EXPECT_EQ(format.encode(-half), format.sign_bit()) << format.name;
    EXPECT_EQ(format.encode(0.0f), 0u);
    EXPECT_EQ(format.encode(-0.0f), format.sign_bit());
    EXPECT_EQ(format.encode(std::numeric_limits<float>::denorm_min()), 0u);
  }
}

TEST(DType, NanStaysNanWithItsSign) {
  for (const auto& format : small_floats())
    for (const uint32_t pattern : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xffc00000u, 0xff800001u}) {
      const uint32_t bits = format.encode(std::bit_cast<float>(pattern));
      EXPECT_TRUE(format.is_nan(bits)) << format.name << " " << std::hex << pattern;
      EXPECT_EQ((bits & format.sign_bit()) != 0, pattern >> 31 != 0) << format.name << " " << std::hex << pattern;
    }
}

// A double just beside a tie must not be rounded to float, and so onto the tie, first.
TEST(DType, StoringADoubleRoundsOnce) {
  for (const auto& format : small_floats())
    for (uint32_t low = 0; low < format.largest_finite(); low += format.mantissa_bits > 6 ? 97 : 1) {
      const double middle = (format.value(low) + format.value(low + 1)) / 2;
      uint32_t stored = 0;
      store_element(&stored, format.dtype, 0, std::nextafter(middle, 0.0));
      ASSERT_EQ(stored, low) << format.name;
      store_element(&stored, format.dtype, 0, std::nextafter(middle, HUGE_VAL));
      ASSERT_EQ(stored, low + 1) << format.name;
      store_element(&stored, format.dtype, 0, middle);
      ASSERT_EQ(stored, low % 2 ? low + 1 : low) << format.name;
    }
}

TEST(DType, ElementsAreReadAndWrittenInPlace) {
  for (int kind = 0; kind < kDTypeCount; ++kind) {
    const auto dtype = static_cast<DType>(kind);
    std::vector<unsigned char> bytes(5 * size_of(dtype), 0xEE);
    store_element(bytes.data(), dtype, 2, 1);
    EXPECT_EQ(load_element(bytes.data(), dtype, 2), 1) << name_of(dtype);
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (i / size_of(dtype) != 2) {
        EXPECT_EQ(bytes[i], 0xEE) << name_of(dtype) << " byte " << i;
      }
    }
  }
}

TEST(DType, IntegersDropTheFractionAndStayInRange) {
  const auto round_trip = [](DType dtype, double value) {
    int64_t room = 0;
    store_element(&room, dtype, 0, value);
    return load_element(&room, dtype, 0);
  };
  EXPECT_EQ(round_trip(DType::kI32, 2.9), 2);
  EXPECT_EQ(round_trip(DType::kI32, -2.9), -2);
  EXPECT_EQ(round_trip(DType::kI32, 1e300), 2147483647);
  EXPECT_EQ(round_trip(DType::kI32, -HUGE_VAL), -2147483648.0);
  EXPECT_EQ(round_trip(DType::kI32, NAN), 0);
  EXPECT_EQ(round_trip(DType::kI64, -0x1p70), -0x1p63);
  EXPECT_EQ(round_trip(DType::kI64, 0x1p70), 0x1p63);
  EXPECT_EQ(round_trip(DType::kI64, 1 - 0x1p53), 1 - 0x1p53);
  EXPECT_EQ(round_trip(DType::kU8, 255.5), 255);
  EXPECT_EQ(round_trip(DType::kU8, -1), 0);
  EXPECT_EQ(round_trip(DType::kI8, 200), 127);
  EXPECT_EQ(round_trip(DType::kI8, -200), -128);
  EXPECT_EQ(round_trip(DType::kI16, 1e9), 32767);
  EXPECT_EQ(round_trip(DType::kU16, 65535.9), 65535);
  EXPECT_EQ(round_trip(DType::kU32, 5e9), 4294967295.0);
  EXPECT_EQ(round_trip(DType::kU64, 0x1p70), 0x1p64);
  EXPECT_EQ(round_trip(DType::kU64, -3), 0);
  EXPECT_EQ(round_trip(DType::kBool, 0.1), 1);
  EXPECT_EQ(round_trip(DType::kBool, 0), 0);
}

TEST(DType, IntegersWrapWhereTheyAreStoredAsIntegers) {
  const auto round_trip = [](DType dtype, int64_t value) {
    int64_t room = 0;
    store_integer(&room, dtype, 0, value);
    EXPECT_EQ(load_integer(&room, dtype, 0), wrap_integer(value, dtype)) << name_of(dtype);
    return load_integer(&room, dtype, 0);
  };
  EXPECT_EQ(round_trip(DType::kI8, 200), -56);
  EXPECT_EQ(round_trip(DType::kU8, -1), 255);
  EXPECT_EQ(round_trip(DType::kI16, 40000), -25536);
  EXPECT_EQ(round_trip(DType::kU16, 65536 + 7), 7);
  EXPECT_EQ(round_trip(DType::kI32, int64_t{1} << 31), -(int64_t{1} << 31));
  EXPECT_EQ(round_trip(DType::kU32, -1), 4294967295);
  EXPECT_EQ(round_trip(DType::kU64, -1), -1);  // by its bits
  EXPECT_EQ(round_trip(DType::kI64, INT64_MIN), INT64_MIN);
  EXPECT_EQ(round_trip(DType::kBool, 256), 1);
  for (int kind = 0; kind < kDTypeCount; ++kind) {
    const auto dtype = static_cast<DType>(kind);
    if (!is_integer(dtype)) continue;
    EXPECT_EQ(lowest_of(dtype) < 0, !is_unsigned(dtype)) << name_of(dtype);
    int64_t room = 0;
    store_element(&room, dtype, 0, greatest_of(dtype));
    EXPECT_EQ(load_element(&room, dtype, 0), greatest_of(dtype)) << name_of(dtype);
    store_integer(&room, dtype, 0, load_integer(&room, dtype, 0) + (size_of(dtype) < 8 ? 1 : 0));
    if (size_of(dtype) < 8) {
      EXPECT_EQ(load_element(&room, dtype, 0), lowest_of(dtype)) << name_of(dtype);
    }
  }
}

TEST(DType, NamesAndBack) {
  for (int kind = 0; kind < kDTypeCount; ++kind) {
    const auto dtype = static_cast<DType>(kind);
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
    EXPECT_FALSE(is_floating(dtype) && is_integer(dtype));
  }
  EXPECT_EQ(size_of(DType::kBF16), 2u);
  EXPECT_EQ(size_of(DType::kI64), 8u);
}

TEST(DType, AnUnknownNameIsRefusedWithTheKnownOnes) {
  try {
    dtype_from_name("float32");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "unknown element type; found 'float32'; expected one of f32, f16, bf16, f8e4m3, f8e5m2, i32, i64, bool, u8, u16, "
        "f64, i8, i16, u32, u64");
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
  try {
    dtype_from_name("complex64");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().what, "complex numbers are not supported");
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace ramet::tests
