// Every function of one number on the card, over floats of all exponents and signs. RAMET_TEST_ALL_FLOATS=1 takes all
// 2^32 of them, which is for a true card or for hours.

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "cuda/card_tools.h"
#include "kernel/kernel_tools.h"
#include "ramet/ops/map_program.h"

namespace ramet::tests {
namespace {

/// A program of the functions of `names`, with an output each.
NodeSignature node_of_functions(const std::vector<std::string>& names, const HostTensor& values) {
  std::string steps, outputs, dtypes;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string value = "%" + std::to_string(i + 1), comma = i ? "," : "";
    steps += (i ? ";" : "") + value + "=" + names[i] + "(%0)";
    outputs += comma + value;
    dtypes += comma + "f32";
  }
  return node_of("map", {values},
                 {{"program", "1:" + steps + "->" + outputs}, {"shape", values.type.shape.dims()}, {"dtypes", dtypes}});
}

/// The names of all map ops that take one float and no number, eight in a list.
std::vector<std::vector<std::string>> lists() {
  std::vector<std::vector<std::string>> all(1);
  for (const MapOpInfo& info : map_op_table()) {
    if (info.types != MapOpTypes::kFloat && info.types != MapOpTypes::kNumber) continue;
    if (info.arity != 1 || info.parameters != 0) continue;
    if (all.back().size() == 8) all.emplace_back();
    all.back().emplace_back(info.name);
  }
  return all;
}

/// `count` floats by their bits, `step` apart.
HostTensor floats(uint64_t first, uint64_t step, int64_t count) {
  HostTensor values(TensorType{DType::kF32, {count}});
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<uint32_t>(first + step * static_cast<uint64_t>(i));
    std::memcpy(&values.data[static_cast<size_t>(i) * 4], &bits, 4);
  }
  return values;
}

TEST(CudaMath, FunctionsOfFloatsOfAllExponents) {
  constexpr int64_t kCount = 1 << 17;
  const HostTensor values = floats(0, (uint64_t{1} << 32) / kCount - 1, kCount);
  for (const auto& names : lists())
    expect_card_equals_host(node_of_functions(names, values), {values}, {.aliases = false});
}

TEST(CudaMath, FunctionsOfAllFloats) {
  const char* wanted = std::getenv("RAMET_TEST_ALL_FLOATS");
  if (!wanted || std::string(wanted) != "1") GTEST_SKIP() << "long: RAMET_TEST_ALL_FLOATS=1 runs it";
  constexpr int64_t kCount = 1 << 22;
  for (const auto& names : lists())
    for (uint64_t first = 0; first < uint64_t{1} << 32; first += kCount) {
      const HostTensor values = floats(first, 1, kCount);
      expect_card_equals_host(node_of_functions(names, values), {values}, {.aliases = false});
      if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace ramet::tests
