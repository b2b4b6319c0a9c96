#include "ramet/serve/access.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>

#include "ramet/base/file.h"
#include "ramet/serve/page_server.h"
#include "support/errors.h"
#include "support/http_client.h"
#include "support/made_runs.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;

HttpRequest request_with(std::vector<std::pair<std::string, std::string>> headers, std::string method = "GET") {
  HttpRequest request;
  request.method = std::move(method);
  request.headers = std::move(headers);
  return request;
}

TEST(Access, TokensAreRandom) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) {
    const std::string token = random_token();
    EXPECT_EQ(token.size(), 64u);
    EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos);
    tokens.insert(token);
  }
  EXPECT_EQ(tokens.size(), 100u);
  EXPECT_TRUE(equal_secrets("abc", "abc"));
  EXPECT_FALSE(equal_secrets("abc", "abd"));
  EXPECT_FALSE(equal_secrets("abc", "ab"));
}

/// "name=value" of a Set-Cookie header.
std::string cookie_of(const std::string& header) { return header.substr(0, header.find(';')); }

TEST(Access, ALinkOpensOneSession) {
  AccessControl access({}, 8420);
  EXPECT_EQ(access.user_of(request_with({})), std::nullopt);
  const std::string token = access.new_link_token();
  EXPECT_EQ(access.open_session("0" + token.substr(1) + "x"), std::nullopt);
  const auto cookie = access.open_session(token);
  ASSERT_TRUE(cookie);
  EXPECT_NE(cookie->find("HttpOnly"), std::string::npos);
  EXPECT_NE(cookie->find("SameSite=Strict"), std::string::npos);
  EXPECT_TRUE(cookie->starts_with("ramet_session_8420="));
  EXPECT_EQ(access.open_session(token), std::nullopt);
  EXPECT_EQ(access.user_of(request_with({{"Cookie", "a=b; " + cookie_of(*cookie) + "; c=d"}})), "");
  EXPECT_EQ(access.user_of(request_with({{"Cookie", cookie_of(*cookie) + "0"}})), std::nullopt);
  EXPECT_EQ(access.user_of(request_with({{"Cookie", "x" + cookie_of(*cookie)}})), std::nullopt);
  // The token itself opens nothing but the session.
  EXPECT_EQ(access.user_of(request_with({{"Authorization", "Bearer " + token}})), std::nullopt);
}

TEST(Access, SessionsOutliveTheServer) {
  const TemporaryFolder folder;
  AccessOptions options;
  options.session_file = folder / "state/sessions.json";
  std::string cookie;
  {
    AccessControl access(options, 1);
    cookie = cookie_of(*access.open_session(access.new_link_token()));
  }
  struct stat facts{};
  ASSERT_EQ(::stat(options.session_file.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_EQ(AccessControl(options, 1).user_of(request_with({{"Cookie", cookie}})), "");
  for (const char* damaged : {"", "{", "[]", R"({"short":9e9})", R"({"0123456789012345678901":"x"})"}) {
    write_file_atomic(options.session_file, damaged);
    EXPECT_EQ(AccessControl(options, 1).user_of(request_with({{"Cookie", cookie}})), std::nullopt);
  }
}

TEST(Access, TokenFiles) {
  const TemporaryFolder folder;
  AccessOptions options;
  options.token_file = folder / "token";
  std::string token;
  {
    const AccessControl access(options, 1);
    token = read_file(options.token_file);
    token.pop_back();
    struct stat facts{};
    ASSERT_EQ(::stat(options.token_file.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600u);
    EXPECT_EQ(access.user_of(request_with({{"Authorization", "Bearer " + token}})), "");
    EXPECT_EQ(access.user_of(request_with({{"authorization", "bearer " + token}})), "");
    for (const std::string& wrong : {token, std::string("Bearer "), "Bearer x" + token, "Basic " + token})
      EXPECT_EQ(access.user_of(request_with({{"Authorization", wrong}})), std::nullopt) << wrong;
  }
  EXPECT_EQ(AccessControl(options, 1).user_of(request_with({{"Authorization", "Bearer " + token}})), "");
  ::chmod(options.token_file.c_str(), 0644);
  EXPECT_NE(error_of([&] { AccessControl(options, 1); }).find("others may read the token file"), std::string::npos);
  ::chmod(options.token_file.c_str(), 0600);
  for (const std::string& text : {std::string("short"), std::string("two words of some length\n"), std::string()}) {
    write_file_atomic(options.token_file, text);
    ::chmod(options.token_file.c_str(), 0600);
    EXPECT_NE(error_of([&] { AccessControl(options, 1); }).find("holds no token"), std::string::npos) << text;
  }
}

TEST(Access, ProxiesNameTheUser) {
  AccessOptions options;
  options.proxy_header = "X-Forwarded-User";
  AccessControl access(options, 1);
  EXPECT_EQ(access.user_of(request_with({{"x-forwarded-user", "ada"}})), "ada");
  EXPECT_EQ(access.user_of(request_with({{"X-Forwarded-User", ""}})), std::nullopt);
  EXPECT_EQ(access.user_of(request_with({{"X-Forwarded-User", "ada"}, {"X-Forwarded-User", "eve"}})), std::nullopt);
  options.token = false;
  EXPECT_EQ(AccessControl(options, 1).user_of(request_with({})), std::nullopt);
}

TEST(Access, ForeignHostsAndOriginsAreRefused) {
  AccessOptions options;
  options.allowed_hosts = {"ramet.example"};
  const AccessControl access(options, 8420);
  for (const char* host : {"127.0.0.1:8420", "localhost:8420", "localhost:9000", "[::1]:8420", "192.0.2.1",
                           "ramet.example", "a.localhost"})
    EXPECT_EQ(access.fault_of_origin(request_with({{"Host", host}})), "") << host;
  for (const char* host : {"evil.example", "evil.example:8420", "127.0.0.1.evil.example", "localhost.evil.example", "",
                           "a b", "2130706433.nip.example"})
    EXPECT_NE(access.fault_of_origin(request_with({{"Host", host}})), "") << host;
  EXPECT_NE(access.fault_of_origin(request_with({})), "");
  EXPECT_NE(access.fault_of_origin(request_with({{"Host", "localhost"}, {"Host", "localhost"}})), "");
  const std::pair<std::string, std::string> host = {"Host", "127.0.0.1:8420"};
  EXPECT_EQ(access.fault_of_origin(request_with({host, {"Origin", "http://127.0.0.1:8420"}}, "POST")), "");
  EXPECT_EQ(
      access.fault_of_origin(request_with({{"Host", "ramet.example"}, {"Origin", "https://ramet.example"}}, "POST")),
      "");
  for (const char* origin : {"http://evil.example", "http://127.0.0.1:8421", "http://127.0.0.1", "null",
                             "http://localhost:8420", "file://", "http://127.0.0.1:8420.evil.example"})
    EXPECT_NE(access.fault_of_origin(request_with({host, {"Origin", origin}})), "") << origin;
  EXPECT_NE(access.fault_of_origin(request_with({host, {"Sec-Fetch-Site", "cross-site"}})), "");
  EXPECT_NE(access.fault_of_origin(request_with({host, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Mode", "cors"}})),
            "");
  EXPECT_EQ(
      access.fault_of_origin(request_with({host, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}})),
      "");
  EXPECT_NE(access.fault_of_origin(
                request_with({host, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}}, "POST")),
            "");
  EXPECT_EQ(access.fault_of_origin(request_with({host, {"Sec-Fetch-Site", "same-origin"}}, "PATCH")), "");
  options.allowed_hosts = {"http://x"};
  EXPECT_NE(error_of([&] { AccessControl(options, 1); }), "no error");
}

TEST(Access, LoopbackAddresses) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "192.0.2.1", "example", "127.0.0.1.evil.example", ""})
    EXPECT_FALSE(is_loopback(host)) << host;
}

class Guarded : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_serve()) GTEST_SKIP() << "this build has no libmicrohttpd";
    fs::create_directories(folder_ / "runs");
    make_run(folder_ / "runs", {.id = "one"});
    PageServerOptions options;
    options.runs = folder_ / "runs";
    options.access.token_file = folder_ / "token";
    server_ = std::make_unique<PageServer>(options);
  }
  HttpReply ask(const std::string& line, const std::string& more = "") { return http(server_->port(), line, more); }
  std::string link_target() const { return server_->link().substr(server_->url().size()); }

  TemporaryFolder folder_;
  std::unique_ptr<PageServer> server_;
};

TEST_F(Guarded, NothingIsToldWithoutASession) {
  for (const char* line : {"GET /",
                           "GET /api/v1/runs",
                           "GET /api/v1/version",
                           "GET /metrics",
                           "GET /api/v1/nothing",
                           "GET /assets/x.js",
                           "GET /favicon.svg",
                           "GET /api/v1/events",
                           "GET /api/v1/runs/one/files/recipe",
                           "POST /api/v1/series",
                           "PUT /api/v1/views/a",
                           "DELETE /api/v1/views/a",
                           "POST /api/v1/links",
                           "GET /api/v1/runs?token=abc",
                           "GET /?token=abc",
                           "GET /?token=",
                           "HEAD /",
                           "OPTIONS /api/v1/runs",
                           "TRACE /",
                           "PATCH /api/v1/runs/one"}) {
    const HttpReply reply = ask(line);
    EXPECT_EQ(reply.status, 401) << line;
    EXPECT_EQ(reply.body.find("small"), std::string::npos) << line;
  }
  const HttpReply page = ask("GET /", "Accept: text/html,*/*\r\n");
  EXPECT_EQ(page.status, 401);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
}

TEST_F(Guarded, TheLinkOpensTheDoorOnce) {
  const std::string target = link_target();
  EXPECT_EQ(ask("HEAD " + target).status, 401);  // looking ahead at a link uses nothing up
  const HttpReply first = ask("GET " + target + "&x=%3Cb%3E");
  ASSERT_EQ(first.status, 200);
  const std::string cookie = "Cookie: " + cookie_of(first.headers.at("set-cookie")) + "\r\n";
  EXPECT_NE(first.body.find("content=\"0;url=/?x=%3Cb%3E\""), std::string::npos) << first.body;
  EXPECT_EQ(first.body.find("<b>"), std::string::npos);
  EXPECT_EQ(first.headers.at("referrer-policy"), "no-referrer");
  EXPECT_EQ(ask("GET " + target).status, 401);
  EXPECT_EQ(ask("GET " + target, cookie).status, 200);
  EXPECT_EQ(ask("GET /api/v1/runs", cookie).status, 200);
  // Another way in, for another browser.
  const HttpReply link = ask("POST /api/v1/links", cookie);
  ASSERT_EQ(link.status, 201);
  const std::string url = nlohmann::json::parse(link.body)["url"];
  EXPECT_EQ(ask("GET " + url.substr(server_->url().size())).status, 200);
  // The address it goes on to is always here.
  const HttpReply deep = ask("GET //evil.example/" + link_target().substr(1), cookie);
  EXPECT_EQ(deep.body.find("url=//"), std::string::npos);
}

TEST_F(Guarded, ScriptsHaveAToken) {
  std::string token = read_file(folder_ / "token");
  token.pop_back();
  EXPECT_EQ(ask("GET /api/v1/runs", "Authorization: Bearer " + token + "\r\n").status, 200);
  EXPECT_EQ(ask("GET /api/v1/runs", "Authorization: Bearer x\r\n").status, 401);
}

TEST_F(Guarded, ForeignSitesAreRefusedEvenWithASession) {
  const HttpReply first = ask("GET " + link_target());
  const std::string cookie = "Cookie: " + cookie_of(first.headers.at("set-cookie")) + "\r\n";
  EXPECT_EQ(ask("GET /api/v1/runs", cookie + "Origin: http://evil.example\r\n").status, 403);
  HttpClient client(server_->port());
  client.send("GET /api/v1/runs HTTP/1.1\r\nHost: evil.example\r\n" + cookie + "\r\n");
  EXPECT_EQ(client.reply().status, 403);
  EXPECT_EQ(ask("GET /api/v1/runs", cookie).headers.count("access-control-allow-origin"), 0u);
}

}  // namespace
}  // namespace ramet::tests
