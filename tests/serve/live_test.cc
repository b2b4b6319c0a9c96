#include "ramet/serve/live.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "ramet/serve/page_server.h"
#include "support/http_client.h"
#include "support/made_runs.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;

std::string read_all(EventStream& stream) {
  std::string text(64 << 10, '\0');
  const auto got = stream.take(text.data(), text.size(), [] {}, nullptr);
  text.resize(got.value_or(0));
  return text;
}

/// The id of the last event of a stream's text.
std::string last_id(const std::string& text) {
  const size_t at = text.rfind("id: ");
  return text.substr(at + 4, text.find('\n', at) - at - 4);
}

TEST(EventHub, GoesOnWhereAPageLeftOff) {
  EventHub hub;
  const auto first = hub.subscribe("");
  hub.send("run", R"({"id":"a"})");
  const std::string text = read_all(*first);
  EXPECT_NE(text.find("event: hello"), std::string::npos);
  EXPECT_NE(text.find("event: run\ndata: {\"id\":\"a\"}\n\n"), std::string::npos);
  hub.send("run", R"({"id":"b"})");
  const std::string missed = read_all(*hub.subscribe(last_id(text)));
  EXPECT_EQ(missed.find("\"a\""), std::string::npos);
  EXPECT_NE(missed.find("\"b\""), std::string::npos);
  EXPECT_EQ(missed.find("event: runs"), std::string::npos);
}

TEST(EventHub, AsksForEverythingAfterAGap) {
  EventHub hub, other;
  hub.send("run", "{}");
  const std::string id = last_id(read_all(*hub.subscribe("")));
  for (int i = 0; i < 2000; ++i) hub.send("run", "{}");
  for (const std::string& last : {id, std::string("x"), std::string("-1"), last_id(read_all(*other.subscribe(""))),
                                  id + "99999999999999999999999", id.substr(0, 9) + "999999"})
    EXPECT_NE(read_all(*hub.subscribe(last)).find("event: runs"), std::string::npos) << last;
}

TEST(EventHub, ForgetsThoseThatAreGone) {
  EventHub hub;
  const auto gone = hub.subscribe(""), slow = hub.subscribe(""), well = hub.subscribe("");
  gone->abandon();
  for (int i = 0; i < 40'000; ++i) {
    hub.send("run", "{\"id\":\"some run\"}");
    (void)read_all(*well);
  }
  EXPECT_EQ(hub.subscribers(), 1u);
  EXPECT_TRUE(slow->overflowed());
  hub.heartbeat();
  EXPECT_EQ(read_all(*well), ": heartbeat\n\n");
  hub.close();
  EXPECT_TRUE(well->ended());
  EXPECT_TRUE(hub.subscribe("")->ended());
}

class Live : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_serve()) GTEST_SKIP() << "this build has no libmicrohttpd";
    fs::create_directories(runs_);
    make_run(runs_, {.id = "done"});
    serve();
  }
  void serve() {
    PageServerOptions options;
    options.runs = runs_;
    options.access.token = false;
    options.http.port = port_;
    server_ = std::make_unique<PageServer>(options);
    port_ = server_->port();
  }
  std::unique_ptr<HttpClient> listen(const std::string& last = "") {
    auto client = std::make_unique<HttpClient>(port_);
    client->request("GET /api/v1/events HTTP/1.1", last.empty() ? "" : "Last-Event-ID: " + last + "\r\n");
    const HttpReply head = client->stream_head();
    EXPECT_EQ(head.status, 200);
    EXPECT_EQ(head.headers.at("content-type"), "text/event-stream; charset=utf-8");
    return client;
  }

  TemporaryFolder folder_;
  fs::path runs_ = folder_ / "runs";
  int port_ = 0;
  std::unique_ptr<PageServer> server_;
};

TEST_F(Live, TellsOfARunAsItGoesOn) {
  const auto page = listen(), other = listen();
  std::optional<RunDirectory> run(RunDirectory::create_at(
      runs_ / "going", {.name = "going", .recipe = "", .command = {}, .kernel_class = "cpu", .threads = 1}));
  RunLogWriter log(run->log());
  log.event(R"({"event":"start"})");
  const LoggedNumber values[] = {{"loss", 1.0}};
  log.metrics(1, values);
  log.flush();
  const std::string text = page->stream_until(R"({"id":"going","status":"running","steps":1})");
  EXPECT_NE(text.find("event: run\n"), std::string::npos);
  if (text.find("event: runs\n") == std::string::npos) page->stream_until("event: runs\n");
  log.metrics(2, values);
  log.flush();
  page->stream_until(R"({"id":"going","status":"running","steps":2})");
  other->stream_until(R"({"id":"going","status":"running","steps":2})");
  log.event(R"({"event":"end","status":"done"})");
  log.flush();
  run.reset();
  page->stream_until(R"({"id":"going","status":"done","steps":2})");
}

TEST_F(Live, TellsOfRunsThatComeAndGo) {
  const auto page = listen();
  page->stream_until("event: hello");
  make_run(runs_, {.id = "new"});
  page->stream_until("event: runs");
  fs::remove_all(runs_ / "new");
  page->stream_until("event: runs");
}

TEST_F(Live, TellsOfAnnotations) {
  const auto page = listen();
  page->stream_until("event: hello");
  EXPECT_EQ(http(port_, "PATCH /api/v1/runs/done", "Content-Type: application/json\r\n", R"({"pinned":true})").status,
            200);
  page->stream_until("event: runs", 1);
}

TEST_F(Live, PagesFindTheWayBackAfterARestart) {
  std::string id;
  {
    const auto page = listen();
    id = last_id(page->stream_until("event: hello\ndata: {}\n\n"));
    server_.reset();
    EXPECT_THROW(page->stream_until("never", 3), std::runtime_error);
  }
  serve();
  listen(id)->stream_until("event: runs", 2);
}

TEST_F(Live, TwoServersShareAFolder) {
  PageServerOptions options;
  options.runs = runs_;
  options.access.token = false;
  const PageServer second(options);
  make_run(runs_, {.id = "new"});
  for (const int port : {port_, second.port()}) {
    nlohmann::json list;
    for (int i = 0; i < 100; ++i) {
      list = nlohmann::json::parse(http(port, "GET /api/v1/runs").body);
      if (list["total"] == 2) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    EXPECT_EQ(list["total"], 2);
  }
}

TEST_F(Live, ManyTabs) {
  std::vector<std::unique_ptr<HttpClient>> tabs;
  for (int i = 0; i < 50; ++i) tabs.push_back(listen());
  make_run(runs_, {.id = "new"});
  for (auto& tab : tabs) tab->stream_until("event: runs");
}

}  // namespace
}  // namespace ramet::tests
