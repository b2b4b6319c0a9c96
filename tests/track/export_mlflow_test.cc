#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ramet/base/file.h"
#include "ramet/track/export.h"
#include "ramet/track/run_directory.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What MLflow's server keeps, and how it answers.
class FakeMlflow {
 public:
  std::map<std::string, std::string> experiments, runs;  ///< name -> id; value of the tag ramet.run -> id
  std::set<std::string> points;                          ///< as JSON: equal ones are one
  std::map<std::string, std::string> params, tags, files;
  json update;
  std::vector<ClientResponse> first;  ///< answers before the right ones
  int requests = 0;
  bool takes_files = true;

  MlflowServer server() {
    return {.url = "http://mlflow.example:5000/",
            .experiment = "my experiment",
            .send = [this](const ClientRequest& request) { return answer(request); },
            .sleep = [this](double seconds) { pauses.push_back(seconds); },
            .progress = {}};
  }
  std::vector<double> pauses;

 private:
  ClientResponse answer(const ClientRequest& request) {
    ++requests;
    if (!first.empty()) {
      const ClientResponse response = first.front();
      first.erase(first.begin());
      return response;
    }
    const std::string base = "http://mlflow.example:5000/api/2.0/", path = request.url.substr(base.size());
    EXPECT_TRUE(request.url.starts_with(base)) << request.url;
    if (request.method == "PUT") {
      files[path] = request.body;
      return {.status = 200, .body = "{}"};
    }
    EXPECT_LT(request.body.size(), 1'000'000u);
    const json body = json::parse(request.body, nullptr, false);
    if (path == "mlflow/experiments/get-by-name?experiment_name=my%20experiment") {
      if (!experiments.contains("my experiment"))
        return {.status = 404, .body = "{\"error_code\":\"RESOURCE_DOES_NOT_EXIST\"}"};
      return {.status = 200, .body = "{\"experiment\":{\"experiment_id\":\"7\"}}"};
    }
    if (path == "mlflow/experiments/create") {
      experiments[body["name"]] = "7";
      return {.status = 200, .body = "{\"experiment_id\":\"7\"}"};
    }
    const json run = {
        {"info",
         {{"run_id", "m1"}, {"artifact_uri", takes_files ? "mlflow-artifacts:/7/m1/artifacts" : "s3://bucket/7"}}}};
    if (path == "mlflow/runs/search") {
      const std::string filter = body["filter"];
      json found = json::array();
      for (const auto& [tag, id] : runs)
        if (filter == "tags.`ramet.run` = '" + tag + "'") found.push_back(run);
      return {.status = 200, .body = json{{"runs", found}}.dump()};
    }
    if (path == "mlflow/runs/create") {
      runs[body["tags"][0]["value"]] = "m1";
      EXPECT_GT(body["start_time"].get<int64_t>(), 1'700'000'000'000);
      return {.status = 200, .body = json{{"run", run}}.dump()};
    }
    if (path == "mlflow/runs/log-batch") {
      for (const json& metric : body.value("metrics", json::array())) points.insert(metric.dump());
      for (const json& param : body.value("params", json::array())) params[param["key"]] = param["value"];
      for (const json& tag : body.value("tags", json::array())) tags[tag["key"]] = tag["value"];
      EXPECT_LE(body.value("metrics", json::array()).size(), 1000u);
      return {.status = 200, .body = "{}"};
    }
    if (path == "mlflow/runs/update") {
      update = body;
      return {.status = 200, .body = "{}"};
    }
    ADD_FAILURE() << request.method << " " << request.url;
    return {.status = 404, .body = ""};
  }
};

fs::path write_run(const fs::path& parent, int steps) {
  const RunDirectory run =
      RunDirectory::create(parent, {.name = "n",
                                    .recipe = "[train]\nsteps = 4\nname = \"" + std::string(7000, 'x') + "\"\n",
                                    .command = {"ramet", "train"},
                                    .kernel_class = "k"});
  RunLogWriter log(run.log());
  for (int step = 1; step <= steps; ++step) {
    const std::vector<LoggedNumber> values = {{"loss", step == 2 ? std::nan("") : 0.1 * step}, {"odd name, yes%", 1.0}};
    log.metrics(step, values);
  }
  log.event("{\"event\":\"end\",\"status\":\"done\"}");
  log.flush();
  return run.path();
}

RunRecord make_run(const fs::path& parent, int steps) { return read_run(write_run(parent, steps)); }

TEST(Mlflow, ARunIsPushedAndPushedAgain) {
  const TemporaryFolder folder;
  const RunRecord run = make_run(folder.path(), 1234);
  FakeMlflow fake;
  const PushReport report = push_to_mlflow(run, fake.server());
  EXPECT_TRUE(report.created);
  EXPECT_EQ(report.run_id, "m1");
  EXPECT_EQ(report.url, "http://mlflow.example:5000/#/experiments/7/runs/m1");
  EXPECT_EQ(report.points, 2468);
  EXPECT_EQ(fake.points.size(), 2468u);
  EXPECT_EQ(report.artifacts, 3);
  EXPECT_EQ(fake.files.at("mlflow-artifacts/artifacts/7/m1/artifacts/ramet/recipe.toml"),
            read_file(run.path / "recipe.toml"));
  EXPECT_EQ(fake.params.at("train.steps"), "4");
  EXPECT_EQ(fake.params.at("train.name").size(), 6000u);
  EXPECT_THAT(report.remarks, ElementsAre("1 parameters are longer than 6000 characters: cut"));
  EXPECT_EQ(fake.update["status"], "FINISHED");
  EXPECT_EQ(fake.tags.at("mlflow.source.name"), "ramet train");
  bool not_a_number = false, odd = false;
  for (const std::string& text : fake.points) {
    const json point = json::parse(text);
    not_a_number |= point["value"] == "NaN" && point["step"] == 2 && point["key"] == "loss";
    odd |= point["key"] == "odd name_ yes_";
    EXPECT_GT(point["timestamp"].get<int64_t>(), 1'700'000'000'000);
  }
  EXPECT_TRUE(not_a_number && odd);
  const PushReport again = push_to_mlflow(run, fake.server());
  EXPECT_FALSE(again.created);
  EXPECT_EQ(fake.points.size(), 2468u);
  EXPECT_EQ(fake.runs.size(), 1u);
  EXPECT_THAT(fake.pauses, IsEmpty());
}

TEST(Mlflow, WhatFailsForTheNetworksSakeIsTriedAgain) {
  const TemporaryFolder folder;
  const RunRecord run = make_run(folder.path(), 3);
  FakeMlflow fake;
  fake.first = {{.status = 0, .body = "connection refused"},
                {.status = 503, .body = ""},
                {.status = 429, .body = "", .retry_after = 7}};
  EXPECT_EQ(push_to_mlflow(run, fake.server()).points, 6);
  EXPECT_THAT(fake.pauses, ElementsAre(0.5, 1, 7));
  fake.first.assign(100, {.status = 0, .body = "connection refused"});
  fake.requests = 0;
  EXPECT_THAT(error_of([&] { push_to_mlflow(run, fake.server()); }),
              HasSubstr("connection refused. Is it MLflow's server, and does it run?"));
  EXPECT_EQ(fake.requests, 6);
  fake.first = {{.status = 401, .body = "You are not authenticated"}};
  EXPECT_THAT(error_of([&] { push_to_mlflow(run, fake.server()); }),
              HasSubstr("the server refuses: status 401. Set MLFLOW_TRACKING_USERNAME"));
  fake.first = {{.status = 200, .body = "<html>another server</html>"}};
  EXPECT_THAT(error_of([&] { push_to_mlflow(run, fake.server()); }), HasSubstr("the server refuses: status 200"));
  fake.first.clear();
  fake.takes_files = false;
  EXPECT_THAT(push_to_mlflow(run, fake.server()).remarks,
              ::testing::Contains(HasSubstr("the server takes no files (its artifacts are at 's3://bucket/7')")));
  MlflowServer wrong = fake.server();
  wrong.url = "databricks";
  EXPECT_THAT(error_of([&] { push_to_mlflow(run, wrong); }),
              HasSubstr("--mlflow: not the address of a server; found 'databricks'"));
}

TEST(Http, WordsForAddresses) {
  EXPECT_EQ(url_encoded("a b/c%\xc3\xa9~"), "a%20b%2Fc%25%C3%A9~");
  EXPECT_EQ(url_encoded(""), "");
}

}  // namespace
}  // namespace ramet::tests
