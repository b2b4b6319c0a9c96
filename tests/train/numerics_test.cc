#include "ramet/train/numerics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "ramet/recipe/prepare.h"
#include "ramet/report/numerics.h"
#include "ramet/train/training.h"

namespace ramet::tests {
namespace {

using Kind = NumericsRow::Kind;
using ::testing::HasSubstr;

Recipe small(const std::string& precision, const std::string& layout = "", std::vector<std::string> more = {}) {
  std::vector<std::string> settings = {"model.preset=tiny",
                                       "model.layers=2",
                                       "model.hidden=32",
                                       "model.heads=4",
                                       "model.max_positions=16",
                                       "model.vocabulary_size=96",
                                       "data.sequence_length=16",
                                       "train.micro_batch=2",
                                       "train.accumulation=4",
                                       "train.lanes=4",
                                       "train.chunks=4",
                                       "train.precision=" + precision,
                                       "train.evaluation.batches=1"};
  settings.insert(settings.end(), more.begin(), more.end());
  Recipe made = parse_recipe("", "small.toml", ".", settings);
  if (!layout.empty()) set_layout(made, layout);
  return made;
}

NumericsReport checked(const Recipe& recipe, int steps = 1) {
  Training trainer = make_training(prepare(recipe), {.threads = 1});
  trainer.initialize();
  for (int i = 0; i < steps; ++i) trainer.step();
  return trainer.check_numerics();
}

std::map<std::string, NumericsFinding> by_name(const NumericsReport& report, Kind kind) {
  std::map<std::string, NumericsFinding> found;
  for (const NumericsFinding& finding : report.findings)
    if (finding.record.row.kind == kind) found[finding.record.row.name] = finding;
  return found;
}

/// Activations whose op and name stand once in a report.
std::map<std::string, NumericsFinding> once(const NumericsReport& report) {
  std::map<std::string, NumericsFinding> found;
  std::map<std::string, int> count;
  for (const NumericsFinding& finding : report.findings) {
    const std::string name = finding.record.row.op + " " + finding.record.row.name;
    if (finding.record.row.kind == Kind::kActivation && ++count[name] == 1) found[name] = finding;
  }
  std::erase_if(found, [&](const auto& each) { return count.at(each.first) > 1; });
  return found;
}

NumericsFinding judged(Kind kind, DType dtype, std::vector<std::pair<int, int64_t>> counts,
                       const std::string& precision) {
  NumericsRecord record;
  record.row.kind = kind, record.row.type.dtype = dtype;
  for (const auto& [bin, count] : counts) record.bins[static_cast<size_t>(bin)] = count;
  return judge_numerics({record}, small(precision).train, 1).findings.at(0);
}

TEST(Numerics, JudgesByTheRangeThatATensorMeets) {
  const std::vector<std::pair<int, int64_t>> counts = {{kZeroBin, 100},
                                                       {bin_of_exponent(-30), 20},
                                                       {bin_of_exponent(-20), 10},
                                                       {bin_of_exponent(0), 60},
                                                       {bin_of_exponent(16), 10}};
  const NumericsFinding weight = judged(Kind::kWeight, DType::kF32, counts, "f16");
  EXPECT_EQ(weight.elements, 200);
  EXPECT_EQ(weight.zeros, 100);
  EXPECT_DOUBLE_EQ(weight.overflow, 0.1);
  EXPECT_DOUBLE_EQ(weight.underflow, 0.2);
  EXPECT_DOUBLE_EQ(weight.subnormal, 0.1);
  EXPECT_TRUE(weight.out_of_range());
  const NumericsFinding state = judged(Kind::kOptimizer, DType::kF32, counts, "f16");
  EXPECT_EQ(state.overflow, 0);
  EXPECT_DOUBLE_EQ(state.compute_overflow, 0.1);
  EXPECT_FALSE(state.out_of_range());
  EXPECT_EQ(judged(Kind::kGradient, DType::kF32, counts, "bf16").overflow, 0);
  EXPECT_TRUE(judged(Kind::kActivation, DType::kF32, {{kNanBin, 1}, {bin_of_exponent(0), 9}}, "bf16").out_of_range());
  for (const char* type : {"f32", "bf16", "f16", "f8e4m3", "f8e5m2"}) {
    const NumericRange range = numeric_range(type);
    EXPECT_LT(range.least, range.normal);
    EXPECT_LT(range.normal, range.most);
  }
}

TEST(Numerics, SeesWeightsStatesGradientsAndActivations) {
  const Recipe recipe = small("f16");
  Training trainer = make_training(prepare(recipe), {.threads = 1});
  trainer.initialize();
  trainer.step();
  const std::string before = trainer.weights_hash();
  const NumericsReport report = trainer.check_numerics();
  EXPECT_EQ(report.step, 2);
  EXPECT_EQ(trainer.weights_hash(), before);
  const auto weights = by_name(report, Kind::kWeight), gradients = by_name(report, Kind::kGradient);
  for (const StateTensor& weight : trainer.model().weights) {
    ASSERT_TRUE(weights.count(weight.name)) << weight.name;
    ASSERT_TRUE(gradients.count(weight.name)) << weight.name;
    EXPECT_EQ(weights.at(weight.name).elements, weight.type.elements());
    EXPECT_EQ(gradients.at(weight.name).elements, weight.type.elements());
    std::vector<float> values(static_cast<size_t>(weight.type.elements()));
    trainer.read_state(weight.name, std::as_writable_bytes(std::span(values)));
    std::array<int64_t, kExponentBins> bins{};
    for (const float value : values) ++bins[static_cast<size_t>(exponent_bin(value))];
    EXPECT_EQ(weights.at(weight.name).record.bins, bins) << weight.name;
  }
  EXPECT_EQ(by_name(report, Kind::kOptimizer).size(), 2 * weights.size());
  int forward = 0, low = 0;
  for (const NumericsFinding& finding : report.findings) {
    if (finding.record.row.kind != Kind::kActivation) continue;
    ++forward;
    low += finding.record.row.type.dtype == DType::kF16;
    EXPECT_EQ(finding.range.type, name_of(finding.record.row.type.dtype));
  }
  EXPECT_GT(forward, 40);
  EXPECT_GT(low, 20);
  // A step that was looked at is the step that would have been made.
  const double loss = number_of(trainer.step(), "loss");
  Training plain = make_training(prepare(recipe), {.threads = 1});
  plain.initialize();
  plain.step();
  EXPECT_EQ(number_of(plain.step(), "loss"), loss);
  EXPECT_EQ(plain.weights_hash(), trainer.weights_hash());
}

/// Counts of what layouts cut, replicate, pad and sum: each element once.
TEST(Numerics, LayoutsCountAlike) {
  const NumericsReport expected = checked(small("bf16"));
  for (const char* layout :
       {"r=2", "t=2", "t=2x2", "p=2 head=first", "r=4 rts=weights:2,grads,optimizer",
        "phases=2 offload=weights,grads,optimizer,activations", "p=2 t=2 r=2 rts=optimizer recompute=layer"}) {
    SCOPED_TRACE(layout);
    const NumericsReport found = checked(small("bf16", layout));
    for (const Kind kind : {Kind::kWeight, Kind::kOptimizer, Kind::kGradient}) {
      const auto ours = by_name(found, kind), theirs = by_name(expected, kind);
      ASSERT_EQ(ours.size(), theirs.size());
      for (const auto& [name, finding] : theirs) {
        ASSERT_TRUE(ours.count(name)) << name;
        EXPECT_EQ(ours.at(name).record.bins, finding.record.bins) << name;
      }
    }
    // Activations keep their shares. Several nodes may have one name, and a layout may cut one apart.
    int same = 0, all = 0;
    for (const auto& [name, finding] : once(found)) {
      const auto theirs = once(expected);
      const auto other = theirs.find(name);
      if (other == theirs.end()) continue;
      ++all;
      same += finding.underflow == other->second.underflow && finding.subnormal == other->second.subnormal;
    }
    EXPECT_GT(all, 10);
    EXPECT_EQ(same, all);
  }
}

/// Weights that f16 cannot hold, and gradients that it loses: the first one in the order of the program is named.
TEST(Numerics, NamesTheFirstTensorOutOfRange) {
  Training trainer = make_training(prepare(small("f16", "", {"train.loss_scale=1099511627776"})), {.threads = 1});
  trainer.initialize();
  const NumericsReport report = trainer.check_numerics();
  const NumericsFinding* first = report.first_out_of_range();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->record.row.kind, Kind::kActivation);
  EXPECT_EQ(first->record.row.type.dtype, DType::kF16);
  EXPECT_GT(first->overflow, 0);
  const std::string text = text_of(report, 5);
  EXPECT_THAT(text, HasSubstr("first out of range: " + first->record.row.op + " '" + first->record.row.name + "': "));
  EXPECT_THAT(text, HasSubstr("overflow"));
  const auto json = nlohmann::json::parse(json_of(report));
  EXPECT_EQ(json["first_out_of_range"], "activation " + first->record.row.name);
  EXPECT_EQ(json["tensors"].size(), report.findings.size());
  int64_t sum = json["tensors"][0]["zeros"];
  for (const auto& [exponent, count] : json["tensors"][0]["exponents"].items()) sum += count.get<int64_t>();
  EXPECT_EQ(sum, json["tensors"][0]["elements"].get<int64_t>());
  EXPECT_EQ(checked(small("f32")).first_out_of_range(), nullptr);
  EXPECT_THAT(text_of(checked(small("f32"))), HasSubstr("all within range"));
}

}  // namespace
}  // namespace ramet::tests
