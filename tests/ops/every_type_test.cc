#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "ops/op_cases.h"
#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"

// Every number type that an op takes: its cases with their f32 operands in that type. (bf16 and f16: op_table_test.cc,
// cpu_kernels_test.cc.)

namespace ramet::tests {
namespace {

constexpr DType kWhole[] = {DType::kBool, DType::kI8,  DType::kU8,  DType::kI16, DType::kU16,
                            DType::kI32,  DType::kU32, DType::kI64, DType::kU64};

/// The case in another type, or nothing where the op does not take the type, or the case has no f32 operand.
std::optional<OpCase> taken_in(const OpCase& op_case, DType dtype) {
  OpCase other = in_type(op_case, dtype);
  bool changed = false;
  for (size_t i = 0; i < other.inputs.size(); ++i) changed = changed || other.inputs[i].type != op_case.inputs[i].type;
  if (!changed) return std::nullopt;
  try {
    signature_of(other);
  } catch (const Error&) {
    return std::nullopt;
  }
  return other;
}

/// The inputs of a case whose operands in another type than `of_f32` has hold `change` of the f32 values.
std::vector<HostTensor> inputs_with(const OpCase& op_case, const OpCase& of_f32,
                                    const std::function<double(double)>& change) {
  std::vector<HostTensor> inputs = inputs_of(of_f32);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (op_case.inputs[i].type == of_f32.inputs[i].type) continue;
    HostTensor other(op_case.inputs[i].type);
    for (int64_t e = 0; e < other.elements(); ++e) other.set(e, change(inputs[i].get(e)));
    inputs[i] = std::move(other);
  }
  return inputs;
}

/// 0 to 6, or for bool 0 and 1; never falling where the value grows.
double small_number(double value, bool is_bool) {
  const double small = std::isnan(value) ? 3 : std::clamp(std::round(value * 4) + 3, 0.0, 6.0);
  return is_bool ? static_cast<double>(small > 3) : small;
}

void expect_f64(const OpCase& op_case) {
  const std::optional<OpCase> wide = taken_in(op_case, DType::kF64);
  if (!wide) return;
  const auto inputs = inputs_with(*wide, op_case, [](double value) { return value; });
  const auto found = interpret_node(signature_of(*wide), cpu_backend(), inputs);
  const auto in_f32 = interpret_node(signature_of(op_case), reference_backend(), inputs_of(op_case));
  for (size_t i = 0; i < found.size(); ++i) {
    double most = 1;
    for (const double value : in_f32[i].values())
      if (std::isfinite(value)) most = std::max(most, std::fabs(value));
    for (int64_t e = 0; e < found[i].elements(); ++e) {
      const double a = found[i].get(e), b = in_f32[i].get(e);
      if (std::isnan(b) ? std::isnan(a) : a == b) continue;
      ASSERT_NEAR(a, b, 1e-6 * most) << op_case.op << "/" << op_case.name << " in f64, output " << i << ", " << e;
    }
  }
}

/// Where the same numbers in f64 give a number that the type has, so does the type; on every kernel.
void expect_whole(const OpCase& op_case, DType dtype, const OpCase& other) {
  const auto change = [&](double value) { return small_number(value, dtype == DType::kBool); };
  const auto inputs = inputs_with(other, op_case, change);
  const NodeSignature node = signature_of(other);
  const std::string what = op_case.op + "/" + op_case.name + " in " + std::string(name_of(dtype));
  const auto found = interpret_node(node, reference_backend(), inputs);
  EXPECT_EQ(interpret_node(node, cpu_backend(), inputs, 2), found) << what;
  const std::optional<OpCase> wide = taken_in(op_case, DType::kF64);
  if (!wide) return;
  const auto wanted = interpret_node(signature_of(*wide), reference_backend(), inputs_with(*wide, op_case, change));
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].type.shape, wanted[i].type.shape) << what;
    const DType type = found[i].type.dtype;
    for (int64_t e = 0; e < found[i].elements(); ++e) {
      const double value = wanted[i].get(e);
      const bool in_type = std::floor(value) == value && value >= lowest_of(type) && value <= greatest_of(type);
      if (is_floating(type) || !in_type) continue;
      ASSERT_EQ(found[i].get(e), value) << what << ", output " << i << ", " << e;
    }
  }
}

std::vector<std::string> ops_with_cases() {
  std::set<std::string> names;
  for (const OpCase& op_case : op_cases())
    if (op_case.in_reference) names.insert(op_case.op);
  return {names.begin(), names.end()};
}

class EveryType : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Ops, EveryType, testing::ValuesIn(ops_with_cases()),
                         [](const auto& info) { return info.param; });

TEST_P(EveryType, HasTheNumbersOfF64) {
  for (const OpCase& op_case : op_cases()) {
    if (op_case.op != GetParam() || !op_case.in_reference) continue;
    expect_f64(op_case);
    for (const DType dtype : kWhole)
      if (const std::optional<OpCase> other = taken_in(op_case, dtype)) expect_whole(op_case, dtype, *other);
  }
}

/// Ops that move elements take all types; where they also order, add or multiply, all but bool.
TEST(EveryTypeTable, MovesTakeAllTypes) {
  const std::set<std::string> counted{"put", "sort", "top_k"},
      moves{"broadcast_to", "concat", "gather", "im2col", "pad",   "put",
            "reshape",      "slice",  "sort",   "take",   "top_k", "transpose"};
  std::set<std::string> seen;
  for (const OpCase& op_case : op_cases()) {
    const bool in_f32 = std::any_of(op_case.inputs.begin(), op_case.inputs.end(),
                                    [](const CaseInput& input) { return input.type.dtype == DType::kF32; });
    if (!moves.contains(op_case.op) || !op_case.in_reference || !in_f32) continue;
    seen.insert(op_case.op);
    EXPECT_TRUE(taken_in(op_case, DType::kF64)) << op_case.op << "/" << op_case.name;
    for (const DType dtype : kWhole)
      EXPECT_TRUE(taken_in(op_case, dtype) || (dtype == DType::kBool && counted.contains(op_case.op)))
          << op_case.op << "/" << op_case.name << " in " << name_of(dtype);
  }
  EXPECT_EQ(seen, moves);
}

}  // namespace
}  // namespace ramet::tests
