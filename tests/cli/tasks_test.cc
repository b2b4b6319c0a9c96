#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/process.h"
#include "ramet/base/file.h"
#include "support/mpi.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

/// Texts of two words; the label depends on the first.
void write_texts(const fs::path& path, int count, int first) {
  const std::vector<std::string> words = {"the", "want", "run", "low", "cafe"};
  std::string text = "first\tsecond\tlabel\n";
  for (int i = first; i < first + count; ++i) {
    const size_t a = static_cast<size_t>(i * 7 % 5), b = static_cast<size_t>((i * i + 1) % 5);
    text += words[a] + "\t" + words[b] + "\t" + (a < 2 ? "same" : "other") + "\n";
  }
  write_file_atomic(path, text);
}

const std::string kRecipe = R"(name = "pairs"
[model]
preset = "tiny"
layers = 2
hidden = 32
heads = 2
max_positions = 16
dropout = 0.1
[data]
sequence_length = 12
[task]
kind = "classification"
train = "train.tsv"
dev = "dev.tsv"
tokenizer = "vocab.txt"
text = "first"
pair = "second"
label = "label"
epochs = 3
[train]
micro_batch = 4
accumulation = 4
lanes = 4
chunks = 2
precision = "f32"
[train.schedule]
learning_rate = 5e-3
)";

class TaskCli : public ::testing::Test {
 protected:
  TaskCli() {
    fs::copy_file(fs::path(RAMET_SOURCE_DIR) / "tests/samples/data/tiny-vocab.txt", folder_ / "vocab.txt");
    write_texts(folder_ / "train.tsv", 120, 0);
    write_texts(folder_ / "dev.tsv", 30, 1000);
    write_file_atomic(folder_ / "pairs.toml", kRecipe);
  }
  Outcome ramet(const std::vector<std::string>& arguments) { return Process(arguments, folder_.path()).wait(); }
  json last(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const Outcome outcome = ramet(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.last_line(), nullptr, false);
  }
  std::string error_of(std::vector<std::string> arguments) {
    const Outcome outcome = ramet(arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.out << outcome.err;
    return outcome.err;
  }
  std::string text_of(const std::string& name) { return read_file(folder_ / name); }

  TemporaryFolder folder_;
};

TEST_F(TaskCli, TrainsEvaluatesPredictsAndExports) {
  const json end = last({"train", "pairs.toml", "--run", "run"});
  EXPECT_EQ(end["steps"], 23);  // 3 epochs of 120 samples, 16 a step, and what is left over
  EXPECT_GT(end["best_accuracy"], 70.0);
  EXPECT_TRUE(end.contains("held_out_loss"));
  EXPECT_TRUE(fs::exists(folder_ / "run/tokenizer/vocab.txt"));

  const json evaluated = last({"eval", "run"});
  EXPECT_EQ(evaluated["accuracy"], end["best_accuracy"]);
  EXPECT_EQ(evaluated["examples"], 30);
  EXPECT_EQ(last({"eval", "run", "--split", "train"})["examples"], 120);

  const json predicted = last({"predict", "run", "--split", "dev", "--out", "answers"});
  EXPECT_EQ(predicted["accuracy"], end["best_accuracy"]);
  EXPECT_THAT(text_of("answers"), HasSubstr("same"));
  // The same file given by name, as one without a place in the recipe.
  EXPECT_EQ(last({"predict", "run", "--file", "dev.tsv", "--out", "again"})["split"], "test");
  EXPECT_EQ(text_of("again"), text_of("answers"));

  EXPECT_EQ(ramet({"export", "run", "--out", "published"}).status, 0);
  for (const char* name : {"model.safetensors", "config.json", "vocab.txt", "tokenizer_config.json"})
    EXPECT_TRUE(fs::exists(folder_ / "published" / name)) << name;
  const json config = json::parse(text_of("published/config.json"));
  EXPECT_EQ(config["architectures"][0], "BertForSequenceClassification");
  EXPECT_EQ(config["id2label"]["1"], json::parse(text_of("published/config.json"))["id2label"]["1"]);
  // What was exported begins a new run: the sizes come from it, and its first evaluation is the last one here.
  std::string recipe = kRecipe;
  recipe.replace(recipe.find("preset"), recipe.find("dropout") - recipe.find("preset"), "init_from = \"published\"\n");
  write_file_atomic(folder_ / "more.toml", recipe);
  EXPECT_EQ(last({"eval", "more.toml"})["held_out_accuracy"], end["best_accuracy"]);
  EXPECT_THAT(
      error_of({"eval", "more.toml", "--set", "model.vocabulary_size=1000"}),
      HasSubstr("--set model.vocabulary_size: the recipe and the published model differ; found 1000; expected"));
}

TEST_F(TaskCli, EveryLayoutEndsWithTheSameBitsAndMetrics) {
  const json one = last({"train", "pairs.toml", "--steps", "6"});
  for (const char* layout : {"r=2", "p=2", "t=2", "r=2 p=2 recompute=all rts=optimizer"}) {
    const json other = last({"train", "pairs.toml", "--steps", "6", "--layout", layout});
    EXPECT_EQ(other["weights_hash"], one["weights_hash"]) << layout;
    for (const char* number : {"loss", "held_out_accuracy", "held_out_loss"})
      EXPECT_EQ(other[number], one[number]) << layout;
  }
  EXPECT_EQ(last({"train", "pairs.toml", "--steps", "6", "--threads", "1"})["weights_hash"], one["weights_hash"]);
}

TEST_F(TaskCli, RanksOfMpiEndWithTheSameBitsAndMetrics) {
  if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  const json one = last({"train", "pairs.toml", "--steps", "6"});
  const auto over_ranks = [&](int ranks, const std::string& layout, const std::string& run) {
    const Outcome outcome = Process({"train", "pairs.toml", "--steps", "6", "--json", "--layout", layout, "--run", run},
                                    folder_.path(), mpi_launcher(ranks))
                                .wait();
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.last_line(), nullptr, false);
  };
  for (const auto& [ranks, layout] : {std::pair{2, "p=2"}, std::pair{2, "r=2 t=2 rts=optimizer"}}) {
    const std::string run = "ranks of " + std::string(layout);
    const json many = over_ranks(ranks, layout, run);
    for (const char* number : {"weights_hash", "loss", "held_out_accuracy", "held_out_loss"})
      EXPECT_EQ(many[number], one[number]) << layout << ", " << number;
    EXPECT_EQ(last({"eval", run})["accuracy"], many["held_out_accuracy"]) << layout << ", evaluated by one process";
  }
}

TEST_F(TaskCli, AResumedRunEndsWithTheSameBits) {
  const json whole = last({"train", "pairs.toml", "--steps", "9"});
  last({"train", "pairs.toml", "--steps", "5", "--run", "run"});
  EXPECT_EQ(last({"train", "--resume", "run", "--steps", "9"})["weights_hash"], whole["weights_hash"]);
}

TEST_F(TaskCli, SeedsAreToldTogetherAndMakeAnEnsemble) {
  const json seeds = last({"train", "pairs.toml", "--seeds", "3", "--steps", "8", "--run", "all"});
  EXPECT_EQ(seeds["event"], "seeds");
  EXPECT_EQ(seeds["runs"], 3);
  double mean = 0;
  for (const char* seed : {"0", "1", "2"})
    mean += last({"eval", std::string("all/pairs-seed") + seed})["loss"].get<double>() / 3;
  EXPECT_GT(seeds["accuracy_greatest"], 0);
  EXPECT_LE(seeds["accuracy_least"], seeds["accuracy_mean"]);
  EXPECT_LE(seeds["accuracy_mean"], seeds["accuracy_greatest"]);
  EXPECT_GT(seeds["loss_deviation"], 0);
  const json together = last({"eval", "all/pairs-seed0", "--with", "all/pairs-seed1", "--with", "all/pairs-seed2"});
  EXPECT_EQ(together["runs"], 3);
  EXPECT_GT(mean, 0);
  const Outcome told = ramet({"train", "pairs.toml", "--seeds", "2", "--steps", "1"});
  EXPECT_THAT(told.out, HasSubstr("2 seeds of pairs:"));
  EXPECT_THAT(told.out, HasSubstr("deviation"));
}

TEST_F(TaskCli, ATeacherIsNeededWhereSomethingIsLearned) {
  const auto taught = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"train", "pairs.toml", "--set", "task.teacher=teacher"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  last({"train", "pairs.toml", "--steps", "9", "--seeds", "1", "--set", "train.seed=4", "--run", "teacher"});
  const json whole = last(taught({"--steps", "8"}));
  const json start = last(taught({"--steps", "4", "--run", "run"}));
  if (why_no_mpi().empty()) {
    const Outcome ranks = Process(taught({"--steps", "4", "--json", "--layout", "r=2", "--run", "ranks"}),
                                  folder_.path(), mpi_launcher(2))
                              .wait();
    EXPECT_EQ(ranks.status, 0) << ranks.err;
    EXPECT_EQ(json::parse(ranks.last_line(), nullptr, false)["weights_hash"], start["weights_hash"]);
  }
  fs::rename(folder_ / "teacher", folder_ / "moved");
  EXPECT_EQ(last({"eval", "run"})["accuracy"], start["held_out_accuracy"]);
  EXPECT_EQ(ramet({"predict", "run", "--split", "dev", "--out", "answers"}).status, 0);
  EXPECT_EQ(ramet({"export", "run", "--out", "published"}).status, 0);
  EXPECT_THAT(error_of({"train", "--resume", "run", "--steps", "8"}), HasSubstr("task.teacher"));
  EXPECT_EQ(last({"train", "--resume", "run", "--steps", "8", "--set", "task.teacher=moved"})["weights_hash"],
            whole["weights_hash"]);
}

TEST_F(TaskCli, TheExampleOfPruningEndsAtItsDensity) {
  ASSERT_EQ(ramet({"train", "pairs.toml", "--steps", "1", "--run", "run"}).status, 0);
  ASSERT_EQ(ramet({"export", "run", "--out", "published"}).status, 0);
  fs::create_directory(folder_ / "sst2");
  for (const char* name : {"train.tsv", "dev.tsv"}) {
    std::string text = "sentence\tlabel\n";
    for (int i = 0; i < 60; ++i) text += i % 2 == 0 ? "the want run\t1\n" : "low cafe\t0\n";
    write_file_atomic(folder_ / "sst2" / name, text);
  }
  const auto pruning = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"train", RAMET_SOURCE_DIR "/examples/minilm-sst2-sparse.toml", "--json"};
    for (const char* setting : {"model.init_from=published", "task.data=sst2", "data.sequence_length=16",
                                "train.micro_batch=2", "sparse.every=2"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Outcome outcome = ramet(pruning({"--run", "sparse"}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::vector<double> densities;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);)
    if (const json step = json::parse(line, nullptr, false); step.contains("density"))
      densities.push_back(step["density"]);
  ASSERT_GE(densities.size(), 4u);
  EXPECT_EQ(densities.front(), 1);
  EXPECT_TRUE(std::is_sorted(densities.rbegin(), densities.rend()));
  EXPECT_EQ(densities.back(), 0.5);

  // A run that is stopped while it prunes goes on to the same end, from the pattern of its checkpoint.
  const json end = json::parse(outcome.last_line());
  ASSERT_EQ(ramet(pruning({"--run", "stopped", "--steps", "7"})).status, 0);
  EXPECT_EQ(last({"train", "--resume", "stopped"})["weights_hash"], end["weights_hash"]);
  // The checkpoint answers as training did.
  EXPECT_EQ(last({"eval", "sparse"})["accuracy"], end["best_accuracy"]);
  EXPECT_EQ(last({"predict", "sparse", "--split", "dev", "--out", "answers"})["accuracy"], end["best_accuracy"]);
  EXPECT_EQ(ramet({"bench", "sparse", "--batch", "1", "--seconds", "0.01"}).status, 0);
}

TEST_F(TaskCli, TellsOfBadInput) {
  EXPECT_THAT(error_of({"train", "pairs.toml", "--set", "task.kind=mprc"}), HasSubstr("perhaps 'mrpc'"));
  EXPECT_THAT(error_of({"train", "pairs.toml", "--set", "model.kind=gpt2"}),
              HasSubstr("--set model.kind: tasks are fine-tuned on encoders; found gpt2; expected bert"));
  EXPECT_THAT(error_of({"train", "pairs.toml", "--set", "task.pair=third"}), HasSubstr("third"));
  EXPECT_THAT(error_of({"train", "pairs.toml", "--set", "task.labels=same,equal"}), HasSubstr("other"));
  EXPECT_THAT(error_of({"train", "pairs.toml", "--set", "model.vocabulary_size=20"}),
              HasSubstr("the tokenizer has more tokens than the model has rows for"));
  EXPECT_THAT(error_of({"train", "pairs.toml", "--set", "task.tokenizer=none.txt"}), HasSubstr("no tokenizer here"));
  EXPECT_THAT(error_of({"train", "pairs.toml", "--set", "data.sequence_length=17"}),
              HasSubstr("the sequence is longer than the model's positions"));
  EXPECT_THAT(error_of({"predict", "pairs.toml", "--out", "x"}), HasSubstr("no run of a task with a checkpoint"));
  write_file_atomic(folder_ / "plain.toml", "[task]\nepochs = 2\n");
  EXPECT_THAT(error_of({"train", "plain.toml"}),
              HasSubstr("plain.toml:2 task.epochs: a key of a task without a task. Set task.kind as well"));
}

}  // namespace
}  // namespace ramet::tests
