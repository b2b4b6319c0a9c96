#include "ramet/plan/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <optional>
#include <set>

#include "plan/small_machine.h"
#include "ramet/base/error.h"
#include "ramet/recipe/prepare.h"
#include "ramet/report/search.h"
#include "ramet/sim/simulate.h"
#include "ramet/train/step.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::vector<Candidate> all_layouts(const SearchSpace& space) {
  std::vector<Candidate> all;
  for (const Candidate& mesh : mesh_candidates(space))
    for (Candidate& candidate : layout_candidates(space, mesh)) all.push_back(std::move(candidate));
  return all;
}

RecipePlanner planner_of(const std::string& memory, const std::string& layout,
                         const std::vector<std::string>& settings = {}, int devices = 4) {
  return {tiny_recipe(settings), small_machine(memory, devices), layout, {}};
}

SearchReport report_of(const RecipePlanner& planner, const SearchResult& result) {
  return {.name = "tiny",
          .machine = &planner.machine(),
          .space = &planner.space(),
          .result = &result,
          .samples = planner.preparation().samples_per_step(),
          .tokens = planner.preparation().units_per_step(),
          .parameters = 1000,
          .device_memory = planner.device_memory(),
          .to_samples = 0,
          .explain = false,
          .command = result.fitting.empty() ? "" : planner.command_of(result.fitting.front().candidate)};
}

/// A planner whose layouts are compiled once each, however often they are asked for.
struct Bench {
  Bench(const std::string& memory, const std::string& layout, const std::vector<std::string>& settings = {})
      : planner(planner_of(memory, layout, settings)) {
    std::vector<ModelProfile> profiles;
    const Preparation& ready = planner.preparation();
    profiles.emplace_back(decide_bits(make_training_step(ready.workload.model, ready.options)), planner.machine());
    model.emplace(planner.space(), std::move(profiles), planner.machine());
  }
  const Outcome& evaluate(const Candidate& candidate) {
    const std::string key = print_layout(candidate.layout);
    if (const auto known = outcomes.find(key); known != outcomes.end()) return known->second;
    return outcomes[key] = planner.evaluate(candidate);
  }
  SearchResult search(int evaluations) {
    return search_layouts(planner.space(), *model, [&](const Candidate& candidate) { return evaluate(candidate); },
                          {.device_memory = planner.device_memory(), .evaluations = evaluations});
  }

  RecipePlanner planner;
  std::optional<CostModel> model;
  std::map<std::string, Outcome> outcomes;
};

TEST(SearchSpace, HoldsEveryValidChoiceOnce) {
  const RecipePlanner planner = planner_of("1 GiB", "auto");
  std::set<std::string> seen;
  int with_phases = 0, with_groups = 0, interleaved = 0, sequence = 0;
  for (const Candidate& candidate : all_layouts(planner.space())) {
    EXPECT_TRUE(seen.insert(print_layout(candidate.layout)).second) << print_layout(candidate.layout);
    EXPECT_EQ(why_invalid(planner.space(), candidate), "") << print_layout(candidate.layout);
    with_phases += candidate.layout.phases > 1;
    with_groups += candidate.layout.rts.optimizer > 1;
    interleaved += candidate.layout.interleave > 1;
    sequence += candidate.layout.sequence;
  }
  EXPECT_GT(seen.size(), 500u);
  EXPECT_GT(with_phases, 0);
  EXPECT_GT(with_groups, 0);
  EXPECT_GT(interleaved, 0);
  EXPECT_GT(sequence, 0);
  EXPECT_TRUE(seen.count("p=1"));
  EXPECT_TRUE(seen.count("p=2 r=2"));
  EXPECT_TRUE(seen.count("p=2 t=2 schedule=zero-bubble"));
}

TEST(SearchSpace, KeepsTheKeysThatAreFixed) {
  const RecipePlanner planner = planner_of("1 GiB", "auto p=2 recompute=layer offload=none");
  const auto all = all_layouts(planner.space());
  ASSERT_FALSE(all.empty());
  for (const Candidate& candidate : all) {
    EXPECT_EQ(candidate.layout.p, 2);
    ASSERT_TRUE(candidate.layout.recompute);
    EXPECT_EQ(candidate.layout.recompute->mode, RecomputeOptions::Mode::kLayers);
    EXPECT_FALSE(candidate.layout.offload.any());
  }
}

TEST(SearchSpace, ARecipeWithoutAMicroBatchLeavesItOpen) {
  Recipe recipe = tiny_recipe();
  recipe.places.erase("train.micro_batch");
  const RecipePlanner planner(recipe, small_machine("1 GiB"), "auto", {});
  std::vector<int64_t> sizes;
  for (const BatchSplit& batch : planner.space().batches) {
    sizes.push_back(batch.micro_batch);
    EXPECT_EQ(batch.micro_batch * batch.accumulation, 32);
    EXPECT_EQ(batch.accumulation % 2, 0) << "lanes must divide it";
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{4, 1, 2, 8, 16}));
}

/// Layouts of a small space, some with all keys searched in turn, and memory of each device.
const std::vector<std::pair<const char*, const char*>> kSmallSpaces = {
    {"auto offload=none rts=none schedule=1f1b sequence=false", "1400 KiB"},
    {"auto p=2 t=1 offload=none rts=none", "1 GiB"},
    {"auto t=2 p=1 recompute=none", "1400 KiB"},
    {"auto r=2 p=1 offload=none recompute=none", "1 GiB"},
    {"auto p=2 t=1 r=1 schedule=1f1b", "1400 KiB"},
};

TEST(Search, FindsWhatTheBestOfAllIs) {
  int fits = 0, refused = 0;
  for (const auto& [text, memory] : kSmallSpaces) {
    SCOPED_TRACE(std::string(text) + ", " + memory);
    Bench bench(memory, text);
    double best = -1;
    for (const Candidate& candidate : all_layouts(bench.planner.space())) {
      const Outcome& outcome = bench.evaluate(candidate);
      ++(outcome.fits ? fits : refused);
      if (outcome.fits && (best < 0 || outcome.seconds < best)) best = outcome.seconds;
    }
    const SearchResult result = bench.search(0);
    // Where memory lacks the search also tries other cuts of the layers, and may find better.
    if (best < 0) continue;
    ASSERT_FALSE(result.fitting.empty());
    EXPECT_TRUE(result.proven);
    EXPECT_LE(result.fitting.front().outcome.seconds, best) << print_layout(result.fitting.front().candidate.layout);
    // The few that are compiled by default come as near.
    const SearchResult quick = bench.search(16);
    ASSERT_FALSE(quick.fitting.empty());
    EXPECT_LE(quick.fitting.front().outcome.seconds, 1.05 * best)
        << print_layout(quick.fitting.front().candidate.layout);
  }
  EXPECT_GT(fits, 50);
  EXPECT_GT(refused, 50);
}

/// Compiles about `count` of all layouts: they fit, and no bound is above what they need.
void expect_bounds_hold(Bench& bench, size_t count) {
  const auto all = all_layouts(bench.planner.space());
  size_t compared = 0;
  for (size_t i = 0; i < all.size(); i += std::max<size_t>(all.size() / count, 1)) {
    const Outcome& outcome = bench.evaluate(all[i]);
    EXPECT_TRUE(outcome.fits) << print_layout(all[i].layout) << ": " << outcome.refused;
    const LowerBound bound = bench.model->bound(all[i]);
    EXPECT_LE(bound.bytes, static_cast<double>(outcome.bytes)) << print_layout(all[i].layout) << " " << bound.holds();
    EXPECT_LE(bound.seconds, outcome.seconds) << print_layout(all[i].layout);
    EXPECT_GT(bound.seconds, 0);
    ++compared;
  }
  EXPECT_GT(compared, count * 4 / 5);
}

TEST(Search, NoBoundIsAboveTheTruth) {
  Bench bench("1 GiB", "auto");
  expect_bounds_hold(bench, 97);
}

/// How weights are held changes the bytes of states and what replicas send, not which layouts there are.
TEST(Search, WeightsHeldIn16BitsAreSearchedLikeOthers) {
  const auto smallest = [](const SearchResult& result) {
    int64_t bytes = std::numeric_limits<int64_t>::max();
    for (const auto& each : result.fitting) bytes = std::min(bytes, each.outcome.bytes);
    return bytes;
  };
  const size_t layouts = all_layouts(planner_of("1 GiB", "auto").space()).size();
  using Types = std::pair<std::string, std::string>;
  for (const auto& [precision, held] : {Types{"bf16", "bf16"}, {"bf16", "f16"}, {"bf16", "split"}, {"f16", "f16"}}) {
    SCOPED_TRACE(precision + " with weights in " + held);
    const std::vector<std::string> settings = {"train.precision=" + precision, "train.weights=" + held};
    Bench bench("1 GiB", "auto", settings);
    EXPECT_EQ(all_layouts(bench.planner.space()).size(), layouts);
    expect_bounds_hold(bench, 11);
    const char* const narrow = "auto p=2 t=1 offload=none rts=none schedule=1f1b";
    Bench few("1 GiB", narrow, settings), wide("1 GiB", narrow, {"train.precision=" + precision});
    const SearchResult result = few.search(0);
    ASSERT_FALSE(result.fitting.empty());
    EXPECT_TRUE(result.proven);
    EXPECT_LT(smallest(result), smallest(wide.search(0)));
  }
}

/// The machine with every call of the stages measured: `share` of the time of its products at the peak rate, and next
/// to nothing where it has none. Sums of lanes and copies take next to nothing either.
Machine measured(Machine machine, const std::vector<Executable>& stages, double share) {
  machine.device.overhead = 0;
  for (MemoryKind& memory : machine.memories) memory.read = memory.write = memory.total = 1e15;
  for (const Executable& stage : stages)
    for (const Call& call : stage.calls) {
      double seconds = 1e-12;
      if (call.node.op->products)
        for (const MatrixProduct& product : call.node.op->products(call.node))
          seconds += share * 2 * static_cast<double>(product.batch * product.m * product.k * product.n) /
                     machine.device.peak(product.operands);
      machine.measured_calls[timing_key(call.node, call.kernel)] = seconds;
    }
  return machine;
}

/// Measured products may be faster than the peak rate. The margin covers those that take 0.75 of its time, and not all:
/// at a third of it a bound is above the truth.
TEST(Search, BoundsOfMeasuredMachinesKeepAMarginAndAreNoProof) {
  const Machine plain = small_machine("1 GiB", 1);
  Machine shared = plain;
  shared.processors = 2;
  EXPECT_EQ(bound_margin(plain), 1);
  EXPECT_EQ(bound_margin(shared), 0.7);
  const auto stages = compile_recipe(prepare(tiny_recipe()), plain, {}).stages;
  const auto bound_to_step = [&](double share) {
    const Machine machine = measured(plain, stages, share);
    EXPECT_EQ(bound_margin(machine), 0.7);
    const RecipePlanner planner(tiny_recipe(), machine, "auto", {});
    const Preparation& ready = planner.preparation();
    std::vector<ModelProfile> profiles;
    profiles.emplace_back(decide_bits(make_training_step(ready.workload.model, ready.options)), machine);
    CostModel model(planner.space(), std::move(profiles), machine);
    Candidate candidate = mesh_candidates(planner.space()).front();
    candidate.layout = {};
    return model.bound(candidate).seconds / simulate(stages, machine).seconds;
  };
  EXPECT_LE(bound_to_step(0.75), 1);
  EXPECT_GE(bound_to_step(0.75), 0.7) << "the bound would say nothing";
  EXPECT_GT(bound_to_step(1.0 / 3), 1);
}

TEST(Search, TheReportSaysWhetherBoundsAreAProof) {
  Bench bench("1 GiB", "auto p=1 t=1 r=1 offload=none recompute=none schedule=1f1b");
  const SearchResult result = bench.search(0);
  ASSERT_TRUE(result.proven);
  SearchReport report = report_of(bench.planner, result);
  EXPECT_THAT(text_of(report), HasSubstr("no other layout can be faster: bounds rule out the rest"));
  EXPECT_THAT(json_of(report), HasSubstr("\"bound_margin\":1.0"));
  Machine shared = bench.planner.machine();
  shared.processors = 2;
  report.machine = &shared;
  EXPECT_THAT(text_of(report),
              HasSubstr("bounds rule out the rest, by a margin: 0.7 of the time at the measured peak"));
  EXPECT_THAT(text_of(report), ::testing::Not(HasSubstr("no other layout can be faster")));
  EXPECT_THAT(json_of(report), HasSubstr("\"bound_margin\":0.7"));
}

TEST(Search, IsTheSameEveryTime) {
  RecipePlanner planner = planner_of("400 KiB", "auto"), again = planner_of("400 KiB", "auto");
  const SearchResult one = planner.search({.evaluations = 6}), two = again.search({.evaluations = 6});
  const SearchReport a = report_of(planner, one), b = report_of(again, two);
  EXPECT_EQ(text_of(a), text_of(b));
  EXPECT_EQ(json_of(a), json_of(b));
}

/// The cut that suits time best, of one layer and three, gives a layer to a stage that has no room for any.
TEST(Search, LayersMoveAwayFromAStageThatLacksMemory) {
  Bench bench("1 GiB", "auto p=2 t=1 r=1 offload=none rts=none recompute=none schedule=1f1b");
  const int64_t memory = bench.planner.device_memory();
  const SearchResult result =
      search_layouts(bench.planner.space(), *bench.model,
                     [&](const Candidate& candidate) {
                       const std::vector<int64_t>& layers = candidate.layout.layers;
                       Outcome outcome = bench.evaluate(candidate);
                       EXPECT_TRUE(outcome.fits) << print_layout(candidate.layout) << ": " << outcome.refused;
                       if (!layers.empty() && layers[0] == 0) return outcome;
                       Outcome refused;
                       refused.refused = "no room", refused.bytes = memory + 1, refused.refused_stage = 0;
                       return refused;
                     },
                     {.device_memory = memory, .evaluations = 8});
  ASSERT_EQ(result.fitting.size(), 1u);
  EXPECT_EQ(result.fitting[0].candidate.layout.layers, (std::vector<int64_t>{0, 4}));
}

TEST(Search, TheFrontIsWhatNothingBeatsInTimeAndMemory) {
  RecipePlanner planner = planner_of("1 GiB", "auto");
  const SearchResult result = planner.search({.evaluations = 12});
  ASSERT_FALSE(result.front.empty());
  EXPECT_EQ(result.front[0], 0u);
  std::set<size_t> front(result.front.begin(), result.front.end());
  for (size_t i = 0; i < result.fitting.size(); ++i) {
    bool beaten = false;
    for (size_t k = 0; k < i; ++k)
      beaten = beaten || result.fitting[k].outcome.bytes <= result.fitting[i].outcome.bytes;
    EXPECT_EQ(front.count(i), beaten ? 0u : 1u) << i;
  }
}

TEST(Search, EndsWhenAskedWithTheBestSoFar) {
  RecipePlanner planner = planner_of("1 GiB", "auto");
  int looked = 0;
  const SearchResult result = planner.search(
      {.evaluations = 50}, [&](const SearchProgress& progress) { looked = progress.evaluated; },
      [&] { return looked >= 2; });
  EXPECT_TRUE(result.stopped);
  EXPECT_FALSE(result.proven);
  ASSERT_FALSE(result.fitting.empty());
  EXPECT_LE(result.fitting.size(), 3u);
  EXPECT_THAT(text_of(report_of(planner, result)), HasSubstr("stopped: the best so far"));
}

TEST(Search, TellsWhyNotTheOthers) {
  RecipePlanner planner = planner_of("1200 KiB", "auto schedule=1f1b sequence=false");
  const SearchResult result = planner.search({.evaluations = 8, .explain = true});
  std::map<std::string, const Neighbour*> by_change;
  for (const Neighbour& neighbour : result.neighbours) {
    EXPECT_FALSE(neighbour.why.empty()) << neighbour.change;
    EXPECT_FALSE(neighbour.change.empty());
    EXPECT_THAT(neighbour.why, testing::Not(HasSubstr("not compiled"))) << "explain compiles all";
  }
  EXPECT_GT(result.neighbours.size(), 5u);
  const bool some_refused = std::any_of(result.neighbours.begin(), result.neighbours.end(),
                                        [](const Neighbour& each) { return each.refused; });
  EXPECT_TRUE(some_refused);
}

TEST(Search, TableAndJsonSayTheSame) {
  RecipePlanner planner = planner_of("1 GiB", "auto");
  const SearchResult result = planner.search({.evaluations = 5});
  SearchReport report = report_of(planner, result);
  report.to_samples = 1'000'000;
  const std::string text = text_of(report);
  EXPECT_THAT(text, HasSubstr("tiny on four (4 x small, 1.00 GiB each)"));
  EXPECT_THAT(text, HasSubstr("5 compiled and simulated, 5 of which fit"));
  EXPECT_THAT(text, HasSubstr("*+ " + print_layout(result.fitting.front().candidate.layout)));
  EXPECT_THAT(text, HasSubstr("use it with: --layout \""));
  EXPECT_THAT(text, HasSubstr("1000000 samples take "));
  EXPECT_THAT(text, HasSubstr("at 100 W a device"));
  const std::string json = json_of(report);
  EXPECT_THAT(json, HasSubstr("\"layouts\":[{\"layout\":\"" + print_layout(result.fitting.front().candidate.layout)));
  EXPECT_THAT(json, HasSubstr("\"total_joule\":"));
  EXPECT_THAT(json, HasSubstr("\"neighbours\":[{"));
}

TEST(Search, AMachineThatIsTooSmallIsToldWhatItLacks) {
  RecipePlanner planner = planner_of("20 KiB", "auto");
  const SearchResult result = planner.search({.evaluations = 4});
  ASSERT_TRUE(result.fitting.empty());
  try {
    refuse_machine(report_of(planner, result));
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                MatchesRegex("tiny on four: the machine is too small for every layout of this recipe; found 4 devices "
                             "of 20.00 KiB; of [0-9]+ layouts [0-9]+ are too large by their states alone, [0-9]+ were "
                             "compiled; expected .* on each device, which \".*\" needs. Give devices more memory, .*"));
  }
  EXPECT_GT(result.smallest_bytes, 20 * 1024);
  RecipePlanner alone = planner_of("20 KiB", "auto p=3", {}, 1);
  const SearchResult nothing = alone.search({.evaluations = 4});
  try {
    refuse_machine(report_of(alone, nothing));
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no layout fits the model and the recipe's lanes and chunks"));
  }
}

}  // namespace
}  // namespace ramet::tests
