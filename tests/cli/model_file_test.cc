// The commands on a model that a program saved as a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/model/model_file.h"
#include "ramet/weights/safetensors.h"
#include "support/small_arrays.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class ModelFileCli : public ::testing::Test {
 protected:
  ModelFileCli() {
    save_model(folder_ / "small.ramet", small_model(), {.name = "rows"});
    save_samples(folder_ / "train.npz", 256);
    save_samples(folder_ / "test.npz", 18, 2);
    write_file_atomic(folder_ / "small.toml", small_model_recipe("held_out = \"test.npz\"\n"));
  }
  Outcome ramet(const std::vector<std::string>& arguments) { return Process(arguments, folder_.path()).wait(); }
  /// Expects success; the last line as JSON.
  json told(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const Outcome outcome = ramet(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.last_line(), nullptr, false);
  }
  json train(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"train", "small.toml", "--threads", "2"});
    return told(more);
  }
  TemporaryFolder folder_;
};

TEST_F(ModelFileCli, EveryLayoutTrainsToTheSameHash) {
  const json one = train();
  EXPECT_EQ(one["steps"], 12);
  EXPECT_GT(one["rows_per_second"].get<double>(), 0);
  EXPECT_TRUE(one.contains("held_out_accuracy"));
  for (const char* layout : {"p=2", "r=2 rts=optimizer", "t=2", "p=2 phases=2 offload=optimizer"}) {
    const json other = train({"--layout", layout});
    EXPECT_EQ(other["weights_hash"], one["weights_hash"]) << layout;
    EXPECT_EQ(other["held_out_loss"], one["held_out_loss"]) << layout;
  }
}

TEST_F(ModelFileCli, AKilledRunIsListedShownAndResumedFromItsOwnFolder) {
  const std::vector<std::string> longer = {"--set", "train.steps=60", "--set", "train.checkpoint.every=4"};
  const std::string hash = train(longer)["weights_hash"];
  bool killed = false;
  for (int round = 0; round < 5 && !killed; ++round) {  // again if the run ended before the signal came
    fs::remove_all(folder_ / "runs");
    Process first({"train", "small.toml", "--json", "--run", "runs/killed", "--set", "train.steps=60", "--set",
                   "train.checkpoint.every=4"},
                  folder_.path());
    first.wait_for("\"step\":5,");
    first.signal(SIGKILL);
    killed = first.wait().status == -1;
  }
  ASSERT_TRUE(killed);
  const Outcome listed = ramet({"runs", "list"});
  EXPECT_THAT(listed.out, ContainsRegex("killed .* rows "));
  const json shown = told({"runs", "show", "runs/killed"});
  EXPECT_EQ(shown["name"], "small");
  EXPECT_GT(shown["rows_per_second"].get<double>(), 0);
  EXPECT_FALSE(shown["checkpoints"].empty());
  // The run has the model itself: where it came from may be gone.
  EXPECT_EQ(read_file(folder_ / "runs" / "killed" / "model.ramet"), read_file(folder_ / "small.ramet"));
  fs::remove(folder_ / "small.ramet");
  EXPECT_EQ(told({"train", "--resume", "runs/killed", "--layout", "p=2"})["weights_hash"], hash);
  EXPECT_EQ(told({"eval", "runs/killed"})["weights_hash"], hash);
  EXPECT_THAT(ramet({"inspect", "checkpoint", "runs/killed"}).out, HasSubstr("places"));
  // Another model goes not on from it, and neither do other samples.
  Model other = small_model();
  other.metrics.pop_back();
  save_model(folder_ / "runs" / "killed" / "model.ramet", other);
  EXPECT_THAT(ramet({"eval", "runs/killed"}).err,
              HasSubstr("the checkpoint was made of another model; found model 'small'"));
  save_model(folder_ / "runs" / "killed" / "model.ramet", small_model(), {.name = "rows"});
  save_samples(folder_ / "train.npz", 256, 9);
  EXPECT_THAT(ramet({"train", "--resume", "runs/killed"}).err, HasSubstr("the checkpoint was made with other data"));
}

TEST_F(ModelFileCli, PlansSimulatesAndInspects) {
  const json plan = told({"plan", "small.toml", "--no-time"});
  EXPECT_GT(plan["planned_bytes"].get<int64_t>(), 0);
  EXPECT_EQ(plan["rows_per_step"], 16);
  EXPECT_EQ(told({"plan", "small.ramet", "--no-time", "--layout", "p=2"})["name"], "small");
  EXPECT_GT(
      told({"simulate", "small.toml", "--machine", "bow-pod16", "--layout", "p=2"})["rows_per_second"].get<double>(),
      0);
  const Outcome text = ramet({"inspect", "small.ramet"});
  EXPECT_EQ(text.status, 0) << text.err;
  for (const char* part :
       {"parameters, identity ", "\nunits \"rows\"\n", "\ninput \"labels\" : i32[4]", "\nstate \"mean\"",
        "\nmetric \"accuracy\"", "\nprogram \"turn\" {every=2", "\ngraph \"evaluate\" {"})
    EXPECT_THAT(text.out, HasSubstr(part));
  const json told_model = told({"inspect", "model", "small.ramet"});
  EXPECT_EQ(told_model["identity"], small_model().identity().hex());
  EXPECT_EQ(told_model["programs"], json({"turn", "features"}));
  EXPECT_THAT(ramet({"inspect", "graph", "small.toml", "--part", "turn"}).out, HasSubstr("concat("));
  EXPECT_EQ(ramet({"inspect"}).status, 2);
  EXPECT_THAT(ramet({"inspect", "small.toml"}).err, HasSubstr("small.toml: this is no file of a model"));
}

TEST_F(ModelFileCli, PredictsAndExports) {
  train({"--run", "run"});
  const json predicted = told({"predict", "run", "--in", "test.npz", "--out", "results.npz"});
  EXPECT_EQ(predicted["samples"], 18);
  EXPECT_EQ(predicted["results"], json({"hidden", "loss", "correct", "rows_counted", "logits", "class"}));
  for (const ArrayColumn& column : open_npz(folder_ / "results.npz"))
    EXPECT_EQ(column.shape[0], column.name == "hidden" || column.name == "logits" || column.name == "class" ? 18 : 4)
        << column.name;
  const std::string results = read_file(folder_ / "results.npz");
  // The model with what it has learned is a file of its own.
  EXPECT_EQ(ramet({"export", "run", "--out", "trained.ramet"}).status, 0);
  told({"predict", "trained.ramet", "--in", "test.npz", "--out", "again.npz", "--set", "train.precision=f32", "--set",
        "train.chunks=4"});
  EXPECT_TRUE(read_file(folder_ / "again.npz") == results);
  EXPECT_EQ(ramet({"export", "run", "--out", "weights.safetensors"}).status, 0);
  EXPECT_EQ(SafetensorsReader(folder_ / "weights.safetensors").tensors().size(), small_model().published().size());
  EXPECT_EQ(train({"--set", "model.init_from=weights.safetensors", "--steps", "1"})["steps"], 1);
  EXPECT_THAT(ramet({"export", "run", "--out", "folder"}).err,
              HasSubstr("no class of other libraries has the model of a file"));
  const json features = told({"predict", "run", "--in", "test.npz", "--out", "f.npz", "--program", "features"});
  EXPECT_EQ(features["results"], json({"first"}));
  EXPECT_THAT(ramet({"predict", "run", "--out", "x.npz"}).err,
              HasSubstr("no file of arrays to read; expected --in FILE"));
  EXPECT_THAT(ramet({"predict", "run", "--in", "test.npz"}).err,
              HasSubstr("no file of arrays to write; expected --out FILE"));
}

TEST_F(ModelFileCli, WhatLacksIsSaid) {
  EXPECT_THAT(ramet({"train", "small.ramet"}).err, HasSubstr("the recipe names no arrays to train on. Set data.train"));
  EXPECT_THAT(ramet({"eval", "small.ramet", "--set", "data.train=train.npz"}).err,
              HasSubstr("the recipe holds no samples out for evaluation"));
  const json evaluated = told({"eval", "small.ramet", "--set", "data.held_out=test.npz"});
  EXPECT_TRUE(evaluated.contains("held_out_accuracy"));
}

}  // namespace
}  // namespace ramet::tests
