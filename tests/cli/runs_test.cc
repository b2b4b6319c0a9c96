// `ramet runs`: what the catalogue answers, and what people say of runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/process.h"
#include "ramet/base/file.h"
#include "support/temporary.h"
#include "track/made_run.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class RunsCommand : public ::testing::Test {
 protected:
  RunsCommand() {
    for (int i = 0; i < 6; ++i)
      make_ended_run(folder_ / "runs", "2026-01-01-made-00000" + std::to_string(i), 40, i, i % 3);
  }
  Outcome ramet(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "runs");
    return Process(arguments, folder_.path()).wait();
  }
  std::vector<json> lines(const std::vector<std::string>& arguments) {
    const Outcome outcome = ramet(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::vector<json> all;
    std::istringstream text(outcome.out);
    for (std::string line; std::getline(text, line);) all.push_back(json::parse(line));
    return all;
  }
  TemporaryFolder folder_;
};

TEST_F(RunsCommand, ListsWhatAFilterLetsThrough) {
  const auto found = lines(
      {"list", "--filter", "config.train.seed = 1 and loss < 4", "--columns", "config.train.seed,min.loss", "--json"});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["id"], "2026-01-01-made-000001");
  EXPECT_EQ(found[0]["config.train.seed"], 1);
  EXPECT_EQ(found[0]["min.loss"], 1 + 1.0 / 40);
  EXPECT_EQ(found[0]["tokens_per_second"], 10);
  EXPECT_EQ(lines({"list", "--sort", "-loss", "--limit", "2", "--json"})[0]["id"], "2026-01-01-made-000005");
  EXPECT_THAT(ramet({"list", "--limit", "2"}).out, HasSubstr("2 of 6 runs"));
  const Outcome wrong = ramet({"list", "--filter", "loss <"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("filter, column 7: a comparison needs a value on its right"));
}

TEST_F(RunsCommand, AnswersSqlMetricsAndImportance) {
  const auto rows = lines({"sql", "SELECT run, last FROM run_metrics WHERE metric = 'loss' ORDER BY last", "--json"});
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[5]["last"], 5 + 1.0 / 40);
  EXPECT_THAT(ramet({"sql", "DELETE FROM runs"}).err, HasSubstr("a query may only read"));
  EXPECT_THAT(ramet({"sql", "SELECT id FROM runs", "--limit", "2"}).err, HasSubstr("only the first 2 rows"));
  const auto metrics = lines({"metrics", "000003", "--json"});
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0]["points"], 40);
  const auto course = lines({"metrics", "000003", "loss", "--buckets", "4", "--json"});
  ASSERT_EQ(course.size(), 4u);
  EXPECT_EQ(course[0]["max"], 4);
  EXPECT_EQ(lines({"importance", "loss", "--json"})[0]["key"], "train.seed");
  EXPECT_EQ(lines({"reindex", "--json"})[0]["points"], 480);
}

TEST_F(RunsCommand, TakesWhatPeopleSay) {
  EXPECT_EQ(lines({"tag", "000001", "good", "better", "--json"})[0]["tags"], json({"better", "good"}));
  EXPECT_EQ(lines({"tag", "000001", "--remove", "good", "--json"})[0]["tags"], json({"better"}));
  EXPECT_EQ(lines({"note", "000001", "# A note", "--json"})[0]["note"], "# A note");
  EXPECT_THAT(ramet({"note", "000001"}).out, HasSubstr("# A note"));
  EXPECT_EQ(lines({"group", "g", "000001", "000002", "--json"}).size(), 2u);
  EXPECT_EQ(lines({"rename", "000002", "another", "--json"})[0]["name"], "another");
  EXPECT_EQ(lines({"pin", "000002", "--json"})[0]["pinned"], true);
  EXPECT_EQ(lines({"list", "--filter", "tag = better and group = g", "--json"}).size(), 1u);
  EXPECT_EQ(lines({"list", "--filter", "pinned and name = another", "--json"}).size(), 1u);
  EXPECT_EQ(lines({"archive", "000002", "000003", "--json"}).size(), 2u);
  EXPECT_EQ(lines({"list", "--json"}).size(), 4u);
  EXPECT_EQ(lines({"list", "--all", "--json"}).size(), 6u);
  EXPECT_EQ(lines({"archive", "000003", "--off", "--json"}).size(), 1u);
  EXPECT_EQ(lines({"list", "--json"}).size(), 5u);
  const Outcome wrong = ramet({"pin", "000004", "nowhere"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_FALSE(fs::exists(folder_ / "runs" / "2026-01-01-made-000004" / "annotations.json")) << "all or none";
  EXPECT_EQ(ramet({"tag", "000001", ""}).status, 2);
}

TEST_F(RunsCommand, ADamagedCatalogueIsNoTrouble) {
  EXPECT_EQ(lines({"list", "--json"}).size(), 6u);
  write_file_atomic(folder_ / "runs" / "catalogue.db", std::string(20'000, 'x'));
  const Outcome listed = ramet({"list", "--json"});
  EXPECT_EQ(listed.status, 0);
  EXPECT_THAT(listed.err, HasSubstr("was damaged"));
  EXPECT_THAT(ramet({"list"}).err, Not(HasSubstr("damaged")));
}

}  // namespace
}  // namespace ramet::tests
