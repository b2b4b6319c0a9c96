#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/process.h"
#include "cli/small_recipe.h"
#include "ramet/base/file.h"
#include "support/small_machine.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class PlanSearch : public ::testing::Test {
 protected:
  PlanSearch() {
    write_file_atomic(folder_ / "small.toml",
                      small_recipe("small", kTwoLayers, "steps = 3\nmicro_batch = 2\nlanes = 2\nchunks = 2\n", 0));
    write_file_atomic(folder_ / "two.toml", small_machine_text("two", 2, "64 MiB", false));
    write_file_atomic(folder_ / "tiny.toml", small_machine_text("two", 2, "16 KiB", false));
  }
  Outcome ramet(const std::vector<std::string>& arguments) { return Process(arguments, folder_.path()).wait(); }

  TemporaryFolder folder_;
};

TEST_F(PlanSearch, PrintsTheLayoutsOfAMachine) {
  const Outcome text = ramet(
      {"plan", "small.toml", "--machine", "two.toml", "--layout", "auto", "--candidates", "6", "--samples", "1000"});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("small on two (2 x small, 64.00 MiB each)"));
  EXPECT_THAT(text.out, HasSubstr("*+ "));
  EXPECT_THAT(text.out, HasSubstr("1000 samples take"));
  EXPECT_THAT(text.out, HasSubstr("refused beside the best:"));
  EXPECT_THAT(text.err, HasSubstr("simulated, "));
  const Outcome outcome =
      ramet({"plan", "small.toml", "--machine", "two.toml", "--layout", "auto", "--candidates", "6", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const json found = json::parse(outcome.last_line());
  ASSERT_GT(found["layouts"].size(), 0u);
  EXPECT_LE(found["evaluated"], 6);
  for (const json& layout : found["layouts"]) {
    EXPECT_LE(layout["bound_seconds"], layout["step_seconds"]);
    EXPECT_LE(layout["memory_bytes"], 64 << 20);
  }
}

// Four stages by four replicas with the optimizer's state streamed, three layers beside the word table; and eight stages
// with everything in device memory: as they are published.
TEST_F(PlanSearch, FindsThePublishedMappingsOfBertLarge) {
  const auto best = [&](const std::string& recipe, std::vector<std::string> more) {
    std::vector<std::string> words = {"plan", RAMET_SOURCE_DIR "/examples/published/" + recipe, "--machine", "ipu-pod16",
                                      "--candidates", "6", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = ramet(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.last_line())["layouts"][0];
  };
  const json four = best("bert-large-phase1.toml",
                         {"--layout", "auto p=4 rts=weights,grads,optimizer recompute=layer offload=optimizer"});
  EXPECT_EQ(four["layout"],
            "p=4 r=4 rts=weights,grads,optimizer recompute=layer offload=optimizer layers=3+7+7+7");
  EXPECT_LE(four["memory_bytes"], 897ll << 20);
  const json eight = best("bert-large-phase2.toml", {"--set", "train.micro_batch=3", "--set", "train.accumulation=512",
                                                     "--set", "train.lanes=2", "--set", "train.optimizer.state=f16",
                                                     "--layout", "auto p=8 recompute=layer offload=none rts=optimizer"});
  EXPECT_THAT(eight["layout"].get<std::string>(), HasSubstr("p=8 r=2 "));
  EXPECT_EQ(eight["streaming_bytes"], 0);
  EXPECT_LE(eight["memory_bytes"], 897ll << 20);
}

TEST_F(PlanSearch, KeepsFixedKeysAndSaysWhatIsWrongWithThem) {
  const Outcome outcome = ramet({"plan", "small.toml", "--machine", "two.toml", "--layout", "auto p=2", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json found = json::parse(outcome.last_line());
  for (const json& layout : found["layouts"]) EXPECT_THAT(layout["layout"].get<std::string>(), HasSubstr("p=2"));
  const Outcome wrong = ramet({"plan", "small.toml", "--layout", "auto p=x"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--layout p: "));
  const Outcome none = ramet({"plan", "small.toml", "--machine", "two.toml", "--layout", "auto p=7"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("no layout fits the model and the recipe's lanes and chunks"));
}

TEST_F(PlanSearch, OfOneLayoutOnAnotherMachineIsWhatTheSearchAndTheSimulatorSay) {
  const std::vector<std::string> machine = {"--machine", "two.toml", "--json"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), machine.begin(), machine.end());
    const Outcome outcome = ramet(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.last_line());
  };
  const json best = with({"plan", "small.toml", "--layout", "auto p=2"})["layouts"][0];
  const std::string layout = best["layout"];
  const json planned = with({"plan", "small.toml", "--layout", layout}),
             simulated = with({"simulate", "small.toml", "--layout", layout});
  EXPECT_EQ(planned["step_seconds"], best["step_seconds"]);
  EXPECT_EQ(planned["planned_bytes"], best["memory_bytes"]);
  EXPECT_EQ(simulated["tokens_per_second"], planned["tokens_per_second"]);
  const Outcome refused = ramet({"plan", "small.toml", "--machine", "two.toml", "--layout", "p=2 r=2"});
  EXPECT_EQ(refused.status, 2);
  const Outcome saved = ramet({"plan", "small.toml", "--machine", "two.toml", "--save", "program"});
  EXPECT_EQ(saved.status, 2);
  EXPECT_THAT(saved.err, HasSubstr("--save: one file holds the program of one device of this machine"));
}

TEST_F(PlanSearch, SaysWhatATooSmallMachineWouldNeed) {
  const Outcome outcome = ramet({"plan", "small.toml", "--machine", "tiny.toml", "--layout", "auto"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("the machine is too small for every layout of this recipe"));
  EXPECT_THAT(outcome.err, HasSubstr("or a machine with streaming memory"));
}

TEST_F(PlanSearch, EndsOnCtrlCWithTheBestSoFar) {
  Process process({"plan", "small.toml", "--machine", "two.toml", "--layout", "auto", "--candidates", "0", "--set",
                   "train.accumulation=256", "--set", "model.layers=8"},
                  folder_.path());
  // A layout that was simulated stands in the line of the next one.
  for (int i = 0; i < 6000 && !process.ended(); ++i) {
    if (process.errors().find("; best ") != std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  process.signal(SIGINT);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("stopped: the best so far"));
  EXPECT_THAT(outcome.out, HasSubstr("use it with: --layout"));
}

TEST_F(PlanSearch, TrainsOnTheLayoutThatItFindsWithTheSameBits) {
  const Outcome one = ramet({"train", "small.toml", "--json"}),
                found = ramet({"train", "small.toml", "--layout", "auto", "--json"});
  ASSERT_EQ(one.status, 0) << one.err;
  ASSERT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(json::parse(found.last_line())["weights_hash"], json::parse(one.last_line())["weights_hash"]);
}

}  // namespace
}  // namespace ramet::tests
