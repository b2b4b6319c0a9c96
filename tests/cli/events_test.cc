#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "ramet/base/file.h"
#include "ramet/model/array_file.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class EventCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string events;  // 200, of which 140 are trained on: seven samples an epoch
    for (int i = 0; i < 200; ++i)
      events += std::to_string(i * i % 23) + " " + std::to_string(23 + i * 7 % 11) + " " + std::to_string(i) + "\n";
    write_file_atomic(folder_ / "events.txt", events);
    ASSERT_EQ(ramet({"graphs", "prepare", "events", "events.txt", "--out", "set.safetensors", "--apply",
                     "split-by-time=70:15:15"})
                  .status,
              0);
    write_file_atomic(folder_ / "r.toml",
                      "[model]\nkind = \"tgn\"\n[model.tgn]\nmemory = 8\ntime = 8\nembedding = 8\n[data]\n"
                      "kind = \"events\"\n[data.events]\nset = \"set.safetensors\"\nbatch = 20\nrecent = 3\n"
                      "[train]\nepochs = 20\nmicro_batch = 1\nchunks = 2\nprecision = \"f32\"\n[train.schedule]\n"
                      "kind = \"constant\"\nlearning_rate = 0.01\n[train.checkpoint]\nevery = 4\n");
  }
  Outcome ramet(const std::vector<std::string>& arguments) { return Process(arguments, folder_.path()).wait(); }
  json told(const std::vector<std::string>& arguments) {
    const Outcome outcome = ramet(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? json::parse(outcome.last_line()) : json();
  }
  TemporaryFolder folder_;
};

/// Step 11 is the fourth of the second epoch, and the checkpoint before it is of the first step of that epoch.
TEST_F(EventCommands, AKilledRunGoesOnInTheMiddleOfAnEpochWithTheSameBits) {
  const std::vector<std::string> train = {"train", "r.toml", "--json", "--threads", "1", "--run"};
  std::vector<std::string> whole = train, broken = train;
  whole.push_back("runs/whole"), broken.push_back("runs/killed");
  const json expected = told(whole);
  bool killed = false;
  for (int round = 0; round < 5 && !killed; ++round) {  // again if the run ended before the signal came
    std::filesystem::remove_all(folder_ / "runs" / "killed");
    Process first(broken, folder_.path());
    first.wait_for("\"step\":11,");
    first.signal(SIGKILL);
    killed = first.wait().status == -1;
  }
  ASSERT_TRUE(killed);
  const json resumed = told({"train", "--resume", "runs/killed", "--json", "--layout", "t=2"});
  EXPECT_EQ(resumed["weights_hash"], expected["weights_hash"]);
  EXPECT_EQ(resumed["held_out_average_precision"], expected["held_out_average_precision"]);
}

TEST_F(EventCommands, PredictWritesTheScoresOfEvents) {
  const json trained = told({"train", "r.toml", "--json", "--threads", "1", "--set", "train.epochs=1"});
  const std::string run = trained["run_directory"];
  const json end = told({"predict", run, "--set", "data.events.held_out=test", "--out", "scores.npz", "--json"});
  EXPECT_EQ(end["samples"], 60);
  EXPECT_EQ(end["results"], json::array({"event", "part", "source", "target", "negative", "score", "negative_score"}));
  const std::vector<ArrayColumn> arrays = open_arrays((folder_ / "scores.npz").string());
  EXPECT_EQ(arrays.size(), 7u);
  EXPECT_THAT(ramet({"predict", run}).err, HasSubstr("data.events.held_out=test"));
  EXPECT_THAT(ramet({"predict", run, "a text", "--out", "x.npz"}).err, HasSubstr("--set data.events.set=FILE"));
  EXPECT_THAT(ramet({"predict", run, "--out", "x.npz", "--layout", "r=2"}).err, HasSubstr("chain"));
}

}  // namespace
}  // namespace ramet::tests
