#include "ramet/layout/schedule_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "ramet/base/error.h"

namespace ramet::tests {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ScheduleOutcome outcome_of(const std::string& layout, int64_t micro_batches) {
  const ScheduleTable table = make_schedule(parse_layout(layout), micro_batches);
  return outcome_of(table, unit_times(table.parts(), table.split_backward));
}
std::string drawn(const std::string& layout, int64_t micro_batches, int64_t columns = 0) {
  const ScheduleTable table = make_schedule(parse_layout(layout), micro_batches);
  return text_of(table, unit_times(table.parts(), table.split_backward), columns);
}

/// Every layout whose schedules are tried: all kinds, stages, phases, parts a device and places of the head.
std::vector<std::string> all_layouts() {
  std::vector<std::string> layouts = {"p=1", "p=1 schedule=gpipe", "phases=3", "phases=3 schedule=gpipe"};
  for (int p = 2; p <= 6; ++p)
    for (const char* head : {"", " head=first"})
      for (const char* kind : {" schedule=gpipe", "", " schedule=zero-bubble", " schedule=interleaved:2",
                               " schedule=interleaved:3", " phases=2", " phases=3 schedule=gpipe"})
        layouts.push_back("p=" + std::to_string(p) + kind + head);
  return layouts;
}

TEST(Schedule, EveryTableIsWholeInOrderAndRunsToItsEnd) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> seconds(0.1, 3);
  for (const auto& text : all_layouts()) {
    const Layout layout = parse_layout(text);
    for (int64_t micro_batches = 1; micro_batches <= 14; ++micro_batches) {
      SCOPED_TRACE(text + ", " + std::to_string(micro_batches) + " micro-batches");
      const ScheduleTable table = make_schedule(layout, micro_batches);
      ASSERT_EQ(table.parts(), layout.model_parts());
      // Each pass of a part takes every micro-batch once, in order, on the part's stage.
      std::map<std::pair<Pass, int>, int64_t> next;
      for (size_t stage = 0; stage < table.entries.size(); ++stage)
        for (const auto& entry : table.entries[stage]) {
          ASSERT_EQ(entry.part % layout.p, static_cast<int>(stage));
          ASSERT_EQ((next[{entry.pass, entry.part}]++), entry.micro);
          if (entry.pass == Pass::kBackward) {
            ASSERT_GT((next[{Pass::kForward, entry.part}]), entry.micro);
          }
          if (entry.pass == Pass::kWeightGradient) {
            ASSERT_GT((next[{Pass::kBackward, entry.part}]), entry.micro);
          }
        }
      ASSERT_EQ(next.size(), static_cast<size_t>(table.parts()) * (table.split_backward ? 3 : 2));
      for (const auto& [pass, count] : next) ASSERT_EQ(count, micro_batches);
      // It runs whatever passes take, and never faster than its busiest stage or its longest chain.
      PassTimes times = unit_times(table.parts(), table.split_backward);
      for (int trial = 0; trial < 3; ++trial) {
        const ScheduleOutcome outcome = outcome_of(table, times);
        ASSERT_GE(outcome.makespan, *std::max_element(outcome.busy.begin(), outcome.busy.end()) * (1 - 1e-12));
        double chain = 2 * (table.parts() - 1) * (layout.p > 1 ? times.transfer : 0);
        for (const auto& part : times.of_part) chain += part[0] + part[1];
        ASSERT_GE(outcome.makespan, chain * (1 - 1e-12));
        ASSERT_THAT(outcome.in_flight, Each(AllOf(testing::Ge(1), testing::Le(micro_batches))));
        for (auto& part : times.of_part)
          part = {seconds(random), seconds(random), table.split_backward ? seconds(random) : 0};
        times.transfer = seconds(random);
      }
    }
  }
}

TEST(Schedule, BubblesAreTheKnownOnes) {
  for (int64_t p = 1; p <= 8; ++p)
    for (int64_t m : {1, 2, 3, 5, 8, 16, 33}) {
      const std::string stages = "p=" + std::to_string(p);
      const double expected = static_cast<double>(p - 1) / static_cast<double>(m + p - 1);
      EXPECT_NEAR(outcome_of(stages + " schedule=gpipe", m).bubble, expected, 1e-12) << stages << " " << m;
      EXPECT_NEAR(outcome_of(stages, m).bubble, expected, 1e-12) << stages << " " << m;
    }
  for (int64_t p = 2; p <= 6; ++p)
    for (int64_t v = 2; v <= 4; ++v)
      for (int64_t rounds : {1, 2, 5}) {
        const int64_t m = p * rounds;
        const auto outcome = outcome_of("p=" + std::to_string(p) + " schedule=interleaved:" + std::to_string(v), m);
        EXPECT_NEAR(outcome.bubble, static_cast<double>(p - 1) / static_cast<double>(v * m + p - 1), 1e-12)
            << p << " " << v << " " << m;
      }
}

TEST(Schedule, ZeroBubbleLeavesAThird) {
  for (int64_t p = 2; p <= 8; ++p)
    for (int64_t m : {p, 2 * p, 4 * p + 1}) {
      const auto one = outcome_of("p=" + std::to_string(p), m);
      const auto zero = outcome_of("p=" + std::to_string(p) + " schedule=zero-bubble", m);
      EXPECT_EQ(one.makespan, 3 * static_cast<double>(m + p - 1));
      EXPECT_EQ(zero.makespan, 3 * static_cast<double>(m) + static_cast<double>(p - 1)) << p << " " << m;
      EXPECT_THAT(zero.in_flight, Each(testing::Le(one.in_flight[0])));  // no more memory than the first stage of 1F1B
    }
}

TEST(Schedule, PhasesAreFilledLikeInterleavedChunks) {
  // Every phase but the last begins as soon as the one before has sent its first micro-batch: one bubble for all
  // phases.
  for (int64_t p = 2; p <= 4; ++p)
    for (int64_t phases : {2, 4}) {
      const int64_t m = 2 * p;
      const std::string text = "p=" + std::to_string(p) + " phases=" + std::to_string(phases);
      for (const char* kind : {" schedule=gpipe", ""})
        EXPECT_NEAR(outcome_of(text + kind, m).bubble,
                    static_cast<double>(p - 1) / static_cast<double>(phases * m + p - 1), 1e-12)
            << text << kind;
    }
}

TEST(Schedule, MemoryInFlightIsTheKnownOne) {
  EXPECT_THAT(outcome_of("p=4 schedule=gpipe", 9).in_flight, ElementsAre(9, 9, 9, 9));
  EXPECT_THAT(outcome_of("p=4", 9).in_flight, ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(outcome_of("p=4", 2).in_flight, ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(outcome_of("p=4 schedule=zero-bubble", 9).in_flight, ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(outcome_of("phases=3", 5).in_flight, ElementsAre(5, 5, 1));
  EXPECT_THAT(outcome_of("p=2 phases=2", 5).in_flight, ElementsAre(5, 5, 2, 1));
  EXPECT_THAT(outcome_of("p=1", 5).in_flight, ElementsAre(1));
}

TEST(Schedule, AHeadOnTheFirstStageIsOneMoreHop) {
  for (int64_t p = 2; p <= 6; ++p) {
    const Layout layout = parse_layout("p=" + std::to_string(p) + " head=first");
    const int64_t m = 4 * p;
    // As BERT-large on four devices: the head takes from the first stage what it adds to it.
    PassTimes times = unit_times(static_cast<int>(p) + 1, false);
    times.of_part.front() = {0.5, 1, 0};
    times.of_part.back() = {0.5, 1, 0};
    const ScheduleTable table = make_schedule(layout, m, &times);
    const ScheduleOutcome outcome = outcome_of(table, times);
    // As fast as p + 1 stages would be of which each does 3, and with what these would keep.
    EXPECT_LE(outcome.makespan, 3 * static_cast<double>(m + p)) << p;
    for (int64_t part = 0; part <= p; ++part)
      EXPECT_LE(outcome.in_flight[static_cast<size_t>(part)], p + 3 - part) << p << " " << part;
  }
}

TEST(Schedule, BertLargeOnFourDevicesWaitsNoLongerWithItsHeadInFront) {
  const LayoutFacts bert_large{.layers = 24, .layer_work = 12.0 * 1024 * 1024, .head_work = 1024 * 30522 * 0.15};
  const auto makespan = [&](const std::string& text) {
    const Layout layout = parse_layout(text);
    const PassTimes times = estimated_times(layout, bert_large, layout.schedule == PipelineSchedule::kZeroBubble);
    return outcome_of(make_schedule(layout, 16, &times), times).makespan;
  };
  EXPECT_LE(makespan("p=4 head=first"), makespan("p=4"));
  EXPECT_LE(makespan("p=4 head=first schedule=zero-bubble"), makespan("p=4 schedule=zero-bubble"));
}

TEST(Schedule, InterleavedWithARestIsNearlyAsGood) {
  for (int64_t p = 2; p <= 6; ++p)
    for (int64_t m = p; m <= 4 * p; ++m) {
      const auto outcome = outcome_of("p=" + std::to_string(p) + " schedule=interleaved:2", m);
      const auto plain = outcome_of("p=" + std::to_string(p), m);
      EXPECT_LE(outcome.makespan / 2, plain.makespan) << p << " " << m;
    }
}

TEST(Schedule, TextShowsTheOrderOverTime) {
  EXPECT_EQ(drawn("p=2 schedule=gpipe", 2),
            "stage 0  F0 F1 .  .  .  B0--- B1---\n"
            "stage 1  .  F0 F1 B0--- B1---\n");
  EXPECT_EQ(drawn("p=2", 3),
            "stage 0  F0 F1 .  .  B0--- F2 B1--- .  B2---\n"
            "stage 1  .  F0 B0--- F1 B1--- F2 B2---\n");
  EXPECT_EQ(drawn("p=2 schedule=zero-bubble", 3),
            "stage 0  F0 F1 .  B0 W0 F2 B1 W1 B2 W2\n"
            "stage 1  .  F0 B0 F1 B1 W0 F2 B2 W1 W2\n");
  EXPECT_EQ(drawn("p=1 phases=2", 2), "stage 0  F0/0 F1/0 F0/1 B0/1----- F1/1 B1/1----- B0/0----- B1/0-----\n");
  EXPECT_EQ(drawn("p=2 schedule=gpipe", 2, 5),
            "stage 0  F0 F1 ... and 2 more\nstage 1  .  F0 F1 B0--- ... and 1 more\n");
}

TEST(Schedule, MegatronsInterleavedOrder) {
  const ScheduleTable table = make_schedule(parse_layout("p=2 schedule=interleaved:2"), 4);
  std::string first;
  for (const auto& entry : table.entries[0])
    first += letter_of(entry.pass) + std::to_string(entry.micro) + "/" + std::to_string(entry.part) + " ";
  // Lead of 2 (p - 1) + (v - 1) p = 4 forward passes.
  EXPECT_EQ(first, "F0/0 F1/0 F0/2 F1/2 F2/0 B0/2 F3/0 B1/2 F2/2 B0/0 F3/2 B1/0 B2/2 B3/2 B2/0 B3/0 ");
}

TEST(Schedule, ATableThatWaitsForEverIsFound) {
  ScheduleTable table = make_schedule(parse_layout("p=2"), 2);
  std::swap(table.entries[1][0], table.entries[1][1]);
  try {
    outcome_of(table, unit_times(2, false));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("the schedule waits for ever: stage 0 cannot begin B0 of part 0, stage 1 cannot begin B0 of part 1"));
  }
  table.entries[1].pop_back();
  EXPECT_THROW(outcome_of(table, unit_times(2, false)), Error);
}

TEST(Schedule, TransfersDelayOnlyWhatCrossesStages) {
  const ScheduleTable table = make_schedule(parse_layout("p=2"), 1);
  PassTimes times = unit_times(2, false);
  times.transfer = 0.5;
  EXPECT_EQ(outcome_of(table, times).makespan, 3 + 3 + 1);
  const ScheduleTable alone = make_schedule(parse_layout("phases=2"), 1);
  EXPECT_EQ(outcome_of(alone, times).makespan, 6);
}

TEST(Schedule, ThePictureHasEveryCell) {
  const ScheduleTable table = make_schedule(parse_layout("p=2 schedule=zero-bubble"), 2);
  const std::string svg = svg_of(table, unit_times(2, true));
  EXPECT_THAT(svg, testing::StartsWith("<svg xmlns"));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  EXPECT_THAT(svg, HasSubstr("zero-bubble, 2 stages, 2 micro-batches: stages wait 14.3% of the time"));
  EXPECT_THAT(svg, HasSubstr("<title>weight gradient of micro-batch 1, part 1\nfrom 6 to 7</title>"));
  size_t cells = 0;
  for (size_t at = svg.find("<title>"); at != svg.npos; at = svg.find("<title>", at + 1)) ++cells;
  EXPECT_EQ(cells, 12u);
}

TEST(Schedule, EstimatesFollowLayersAndHead) {
  const LayoutFacts bert_large{.layers = 24, .layer_work = 12.0 * 1024 * 1024, .head_work = 1024 * 30522 * 0.15};
  const PassTimes times = estimated_times(parse_layout("p=4 layers=3+7+7+7 head=first"), bert_large, false);
  ASSERT_EQ(times.of_part.size(), 5u);
  EXPECT_NEAR(times.of_part[1][0] / times.of_part[0][0], 7.0 / 3, 1e-12);
  EXPECT_NEAR(times.of_part[1][1], 2 * times.of_part[1][0], 1e-12);
  EXPECT_NEAR(times.of_part[4][0] / (times.of_part[0][0] / 3), 1024 * 30522 * 0.15 / (12 * 1024 * 1024), 1e-12);
  double total = 0;
  for (const auto& part : times.of_part) total += part[0];
  EXPECT_NEAR(total, 4, 1e-12);
  const PassTimes split = estimated_times(parse_layout("p=4 recompute=layer"), bert_large, true);
  for (const auto& part : split.of_part) EXPECT_THAT(part, ElementsAre(1, 2, 1));
}

TEST(Schedule, ChoicesTellWhereZeroBubblePays) {
  const auto choices = compare_schedules(parse_layout("p=4 schedule=gpipe"), {.layers = 24}, 8);
  ASSERT_EQ(choices.size(), 4u);
  EXPECT_EQ(choices[0].schedule, PipelineSchedule::kGpipe);
  EXPECT_EQ(choices[0].in_flight, 8);
  EXPECT_EQ(choices[1].schedule, PipelineSchedule::kOneFOneB);
  EXPECT_EQ(choices[1].in_flight, 4);
  EXPECT_EQ(choices[2].schedule, PipelineSchedule::kInterleaved);
  EXPECT_EQ(choices[3].schedule, PipelineSchedule::kZeroBubble);
  EXPECT_LT(choices[3].makespan, choices[2].makespan);
  EXPECT_LT(choices[2].makespan, choices[1].makespan);
  EXPECT_EQ(compare_schedules(parse_layout("p=4"), {.layers = 4}, 8).size(), 3u);  // no layers for two parts a stage
  EXPECT_EQ(compare_schedules(parse_layout("p=4 phases=2"), {.layers = 24}, 8).size(), 2u);
  EXPECT_EQ(compare_schedules(parse_layout("phases=2"), {.layers = 24}, 8).size(), 1u);
}

}  // namespace
}  // namespace ramet::tests
