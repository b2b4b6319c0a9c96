#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cli/process.h"
#include "cli/small_recipe.h"
#include "ramet/base/file.h"
#include "ramet/base/thread_team.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kTinyBert = small_recipe("tiny",
                                           R"(preset = "tiny"
layers = 1
heads = 2
vocabulary_size = 64
max_positions = 32
)",
                                           R"(steps = 12
micro_batch = 4
lanes = 2
precision = "f32"
)",
                                           3);

class Cli : public ::testing::Test {
 protected:
  Cli() { write_file_atomic(folder_ / "tiny.toml", kTinyBert); }
  Outcome ramet(const std::vector<std::string>& arguments) { return Process(arguments, folder_.path()).wait(); }
  json last(const Outcome& outcome) { return json::parse(outcome.last_line(), nullptr, false); }
  /// Trains the tiny recipe with more arguments; expects success. On one thread, unless they say otherwise: on a busy
  /// machine several wait for each other.
  json train(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"train", "tiny.toml", "--json"};
    const auto given = [&](const char* option) { return std::find(more.begin(), more.end(), option) != more.end(); };
    if (!given("--threads") && !given("--layout")) arguments.insert(arguments.end(), {"--threads", "1"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = ramet(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return last(outcome);
  }
  TemporaryFolder folder_;
};

TEST_F(Cli, TrainsAndTellsAllThatItMust) {
  const Outcome outcome = ramet({"train", "tiny.toml", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  int64_t steps = 0;
  double last_loss = 0;
  std::string line;
  for (std::istringstream lines(outcome.out); std::getline(lines, line);) {
    const json object = json::parse(line, nullptr, false);
    ASSERT_TRUE(object.is_object()) << line;
    if (object.value("event", "") == "step") ++steps, last_loss = object["loss"];
  }
  EXPECT_EQ(steps, 12);
  const json end = last(outcome);
  EXPECT_EQ(end["steps"], 12);
  EXPECT_EQ(end["loss"], last_loss);
  EXPECT_EQ(end["weights_hash"].get<std::string>().size(), 32u);
  for (const char* key :
       {"tokens_per_second", "step_seconds", "planned_bytes", "measured_peak_bytes", "compile_seconds"})
    EXPECT_GT(end[key].get<double>(), 0) << key;
  EXPECT_NEAR(end["tokens_per_second"].get<double>() * end["step_seconds"].get<double>(), 4 * 4 * 16, 1e-6);
  const fs::path run = end["run_directory"].get<std::string>();
  for (const char* file :
       {"recipe.toml", "run.json", "machine.json", "log.ramet", "checkpoints/step-00000012/manifest.json"})
    EXPECT_TRUE(fs::exists(run / file)) << file;
  EXPECT_THAT(read_file(run / "recipe.toml"), HasSubstr("intermediate = 128\n"));
}

TEST_F(Cli, PlainOutputSpeaksToPeople) {
  const Outcome outcome = ramet({"train", "tiny.toml", "--steps", "3"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, ContainsRegex("tiny: .* planned, compiled in .*; run "));
  EXPECT_THAT(outcome.err, ContainsRegex("tiny  step 3/3  loss [0-9.]+  [0-9.,]+ tokens/s  .* in all"));
  EXPECT_THAT(outcome.err, HasSubstr("held out, after 0 steps: loss "));
  EXPECT_THAT(outcome.err, Not(HasSubstr("\033")));
  EXPECT_THAT(outcome.err, Not(HasSubstr("\r")));
  EXPECT_THAT(outcome.out, StartsWith("done after 3 steps: loss "));
}

TEST_F(Cli, TheProfileTellsWhereTimeGoes) {
  const Outcome outcome = ramet({"train", "tiny.toml", "--steps", "3", "--profile"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, ContainsRegex("[1-9][0-9]* .*micro +matmul"));
}

TEST_F(Cli, TheSameBitsWhateverTheLayout) {
  const std::string hash = train()["weights_hash"];
  EXPECT_EQ(train({"--threads", "2"})["weights_hash"], hash);
  EXPECT_EQ(train({"--threads", "3"})["weights_hash"], hash);
  EXPECT_EQ(train({"--set", "train.recompute=layer"})["weights_hash"], hash);
  EXPECT_EQ(train({"--set", "train.recompute=all", "--set", "data.prefetch=7"})["weights_hash"], hash);
  EXPECT_NE(train({"--set", "train.seed=4"})["weights_hash"], hash);
  EXPECT_NE(train({"--set", "train.lanes=1"})["weights_hash"], hash) << "lanes say in which order gradients are added";
}

/// Words of synthetic text are not equally frequent, which a few steps teach. The held-out samples are the same for
/// all.
TEST_F(Cli, EveryOptimizerAndPrecisionLearns) {
  const auto held_out = [&](const std::string& optimizer, const std::string& rate, const std::string& precision) {
    const json end = train({"--set", "train.optimizer.kind=" + optimizer, "--set",
                            "train.schedule.learning_rate=" + rate, "--set", "train.precision=" + precision, "--set",
                            "train.steps=8", "--set", "train.evaluation.every=0", "--set", "train.checkpoint.every=0"});
    return end["held_out_loss"].get<double>();
  };
  const double untaught = held_out("adamw", "0", "f32");
  const std::vector<std::pair<const char*, const char*>> optimizers = {
      {"sgd", "0.02"}, {"adam", "0.02"},      {"adamw", "0.02"}, {"lamb", "0.02"},
      {"lars", "2.0"}, {"adafactor", "0.05"}, {"lion", "0.005"}};
  for (const auto& [optimizer, rate] : optimizers)
    EXPECT_LT(held_out(optimizer, rate, "f32"), untaught - 0.1) << optimizer;
  for (const char* precision : {"bf16", "f16"})
    EXPECT_LT(held_out("adamw", "0.02", precision), untaught - 0.1) << precision;
}

TEST_F(Cli, ChecksOfNumericsAreWrittenAndChangeNothing) {
  const json plain = train();
  const Outcome outcome =
      ramet({"train", "tiny.toml", "--json", "--threads", "1", "--run", "run", "--check-numerics", "6"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(last(outcome)["weights_hash"], plain["weights_hash"]);
  EXPECT_EQ(last(outcome)["planned_bytes"], plain["planned_bytes"]);
  std::vector<int> steps;
  for (const auto& entry : fs::directory_iterator(folder_ / "run/numerics")) {
    const json check = json::parse(read_file(entry.path()));
    steps.push_back(check["step"]);
    EXPECT_GT(check["tensors"].size(), 50u);
  }
  EXPECT_THAT(steps, testing::UnorderedElementsAre(1, 6, 12));
  EXPECT_THAT(outcome.out, HasSubstr("\"event\":\"numerics\",\"step\":6"));
  const Outcome text = ramet({"train", "tiny.toml", "--steps", "1", "--check-numerics"});
  EXPECT_THAT(text.err, HasSubstr("numerics of step 1, "));
  EXPECT_THAT(text.err, HasSubstr("numerics/step-00000001.json"));
  EXPECT_EQ(ramet({"train", "tiny.toml", "--check-numerics", "0"}).status, 2);
}

TEST_F(Cli, AnAutomaticLossScaleIsShownAndCounted) {
  const std::vector<std::string> more = {
      "--set", "train.precision=f16", "--set", "train.loss_scale=auto", "--set", "train.loss_scale_start=4294967296"};
  const json end = train(more);
  EXPECT_GT(end["skipped_steps"].get<int>(), 0);
  EXPECT_LT(end["loss_scale"].get<double>(), 4294967296.0);
  std::vector<std::string> arguments = {"train", "tiny.toml"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome text = ramet(arguments);
  EXPECT_THAT(text.out, HasSubstr(" steps skipped"));
  EXPECT_THAT(text.err, HasSubstr("skipped"));
}

/// A run of 40 steps is killed at a moment somewhere in it. A round in which it ended before the signal came proves
/// nothing and is played again, so that three kills are tested and no round is longer than 40 steps.
TEST_F(Cli, KilledAtAnyMomentItGoesOnWithTheSameBits) {
  const std::string hash = train({"--set", "train.steps=40"})["weights_hash"];
  std::mt19937 random(5);
  int killed = 0;
  for (int round = 0; round < 12 && killed < 3; ++round) {
    const std::string run = "run" + std::to_string(round);
    Process first({"train", "tiny.toml", "--threads", "1", "--json", "--run", run, "--set", "train.steps=40"},
                  folder_.path());
    first.wait_for("\"step\":" + std::to_string(1 + random() % 20) + ",");
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
    first.signal(SIGKILL);
    if (first.wait().status != -1) continue;
    ++killed;
    // The run is readable as it lies there.
    const Outcome shown = ramet({"runs", "show", run, "--json"});
    ASSERT_EQ(shown.status, 0) << shown.err;
    EXPECT_EQ(last(shown)["status"], "killed");
    const Outcome second = ramet({"train", "--resume", run, "--json", "--threads", "2"});
    ASSERT_EQ(second.status, 0) << second.err;
    EXPECT_EQ(last(second)["weights_hash"], hash) << "round " << round;
    EXPECT_EQ(last(second)["steps"], 40);
    EXPECT_EQ(last(ramet({"runs", "show", run, "--json"}))["status"], "done");
  }
  EXPECT_EQ(killed, 3);
}

TEST_F(Cli, AStopFinishesTheStepAndSaves) {
  const std::vector<std::string> sixty = {"--set", "train.steps=60", "--set", "train.checkpoint.every=0"};
  const std::string hash = train(sixty)["weights_hash"];
  bool stopped = false;
  for (int round = 0; round < 4 && !stopped; ++round) {  // again if the run ended before the signal came
    const std::string run = "run" + std::to_string(round);
    std::vector<std::string> arguments = {"train", "tiny.toml", "--threads", "1", "--json", "--run", run};
    arguments.insert(arguments.end(), sixty.begin(), sixty.end());
    Process process(arguments, folder_.path());
    process.wait_for("\"step\":5,");
    process.signal(SIGINT);
    const Outcome outcome = process.wait();
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const json end = last(outcome);
    if (end["steps"] == 60) continue;
    stopped = true;
    EXPECT_EQ(end["status"], "interrupted");
    EXPECT_GE(end["steps"].get<int>(), 5);
    EXPECT_TRUE(fs::exists(end["checkpoint"].get<std::string>()));
    EXPECT_EQ(last(ramet({"train", "--resume", run, "--json"}))["weights_hash"], hash);
  }
  EXPECT_TRUE(stopped);
}

TEST_F(Cli, StepsStopsWithoutChangingTheSchedule) {
  const json half = train({"--steps", "6", "--run", "half"});
  EXPECT_EQ(half["steps"], 6);
  const Outcome rest = ramet({"train", "--resume", "half", "--json"});
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_EQ(last(rest)["weights_hash"], train()["weights_hash"]);
}

TEST_F(Cli, ResumeRefusesWhatWouldChangeBits) {
  train({"--run", "run"});
  Outcome outcome = ramet({"train", "--resume", "run", "--set", "train.seed=9"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--set train.seed: this key decides the numbers of the run"));
  outcome = ramet({"train", "--resume", "nowhere"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no such run; found 'nowhere'"));
  outcome = ramet({"train", "tiny.toml", "--run", "run"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("the folder holds a run already"));
}

TEST_F(Cli, ADamagedCheckpointIsRefusedAndThePreviousOneWorks) {
  const json end = train({"--run", "run"});
  const fs::path checkpoints = folder_ / "run" / "checkpoints",
                 file = checkpoints / "step-00000012" / "weight-00001-of-00001.safetensors";
  std::string bytes = read_file(file);
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  write_file_atomic(file, bytes);
  Outcome outcome = ramet({"train", "--resume", "run", "--json"});
  EXPECT_EQ(outcome.status, 2);
  const json error = json::parse(outcome.err, nullptr, false);
  ASSERT_TRUE(error.is_object()) << outcome.err;
  EXPECT_THAT(error["where"].get<std::string>(), HasSubstr("weight-00001-of-00001.safetensors, tensor '"));
  EXPECT_THAT(error["remedy"].get<std::string>(), HasSubstr("Resume from the previous checkpoint, "));
  outcome = ramet({"train", "--resume", (checkpoints / "step-00000009").string(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(last(outcome)["weights_hash"], end["weights_hash"]);
}

TEST_F(Cli, AFullDiskWhileSavingKeepsThePreviousCheckpoint) {
  train({"--steps", "3", "--run", "run"});
  const Outcome outcome = [&] {
    // `ulimit -f` stands for the disk; it counts blocks of 512 bytes or more, whichever shell.
    const std::string command = "cd '" + folder_.path().string() + "' && ulimit -f 20 && trap '' XFSZ && '" +
                                std::string(RAMET_BINARY_DIR) + "/ramet' train --resume run > full.out 2> full.err";
    const int status = std::system(command.c_str());
    return Outcome{WEXITSTATUS(status), read_file(folder_ / "full.out"), read_file(folder_ / "full.err")};
  }();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("cannot save a checkpoint"));
  EXPECT_THAT(outcome.err, HasSubstr("The last whole checkpoint is "));
  EXPECT_EQ(ramet({"inspect", "checkpoint", "run", "--verify"}).status, 0);
  const Outcome again = ramet({"train", "--resume", "run", "--json"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(last(again)["weights_hash"], train()["weights_hash"]);
}

TEST_F(Cli, NotANumberNamesTheFirstOpAndKeepsTheWeights) {
  const Outcome outcome =
      ramet({"train", "tiny.toml", "--run", "run", "--set", "train.schedule.learning_rate=1e6", "--set",
             "train.optimizer.kind=sgd", "--set", "train.clip_norm=0", "--set", "train.schedule.warmup_steps=0",
             "--set", "train.steps=200", "--set", "train.optimizer.weight_decay=10"});
  EXPECT_EQ(outcome.status, 1) << outcome.out;
  EXPECT_THAT(outcome.err, ContainsRegex("step [0-9]+: '[a-z_]+' is not finite; found "));
  EXPECT_THAT(outcome.err, HasSubstr("Lower train.schedule.learning_rate"));
  EXPECT_EQ(last(ramet({"runs", "show", "run", "--json"}))["status"], "failed");
}

TEST_F(Cli, TooLittleMemoryIsRefusedBeforeTheRun) {
  const Outcome outcome = ramet({"train", "tiny.toml", "--device-memory", "10KiB"});
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
  EXPECT_THAT(ramet({"train", "tiny.toml", "--device-memory", "lots"}).err,
              HasSubstr("--device-memory: not a size; found 'lots'"));
}

TEST_F(Cli, WrongUseExitsWithTwoAndSaysWhy) {
  const auto refuses = [&](const std::vector<std::string>& arguments, const std::string& text) {
    const Outcome outcome = ramet(arguments);
    EXPECT_EQ(outcome.status, 2) << text;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_EQ(outcome.out, "");
  };
  refuses({"trian"},
          "ramet: no such command; found 'trian'; expected perhaps 'train'. `ramet --help` lists the commands");
  refuses({}, "Usage:");
  refuses({"train"}, "ramet: train: needs a recipe, or a run to go on with");
  refuses({"train", "absent.toml"}, "absent.toml: cannot open the file (No such file or directory)");
  refuses({"train", "tiny.toml", "--set", "train.stepz=5"},
          "--set: unknown key 'train.stepz'; expected perhaps 'train.steps'");
  refuses({"train", "tiny.toml", "--set", "train.lanes=3"},
          "--set train.lanes: train.lanes must divide train.accumulation; found 3 lanes of 4 micro-batches; expected "
          "1, 2 or 4");
  refuses({"train", "tiny.toml", "--set", "model.heads=5"},
          "--set model.heads: model.heads must divide model.hidden; found 5 heads of 32");
  refuses({"train", "tiny.toml", "--set", "data.sequence_length=64"},
          "the sequence is longer than the model's positions; found 64; expected at most model.max_positions, 32");
  refuses({"train", "tiny.toml", "--threads", "0"}, "--threads");
  refuses({"train", "tiny.toml", "--nonsense"}, "--nonsense");
  refuses({"eval", "nowhere"}, "no such run");
  refuses({"runs", "show", "nowhere"}, "no such run");
  refuses({"inspect", "checkpoint", "nowhere"}, "no such run");
  refuses({"inspect", "executable", "tiny.bin"}, "tiny.bin");
  refuses({"vocab", "--out", "v", "absent.txt"}, "absent.txt");
}

TEST_F(Cli, HelpIsThereForEveryCommand) {
  for (const char* command : {"train", "plan", "eval", "predict", "vocab", "corpus", "pack", "runs", "inspect",
                              "export", "recipe", "score", "bench"}) {
    const Outcome outcome = ramet({command, "--help"});
    EXPECT_EQ(outcome.status, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr(std::string("Usage: ramet ") + command)) << command;
  }
  EXPECT_THAT(ramet({"recipe", "--help"}).out, HasSubstr("[train.schedule]"));
  EXPECT_THAT(ramet({"--version"}).out, ContainsRegex("^[0-9]+\\.[0-9]+"));
}

TEST_F(Cli, SaysWhatPackingIsWorth) {
  const std::string sample = RAMET_SOURCE_DIR "/tests/samples/data/lengths.tsv";
  const Outcome table = ramet({"pack", sample});
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, ContainsRegex("none +1 +286 +[0-9.]+% +1.000"));
  EXPECT_THAT(table.out, ContainsRegex("lpfhp +no limit"));
  const Outcome one = ramet({"pack", sample, "--algorithm", "nnlshp", "--depth", "3", "--json"});
  const json packing = last(one);
  EXPECT_EQ(packing["algorithm"], "nnlshp");
  EXPECT_EQ(packing["depth"], 3);
  EXPECT_EQ(packing["sequences"], 286);
  EXPECT_GT(packing["efficiency"].get<double>(), 0.95);
  EXPECT_NEAR(packing["factor"].get<double>(), 286.0 / packing["packs"].get<double>(), 1e-9);
  write_file_atomic(folder_ / "bad.tsv", std::string("length\tcount\n5\t2\n4\t1\n"));
  const Outcome bad = ramet({"pack", "bad.tsv"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, AllOf(HasSubstr("bad.tsv:3"), HasSubstr("lengths must rise")));
  EXPECT_EQ(ramet({"pack", sample, "--depth", "-1"}).status, 2);
}

TEST_F(Cli, ScoresPredictionsOfTasks) {
  write_file_atomic(folder_ / "dev.tsv", std::string("sentence\tlabel\ngood\t1\nbad\t0\nfine\t1\nso\t0\n"));
  write_file_atomic(folder_ / "said.tsv", std::string("index\tprediction\n0\t1\n1\t0\n2\t0\n3\t0\n"));
  EXPECT_THAT(ramet({"score", "sst2", "dev.tsv", "said.tsv"}).out, ContainsRegex("accuracy +75.000"));
  const json scores = last(ramet({"score", "sst2", "dev.tsv", "said.tsv", "--json"}));
  EXPECT_EQ(scores["accuracy"], 75);
  EXPECT_EQ(scores["examples"], 4);
  const Outcome bad = ramet({"score", "sst2", "dev.tsv", "said.tsv", "--labels", "0,2"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("dev.tsv:2: a label outside the set; found '1'; expected '0' or '2'"));
}

TEST_F(Cli, RunsAreListedShownComparedAndExported) {
  train({"--steps", "3"});
  train({"--steps", "3", "--set", "train.seed=8"});
  const Outcome listed = ramet({"runs", "list"});
  EXPECT_EQ(listed.status, 0);
  EXPECT_EQ(std::count(listed.out.begin(), listed.out.end(), '\n'), 3);
  EXPECT_THAT(listed.out, ContainsRegex("-tiny-[0-9a-f]+ +done +3 "));
  std::vector<std::string> ids;
  std::string line;
  for (std::istringstream lines(ramet({"runs", "list", "--json"}).out); std::getline(lines, line);)
    ids.push_back(json::parse(line)["id"]);
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_THAT(ramet({"runs", "show", ids[0].substr(ids[0].size() - 6)}).out,
              HasSubstr(ids[0] + ": done after 3 steps"));
  EXPECT_THAT(ramet({"runs", "show", "latest"}).out, HasSubstr("weights_hash"));
  const Outcome compared = ramet({"runs", "compare", ids[0], ids[1]});
  EXPECT_THAT(compared.out, ContainsRegex("train.seed +3 +8"));
  EXPECT_THAT(compared.out, HasSubstr("losses part at step 1"));
  EXPECT_THAT(compared.out, Not(HasSubstr("train.micro_batch")));
  const Outcome csv = ramet({"runs", "export", ids[0]});
  EXPECT_THAT(csv.out, StartsWith("step,"));
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 5);  // the head and steps 0 to 3
  EXPECT_EQ(ramet({"runs", "export", ids[0], "--format", "json", "--out", "run.json"}).status, 0);
  EXPECT_EQ(json::parse(read_file(folder_ / "run.json"))["metrics"]["loss"].size(), 3u);
  EXPECT_THAT(ramet({"runs", "list", "--run-dir", "empty"}).out, HasSubstr("no runs in empty"));
}

TEST_F(Cli, PlanSaysWhatTheRunTakes) {
  const Outcome outcome = ramet(
      {"plan", "tiny.toml", "--threads", "1", "--json", "--no-time", "--svg", "memory.svg", "--save", "tiny.program"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json plan = last(outcome), end = train();
  EXPECT_EQ(plan["planned_bytes"], end["planned_bytes"]);
  EXPECT_EQ(plan["planned_host_bytes"], end["planned_host_bytes"]);
  EXPECT_GT(plan["host"]["batches"], 0);
  EXPECT_GT(plan["host"]["results"], 0);
  EXPECT_THAT(read_file(folder_ / "memory.svg"), HasSubstr("<svg"));
  EXPECT_THAT(ramet({"inspect", "executable", "tiny.program"}).out, HasSubstr("2 lanes of 2 micro-batches"));
  EXPECT_THAT(ramet({"inspect", "executable", "tiny.toml", "--instructions"}).out, HasSubstr("matmul"));
}

TEST_F(Cli, InspectsGraphsAndCheckpoints) {
  const Outcome graph = ramet({"inspect", "graph", "tiny.toml", "--part", "forward"});
  ASSERT_EQ(graph.status, 0) << graph.err;
  EXPECT_THAT(graph.out, StartsWith("graph "));
  write_file_atomic(folder_ / "graph.txt", graph.out);
  EXPECT_EQ(ramet({"inspect", "graph", "graph.txt"}).out, graph.out);
  EXPECT_THAT(ramet({"inspect", "graph", "tiny.toml", "--part", "update", "--dot"}).out, StartsWith("digraph"));
  train({"--steps", "2", "--run", "run"});
  const Outcome checkpoint = ramet({"inspect", "checkpoint", "run", "--verify"});
  EXPECT_EQ(checkpoint.status, 0) << checkpoint.err;
  EXPECT_THAT(checkpoint.out, HasSubstr("every checksum holds"));
  EXPECT_THAT(checkpoint.out, HasSubstr("optimizer.m.bert.embeddings.word_embeddings.weight"));
}

TEST_F(Cli, WeightsGoOutAndComeBack) {
  const json end = train({"--run", "run"});
  EXPECT_EQ(ramet({"export", "run", "--out", "w.safetensors"}).status, 0);
  const json again =
      train({"--steps", "1", "--set", "model.init_from=w.safetensors", "--set", "train.schedule.learning_rate=0"});
  EXPECT_EQ(again["weights_hash"], end["weights_hash"]);
  const json from_checkpoint =
      train({"--steps", "1", "--set", "model.init_from=" + end["checkpoint"].get<std::string>(), "--set",
             "train.schedule.learning_rate=0"});
  EXPECT_EQ(from_checkpoint["weights_hash"], end["weights_hash"]);
}

/// A text that has structure: a model of it beats chance within seconds.
void write_text(const fs::path& path, int documents) {
  std::string text;
  const char* animals[] = {"dog", "cat", "bird", "fish", "horse"};
  const char* verbs[] = {"sees", "likes", "hears", "finds"};
  std::mt19937 random(1);
  for (int d = 0; d < documents; ++d) {
    for (int s = 0; s < 8; ++s)
      text += std::string("the ") + animals[random() % 5] + " " + verbs[random() % 4] + " the " +
              animals[random() % 5] + " .\n";
    text += "\n";
  }
  write_file_atomic(path, text);
}

TEST_F(Cli, FromTextToFilledMasks) {
  write_text(folder_ / "text.txt", 60);
  ASSERT_EQ(ramet({"vocab", "--kind", "wordpiece", "--size", "80", "--out", "vocab", "text.txt"}).status, 0);
  const Outcome corpus = ramet({"corpus", "--tokenizer", "vocab", "--heldout", "0.1", "--out", "corpus", "text.txt"});
  ASSERT_EQ(corpus.status, 0) << corpus.err;
  EXPECT_THAT(corpus.out, HasSubstr("held out"));
  const std::vector<std::string> settings = {"--set", "data.kind=text",
                                             "--set", "data.corpus=corpus",
                                             "--set", "train.steps=150",
                                             "--set", "data.sequence_length=24",
                                             "--set", "train.schedule.learning_rate=5e-3",
                                             "--set", "train.checkpoint.every=0"};
  std::vector<std::string> shared = {"--set", "model.max_positions=32"};
  shared.insert(shared.end(), settings.begin(), settings.end());
  std::string recipe = read_file(folder_ / "tiny.toml");
  recipe.replace(recipe.find("vocabulary_size = 64\n"), 21, "");
  write_file_atomic(folder_ / "tiny.toml", recipe);
  std::vector<std::string> evaluate = {"eval", "tiny.toml", "--json"};
  evaluate.insert(evaluate.end(), shared.begin(), shared.end());
  const Outcome before = ramet(evaluate);
  ASSERT_EQ(before.status, 0) << before.err;
  shared.insert(shared.end(), {"--run", "run"});
  const json end = train(shared);
  EXPECT_LT(end["held_out_mlm_loss"].get<double>(), last(before)["held_out_mlm_loss"].get<double>() - 1);
  const Outcome after = ramet({"eval", "run", "--json"});
  ASSERT_EQ(after.status, 0) << after.err;
  EXPECT_EQ(last(after)["held_out_mlm_loss"], end["held_out_mlm_loss"]);
  EXPECT_EQ(last(after)["weights_hash"], end["weights_hash"]);

  const Outcome filled = ramet({"predict", "run", "the dog sees [MASK] cat .", "--json"});
  ASSERT_EQ(filled.status, 0) << filled.err;
  EXPECT_EQ(last(filled)["tokens"][0], "the");
  EXPECT_THAT(ramet({"predict", "run", "the dog sees [MASK] cat ."}).out, StartsWith("the dog sees [the] cat .\n"));
  const Outcome none = ramet({"predict", "run", "no mask here"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("the text has the wrong number of masks; found 0; expected 1 to "));
  EXPECT_EQ(
      ramet({"predict", "run",
             "the " + std::string(400, 'x') +
                 " dog dog dog dog dog dog dog dog dog dog dog dog dog dog dog dog dog dog dog dog dog dog [MASK]"})
          .status,
      2);
}

TEST_F(Cli, FromTextToMoreText) {
  write_text(folder_ / "text.txt", 60);
  ASSERT_EQ(ramet({"vocab", "--kind", "bpe", "--size", "300", "--out", "vocab", "text.txt"}).status, 0);
  ASSERT_EQ(ramet({"corpus", "--tokenizer", "vocab", "--heldout", "0.1", "--out", "corpus", "text.txt"}).status, 0);
  write_file_atomic(folder_ / "gpt.toml",
                    "[model]\nkind = \"gpt2\"\nlayers = 1\nhidden = 32\nheads = 2\nmax_positions = 32\ndropout = "
                    "0.0\n[data]\nkind = \"text\"\ncorpus = \"corpus\"\n"
                    "sequence_length = 24\n[train]\nsteps = 150\nmicro_batch = 8\nprecision = "
                    "\"f32\"\n[train.schedule]\nlearning_rate = 5e-3\n");
  const Outcome trained = ramet({"train", "gpt.toml", "--json", "--run", "run"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_LT(last(trained)["held_out_perplexity"].get<double>(), 12);
  const Outcome greedy = ramet({"predict", "run", "the dog", "--tokens", "8", "--json"});
  ASSERT_EQ(greedy.status, 0) << greedy.err;
  EXPECT_THAT(last(greedy)["continuation"].get<std::string>(), HasSubstr(" the "));
  EXPECT_EQ(ramet({"predict", "run", "the dog", "--tokens", "8", "--json"}).out, greedy.out);
  const std::vector<std::string> draw = {"predict",       "run", "the dog", "--tokens", "30",
                                         "--temperature", "2",   "--seed",  "1",        "--json"};
  const std::string drawn = ramet(draw).out;
  EXPECT_EQ(ramet(draw).out, drawn);

  // Several prompts at once, on any layout and in any batch: each text is what it is.
  const std::vector<std::string> several = {"predict",
                                            "run",
                                            "--prompt",
                                            "the dog",
                                            "--prompt",
                                            "a cat sees",
                                            "--tokens",
                                            "12",
                                            "--top-p",
                                            "0.9",
                                            "--top-k",
                                            "40",
                                            "--seed",
                                            "4",
                                            "--temperature",
                                            "1.5",
                                            "--repetition-penalty",
                                            "1.1",
                                            "--json"};
  const Outcome plain = ramet(several);
  ASSERT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(std::count(plain.out.begin(), plain.out.end(), '\n'), 2);
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{"--batch", "1"}, {"--batch", "5"}, {"--threads", "1"}, {"--layout", "r=2"}}) {
    std::vector<std::string> command = several;
    command.insert(command.end(), other.begin(), other.end());
    EXPECT_EQ(ramet(command).out, plain.out) << other[0] << " " << other[1];
  }
  std::vector<std::string> streamed = several;
  streamed.push_back("--stream");
  std::string text;
  std::istringstream lines(ramet(streamed).out);
  for (std::string line; std::getline(lines, line);)
    if (const json event = json::parse(line); event["event"] == "piece" && event["prompt"] == 1) text += event["text"];
  EXPECT_EQ(text, last(plain)["continuation"]);
  const std::string whole = last(greedy)["continuation"];
  const Outcome stopped = ramet({"predict", "run", "the dog", "--tokens", "8", "--stop", whole.substr(2, 3), "--json"});
  EXPECT_EQ(last(stopped)["continuation"], whole.substr(0, whole.find(whole.substr(2, 3))));
  EXPECT_EQ(last(stopped)["end"], "stop");
  EXPECT_EQ(ramet({"predict", "run", "the dog", "--tokens", "8"}).out, "the dog" + whole + "\n");
  const Outcome ids = ramet({"predict", "run", "--ids", "5 6 7", "--tokens", "3", "--json"});
  ASSERT_EQ(ids.status, 0) << ids.err;
  EXPECT_EQ(last(ids)["tokens"], 3);
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {"predict", "run"};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome outcome = ramet(command);
    EXPECT_EQ(outcome.status, 2);
    return outcome.err;
  };
  EXPECT_THAT(refused({""}), HasSubstr("prompt 0: the prompt is empty"));
  EXPECT_THAT(refused({std::string(200, 'x')}), HasSubstr("the prompt is too long"));
  EXPECT_THAT(refused({"the", "--top-p", "1.5"}), HasSubstr("top_p: a sampling option is out of range"));
  EXPECT_THAT(refused({"the", "--top-q", "1"}), HasSubstr("--top-q"));
  EXPECT_THAT(refused({"--ids", "5 x"}), HasSubstr("no token id; found 'x'"));

  const Outcome bench =
      ramet({"bench", "run", "--batch", "1,3", "--seconds", "0", "--prompt-tokens", "5", "--tokens", "6", "--json"});
  ASSERT_EQ(bench.status, 0) << bench.err;
  EXPECT_EQ(last(bench)["batch"], 3);
  EXPECT_GT(last(bench)["first_token_ms"], 0.0);
  EXPECT_GE(last(bench)["p99_ms"], last(bench)["p50_ms"]);
  EXPECT_GT(last(bench)["tokens_per_second"], 0.0);
  const Outcome preset =
      ramet({"bench", "bert-tiny", "--batch", "2", "--seconds", "0", "--set", "data.sequence_length=16"});
  ASSERT_EQ(preset.status, 0) << preset.err;
  EXPECT_THAT(preset.out, HasSubstr("samples/s"));
  EXPECT_THAT(ramet({"bench", "run", "--prompt-tokens", "40"}).err, HasSubstr("the model has too few positions"));
}

TEST_F(Cli, BadTextNamesThePlace) {
  write_text(folder_ / "good.txt", 5);
  ASSERT_EQ(ramet({"vocab", "--size", "60", "--out", "vocab", "good.txt"}).status, 0);
  write_file_atomic(folder_ / "bad.txt", "a line\nanother \xff line\n");
  Outcome outcome = ramet({"corpus", "--tokenizer", "vocab", "--out", "corpus", "bad.txt"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("bad.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "corpus"));
  write_file_atomic(folder_ / "empty.txt", "");
  outcome = ramet({"corpus", "--tokenizer", "vocab", "--out", "corpus", "empty.txt"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(ramet({"train", "tiny.toml", "--set", "data.kind=text", "--set", "data.corpus=absent"}).err,
              HasSubstr("absent"));
}

TEST(Examples, AreRecipesThatCompleteThemselves) {
  const TemporaryFolder folder;
  int count = 0;
  for (const auto& entry : fs::directory_iterator(std::string(RAMET_SOURCE_DIR) + "/examples")) {
    if (entry.path().extension() != ".toml") continue;
    // A corpus (that of the demo by `make demo`), a graph set and a published model's weights are there first.
    const std::string text = read_file(entry.path());
    if (std::ranges::any_of(std::array{"corpus = ", "\nset = ", "\ninit_from = "},
                            [&](const char* key) { return text.find(key) != std::string::npos; }))
      continue;
    const Outcome outcome = Process({"recipe", entry.path().string(), "--complete"}, folder.path()).wait();
    EXPECT_EQ(outcome.status, 0) << entry.path() << outcome.err;
    EXPECT_THAT(outcome.out, ContainsRegex("kind = \"(synthetic|mnist)\""));
    ++count;
  }
  EXPECT_GE(count, 15);
}

TEST_F(Cli, ALayoutChangesNoBitAndMayChangeOnResume) {
  const json plain = train();
  write_file_atomic(folder_ / "one.toml", "[layout]\nrecompute = \"layer\"\nthreads = 1\n");
  const json first = train({"--layout", "one.toml", "--steps", "6"});
  const std::string run = first["run_directory"];
  EXPECT_THAT(read_file(fs::path(run) / "recipe.toml"), HasSubstr("layout = \"recompute=layer threads=1\"\n"));
  const Outcome outcome = ramet({"train", "--resume", run, "--layout", "threads=2", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"layout\":\"threads=2\""));
  EXPECT_EQ(last(outcome)["weights_hash"], plain["weights_hash"]);
}

TEST_F(Cli, LayoutsThatDoNotFitSayWhichWould) {
  Outcome outcome = ramet({"train", "tiny.toml", "--layout", "r=4"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--layout r: every replica must take equally many whole lanes"));
  EXPECT_THAT(outcome.err, HasSubstr("With lanes=2, r may be 1 or 2"));
  outcome = ramet({"eval", "tiny.toml", "--layout", "auto"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("`ramet plan RECIPE --layout auto` prints what to write here"));
  EXPECT_FALSE(fs::exists(folder_ / "runs")) << "nothing is begun";
}

TEST_F(Cli, OpenMpsBindingTakesNoProcessorsAway) {
  const std::vector<std::string> arguments = {"plan", "tiny.toml", "--no-time", "--json"};
  const auto threads = last(ramet(arguments))["threads"].get<int64_t>();
  EXPECT_EQ(threads, available_processors());
  setenv("OMP_PROC_BIND", "true", 1);
  const Outcome bound = ramet(arguments);
  unsetenv("OMP_PROC_BIND");
  EXPECT_EQ(last(bound)["threads"].get<int64_t>(), threads);
}

TEST_F(Cli, PlanShowsTheScheduleOfALayout) {
  const std::vector<std::string> arguments = {"plan",     "tiny.toml",          "--set",          "model.layers=4",
                                              "--layout", "p=2 schedule=gpipe", "--schedule-svg", "schedule.svg"};
  const Outcome outcome = ramet(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("layout p=2 schedule=gpipe head=first: 2 devices, 4 micro-batches a replica"));
  EXPECT_THAT(outcome.out, HasSubstr("stage 0  F0/0"));  // the tied head is a part of its own, beside the embeddings
  EXPECT_THAT(outcome.out, ContainsRegex("time: about [0-9.e-]+ s a step; bubble: [0-9.]+% of it"));
  EXPECT_THAT(outcome.out, ContainsRegex("\\* gpipe +20.0% +15.00  4\n"));
  EXPECT_THAT(read_file(folder_ / "schedule.svg"), StartsWith("<svg "));
  std::vector<std::string> machine = arguments;
  machine.push_back("--json");
  const auto plan = last(ramet(machine));
  EXPECT_NEAR(plan["layout"]["choices"][0]["bubble"].get<double>(), 0.2, 1e-9);
  // Layers and head are whole, so stages are not alike; the bubble of the step is that of the programs.
  EXPECT_NEAR(plan["layout"]["bubble"].get<double>(), 0.2, 0.1);
  EXPECT_NE(plan["layout"]["bubble"].get<double>(), 0.2);
  EXPECT_GT(plan["bubble"].get<double>(), 0);
  EXPECT_GT(plan["step_seconds"].get<double>(), 0);
  machine.push_back("--as-ranks");
  EXPECT_GT(last(ramet(machine))["step_seconds"].get<double>(), 0);
}

}  // namespace
}  // namespace ramet::tests
