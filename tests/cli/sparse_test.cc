// Runs whose sparse patterns change after every step: ranks of MPI, and kills at any moment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cli/process.h"
#include "ramet/base/file.h"
#include "ramet/train/checkpoint.h"
#include "support/mpi.h"
#include "support/sparse_recipe.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

class SparseCli : public ::testing::Test {
 protected:
  SparseCli() {
    write_file_atomic(folder_ / "sparse.toml", sparse_recipe("gpt2", R"(steps = 20
[train.schedule]
learning_rate = 1e-3
[train.evaluation]
batches = 2
[train.checkpoint]
every = 1
[sparse]
weights = "transformer.h.*"
density = 0.3
cells = 4
every = 1
prune_schedule = "constant"
)"));
  }
  Outcome ramet(const Words& arguments, int ranks = 0) {
    return Process(arguments, folder_.path(), ranks > 0 ? mpi_launcher(ranks) : Words{}).wait();
  }
  /// The end of a run of the recipe with more words.
  json train(const Words& more, int ranks = 0) {
    Words words{"train", "sparse.toml", "--threads", "1", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = ramet(words, ranks);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return last(outcome);
  }
  /// Whether the run has a whole one; a kill may leave a part, under another name.
  bool has_checkpoint() const { return !train::list_checkpoints(folder_ / "run/checkpoints").empty(); }
  static json last(const Outcome& outcome) { return json::parse(outcome.last_line(), nullptr, false); }

  TemporaryFolder folder_;
};

TEST_F(SparseCli, RanksOfMpiChangePatternsAlike) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  for (const Words& form : {Words{}, Words{"--set", "sparse.regrow=gradient", "--set", "sparse.first_density=0.9",
                                           "--set", "sparse.block=2"}}) {
    const auto run = [&](const std::string& layout, int ranks) {
      Words words{"--steps", "3", "--layout", layout};
      words.insert(words.end(), form.begin(), form.end());
      return train(words, ranks)["weights_hash"];
    };
    const json one = run("p=1", 0);
    for (const auto& [layout, ranks] : {std::pair{"t=2", 2}, {"r=2 rts=weights,grads,optimizer", 2}, {"p=2 t=2", 4}})
      EXPECT_EQ(run(layout, ranks), one) << layout << " " << testing::PrintToString(form);
  }
}

TEST_F(SparseCli, KilledAtAnyMomentOfAChangeItGoesOnWithTheSameBits) {
  const json hash = train({})["weights_hash"];
  std::mt19937 random(7);
  int killed = 0;
  const Words begin{"train", "sparse.toml", "--run", "run", "--threads", "1", "--json"};
  Words next = begin;
  // Every step ends with a change of the patterns and a checkpoint, so a kill falls before, in or after one.
  for (int round = 0; round < 60 && killed < 8; ++round) {
    Process process(next, folder_.path());
    process.wait_for("\"event\":\"step\"");
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    process.signal(SIGKILL);
    if (process.wait().status == -1) ++killed;
    if (has_checkpoint()) {
      next = {"train", "--resume", "run", "--json", "--layout", round % 2 == 0 ? "t=2" : "r=2 rts=optimizer"};
    } else {
      EXPECT_EQ(next, begin) << "a resumed run lost its checkpoint";
      std::filesystem::remove_all(folder_ / "run");
    }
  }
  EXPECT_GE(killed, 3);
  const Outcome end = ramet(next);
  ASSERT_EQ(end.status, 0) << end.err;
  EXPECT_EQ(last(end)["weights_hash"], hash);
  EXPECT_EQ(last(end)["steps"], 20);
}

TEST_F(SparseCli, AnotherDensityIsRefusedAndNothingIsLost) {
  const json whole = train({})["weights_hash"];
  train({"--run", "run", "--steps", "10"});
  for (const char* setting : {"sparse.density=0.5", "sparse.block=2", "sparse.cells=1", "sparse.prune_ratio=0.25"}) {
    const Outcome refused = ramet({"train", "--resume", "run", "--set", setting});
    EXPECT_NE(refused.status, 0) << setting;
    EXPECT_THAT(refused.err, HasSubstr("sparse")) << setting;
  }
  const Outcome resumed = ramet({"train", "--resume", "run", "--json"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(last(resumed)["weights_hash"], whole);
}

// The memory that a POD's report shows is what the plan gives to weights, moments and patterns that store a fifth.
TEST_F(SparseCli, APodsReportHasTheMemoryOfThePlan) {
  const auto plan_of = [&](const Words& more) {
    Words words{"plan", "sparse.toml", "--machine", "ipu-pod16", "--layout", "t=2", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = ramet(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return last(outcome)["devices"][0];
  };
  // Wide enough that weights of the layers outweigh the rest.
  const Words wide{"--set", "model.hidden=256"};
  Words sparse = wide, dense = wide;
  sparse.insert(sparse.end(), {"--set", "sparse.density=0.2"});
  dense.insert(dense.end(), {"--set", "sparse.density=1"});
  const json few = plan_of(sparse), all = plan_of(dense);
  for (const char* part : {"weights", "optimizer"})
    EXPECT_LT(few["parts"][part].get<double>(), 0.6 * all["parts"][part].get<double>()) << few << all;
  Words words{"simulate", "sparse.toml", "--machine", "ipu-pod16", "--layout", "t=2", "--json"};
  words.insert(words.end(), sparse.begin(), sparse.end());
  const Outcome outcome = ramet(words);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(last(outcome)["simulation"]["stages"][0]["planned_bytes"], few["planned_bytes"]);
}

}  // namespace
}  // namespace ramet::tests
