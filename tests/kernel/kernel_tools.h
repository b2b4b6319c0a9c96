#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "ramet/base/host_tensor.h"
#include "ramet/base/rng.h"
#include "ramet/ir/op.h"
#include "ramet/kernel/cpu/cpu_features.h"

namespace ramet::tests {

/// Numbers in [-1, 1), the same on every machine.
inline HostTensor random_tensor(DType dtype, Shape shape, uint64_t which) {
  HostTensor out(TensorType{dtype, std::move(shape)});
  const RandomStream random(which, RandomPurpose::kTest, 0, 7);
  for (int64_t i = 0; i < out.elements(); ++i) out.set(i, 2.0 * random.uniform(static_cast<uint64_t>(i)) - 1.0);
  return out;
}

/// a * b + c as the processor's kernels compute it: those of the baseline round twice, all others once.
inline float multiply_add(float a, float b, float c) {
  static const bool twice = kernel::cpu_level() == kernel::CpuLevel::kBaseline;
  return twice ? a * b + c : std::fma(a, b, c);
}

/// A node of one op on these operands.
inline NodeSignature node_of(const std::string& op, const std::vector<HostTensor>& inputs, Attributes attributes) {
  NodeSignature node;
  node.op = &OpRegistry::instance().get(op);
  node.name = "test";
  node.attributes = std::move(attributes);
  for (const HostTensor& input : inputs) node.inputs.push_back(input.type);
  node.outputs = node.op->infer(node);
  return node;
}

/// Largest |found - expected| against tolerance * (1 + |expected|); "" when all are within.
inline std::string compare(const HostTensor& found, const HostTensor& expected, double tolerance) {
  if (found.type != expected.type) return found.type.text() + " is not " + expected.type.text();
  for (int64_t i = 0; i < found.elements(); ++i) {
    const double f = found.get(i), e = expected.get(i);
    if (f == e) continue;  // infinities too
    if (!(std::abs(f - e) <= tolerance * (1 + std::abs(e))))
      return "element " + std::to_string(i) + ": " + std::to_string(f) + " is not " + std::to_string(e);
  }
  return "";
}

}  // namespace ramet::tests
