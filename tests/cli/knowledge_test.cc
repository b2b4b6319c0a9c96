#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "ramet/base/file.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class KnowledgeCommands : public ::testing::Test {
 protected:
  Outcome ramet(const std::vector<std::string>& arguments) { return Process(arguments, folder_.path()).wait(); }
  /// Files of triples: town i is in region i % 5, and borders on town i + 5.
  void write_triples() {
    std::string train, valid, test;
    for (int i = 0; i < 40; ++i) {
      const std::string town = "town" + std::to_string(i);
      train += town + "\tin\tregion" + std::to_string(i % 5) + "\n";
      (i % 8 == 3   ? valid
       : i % 8 == 5 ? test
                    : train) += town + "\tborders\ttown" + std::to_string((i + 5) % 40) + "\n";
    }
    write_file_atomic(folder_ / "train.txt", train);
    write_file_atomic(folder_ / "valid.txt", valid);
    write_file_atomic(folder_ / "test.txt", test);
  }
  TemporaryFolder folder_;
};

TEST_F(KnowledgeCommands, TrainRankAndAnswer) {
  write_triples();
  ASSERT_EQ(ramet({"graphs", "prepare", "triples", ".", "--out", "set.safetensors"}).status, 0);
  write_file_atomic(folder_ / "r.toml",
                    "[model]\nkind = \"complex\"\n[model.knowledge]\nwidth = 8\nloss = \"all\"\n[data]\n"
                    "kind = \"triples\"\n[data.triples]\nset = \"set.safetensors\"\ngroup = 7\nreciprocal = true\n"
                    "[train]\nsteps = 60\nmicro_batch = 2\nprecision = \"f32\"\n[train.optimizer]\nkind = \"adam\"\n"
                    "weight_decay = 0\n[train.schedule]\nkind = \"constant\"\nlearning_rate = 0.05\n"
                    "[train.evaluation]\nevery = 30\n");
  const Outcome trained = ramet({"train", "r.toml", "--json", "--threads", "1"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const json end = json::parse(trained.last_line());
  const std::string run = end["run_directory"];
  EXPECT_GT(end["held_out_mrr"].get<double>(), 0.0);

  const Outcome ranked = ramet({"eval", run, "--set", "data.triples.held_out=test", "--json"});
  ASSERT_EQ(ranked.status, 0) << ranked.err;
  const json test = json::parse(ranked.last_line());
  EXPECT_LE(test["held_out_hits@1"].get<double>(), test["held_out_mrr"].get<double>());

  const Outcome answered = ramet({"predict", run, "town7\tin\t?", "?\tin\tregion3", "--top", "3", "--json"});
  ASSERT_EQ(answered.status, 0) << answered.err;
  std::vector<std::string> entities;
  std::istringstream lines(answered.out);
  for (std::string line; std::getline(lines, line);) entities.push_back(json::parse(line)["entity"]);
  ASSERT_EQ(entities.size(), 6u);
  EXPECT_EQ(entities[0], "region2");
  EXPECT_THAT(entities[3], HasSubstr("town"));
  EXPECT_EQ(std::stoi(entities[3].substr(4)) % 5, 3);

  EXPECT_THAT(ramet({"predict", run, "town77\tin\t?"}).err,
              HasSubstr("the knowledge graph has no such entity; found 'town77'"));
  EXPECT_THAT(ramet({"predict", run, "town7\tinside\t?"}).err, HasSubstr("no such relation; found 'inside'"));
  EXPECT_THAT(ramet({"predict", run, "town7 in ?"}).err, HasSubstr("a text is no query"));
  EXPECT_THAT(ramet({"predict", run}).err, HasSubstr("no query"));
}

TEST_F(KnowledgeCommands, BadFilesAreNamed) {
  write_file_atomic(folder_ / "train.txt", "a\tb\n");
  EXPECT_THAT(ramet({"graphs", "prepare", "triples", ".", "--out", "set.safetensors"}).err,
              HasSubstr("train.txt:1: a line is no triple"));
  write_file_atomic(folder_ / "train.txt", "");
  ramet({"graphs", "prepare", "triples", ".", "--out", "set.safetensors"});
  write_file_atomic(folder_ / "r.toml",
                    "[model]\nkind = \"rotate\"\n[data]\nkind = \"triples\"\n[data.triples]\n"
                    "set = \"set.safetensors\"\nnegatives = 2\n");
  const Outcome empty = ramet({"train", "r.toml"});
  EXPECT_EQ(empty.status, 2);
  EXPECT_THAT(empty.err, HasSubstr("set.safetensors"));
  EXPECT_THAT(empty.err, HasSubstr("the knowledge graph has no triples"));
}

}  // namespace
}  // namespace ramet::tests
