#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/card_tools.h"
#include "kernel/kernel_tools.h"
#include "ramet/ops/exact_sum.h"

// Optimizers, exact sums and roundings on the card, against the host's kernels.

namespace ramet::tests {
namespace {

constexpr int64_t kSizes[] = {0, 1, 3, 4, 31, 257, 4096, 4099, 20'011};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

HostTensor scalar(double value) { return HostTensor::of(DType::kF32, Shape{}, {value}); }
HostTensor counter(int64_t step, int64_t batch) {
  return HostTensor::of(DType::kI64, Shape{2}, {static_cast<double>(step), static_cast<double>(batch)});
}
HostTensor random(DType dtype, int64_t elements, uint64_t which, double size = 1) {
  HostTensor out(TensorType{dtype, Shape{elements}});
  const HostTensor numbers = random_tensor(DType::kF32, Shape{elements}, which);
  for (int64_t i = 0; i < elements; ++i) out.set(i, size * numbers.get(i));
  return out;
}
/// Squares' means: not negative.
HostTensor positive(DType dtype, int64_t elements, uint64_t which, double size = 1) {
  HostTensor out = random(dtype, elements, which, size);
  for (int64_t i = 0; i < elements; ++i) out.set(i, std::abs(out.get(i)));
  return out;
}

void check(const std::string& op, const std::vector<HostTensor>& inputs, const Attributes& attributes) {
  SCOPED_TRACE(op + ", " + inputs[0].type.text() + " " + inputs[1 % inputs.size()].type.text());
  const NodeSignature node = node_of(op, inputs, attributes);
  expect_card_equals_host(node, inputs, {.must_be_on_card = true, .bits = Bits::kAnyNan, .aliases = true});
}

// --- exact sums ---

void check_squares(const HostTensor& from) { check("sum_squares", {from}, {}); }

TEST(CardSums, SquaresOfEveryTypeAndSize) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2})
    for (const int64_t size : kSizes) check_squares(random(dtype, size, 1));
}

TEST(CardSums, SquaresOfEveryBitPattern) {
  for (const int64_t size : {1, 37, 5000, 20'011}) {
    check_squares(random_bits(DType::kF32, Shape{size}, 2));
    check_squares(random_bits(DType::kBF16, Shape{size}, 3));
    check_squares(random_bits(DType::kF16, Shape{size}, 4));
  }
}

TEST(CardSums, SquaresOfWildMagnitudes) {
  const int64_t size = 9001;
  for (const int spread : {10, 40, 120, 149}) {
    HostTensor from = random(DType::kF32, size, 5);
    for (int64_t i = 0; i < size; ++i) {
      const int exponent = static_cast<int>(i * 7919 % (2 * spread)) - spread;
      from.set(i, std::ldexp(from.get(i), exponent));
    }
    check_squares(from);
  }
}

TEST(CardSums, SquaresOfGrowingAndShrinkingMagnitudes) {
  const int64_t size = 12'000;
  HostTensor growing = random(DType::kF32, size, 6), shrinking = growing;
  for (int64_t i = 0; i < size; ++i) {
    growing.set(i, std::ldexp(growing.get(i), static_cast<int>(i / 45) - 140));
    shrinking.set(i, std::ldexp(shrinking.get(i), 127 - static_cast<int>(i / 45)));
  }
  check_squares(growing);
  check_squares(shrinking);
}

TEST(CardSums, SquaresOfGreatestLeastAndZeros) {
  const int64_t size = 5003;
  for (const double value : {0.0, -0.0, static_cast<double>(std::numeric_limits<float>::max()),
                             static_cast<double>(std::numeric_limits<float>::denorm_min()), 0x1p-126, 1.0}) {
    HostTensor from(TensorType{DType::kF32, Shape{size}});
    for (int64_t i = 0; i < size; ++i) from.set(i, i % 3 == 0 ? -value : value);
    check_squares(from);
  }
  HostTensor sparse(TensorType{DType::kF32, Shape{size}});
  sparse.set(4321, 0x1p-149);
  sparse.set(17, 3e38);
  sparse.set(2500, kInfinity);
  sparse.set(2501, std::nan(""));
  check_squares(sparse);
}

TEST(CardSums, Underflow) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2})
    for (const int64_t size : {0, 5, 4096, 9001}) {
      check("count_underflow", {random(dtype, size, 7, 3e-5)}, {});
      check("count_underflow", {random_bits(dtype, Shape{size}, 8)}, {});
    }
}

/// Sums as they come, carried or not.
HostTensor some_sum(uint64_t which) {
  HostTensor sum(ops::exact_type());
  auto* digits = reinterpret_cast<int64_t*>(sum.data.data());
  const RandomStream draw(which, RandomPurpose::kTest, 0, 0);
  const uint64_t last = which % 19;
  for (uint64_t k = 0; k <= last; ++k) digits[k] = static_cast<int64_t>(draw.bits(k));
  if (which % 11 == 3) digits[ops::kExactInfinities] = 2;
  if (which % 13 == 5) digits[ops::kExactNaNs] = 1;
  return sum;
}

TEST(CardSums, SumsOfSums) {
  for (const int count : {1, 2, 33, 500, 1000}) {
    std::vector<HostTensor> sums;
    for (int i = 0; i < count; ++i) sums.push_back(some_sum(static_cast<uint64_t>(i)));
    check("exact_sum", sums, {});
  }
}

TEST(CardSums, ValuesOfSums) {
  for (uint64_t which = 0; which < 60; ++which) check("from_exact", {some_sum(which)}, {});
  HostTensor one(ops::exact_type());
  for (int digit = 0; digit < ops::kExactDigits; ++digit)
    for (const int64_t value : {int64_t{1}, int64_t{0x80000000}, int64_t{0xffffffff}}) {
      reinterpret_cast<int64_t*>(one.data.data())[digit] = value;
      check("from_exact", {one}, {});
    }
  check("from_exact", {HostTensor(ops::exact_type())}, {});
}

// --- optimizers ---

/// Types of the weight, the gradient and the moments.
struct Types {
  DType weight, gradient, moment, square;
};
constexpr Types kTypes[] = {{DType::kF32, DType::kF32, DType::kF32, DType::kF32},
                            {DType::kF32, DType::kBF16, DType::kF32, DType::kF32},
                            {DType::kBF16, DType::kBF16, DType::kBF16, DType::kBF16},
                            {DType::kF16, DType::kF32, DType::kF16, DType::kF16},
                            {DType::kF32, DType::kF16, DType::kF8E4M3, DType::kF8E5M2}};

/// How states are held, behind the other operands.
struct Form {
  bool split = false, draws = false;
};

void hold(const Form& form, int64_t size, std::vector<HostTensor>& inputs, Attributes& attributes) {
  if (form.split) {
    attributes.set("split", true);
    inputs.push_back(random_bits(DType::kU16, Shape{size}, 20));
  }
  if (!form.draws) return;
  attributes.set("rounding", std::string("stochastic"));
  attributes.set("seed", int64_t{11});
  attributes.set("tensor", int64_t{0x123456789abcdef});
  inputs.push_back(counter(5, 3));
}

/// Runs `check_form(types, form, size)` for all that can be.
template <typename CheckForm>
void for_each_form(const CheckForm& check_form) {
  for (const Types& types : kTypes)
    for (const bool draws : {false, true}) {
      for (const int64_t size : kSizes) check_form(types, Form{.split = false, .draws = draws}, size);
      check_form(Types{DType::kBF16, types.gradient, types.moment, types.square}, Form{.split = true, .draws = draws},
                 int64_t{1003});
    }
}

TEST(CardUpdates, Sgd) {
  for_each_form([](const Types& types, const Form& form, int64_t size) {
    for (const double momentum : {0.0, 0.9})
      for (const double scale : {0.5, std::nan("")}) {
        Attributes attributes{{"momentum", momentum}, {"weight_decay", 0.01}};
        if (momentum != 0 && size % 2 == 1) attributes.set("nesterov", true);
        std::vector<HostTensor> inputs{random(types.weight, size, 1), random(types.gradient, size, 2)};
        if (momentum != 0) inputs.push_back(random(types.moment, size, 3, 0.1));
        inputs.push_back(scalar(0.1));
        inputs.push_back(scalar(scale));
        hold(form, size, inputs, attributes);
        check("sgd", inputs, attributes);
      }
  });
}

Attributes adam_attributes() { return {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-6}, {"weight_decay", 0.01}}; }

TEST(CardUpdates, Adam) {
  for_each_form([](const Types& types, const Form& form, int64_t size) {
    for (const bool decoupled : {false, true})
      for (const double scale : {0.25, static_cast<double>(kInfinity)}) {
        Attributes attributes = adam_attributes();
        attributes.set("decoupled", decoupled);
        std::vector<HostTensor> inputs{random(types.weight, size, 1),
                                       random(types.gradient, size, 2, 1e-3),
                                       random(types.moment, size, 3, 1e-3),
                                       positive(types.square, size, 4, 1e-6),
                                       scalar(1e-3),
                                       scalar(0.271),
                                       scalar(0.003),
                                       scalar(scale)};
        hold(form, size, inputs, attributes);
        check("adam", inputs, attributes);
      }
  });
}

TEST(CardUpdates, AdamOfEveryBitPattern) {
  const int64_t size = 4001;
  Attributes attributes = adam_attributes();
  attributes.set("decoupled", true);
  const auto bits = [&](uint64_t which) { return random_bits(DType::kF32, Shape{size}, which); };
  check("adam", {bits(1), bits(2), bits(3), bits(4), scalar(1e-3), scalar(0.271), scalar(0.003), scalar(1)},
        attributes);
}

TEST(CardUpdates, Lamb) {
  for_each_form([](const Types& types, const Form& form, int64_t size) {
    for (const double scale : {0.25, -static_cast<double>(kInfinity)}) {
      Attributes attributes = adam_attributes(), apply_attributes;
      std::vector<HostTensor> inputs{random(types.weight, size, 1),
                                     random(types.gradient, size, 2, 1e-3),
                                     random(types.moment, size, 3, 1e-3),
                                     positive(types.square, size, 4, 1e-6),
                                     scalar(0.271),
                                     scalar(0.003),
                                     scalar(scale)};
      hold(form, size, inputs, attributes);
      check("lamb_direction", inputs, attributes);
      for (const double squares : {0.0, 7.5}) {
        std::vector<HostTensor> apply{
            inputs[0], random(DType::kF32, size, 5), scalar(3.25), scalar(squares), scalar(1e-2), scalar(scale)};
        hold(form, size, apply, apply_attributes);
        check("lamb_apply", apply, apply_attributes);
        apply_attributes = {};
      }
    }
  });
}

TEST(CardUpdates, StepsForLargeBatches) {
  for (const int64_t size : kSizes)
    for (const double scale : {0.5, static_cast<double>(kInfinity)}) {
      const HostTensor w = random(DType::kF32, size, 1), g = random(DType::kF32, size, 2, 1e-2),
                       m = random(DType::kF32, size, 3, 1e-2);
      check("lion", {w, g, m, scalar(1e-3), scalar(scale)}, {{"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.1}});
      check("moving_average", {w, g, scalar(0.99), scalar(scale)}, {});
      for (const double moment : {0.0, 0.9}) {
        const auto with_moment = [&](std::vector<HostTensor> scalars) {
          std::vector<HostTensor> inputs{w, g};
          if (moment != 0) inputs.push_back(m);
          inputs.insert(inputs.end(), scalars.begin(), scalars.end());
          return inputs;
        };
        for (const double cap : {0.0, 1.5})
          check("lars", with_moment({scalar(7), scalar(0.3), scalar(0.1), scalar(scale)}),
                {{"momentum", moment}, {"weight_decay", 1e-4}, {"trust_coefficient", 1e-3}, {"norm_cap", cap}});
        for (const double clip : {0.0, 1e-3})
          check("adafactor_apply", with_moment({scalar(0.7), scalar(3), scalar(0.1), scalar(scale)}),
                {{"beta1", moment},
                 {"weight_decay", 1e-2},
                 {"elements", size},
                 {"scale_epsilon", 1e-3},
                 {"clip_threshold", clip}});
      }
    }
}

// --- narrow floats ---

TEST(CardRounding, NarrowAndAccumulate) {
  const std::pair<DType, DType> types[] = {{DType::kF32, DType::kF32},    {DType::kBF16, DType::kF32},
                                           {DType::kF32, DType::kBF16},   {DType::kF16, DType::kBF16},
                                           {DType::kF32, DType::kF16},    {DType::kBF16, DType::kF8E4M3},
                                           {DType::kF8E4M3, DType::kF32}, {DType::kF32, DType::kF8E5M2}};
  for (const auto& [from, to] : types)
    for (const bool draws : {false, true}) {
      const int64_t size = 2003;
      Attributes attributes{{"scale", 0.37}};
      std::vector<HostTensor> accumulate{random_bits(to, Shape{size}, 1), random_bits(from, Shape{size}, 2)};
      std::vector<HostTensor> narrow{random_bits(from, Shape{size}, 3)};
      hold({.split = false, .draws = draws}, size, accumulate, attributes);
      check("accumulate", accumulate, attributes);
      if (draws) narrow.push_back(accumulate.back());
      attributes.set("dtype", to);
      check("narrow", narrow, attributes);
      attributes.set("saturate", true);
      attributes.set("scale", 1.0);
      check("narrow", narrow, attributes);
    }
}

TEST(CardRounding, Halves) {
  for (const int64_t size : kSizes) {
    check("split_halves", {random_bits(DType::kF32, Shape{size}, 1)}, {});
    check("join_halves", {random_bits(DType::kBF16, Shape{size}, 2), random_bits(DType::kU16, Shape{size}, 3)}, {});
  }
}

}  // namespace
}  // namespace ramet::tests
