#include "ramet/serve/page_server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "ramet/base/file.h"
#include "ramet/serve/api.h"
#include "ramet/serve/gzip.h"
#include "support/errors.h"
#include "support/http_client.h"
#include "support/made_runs.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kHtml = "<script>alert(\"x\")</script>'\"&\xe2\x80\xa8</script>";

/// A server on three runs, one of which is hostile.
class Page : public testing::Test {
 protected:
  static constexpr const char* kSmall = "2026-11-01-small-aaaaaa";

  void SetUp() override {
    if (!can_serve()) GTEST_SKIP() << "this build has no libmicrohttpd";
    runs_ = folder_ / "runs";
    fs::create_directories(runs_);
    make_run(runs_, {.id = kSmall});
    make_run(runs_, {.id = "2026-11-02-small-bbbbbb",
                     .recipe = "name = \"small\"\n\n[train]\nseed = 4\nsteps = 10\n",
                     .loss = 1.5});
    make_run(runs_, {.id = "hostile", .name = kHtml, .steps = 3, .end = "failed"});
  }

  PageServerOptions options() const {
    PageServerOptions options;
    options.runs = runs_;
    options.access.token = false;
    return options;
  }
  PageServer& server() {
    if (!server_) server_ = std::make_unique<PageServer>(options());
    return *server_;
  }
  HttpReply get(const std::string& target, const std::string& more = "") {
    return http(server().port(), "GET " + target, more);
  }
  json get_json(const std::string& target) {
    const HttpReply reply = get(target);
    EXPECT_EQ(reply.status, 200) << target << " " << reply.body;
    EXPECT_EQ(reply.headers.at("content-type"), "application/json");
    return json::parse(reply.body, nullptr, false);
  }
  HttpReply put(const std::string& line, const std::string& body, const std::string& more = "",
                const std::string& type = "application/json") {
    return http(server().port(), line, "Content-Type: " + type + "\r\n" + more, body);
  }

  TemporaryFolder folder_;
  fs::path runs_;
  std::unique_ptr<PageServer> server_;
};

TEST_F(Page, ListsRuns) {
  const json list = get_json("/api/v1/runs?sort=id&columns=config.train.seed,loss,min.loss,nothing");
  EXPECT_EQ(list["total"], 3);
  const json& run = list["runs"][0];
  EXPECT_EQ(run["id"], "2026-11-01-small-aaaaaa" == run["id"] ? kSmall : "2026-11-02-small-bbbbbb");
  EXPECT_EQ(list["runs"][1]["columns"]["config.train.seed"], run["id"] == kSmall ? 4 : 3);
  for (const char* key :
       {"id", "name", "status", "started", "ended", "steps", "group", "tags", "pinned", "colour", "archived", "note",
        "units", "samples_per_step", "units_per_step", "alerts", "parent", "columns"})
    EXPECT_TRUE(run.contains(key)) << key;
  EXPECT_EQ(run["status"], "done");
  EXPECT_EQ(run["steps"], 10);
  EXPECT_EQ(run["units"], "tokens");
  EXPECT_EQ(run["samples_per_step"], 8.0);
  EXPECT_GT(run["started"], 1e9);
  EXPECT_TRUE(run["columns"]["nothing"].is_null());
  EXPECT_EQ(get_json("/api/v1/runs?filter=config.train.seed%20%3D%204")["total"], 1);
  EXPECT_EQ(get_json("/api/v1/runs?limit=1&offset=2")["runs"].size(), 1u);
}

TEST_F(Page, ABadFilterSaysWhere) {
  const HttpReply reply = get("/api/v1/runs?filter=loss%20%3C%20%3C");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.headers.at("content-type"), "application/problem+json");
  const json problem = json::parse(reply.body);
  EXPECT_EQ(problem["position"], 7);
  EXPECT_FALSE(problem["detail"].get<std::string>().empty());
}

TEST_F(Page, ShowsARun) {
  const json run = get_json(std::string("/api/v1/runs/") + kSmall);
  EXPECT_EQ(run["config"]["train.seed"], 3);
  EXPECT_EQ(run["facts"]["name"], "small");
  EXPECT_EQ(run["end"]["status"], "done");
  EXPECT_EQ(run["axis"]["units"], "tokens");
  EXPECT_EQ(run["files"], (json{"recipe", "machine", "run"}));
  EXPECT_EQ(run["ranks"], 1);
  EXPECT_EQ(get("/api/v1/runs/none").status, 404);
}

TEST_F(Page, SummarizesMetricsAndEvents) {
  const json metrics = get_json(std::string("/api/v1/runs/") + kSmall + "/metrics");
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0]["name"], "loss");
  EXPECT_EQ(metrics[0]["kind"], "metric");
  EXPECT_EQ(metrics[0]["points"], 10);
  EXPECT_NEAR(metrics[0]["last"].get<double>(), 1.9, 1e-12);
  const json ends = get_json(std::string("/api/v1/runs/") + kSmall + "/events?kind=end");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0]["event"], "end");
}

TEST_F(Page, FilesComeAsTheyAre) {
  write_file_atomic(runs_ / kSmall / "plan.json", "{\"version\":1}");
  fs::create_directories(runs_ / kSmall / "numerics");
  write_file_atomic(runs_ / kSmall / "numerics/step-00000012.json", "{\"a\":1}");
  const std::string files = std::string("/api/v1/runs/") + kSmall + "/files/";
  EXPECT_EQ(get(files + "plan").body, "{\"version\":1}");
  EXPECT_EQ(get(files + "numerics/12").body, "{\"a\":1}");
  const HttpReply recipe = get(files + "recipe");
  EXPECT_EQ(recipe.headers.at("content-type"), "text/plain; charset=utf-8");
  EXPECT_NE(recipe.body.find("seed = 3"), std::string::npos);
  for (const char* name : {"times", "log.ramet", "lock", "numerics/13", "numerics/x", "..%2F..%2Fsecret", "plan.json"})
    EXPECT_EQ(get(files + name).status, 404) << name;
}

TEST_F(Page, NothingOutsideOfARunIsRead) {
  write_file_atomic(folder_ / "secret", "the secret");
  write_file_atomic(runs_ / "secret", "the secret");
  fs::create_directories(runs_ / "hostile/artifacts");
  const std::string hash(32, 'a');
  fs::create_symlink(folder_ / "secret", runs_ / "hostile/plan.json");
  fs::create_symlink(folder_ / "secret", runs_ / "hostile/artifacts" / hash);
  ASSERT_EQ(::mkfifo((runs_ / "hostile/times.json").c_str(), 0600), 0);
  fs::create_directories(runs_ / "reports");
  fs::create_symlink(folder_ / "secret", runs_ / "reports/link.md");
  for (const char* target :
       {"/api/v1/runs/hostile/files/plan", "/api/v1/runs/hostile/files/times", "/api/v1/runs/hostile/trace",
        "/api/v1/runs/..", "/api/v1/runs/%2e%2e/files/plan", "/api/v1/runs/..%2fsecret", "/api/v1/runs/.",
        "/api/v1/runs/%2Fetc/files/plan", "/api/v1/runs/hostile%00/metrics", "/../../secret", "/%2e%2e/secret",
        "/assets/..%2f..%2fsecret", "/api/v1/reports/link", "/api/v1/reports/..%2f..%2fsecret",
        "/api/v1/views/../secret", "/api/v1/sweeps/..", "/api/v1/sweeps/..%2f..", "/api/v1/export/..%2fhostile.csv"}) {
    const HttpReply reply = get(target);
    EXPECT_TRUE(reply.status == 404 || reply.status == 400) << target << " " << reply.status;
    EXPECT_EQ(reply.body.find("the secret"), std::string::npos) << target;
  }
  const std::string artifacts = "/api/v1/runs/hostile/artifacts/";
  EXPECT_EQ(get(artifacts + hash).status, 404);
  for (const std::string& name :
       {std::string("..%2f..%2f..%2fsecret"), std::string(32, 'A'), std::string(31, 'a'), std::string(33, 'a')})
    EXPECT_EQ(get(artifacts + name).status, 400) << name;
}

TEST_F(Page, HtmlInEveryTextStaysText) {
  const fs::path run = runs_ / "hostile";
  {
    RunLogWriter log(run / "log.ramet");
    log.event(json{{"event", "alert"}, {"kind", "user"}, {"level", "warn"}, {"title", kHtml}, {"text", kHtml}}.dump());
    log.event(json{{"event", "config"}, {"values", {{kHtml, kHtml}}}}.dump());
    const LoggedNumber values[] = {{kHtml, 1.0}};
    log.metrics(1, values);
  }
  add_artifact(run, kHtml, kHtml, "some bytes");
  EXPECT_EQ(put("PATCH /api/v1/runs/hostile",
                json{{"note", kHtml}, {"name", "<b>"}, {"tags", {"<i>"}}, {"group", "<u>"}}.dump())
                .status,
            200);
  for (const char* target :
       {"/api/v1/runs", "/api/v1/runs/hostile", "/api/v1/runs/hostile/metrics", "/api/v1/runs/hostile/events",
        "/api/v1/runs/hostile/media", "/api/v1/keys", "/api/v1/compare?runs=hostile,2026-11-01-small-aaaaaa"}) {
    const HttpReply reply = get(target, "Accept: text/html\r\n");
    EXPECT_EQ(reply.headers.at("content-type"), "application/json") << target;
    EXPECT_EQ(reply.headers.at("x-content-type-options"), "nosniff") << target;
    EXPECT_FALSE(json::parse(reply.body, nullptr, false).is_discarded()) << target;
  }
  // Errors, too, and the plain list.
  EXPECT_EQ(get("/api/v1/runs?%3Cscript%3E=1").headers.at("content-type"), "application/problem+json");
  if (!server().has_page()) {
    EXPECT_EQ(get("/").body.find("<b>"), std::string::npos);
  }
  EXPECT_EQ(get("/metrics").status, 200);
}

TEST_F(Page, ArtifactsAreShownOnlyWhereThatIsSafe) {
  const fs::path run = runs_ / kSmall;
  const std::string png = add_artifact(run, "a.png", "image/png", "\x89PNG..."),
                    page = add_artifact(run, "../evil.html", "text/html", "<script>alert(1)</script>"),
                    note = add_artifact(run, "note", "text/markdown", "# a"),
                    drawing = add_artifact(run, "d.svg", "image/svg+xml", "<svg/>");
  server();
  const std::string artifacts = std::string("/api/v1/runs/") + kSmall + "/artifacts/";
  const HttpReply image = get(artifacts + png);
  EXPECT_EQ(image.status, 200);
  EXPECT_EQ(image.headers.at("content-type"), "image/png");
  EXPECT_FALSE(image.headers.contains("content-disposition"));
  const HttpReply hostile = get(artifacts + page);
  EXPECT_EQ(hostile.headers.at("content-type"), "application/octet-stream");
  EXPECT_EQ(hostile.headers.at("content-disposition"), "attachment; filename*=UTF-8''evil.html");
  EXPECT_EQ(get(artifacts + note).headers.at("content-type"), "text/plain; charset=utf-8");
  for (const auto& hash : {png, page, note, drawing}) {
    const HttpReply reply = get(artifacts + hash);
    EXPECT_TRUE(reply.headers.at("content-security-policy").starts_with("sandbox; default-src 'none'"));
    EXPECT_EQ(reply.headers.at("x-content-type-options"), "nosniff");
  }
  const json media = get_json(std::string("/api/v1/runs/") + kSmall + "/media");
  ASSERT_EQ(media.size(), 4u);
  EXPECT_EQ(media[0]["artifact"], png);
  EXPECT_EQ(media[0]["kind"], "image");
}

TEST_F(Page, AnnotatesRuns) {
  const std::string line = std::string("PATCH /api/v1/runs/") + kSmall;
  const HttpReply reply =
      put(line, R"({"tags":["b","a"],"note":"# n","pinned":true,"colour":"#00ff00","group":"g","name":"n"})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json row = json::parse(reply.body);
  EXPECT_EQ(row["tags"], (json{"a", "b"}));
  EXPECT_EQ(row["pinned"], true);
  EXPECT_EQ(row["name"], "n");
  EXPECT_EQ(get_json("/api/v1/runs?filter=tag%20%3D%20%22a%22")["total"], 1);
  EXPECT_EQ(put(line, R"({"archived":true})").status, 200);
  EXPECT_EQ(get_json("/api/v1/runs")["total"], 2);
  EXPECT_EQ(get_json("/api/v1/runs?archived=1")["total"], 3);
  EXPECT_EQ(json::parse(read_file(runs_ / kSmall / "annotations.json"))["note"], "# n");
  for (const char* body : {"", "[]", "{", R"({"tag":["a"]})", R"({"tags":"a"})", R"({"tags":[1]})", R"({"pinned":1})",
                           R"({"note":null})", R"({"colour":"red"})"})
    EXPECT_EQ(put(line, std::string(body).empty() ? " " : body).status, 400) << body;
  EXPECT_EQ(put(line, std::string(100'000, '[')).status, 400);
  EXPECT_EQ(put("PATCH /api/v1/runs/none", "{}").status, 404);
  EXPECT_EQ(put(line, "{}", "", "text/plain").status, 415);
}

std::vector<double> doubles(const std::string& bytes, size_t& at, size_t n) {
  std::vector<double> values(n);
  std::memcpy(values.data(), bytes.data() + at, n * 8);
  at += n * 8;
  return values;
}
uint32_t u32(const std::string& bytes, size_t& at) {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, 4);
  at += 4;
  return value;
}

TEST_F(Page, SeriesComeAsNumbers) {
  const json question = {{"requests",
                          {{{"run", kSmall}, {"metric", "loss"}},
                           {{"run", "none"}, {"metric", "loss"}},
                           {{"run", "../x"}, {"metric", "loss"}},
                           {{"run", kSmall}, {"metric", "none"}}}},
                         {"x", "step"},
                         {"from", nullptr},
                         {"to", nullptr},
                         {"buckets", 600}};
  HttpReply reply = put("POST /api/v1/series", question.dump());
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers.at("content-type"), "application/octet-stream");
  size_t at = 0;
  ASSERT_EQ(u32(reply.body, at), 10u);
  EXPECT_EQ(u32(reply.body, at), 1u);
  EXPECT_EQ(doubles(reply.body, at, 10)[9], 10);
  EXPECT_NEAR(doubles(reply.body, at, 10)[9], 1.9, 1e-12);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(u32(reply.body, at), 0u);
    (void)u32(reply.body, at);
  }
  EXPECT_EQ(at, reply.body.size());
  // Three buckets of ten points: 3 numbers of counts, so four bytes more.
  reply =
      put("POST /api/v1/series", json{{"requests", {{{"run", kSmall}, {"metric", "loss"}}}}, {"buckets", 3}}.dump());
  at = 0;
  ASSERT_EQ(u32(reply.body, at), 3u);
  EXPECT_EQ(u32(reply.body, at), 0u);
  const auto x = doubles(reply.body, at, 3), least = doubles(reply.body, at, 3), most = doubles(reply.body, at, 3),
             last = doubles(reply.body, at, 3);
  uint32_t points = 0;
  for (int i = 0; i < 3; ++i) points += u32(reply.body, at);
  EXPECT_EQ(points, 10u);
  EXPECT_EQ(at + 4, reply.body.size());
  EXPECT_NEAR(most[0], 1.99, 1e-12);
  EXPECT_NEAR(least[2], 1.9, 1e-12);
  for (const char* body :
       {"{}", R"({"requests":1})", R"({"requests":[1]})", R"({"requests":[{"run":"a"}]})",
        R"({"requests":[],"x":"miles"})", R"({"requests":[],"buckets":0})", R"({"requests":[],"buckets":1e9})",
        R"({"requests":[],"from":"a"})", R"({"requests":[],"after":3})"})
    EXPECT_EQ(put("POST /api/v1/series", body).status, 400) << body;
  json many = {{"requests", json::array()}};
  for (int i = 0; i < 300; ++i) many["requests"].push_back({{"run", "a"}, {"metric", "b"}});
  EXPECT_EQ(put("POST /api/v1/series", many.dump()).status, 400);
}

TEST_F(Page, KeysCompareImportanceAndSql) {
  const json keys = get_json("/api/v1/keys");
  const auto seed = std::find_if(keys["config"].begin(), keys["config"].end(),
                                 [](const json& key) { return key["key"] == "train.seed"; });
  ASSERT_NE(seed, keys["config"].end());
  EXPECT_EQ((*seed)["runs"], 3);
  EXPECT_EQ((*seed)["type"], "number");
  EXPECT_EQ((*seed)["values"], (json{3, 4}));
  EXPECT_EQ(keys["metrics"][0]["key"], "loss");
  const json compared = get_json("/api/v1/compare?runs=2026-11-01-small-aaaaaa,2026-11-02-small-bbbbbb");
  ASSERT_EQ(compared["config"].size(), 1u) << compared.dump();
  EXPECT_EQ(compared["config"][0]["key"], "train.seed");
  EXPECT_EQ(compared["config"][0]["values"], (json{3, 4}));
  EXPECT_GT(compared["same"], 0);
  EXPECT_EQ(compared["memory"][0]["class"], "planned");
  EXPECT_EQ(get("/api/v1/compare?runs=").status, 400);
  EXPECT_EQ(get("/api/v1/compare?runs=none").status, 404);
  const json importance = get_json("/api/v1/importance?metric=loss");
  EXPECT_EQ(importance["metric"], "loss");
  EXPECT_EQ(get("/api/v1/importance").status, 400);
  const json rows = get_json("/api/v1/sql?q=SELECT%20id,steps%20FROM%20runs%20ORDER%20BY%20id&limit=2");
  EXPECT_EQ(rows["columns"], (json{"id", "steps"}));
  EXPECT_EQ(rows["rows"].size(), 2u);
  EXPECT_EQ(rows["truncated"], true);
  for (const char* query : {"DELETE%20FROM%20runs", "ATTACH%20'x'%20AS%20y", "SELECT", "SELECT%201;%20SELECT%202",
                            "PRAGMA%20journal_mode=DELETE"})
    EXPECT_EQ(get(std::string("/api/v1/sql?q=") + query).status, 400) << query;
}

TEST_F(Page, DocumentsAreKept) {
  for (const auto& [folder, type, text] :
       {std::tuple{"views", "application/json", std::string(R"({"version":1,"title":"My view","hash":"#/charts"})")},
        std::tuple{"reports", "text/markdown", std::string("intro\n# My view\ntext <b>")}}) {
    const std::string list = std::string("/api/v1/") + folder, one = list + "/mine-1";
    EXPECT_EQ(get(one).status, 404);
    EXPECT_EQ(put("PUT " + one, text, "", type).status, 201);
    EXPECT_EQ(put("PUT " + one, text, "", type).status, 204);
    const HttpReply reply = get(one);
    EXPECT_EQ(reply.body, text);
    const json documents = get_json(list);
    ASSERT_EQ(documents.size(), 1u);
    EXPECT_EQ(documents[0]["name"], "mine-1");
    EXPECT_EQ(documents[0]["title"], "My view");
    EXPECT_GT(documents[0]["modified"], 1e9);
    EXPECT_EQ(put("PUT " + one, text, "If-Match: \"0123\"\r\n", type).status, 412);
    EXPECT_EQ(put("PUT " + one, text, "If-None-Match: *\r\n", type).status, 412);
    EXPECT_EQ(put("PUT " + one, text, "If-Match: " + reply.headers.at("etag") + "\r\n", type).status, 204);
    for (const char* name : {"Mine", "a.b", "..%2fx", "%20"})
      EXPECT_EQ(put("PUT " + list + "/" + name, text, "", type).status, 400);
    EXPECT_EQ(put("PUT " + one, std::string((1 << 20) + 10, ' '), "", type).status,
              folder == std::string("views") ? 400 : 413);
    EXPECT_EQ(http(server().port(), "DELETE " + one).status, 204);
    EXPECT_EQ(http(server().port(), "DELETE " + one).status, 404);
  }
  EXPECT_EQ(put("PUT /api/v1/views/a", "[1]").status, 400);
  EXPECT_EQ(put("PUT /api/v1/reports/a", "\xff\xfe", "", "text/markdown").status, 400);
}

TEST_F(Page, SweepsAreReadFromTheirFolders) {
  EXPECT_EQ(get_json("/api/v1/sweeps"), json::array());
  const fs::path sweep = runs_ / "sweeps/lr";
  fs::create_directories(sweep);
  write_file_atomic(sweep / "sweep.toml",
                    "method = \"random\"\nmetric = \"loss\"\ngoal = \"min\"\n[parameters]\n"
                    "\"train.seed\" = [3, 4]\n\"train.steps\" = {low = 1, high = 20, scale = \"log\"}\n");
  {
    RunLogWriter log(sweep / "log.ramet");
    log.event(R"({"event":"sweep_started","time":1700000000})");
    log.event(R"({"event":"sweep_ended","status":"done"})");
  }
  for (const char* id : {kSmall, "2026-11-02-small-bbbbbb"})
    EXPECT_EQ(put(std::string("PATCH /api/v1/runs/") + id, R"({"group":"lr"})").status, 200);
  const json list = get_json("/api/v1/sweeps");
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["name"], "lr");
  EXPECT_EQ(list[0]["status"], "done");
  EXPECT_EQ(list[0]["goal"], "minimize");
  EXPECT_EQ(list[0]["runs"], 2);
  EXPECT_EQ(list[0]["best"]["run"], "2026-11-02-small-bbbbbb");
  EXPECT_EQ(list[0]["started"], 1700000000.0);
  const json one = get_json("/api/v1/sweeps/lr");
  EXPECT_EQ(one["parameters"][0]["values"], (json{3, 4}));
  EXPECT_EQ(one["parameters"][1]["min"], 1);
  EXPECT_EQ(one["trials"].size(), 2u);
  EXPECT_EQ(one["trials"][0]["values"]["train.steps"], 10);
  EXPECT_EQ(one["events"].size(), 2u);
  EXPECT_EQ(get("/api/v1/sweeps/none").status, 404);
}

TEST_F(Page, ExportsCsv) {
  const HttpReply reply = get(std::string("/api/v1/export/") + kSmall + ".csv");
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.body.starts_with("step,loss,rate\n1,1.99,")) << reply.body.substr(0, 60);
  EXPECT_NE(reply.headers.at("content-disposition").find(".csv"), std::string::npos);
}

TEST_F(Page, ExportsThePageAsOneFile) {
  const fs::path ui = folder_ / "ui";
  fs::create_directories(ui / "assets");
  write_file_atomic(ui / "index.html",
                    "<!doctype html><head><link rel=\"stylesheet\" href=\"/assets/a.css\">"
                    "<script type=\"module\" crossorigin src=\"/assets/a.js\"></script></head><div id=app>");
  write_file_atomic(ui / "assets/a.js", "const end = '</script>';");
  write_file_atomic(ui / "assets/a.css.gz", gzip("b{}"));
  add_artifact(runs_ / "hostile", kHtml, "image/png", "PNG");
  PageServerOptions with = options();
  with.ui_dir = ui;
  server_ = std::make_unique<PageServer>(with);
  EXPECT_EQ(get("/assets/a.js").headers.at("content-type"), "text/javascript; charset=utf-8");
  EXPECT_EQ(get("/assets/a.css").body, "b{}");
  EXPECT_EQ(get("/assets/none.js").status, 404);
  const HttpReply reply =
      put("POST /api/v1/export/html", json{{"runs", {kSmall, "hostile"}}, {"view", "#/run"}, {"title", kHtml}}.dump());
  ASSERT_EQ(reply.status, 200) << reply.body;
  const std::string mark = "<script>window.__RAMET_EXPORT__ = ";
  const size_t begin = reply.body.find(mark) + mark.size(), end = reply.body.find(";</script>", begin);
  ASSERT_NE(end, std::string::npos);
  const std::string text = reply.body.substr(begin, end - begin);
  EXPECT_EQ(text.find('<'), std::string::npos);
  const json data = json::parse(text, nullptr, false);
  ASSERT_TRUE(data.is_object());
  EXPECT_EQ(data["title"], kHtml);
  EXPECT_EQ(data["runs"].size(), 2u);
  EXPECT_EQ(data["runs"][0]["columns"]["config.train.seed"], 3);
  EXPECT_EQ(data["series"][kSmall]["loss"]["step"].size(), 10u);
  EXPECT_NEAR(data["series"][kSmall]["loss"]["value"][9].get<double>(), 1.9, 1e-12);
  EXPECT_EQ(data["artifacts"].size(), 1u);
  EXPECT_EQ(data["files"][kSmall]["machine"].is_object(), true);
  EXPECT_NE(reply.body.find("<style>b{}</style>"), std::string::npos);
  EXPECT_NE(reply.body.find("<script type=\"module\">const end = '<\\/script>';</script>"), std::string::npos);
  EXPECT_EQ(reply.body.find("src="), std::string::npos);
  for (const char* body : {"{}", R"({"runs":[]})", R"({"runs":[1]})", R"({"runs":["none"]})"})
    EXPECT_NE(put("POST /api/v1/export/html", body).status, 200) << body;
}

TEST_F(Page, TagsAndCompressionOfAnswers) {
  const std::string target = std::string("/api/v1/runs/") + kSmall;
  const HttpReply first = get(target);
  ASSERT_TRUE(first.headers.contains("etag"));
  EXPECT_EQ(get(target, "If-None-Match: " + first.headers.at("etag") + "\r\n").status, 304);
  EXPECT_EQ(get(target, "If-None-Match: \"other\"\r\n").status, 200);
  const HttpReply packed = get(target, "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(packed.headers.at("content-encoding"), "gzip");
  EXPECT_EQ(gunzip(packed.body), first.body);
  EXPECT_EQ(get(target, "If-None-Match: " + packed.headers.at("etag") + "\r\n").status, 304);
  const HttpReply head = http(server().port(), "HEAD " + target);
  EXPECT_EQ(head.headers.at("content-length"), std::to_string(first.body.size()));
}

TEST_F(Page, UnknownAddressesAndMethods) {
  EXPECT_EQ(get("/api/v1/nothing").status, 404);
  EXPECT_EQ(get("/api/v2/runs").status, 404);
  EXPECT_EQ(get("/api").status, 404);
  EXPECT_EQ(get("/nothing.js").status, 404);
  const HttpReply reply = http(server().port(), "DELETE /api/v1/runs");
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.headers.at("allow"), "GET");
  EXPECT_EQ(http(server().port(), "POST /").status, 405);
  EXPECT_EQ(get("/api/v1/runs?limt=3").status, 400);
  EXPECT_EQ(get("/api/v1/runs?limit=5000").status, 400);
  EXPECT_EQ(get("/api/v1/runs?limit=1&limit=2").status, 400);
}

TEST_F(Page, ReadOnlyServersRefuseChanges) {
  PageServerOptions with = options();
  with.read_only = true;
  server_ = std::make_unique<PageServer>(with);
  for (const auto& route : api_routes()) {
    if (!route.changes) continue;
    const HttpReply reply = put(std::string(route.method) + " /api/v1/" + std::string(route.pattern.substr(8)), "{}",
                                "", std::string(route.body_type));
    EXPECT_EQ(reply.status, 403) << route.pattern;
  }
  EXPECT_EQ(get_json("/api/v1/version")["read_only"], true);
  EXPECT_EQ(put("POST /api/v1/series", R"({"requests":[]})").status, 200);
}

TEST_F(Page, FiguresForPrometheus) {
  const std::string text = get("/metrics").body;
  EXPECT_NE(text.find("ramet_runs{status=\"done\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("# TYPE ramet_http_requests_total counter\n"), std::string::npos);
}

TEST_F(Page, ABuildWithoutAPageShowsAList) {
  const fs::path ui = folder_ / "ui";
  fs::create_directories(ui);
  PageServerOptions with = options();
  with.ui_dir = ui;
  server_ = std::make_unique<PageServer>(with);
  const HttpReply reply = get("/");
  EXPECT_EQ(reply.status, 200);
  EXPECT_NE(reply.body.find(kSmall), std::string::npos);
  EXPECT_NE(reply.body.find("&lt;script&gt;"), std::string::npos);
  EXPECT_EQ(reply.body.find("<script>"), std::string::npos);
  EXPECT_EQ(put("POST /api/v1/export/html", json{{"runs", {kSmall}}}.dump()).status, 501);
  EXPECT_NE(error_of([&] { PageFiles files(folder_ / "none"); }), "no error");
}

TEST_F(Page, EveryEmbeddedAssetIsServed) {
  for (const auto& asset : embedded_assets()) {
    const HttpReply reply = get("/" + std::string(asset.name));
    EXPECT_EQ(reply.status, 200) << asset.name;
    EXPECT_EQ(reply.body, asset.compressed ? gunzip(asset.bytes) : std::string(asset.bytes)) << asset.name;
    EXPECT_NE(reply.headers.at("content-type"), "application/octet-stream") << asset.name;
    const HttpReply packed = get("/" + std::string(asset.name), "Accept-Encoding: gzip\r\n");
    if (asset.compressed) {
      EXPECT_EQ(packed.body, asset.bytes) << asset.name;
    }
  }
}

TEST_F(Page, NoFolderNoServer) {
  PageServerOptions with = options();
  with.runs = folder_ / "none";
  EXPECT_NE(error_of([&] { PageServer server(with); }), "no error");
  with = options();
  with.http.host = "0.0.0.0";
  EXPECT_EQ(error_of([&] { PageServer server(with); }),
            "--host: everybody who reaches this machine could read and change the runs; found '0.0.0.0' without a "
            "token; expected a token, or --trust-proxy-header where a reverse proxy lets in those who may. Leave out "
            "--no-token");
}

}  // namespace
}  // namespace ramet::tests
