#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "ramet/base/file.h"
#include "ramet/machine/machine_toml.h"
#include "support/mpi.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

TEST(ProbeCli, WritesAMachineAndTellsHowFarItIs) {
  const TemporaryFolder folder;
  const Outcome outcome = Process({"probe", "--seconds", "0.3", "--out", "mine.toml"}, folder.path()).wait();
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("written to mine.toml"));
  EXPECT_THAT(outcome.err, HasSubstr("square products of f32"));
  EXPECT_THAT(outcome.err, HasSubstr("%"));
  const Machine machine = load_machine((folder / "mine.toml").string());
  EXPECT_GT(machine.device.peak(DType::kF32), 0);
}

TEST(ProbeCli, PrintsJson) {
  const TemporaryFolder folder;
  const Outcome outcome = Process({"probe", "--seconds", "0.2", "--json"}, folder.path()).wait();
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.last_line());
  EXPECT_EQ(json["file"], "local.toml");
  EXPECT_GT(json["f32_flops"], 0);
  EXPECT_EQ(outcome.err, "");
}

TEST(ProbeCli, UnderMpirunMeasuresTheLinksBetweenRanks) {
  if (const std::string reason = why_no_mpi(); !reason.empty()) GTEST_SKIP() << reason;
  const TemporaryFolder folder;
  const Outcome outcome = Process({"probe", "--seconds", "0.3", "--json"}, folder.path(), mpi_launcher(2)).wait();
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Machine machine = load_machine((folder / "local.toml").string());
  EXPECT_EQ(machine.devices, 2);
  ASSERT_EQ(machine.links.size(), 1u);
  EXPECT_EQ(machine.links[0].name, "memory of a host");
  EXPECT_THAT(machine.notes.at("links.0.bandwidth").source, HasSubstr("between ranks of one host"));
}

TEST(ProbeCli, RefusesWhatCannotBe) {
  const TemporaryFolder folder;
  const Outcome wide = Process({"probe", "--threads", "4000"}, folder.path()).wait();
  EXPECT_EQ(wide.status, 2);
  EXPECT_THAT(wide.err, HasSubstr("too few processors for one device"));
  const Outcome nowhere =
      Process({"probe", "--seconds", "0.2", "--out", "no/such/folder/m.toml"}, folder.path()).wait();
  EXPECT_NE(nowhere.status, 0);
  EXPECT_THAT(nowhere.err, HasSubstr("no/such/folder"));
}

}  // namespace
}  // namespace ramet::tests
