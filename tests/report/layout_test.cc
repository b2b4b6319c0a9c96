#include "ramet/report/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ramet::tests {
namespace {

using testing::HasSubstr;
using testing::Not;

const LayoutFacts kFacts{.lanes = 2, .micro_batches = 16, .layers = 8};

TEST(LayoutReport, ShowsTheTableAndItsBubbleBesideOthers) {
  const std::string text = text_of(layout_report(parse_layout("p=4 r=2"), kFacts));
  EXPECT_THAT(text,
              testing::StartsWith("layout p=4 r=2: 8 devices, 8 micro-batches a replica\n\nstage 0  F0 F1 F2 F3 .  "));
  EXPECT_THAT(text, HasSubstr("* 1f1b             27.3%     33.00  4\n"));
  EXPECT_THAT(text, HasSubstr("  gpipe            27.3%     33.00  8\n"));
  EXPECT_THAT(text, HasSubstr("  interleaved:2    15.8%     28.50  6\n"));
  EXPECT_THAT(text, HasSubstr("  zero-bubble      11.1%     27.00  4\n"));
  EXPECT_THAT(text, HasSubstr("zero-bubble pays here: 5.3% less time than the best of the others"));
}

TEST(LayoutReport, ZeroBubbleDoesNotPayWhenThePipelineIsFull) {
  const LayoutFacts many{.micro_batches = 512, .layers = 8};
  EXPECT_THAT(text_of(layout_report(parse_layout("p=2"), many)), HasSubstr("zero-bubble does not pay here"));
  EXPECT_THAT(text_of(layout_report(parse_layout("phases=2"), many)), Not(HasSubstr("zero-bubble")));
}

TEST(LayoutReport, JsonReadsBack) {
  const auto json =
      nlohmann::json::parse(json_of(layout_report(parse_layout("p=2 schedule=interleaved:2 r=2"), kFacts)));
  EXPECT_EQ(json["layout"], "p=2 r=2 schedule=interleaved:2");
  EXPECT_EQ(json["devices"], 4);
  EXPECT_EQ(json["schedule"], "interleaved:2");
  EXPECT_NEAR(json["bubble"].get<double>(), 1.0 / 17, 1e-12);
  EXPECT_EQ(json["stages"][0][0], "F0/0");
  EXPECT_EQ(json["stages"][1].size(), 2u * 2 * 8);
  EXPECT_EQ(json["choices"].size(), 4u);
  EXPECT_EQ(json["in_flight"].size(), 4u);
}

}  // namespace
}  // namespace ramet::tests
