// Map programs as one loop of machine code: the bits of their steps one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "kernel/map_tools.h"

namespace ramet::tests {
namespace {

/// Numbers of all kinds: NaN, infinities, zeros of both signs and denormal ones among them.
Bytes drawn(DType dtype, const Shape& shape, std::mt19937& random) {
  static const float kSpecial[] = {0.0f,
                                   -0.0f,
                                   1.0f,
                                   -1.0f,
                                   std::numeric_limits<float>::infinity(),
                                   -std::numeric_limits<float>::infinity(),
                                   std::nanf(""),
                                   1e-40f,
                                   -3e-39f,
                                   3e38f};
  std::uniform_real_distribution<double> uniform(-3, 3);
  Bytes numbers({dtype, shape});
  for (int64_t i = 0; i < numbers.type.elements(); ++i) {
    const double number =
        random() % 8 == 0 ? static_cast<double>(kSpecial[random() % std::size(kSpecial)]) : uniform(random);
    numbers.set(i, dtype == DType::kBool ? number > 0 : number);
  }
  return numbers;
}

std::string immediates(const MapOpInfo& info) {
  if (info.parameters == 0) return "";
  return info.parameters == 1 ? "[0.375]" : "[-1.25,1.5]";
}

/// A program of steps that are drawn among all cheap ones, with its values as programs of one step make them.
class Drawn {
 public:
  Drawn(uint32_t seed, Shape space) : random_(seed), space_(std::move(space)) {
    const int64_t columns = space_.dim(-1);
    const Shape shapes[] = {space_, space_, Shape{columns}, Shape{1}, Shape{space_.dim(0), 1}};
    inputs_ = 1 + static_cast<int>(random_() % 5);
    for (int i = 0; i < inputs_; ++i) {
      const DType dtype = i > 0 && random_() % 3 == 0 ? DType::kBF16 : DType::kF32;
      made_.push_back(drawn(dtype, i == 0 ? space_ : shapes[random_() % 5], random_));
    }
    text_ = std::to_string(inputs_) + ":";
    for (int step = 1 + static_cast<int>(random_() % 14); step > 0; --step) add_step();
  }

  void expect_bits_of_single_steps() {
    std::vector<TensorType> types;
    std::vector<Bytes> expected;
    std::string outputs;
    const int count = static_cast<int>(made_.size());
    for (int i = 0, n = 1 + static_cast<int>(random_() % 4); i < n; ++i) {
      const int value = i == 0 ? count - 1 : static_cast<int>(random_() % static_cast<uint32_t>(count));
      const bool truth = made_[static_cast<size_t>(value)].type.dtype == DType::kBool;
      const uint32_t kind = truth ? 0 : random_() % 5;
      const std::string reduce = kind == 3 ? "sum_rows" : kind == 4 ? "sum_last" : "";
      const DType dtype = truth ? DType::kBool : kind == 1 ? DType::kBF16 : kind == 2 ? DType::kF16 : DType::kF32;
      types.push_back({dtype, kind == 3 ? Shape{space_.dim(-1)} : kind == 4 ? Shape{space_.dim(0)} : space_});
      const auto wrapped = [&](const std::string& name) { return reduce.empty() ? name : reduce + "(" + name + ")"; };
      outputs += (i == 0 ? "->" : ",") + wrapped("%" + std::to_string(value));
      expected.push_back(
          with_one_nan(run("1:->" + wrapped("%0"), space_, {made_[static_cast<size_t>(value)]}, {types.back()}))[0]);
    }
    const std::vector<Bytes> inputs(made_.begin(), made_.begin() + inputs_);
    const bool in_place = types[0].dtype == DType::kF32 && types[0].shape == space_;
    for (const auto& [threads, over] : {std::pair(1, false), std::pair(3, false), std::pair(2, in_place)}) {
      const std::vector<Bytes> results =
          with_one_nan(run(text_ + outputs, space_, inputs, types, threads, over ? 0 : -1));
      for (size_t i = 0; i < results.size(); ++i)
        ASSERT_EQ(std::memcmp(results[i].data.data(), expected[i].data.data(), expected[i].data.size()), 0)
            << text_ << outputs << ", output " << i << " over " << space_.text() << ", " << threads << " threads"
            << (over ? ", the first output in place of the first input" : "");
    }
  }

 private:
  int any_of(bool truth) {
    std::vector<int> values;
    for (size_t i = 0; i < made_.size(); ++i)
      if ((made_[i].type.dtype == DType::kBool) == truth) values.push_back(static_cast<int>(i));
    return values.empty() ? -1 : values[random_() % values.size()];
  }

  void add_step() {
    static const char* const kNames[] = {"add",        "subtract",      "multiply",        "divide",    "square",
                                         "scale",      "add_scalar",    "negate",          "abs",       "sqrt",
                                         "rsqrt",      "reciprocal",    "maximum",         "minimum",   "relu",
                                         "leaky_relu", "relu_grad",     "leaky_relu_grad", "clamp",     "clamp_grad",
                                         "round_bf16", "stop_gradient", "equal",           "not_equal", "less",
                                         "less_equal", "greater",       "greater_equal",   "select",    "exp"};
    // "exp" is more than a few instructions: its programs are not compiled.
    const char* name = kNames[random_() % (random_() % 16 == 0 ? std::size(kNames) : std::size(kNames) - 1)];
    const MapOpInfo& info = map_op(name);
    std::vector<int> operands;
    for (int i = 0; i < info.arity; ++i) operands.push_back(any_of(info.types == MapOpTypes::kSelect && i == 0));
    if (std::ranges::count(operands, -1)) return;
    const bool truth = info.types == MapOpTypes::kCompare;
    std::string own = std::to_string(operands.size()) + ":%" + std::to_string(operands.size()) + "=",
                call = name + immediates(info) + "(", own_call = call;
    std::vector<Bytes> own_inputs;
    for (size_t i = 0; i < operands.size(); ++i) {
      call += (i ? ",%" : "%") + std::to_string(operands[i]);
      own_call += (i ? ",%" : "%") + std::to_string(i);
      own_inputs.push_back(made_[static_cast<size_t>(operands[i])]);
    }
    own += own_call + ")->%" + std::to_string(operands.size());
    text_ += (text_.back() == ':' ? "%" : ";%") + std::to_string(made_.size()) + "=" + call + ")";
    made_.push_back(run(own, space_, own_inputs, {{truth ? DType::kBool : DType::kF32, space_}})[0]);
  }

  std::mt19937 random_;
  Shape space_;
  std::vector<Bytes> made_;  ///< values of inputs and steps, whole or as inputs broadcast
  int inputs_ = 0;
  std::string text_;
};

TEST(CompiledMap, HasTheBitsOfSingleSteps) {
  const Shape spaces[] = {Shape{1, 16}, Shape{37, 64},  Shape{5, 7},    Shape{3, 1500},  Shape{200, 24}, Shape{70, 33},
                          Shape{1, 1},  Shape{130, 48}, Shape{67, 128}, Shape{66, 1024}, Shape{66, 512}};
  for (uint32_t seed = 0; seed < 2000 && !testing::Test::HasFatalFailure(); ++seed)
    Drawn(seed, spaces[seed % std::size(spaces)]).expect_bits_of_single_steps();
}

// More values at once than there are vector registers.
TEST(CompiledMap, LongProgramsAreRunToo) {
  std::mt19937 random(3);
  const Shape space{9, 48};
  const Bytes input = drawn(DType::kF32, space, random);
  std::string text = "1:%1=scale[0.5](%0)";
  for (int i = 2; i <= 40; ++i) text += ";%" + std::to_string(i) + "=add(%0,%" + std::to_string(i - 1) + ")";
  for (int i = 41; i <= 79; ++i)
    text += ";%" + std::to_string(i) + "=multiply(%" + std::to_string(i - 1) + ",%" + std::to_string(80 - i) + ")";
  const std::vector<Bytes> found = run(text + "->%79", space, {input}, {{DType::kF32, space}});
  for (int64_t i = 0; i < space.elements(); ++i) {
    const auto x = static_cast<float>(load_element(input.data.data(), DType::kF32, i));
    std::vector<float> values = {x, 0.5f * x};
    for (int v = 2; v <= 40; ++v) values.push_back(x + values.back());
    for (int v = 41; v <= 79; ++v) values.push_back(values.back() * values[static_cast<size_t>(80 - v)]);
    const auto got = static_cast<float>(load_element(found[0].data.data(), DType::kF32, i));
    EXPECT_TRUE(got == values.back() || (std::isnan(got) && std::isnan(values.back()))) << i;
  }
}

}  // namespace
}  // namespace ramet::tests
