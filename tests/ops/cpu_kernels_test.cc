#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>

#include "ops/op_cases.h"
#include "ramet/kernel/hopper/hopper.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/exact_sum.h"

namespace ramet::tests {
namespace {

/// Every kernel of the CPU against the reference, on the case table: values within the rounding of the type, and the
/// same bits with one, two and three threads.
class CpuKernels : public testing::TestWithParam<OpCase> {};

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 2e-5;
    case DType::kF16: return 2e-3;
    case DType::kBF16: return 1.6e-2;
    default: return 0.25;  // f8
  }
}

/// What an exact accumulator stands for: kernels may have summed values that differ in their last bits.
HostTensor readable(const HostTensor& tensor) {
  if (tensor.type != exact_type()) return tensor;
  int64_t digits[kExactIntegers];
  std::memcpy(digits, tensor.data.data(), sizeof digits);
  return HostTensor::of(DType::kF32, {}, {exact_value(digits)});
}

void expect_near(const HostTensor& raw_found, const HostTensor& raw_wanted, const std::string& what) {
  ASSERT_EQ(raw_found.type, raw_wanted.type) << what;
  const HostTensor found = readable(raw_found), wanted = readable(raw_wanted);
  double most = 1;
  for (double value : wanted.values())
    if (std::isfinite(value)) most = std::max(most, std::fabs(value));
  const double tolerance = is_floating(wanted.type.dtype) ? tolerance_of(wanted.type.dtype) * most : 0;
  for (int64_t i = 0; i < wanted.elements(); ++i) {
    const double a = found.get(i), b = wanted.get(i);
    if (std::isnan(b) ? std::isnan(a) : a == b) continue;
    ASSERT_NEAR(a, b, tolerance) << what << ", element " << i;
  }
}

void check(const OpCase& op_case, const Backend& backend) {
  const NodeSignature node = signature_of(op_case);
  const auto inputs = inputs_of(op_case);
  const auto wanted = interpret_node(node, reference_backend(), inputs);
  for (const KernelEntry& entry : backend.entries(op_case.op)) {
    if (entry.name == "reference" || (entry.refuse && !entry.refuse(node).empty())) continue;
    const std::string what = node.text() + " by " + entry.name;
    const auto found = interpret_node(node, backend, inputs, 1, entry.name);
    for (size_t i = 0; i < wanted.size(); ++i) expect_near(found[i], wanted[i], what + ", output " + std::to_string(i));
    for (int threads : {2, 3})
      EXPECT_EQ(interpret_node(node, backend, inputs, threads, entry.name), found)
          << what << ", " << threads << " threads";
  }
}

void check_types(const OpCase& op_case, const Backend& backend) {
  check(op_case, backend);
  if (!op_case.low_types) return;
  check(in_type(op_case, DType::kBF16), backend);
  check(in_type(op_case, DType::kF16), backend);
}

TEST_P(CpuKernels, AgreeWithTheReference) { check_types(GetParam(), cpu_backend()); }

/// The kernels that the class of Hopper GPUs does not share with the CPU.
TEST(HopperKernels, AgreeWithTheReference) {
  int cases = 0;
  for (const OpCase& op_case : op_cases()) {
    const bool own =
        op_case.op == "matmul" || op_case.op == "linear" || op_case.op.find("attention") != op_case.op.npos;
    if (!own || !op_case.in_reference) continue;
    check_types(op_case, hopper_backend());
    ++cases;
  }
  EXPECT_GT(cases, 20);
}

std::vector<OpCase> cases_of_reference() {
  std::vector<OpCase> cases;
  for (const OpCase& op_case : op_cases())
    if (op_case.in_reference) cases.push_back(op_case);
  return cases;
}

/// Whether one of the CPU's own kernels computes the case.
bool is_fast(const OpCase& op_case) {
  const NodeSignature node = signature_of(op_case);
  const auto entries = cpu_backend().entries(op_case.op);
  return std::any_of(entries.begin(), entries.end(), [&](const KernelEntry& entry) {
    return entry.name != "reference" && (!entry.refuse || entry.refuse(node).empty());
  });
}

/// A network in bf16 is not to meet a reference kernel, which is a hundred times slower, where its f32 form meets none.
/// Positions and distances are f32 in every network.
TEST(CpuKernelsOfLowTypes, AreThereWhereThoseOfF32Are) {
  std::set<std::string> missing;
  for (const OpCase& op_case : cases_of_reference())
    for (const DType dtype : {DType::kBF16, DType::kF16})
      if (op_case.low_types && is_fast(op_case) && !is_fast(in_type(op_case, dtype)))
        missing.insert(op_case.op + " in " + std::string(name_of(dtype)));
  for (const std::string op : {"pair_distance", "pair_row_grad", "pair_column_grad"})
    for (const std::string type : {" in bf16", " in f16"}) EXPECT_EQ(missing.erase(op + type), 1u) << op << type;
  EXPECT_THAT(missing, testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Ops, CpuKernels, testing::ValuesIn(cases_of_reference()), [](const auto& info) {
  std::string name = info.param.op + "_" + info.param.name;
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
});

}  // namespace
}  // namespace ramet::tests
