#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "cli/small_recipe.h"
#include "ramet/base/file.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kSmall = small_recipe("small", kTwoLayers,
                                        R"(steps = 6
micro_batch = 2
lanes = 4
chunks = 4
precision = "f16"
)",
                                        4);

/// Two devices with a link and no memory beside them.
constexpr const char* kPair = R"(name = "pair"
devices = 2

[device]
model = "cores"
units = 4
clock = 1e9
overhead = 1e-6
operations_per_cycle = { f32 = 16, f16 = 32 }

[memory.device]
bytes = "1 GiB"
read = 1e10
write = 1e10

[[links]]
name = "wire"
topology = "ring"
group = 2
links = 1
bandwidth = 1e9
latency = 1e-6
)";

class SimulateCli : public ::testing::Test {
 protected:
  SimulateCli() {
    write_file_atomic(folder_ / "small.toml", kSmall);
    write_file_atomic(folder_ / "pair.toml", kPair);
  }
  Outcome simulate(std::vector<std::string> more) {
    more.insert(more.begin(), {"simulate", "small.toml"});
    return Process(more, folder_.path(), {}).wait();
  }
  TemporaryFolder folder_;
};

TEST_F(SimulateCli, SaysWhereTheTimeOfAStepGoes) {
  const Outcome outcome = simulate({"--machine", "pair.toml", "--layout", "p=2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* part : {"small on pair, layout p=2", "2 of 2 devices", "wire", "step: ", "bubble: ", "of the peak"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  const Outcome machine = simulate({"--machine", "pair.toml", "--layout", "p=2", "--json"});
  const json end = json::parse(machine.last_line(), nullptr, false);
  ASSERT_TRUE(end.contains("simulation")) << machine.out;
  const json& result = end["simulation"];
  EXPECT_GT(result["step_seconds"], 0);
  EXPECT_GT(result["bubble"], 0);
  ASSERT_EQ(result["stages"].size(), 2u);
  for (const json& stage : result["stages"])
    EXPECT_NEAR(stage["compute"].get<double>() + stage["exchange"].get<double>() + stage["streaming"].get<double>() +
                    stage["wait"].get<double>(),
                result["step_seconds"].get<double>(), 1e-9);
  EXPECT_GT(result["links"][0]["bytes"], 0);
}

TEST_F(SimulateCli, WritesATraceAndAPicture) {
  const Outcome outcome =
      simulate({"--machine", "pair.toml", "--layout", "r=2", "--trace", "step.pftrace", "--svg", "step.svg"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::string trace = read_file(folder_ / "step.pftrace"), svg = read_file(folder_ / "step.svg");
  EXPECT_EQ(trace[0], '\x0a') << "field 1 of a trace is a packet";
  EXPECT_THAT(trace, HasSubstr("each of devices 0, 1"));
  EXPECT_THAT(svg, HasSubstr("exchange, "));
}

TEST_F(SimulateCli, NamesWhatDoesNotFit) {
  const Outcome many = simulate({"--machine", "pair.toml", "--layout", "p=2 r=2"});
  EXPECT_EQ(many.status, 2);
  EXPECT_THAT(many.err, HasSubstr("machine pair: the layout needs more devices than the machine has; found 4 devices "
                                  "(p=2 r=2 t1=1 t2=1); expected at most 2"));
  const Outcome streams = simulate({"--machine", "pair.toml", "--layout", "phases=2 offload=weights,optimizer"});
  EXPECT_EQ(streams.status, 2);
  EXPECT_THAT(streams.err, HasSubstr("machine pair, memory.streaming: the layout streams, but the machine has no "
                                     "streaming memory"));
  const Outcome trace = simulate({"--machine", "pair.toml", "--trace", "nowhere/step.pftrace"});
  EXPECT_EQ(trace.status, 2);
  EXPECT_THAT(trace.err, HasSubstr("--trace: the file cannot be written: its folder does not exist; found "
                                   "'nowhere/step.pftrace'"));
  const Outcome machine = simulate({"--machine", "pod"});
  EXPECT_EQ(machine.status, 2);
}

}  // namespace
}  // namespace ramet::tests
