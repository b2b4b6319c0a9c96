#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>

#include "cuda/card_tools.h"
#include "ops/op_cases.h"
#include "ramet/base/error.h"

// Every case of every op, in f32, bf16 and f16: the card's bits are those of the class `hopper` on the host. What the
// card has no kernel for runs on the host, which the last line tells.

namespace ramet::tests {
namespace {

struct Count {
  int on_card = 0, on_host = 0, refused = 0;
};
std::map<std::string, Count>& counts() {
  static std::map<std::string, Count> all;
  return all;
}

/// Says which ops ran where, when all tests have run.
class Summary : public testing::Environment {
 public:
  void TearDown() override {
    if (counts().empty()) return;
    Count all;
    std::string on_host, refused;
    for (const auto& [op, count] : counts()) {
      all.on_card += count.on_card;
      all.on_host += count.on_host;
      all.refused += count.refused;
      if (count.on_host)
        on_host += " " + op +
                   (count.on_card ? " (" + std::to_string(count.on_host) + " of " +
                                        std::to_string(count.on_host + count.on_card) + ")"
                                  : "");
      if (count.refused && !count.on_host && !count.on_card) refused += " " + op;
    }
    std::printf("every op: %d cases on the card, %d on the host:%s; %d that the class refuses:%s\n", all.on_card,
                all.on_host, on_host.c_str(), all.refused, refused.c_str());
  }
};
[[maybe_unused]] const auto* const summary = testing::AddGlobalTestEnvironment(new Summary);

std::vector<std::string> all_ops() {
  std::set<std::string> names;
  for (const OpCase& op_case : op_cases()) names.insert(op_case.op);
  return {names.begin(), names.end()};
}

void check(const OpCase& op_case) {
  NodeSignature node;
  try {
    node = signature_of(op_case);
  } catch (const Error&) {
    return;  // the op does not take this type
  }
  SCOPED_TRACE(op_case.op + "/" + op_case.name);
  const CardRun run = expect_card_equals_host(node, inputs_of(op_case), {.must_be_on_card = false});
  Count& count = counts()[op_case.op];
  ++(run.kernel.empty() ? count.refused : run.on_card ? count.on_card : count.on_host);
}

class EveryOp : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, testing::ValuesIn(all_ops()), [](const auto& info) { return info.param; });

TEST_P(EveryOp, HasTheBitsOfTheHost) {
  for (const OpCase& op_case : op_cases()) {
    if (op_case.op != GetParam()) continue;
    check(op_case);
    if (!op_case.low_types) continue;
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      const OpCase other = in_type(op_case, dtype);
      bool changed = false;
      for (size_t i = 0; i < other.inputs.size(); ++i)
        changed = changed || other.inputs[i].type != op_case.inputs[i].type;
      if (changed) check(other);
    }
  }
}

}  // namespace
}  // namespace ramet::tests
