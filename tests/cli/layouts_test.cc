#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cli/process.h"
#include "cli/small_recipe.h"
#include "ramet/base/file.h"
#include "ramet/track/run_log.h"
#include "support/mpi.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const std::string kSmallBert = small_recipe("small", kTwoLayers,
                                            R"(steps = 6
micro_batch = 2
lanes = 4
chunks = 4
clip_norm = 1.0
precision = "bf16"
)",
                                            2);

class LayoutCli : public ::testing::Test {
 protected:
  LayoutCli() { write_file_atomic(folder_ / "small.toml", kSmallBert); }

  Outcome ramet(const std::vector<std::string>& arguments, int ranks = 0) {
    return Process(arguments, folder_.path(), ranks > 0 ? mpi_launcher(ranks) : std::vector<std::string>{}).wait();
  }
  static json last(const Outcome& outcome) { return json::parse(outcome.last_line(), nullptr, false); }
  json train(std::vector<std::string> more, int ranks = 0) {
    more.insert(more.begin(), {"train", "small.toml", "--json"});
    const Outcome outcome = ramet(more, ranks);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return last(outcome);
  }

  TemporaryFolder folder_;
};

TEST_F(LayoutCli, TrainsOnThreadsWithTheBitsOfOneDevice) {
  const json one = train({}), many = train({"--layout", "p=2 r=2 head=first rts=optimizer"});
  EXPECT_EQ(many["weights_hash"], one["weights_hash"]);
  EXPECT_EQ(many["loss"], one["loss"]);
  EXPECT_EQ(many["held_out_loss"], one["held_out_loss"]);
  ASSERT_EQ(many["devices"].size(), 4u);
  for (const json& device : many["devices"]) EXPECT_EQ(device["planned_bytes"], device["arena_bytes"]) << device;
}

TEST_F(LayoutCli, PackedRowsHaveTheBitsOfOneDevice) {
  for (const char* precision : {"f32", "bf16"}) {
    const std::vector<std::string> packing = {"--set", "data.packing=lpfhp",
                                              "--set", "data.packing_depth=3",
                                              "--set", "train.precision=" + std::string(precision)};
    const json one = train(packing);
    for (const char* layout : {"p=2 r=2 head=first rts=optimizer", "t=2 sequence=true",
                               "r=2 phases=2 recompute=layer offload=optimizer,activations"}) {
      std::vector<std::string> arguments = packing;
      arguments.insert(arguments.end(), {"--layout", layout});
      const json many = train(arguments);
      EXPECT_EQ(many["weights_hash"], one["weights_hash"]) << precision << ' ' << layout;
      EXPECT_EQ(many["loss"], one["loss"]) << precision << ' ' << layout;
      EXPECT_EQ(many["held_out_loss"], one["held_out_loss"]) << precision << ' ' << layout;
      for (const json& device : many["devices"]) EXPECT_EQ(device["planned_bytes"], device["arena_bytes"]) << device;
    }
  }
}

// Unit scaling stands before partitioning: no factor knows of shards.
TEST_F(LayoutCli, TrainsScaledInSixteenAndEightBitsWithTheBitsOfOneDevice) {
  for (const char* precision : {"f16", "f8"}) {
    const std::vector<std::string> scaled = {"--set", "train.scaling=unit", "--set",
                                             "train.precision=" + std::string(precision)};
    const json one = train(scaled);
    for (const char* layout :
         {"p=2 t=2 r=2 head=first rts=optimizer recompute=layer", "t=2 phases=2 offload=weights"}) {
      std::vector<std::string> spread = scaled;
      spread.insert(spread.end(), {"--layout", layout});
      const json many = train(spread);
      EXPECT_EQ(many["weights_hash"], one["weights_hash"]) << precision << " " << layout;
      EXPECT_EQ(many["loss"], one["loss"]) << precision << " " << layout;
      EXPECT_EQ(many["held_out_loss"], one["held_out_loss"]) << precision << " " << layout;
    }
  }
}

TEST_F(LayoutCli, ResumesOnAnotherLayout) {
  const json straight = train({});
  train({"--run", "run", "--steps", "4", "--layout", "t=2 phases=2"});
  const Outcome resumed = ramet({"train", "--resume", "run", "--layout", "r=4 rts=weights,grads,optimizer", "--json"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(last(resumed)["weights_hash"], straight["weights_hash"]);
}

TEST_F(LayoutCli, EvaluatesAlike) {
  const Outcome one = ramet({"eval", "small.toml", "--json"}),
                many = ramet({"eval", "small.toml", "--json", "--layout", "t=2 r=2"});
  ASSERT_EQ(many.status, 0) << many.err;
  EXPECT_EQ(last(many), last(one));
}

TEST_F(LayoutCli, PlansWhatEachDeviceHoldsAndMoves) {
  const std::vector<std::string> layout = {"plan", "small.toml", "--layout", "p=2 t=2 head=first offload=optimizer"};
  std::vector<std::string> arguments = layout;
  arguments.push_back("--json");
  const Outcome outcome = ramet(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json plan = last(outcome);
  ASSERT_EQ(plan["devices"].size(), 4u);
  for (const json& device : plan["devices"]) {
    int64_t sum = 0;
    for (const auto& [part, bytes] : device["parts"].items()) sum += bytes.get<int64_t>();
    EXPECT_EQ(sum, device["planned_bytes"].get<int64_t>()) << device;
    EXPECT_GT(device["parts"]["weights"].get<int64_t>(), 0);
    EXPECT_GT(device["streaming_bytes"].get<int64_t>(), 0);
    EXPECT_GT(device["traffic"]["load"]["bytes"].get<int64_t>(), 0);
    EXPECT_GT(device["traffic"]["send"]["count"].get<int64_t>(), 0);
    EXPECT_GT(device["supersteps"].get<int64_t>(), 0);
  }
  const json trained = train({"--layout", layout[3]});
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(trained["devices"][i]["arena_bytes"], plan["devices"][i]["planned_bytes"]);

  const Outcome text = ramet(layout);
  EXPECT_THAT(text.out, HasSubstr("device memory"));
  EXPECT_THAT(text.out, HasSubstr("streaming memory"));
  EXPECT_THAT(text.out, ContainsRegex("all_reduce t1:2 +[0-9.]+ "));
  EXPECT_THAT(text.out, ContainsRegex("bubble: [0-9.]+%"));
  arguments = layout;
  arguments.insert(arguments.end(), {"--svg", "plan.svg"});
  ASSERT_EQ(ramet(arguments).status, 0);
  const std::string svg = read_file(folder_ / "plan.svg");
  EXPECT_THAT(svg, HasSubstr("stage 1"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST_F(LayoutCli, RanksOfMpiGiveTheSameBits) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  const json one = train({"--run", "one"});
  EXPECT_EQ(train({"--layout", "p=2 r=2 head=first"}, 4)["weights_hash"], one["weights_hash"]);
  // Two devices on each rank; the checkpoint is one of any layout.
  const json many = train({"--layout", "t=2 r=2 rts=optimizer", "--run", "ranks", "--steps", "4"}, 2);
  EXPECT_EQ(many["devices"].size(), 4u);
  const Outcome resumed = ramet({"train", "--resume", "ranks", "--layout", "p=1", "--json"});
  EXPECT_EQ(last(resumed)["weights_hash"], one["weights_hash"]) << resumed.err;
}

TEST_F(LayoutCli, RanksMustDivideTheDevices) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  const Outcome outcome = ramet({"train", "small.toml", "--layout", "r=4"}, 3);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("4 devices on 3 ranks"));
}

// A plan that is kept stands beside runs, and can be begun.
TEST_F(LayoutCli, AKeptPlanIsARunThatWasOnlyPlanned) {
  for (const char* layout : {"p=1", "p=2"}) {
    const Outcome planned = ramet({"plan", "small.toml", "--layout", layout, "--keep", "--json"});
    ASSERT_EQ(planned.status, 0) << planned.err;
    const fs::path kept = folder_ / last(planned)["run_directory"].get<std::string>();
    const json plan = json::parse(read_file(kept / "plan.json")), times = json::parse(read_file(kept / "times.json"));
    EXPECT_GT(plan["planned_bytes"], 0);
    EXPECT_EQ(plan["stages"].size(), layout == std::string("p=2") ? 2u : 1u);
    EXPECT_TRUE(times["step_seconds"].is_null());
    EXPECT_GT(times["predicted_step_seconds"], 0.0);
    ASSERT_EQ(times["devices"].size(), plan["stages"].size());
    for (const json& kernel : times["devices"][0]["kernels"]) {
      EXPECT_TRUE(kernel["seconds"].is_null());
      EXPECT_GE(kernel["predicted_seconds"], 0.0);
    }
    for (const char* file : {"liveness.json", "program.json"}) EXPECT_TRUE(fs::exists(kept / file)) << file;
  }
  const Outcome listed = ramet({"runs", "list", "--filter", "status = \"planned\"", "--json"});
  EXPECT_EQ(std::count(listed.out.begin(), listed.out.end(), '\n'), 2) << listed.out;
  EXPECT_EQ(ramet({"plan", "small.toml", "--layout", "auto", "--keep"}).status, 2);
  const std::string run = json::parse(listed.out.substr(0, listed.out.find('\n')))["id"];
  ASSERT_EQ(ramet({"train", "--resume", run, "--steps", "2"}).status, 0);
  EXPECT_THAT(ramet({"runs", "list", "--json"}).out, HasSubstr("\"done\""));
}

// Each rank samples its host into a file of its own; a resumed run says where it came from, once.
TEST_F(LayoutCli, RanksKeepTheirSystemsAndTheirOrigin) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  const fs::path run = folder_ / "observed";
  ASSERT_EQ(ramet({"train", "small.toml", "--layout", "p=2", "--run", run.string(), "--set", "system.every=0.05",
                   "--steps", "2"},
                  2)
                .status,
            0);
  ASSERT_EQ(ramet({"train", "--resume", run.string(), "--layout", "p=2"}, 2).status, 0);
  std::set<std::string> ranks;
  for (const auto& entry : fs::directory_iterator(run / "system")) {
    const std::string name = entry.path().stem().string();
    ranks.insert(name.substr(name.rfind('-') + 1));
    EXPECT_FALSE(read_run_log(entry.path()).steps.empty()) << name;
  }
  EXPECT_EQ(ranks, (std::set<std::string>{"0", "1"}));
  int lineage = 0;
  for (const std::string& text : read_run_log(run / "log.ramet").events) {
    const json event = json::parse(text);
    if (event["event"] != "lineage") continue;
    ++lineage;
    EXPECT_EQ(event["kind"], "resumed");
    EXPECT_EQ(event["from"], "observed");
    EXPECT_EQ(event["checkpoint"], "step-00000002");
    EXPECT_EQ(event.value("weights_hash", "").size(), 32u);
  }
  EXPECT_EQ(lineage, 1);
}

/// The processes of a run's ranks under a launcher, in order of ranks; found by their command line.
std::vector<pid_t> ranks_of(const fs::path& folder) {
  std::map<int, pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto text_of = [&](const char* file) {
      std::ifstream stream(entry.path() / file);
      return std::string((std::istreambuf_iterator<char>(stream)), {});
    };
    const std::string line = text_of("cmdline"), variable = "OMPI_COMM_WORLD_RANK=";
    if (!line.starts_with(std::string(RAMET_BINARY_DIR) + "/ramet") || line.find(folder.string()) == std::string::npos)
      continue;
    const std::string variables = text_of("environ");
    if (const size_t at = variables.find(variable); at != std::string::npos)
      found[std::atoi(variables.c_str() + at + variable.size())] = static_cast<pid_t>(std::stol(name));
  }
  std::vector<pid_t> ranks;
  for (const auto& [rank, process] : found) ranks.push_back(process);
  return ranks;
}

struct Fault {
  const char* name;
  int signal;
  size_t rank;
};
void PrintTo(const Fault& fault, std::ostream* stream) { *stream << fault.name; }

class FaultCli : public LayoutCli, public ::testing::WithParamInterface<Fault> {};

// A rank that dies, or that stops without dying, ends the run with a clear word; it goes on with the bits of an
// unbroken one.
TEST_P(FaultCli, EndsWithAWordAndGoesOn) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  const std::string run = (folder_ / "run").string();
  Process process({"train", "small.toml", "--layout", "p=2 r=2 head=first", "--run", run, "--set", "train.steps=300",
                   "--time-limit", "3"},
                  folder_.path(), mpi_launcher(4));
  std::vector<pid_t> ranks;
  for (int i = 0; i < 6000 && !fs::exists(folder_ / "run/checkpoints/step-00000002"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (ranks.size() < 4) ranks = ranks_of(run);
  }
  ASSERT_EQ(ranks.size(), 4u);
  const size_t rank = GetParam().rank;
  ::kill(ranks[rank], GetParam().signal);
  const Outcome outcome = process.wait();
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err,
              ContainsRegex("rank " + std::to_string(rank) + " (last finished superstep [0-9]+ \\(|has ended)"));
  // Only the leading rank knows the run's folder.
  EXPECT_THAT(outcome.err,
              HasSubstr(rank == 0 ? "esume from the last checkpoint"
                                  : "Go on from the last checkpoint with `ramet train --resume " + run + "`"));
  for (int i = 0; i < 100 && !ranks_of(run).empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(ranks_of(run).empty());

  const Outcome resumed = ramet({"train", "--resume", run, "--steps", "30", "--json", "--layout", "p=1"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  // 30 but for a machine on which the run had come further.
  const std::string steps = std::to_string(last(resumed)["steps"].get<int64_t>());
  EXPECT_EQ(last(resumed)["weights_hash"], train({"--set", "train.steps=300", "--steps", steps})["weights_hash"]);
}
INSTANTIATE_TEST_SUITE_P(Signals, FaultCli,
                         ::testing::Values(Fault{"Killed", SIGKILL, 2}, Fault{"Halted", SIGSTOP, 2},
                                           Fault{"LeaderKilled", SIGKILL, 0}, Fault{"LeaderHalted", SIGSTOP, 0}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ramet::tests
