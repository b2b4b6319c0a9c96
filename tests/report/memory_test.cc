#include "ramet/report/memory.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ramet::tests {
namespace {

Executable sample() {
  Executable exe;
  exe.instants = 8;
  exe.buffers = {{"w<1>", BufferClass::kWeights, 6400, 0, 0, 7},
                 {"x", BufferClass::kHost, 640, 6400, 0, 1},
                 {"y", BufferClass::kActivations, 1280, 7040, 1, 2},
                 {"z", BufferClass::kActivations, 640, 6400, 2, 3}};
  exe.segments = {{"step",
                   PieceKind::kForward,
                   0,
                   0,
                   {{-1, "first", {1}, {2}, kNoBuffer}, {-1, "second", {2}, {3}, kNoBuffer}},
                   {},
                   {},
                   {},
                   {},
                   0,
                   3}};
  exe.segments[0].instructions[0].origin = "mine.cc:12";
  exe.arena_bytes = 8320;
  exe.bound_bytes = 8320;
  exe.peak_instant = 1;
  exe.placement = "size";
  return exe;
}

TEST(MemoryReport, CountsByClass) {
  const MemoryReport report = memory_report(sample(), 2);
  EXPECT_EQ(report.planned_bytes, 8320);
  EXPECT_EQ(report.peak, "step: copy 'first' of mine.cc:12");
  EXPECT_EQ(report.at_peak[static_cast<size_t>(BufferClass::kWeights)], 6400);
  EXPECT_EQ(report.at_peak[static_cast<size_t>(BufferClass::kActivations)], 1280);
  EXPECT_EQ(report.most[static_cast<size_t>(BufferClass::kActivations)], 1920);
  ASSERT_EQ(report.largest.size(), 2u);
  EXPECT_EQ(report.largest[0].name, "w<1>");
  EXPECT_EQ(report.largest[0].origin, "") << "a weight is there before any line";
  EXPECT_EQ(report.largest[1].name, "y");
  EXPECT_EQ(report.largest[1].origin, "mine.cc:12") << "of the instruction that makes it";
  EXPECT_EQ(report.largest[1].to, "step: copy 'second'");
  const std::string text = text_of(report);
  EXPECT_NE(text.find("most is live at  step: copy 'first' of mine.cc:12"), std::string::npos) << text;
  EXPECT_NE(text.find("activations y of mine.cc:12\n"), std::string::npos) << text;
}

TEST(MemoryReport, JsonReadsBack) {
  const auto json = nlohmann::json::parse(json_of(memory_report(sample())));
  EXPECT_EQ(json["planned_bytes"], 8320);
  EXPECT_EQ(json["classes"]["weights"]["at_peak"], 6400);
  EXPECT_EQ(json["largest"].size(), 3u);
  EXPECT_EQ(json["largest"][1]["origin"], "mine.cc:12");
}

TEST(MemoryReport, PictureHasARectangleABuffer) {
  const std::string svg = memory_svg(sample());
  size_t titles = 0;
  for (size_t at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>", at + 1)) ++titles;
  EXPECT_EQ(titles, 5u);  // four buffers and the peak
  EXPECT_NE(svg.find("w&lt;1&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("w<1>"), std::string::npos);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

}  // namespace
}  // namespace ramet::tests
