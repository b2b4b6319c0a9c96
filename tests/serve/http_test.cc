#include "ramet/serve/http.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "support/errors.h"
#include "support/http_client.h"

namespace ramet::tests {
namespace {

using std::chrono::milliseconds;

HttpResponse text(std::string body, int status = 200) {
  return {.status = status, .headers = {{"Content-Type", "text/plain"}}, .body = std::move(body)};
}

/// Answers with what it was asked, so that tests see what a handler sees.
HttpResponse echo(const HttpRequest& request) {
  if (request.target == "/slow") std::this_thread::sleep_for(milliseconds(300));
  if (request.target == "/fault") throw std::runtime_error("a fault");
  if (request.target == "/large") return text(std::string(32 << 20, 'x'));
  return text(request.method + " " + request.target + " " + std::string(request.header("x-mark")) + " " + request.body);
}

/// A server with short deadlines.
HttpOptions hasty() {
  HttpOptions options;
  options.idle_seconds = options.receive_seconds = options.send_seconds = 0.4;
  options.most_body = 64 << 10;
  options.most_header = 8 << 10;
  return options;
}

class Http : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_serve()) GTEST_SKIP() << "this build has no libmicrohttpd";
  }
};

double seconds_of(const std::function<void()>& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST_F(Http, AnswersWithWhatTheHandlerSays) {
  const HttpServer server({}, echo);
  const HttpReply reply = http(server.port(), "GET /a%20b?c=%2F", "X-Mark: here\r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "GET /a%20b?c=%2F here ");
  EXPECT_EQ(http(server.port(), "PUT /x", "", "the body").body, "PUT /x  the body");
  EXPECT_EQ(http(server.port(), "GET /fault").status, 500);
}

TEST_F(Http, ConnectionsAreUsedAgain) {
  const HttpServer server({}, echo);
  HttpClient client(server.port());
  for (int i = 0; i < 5; ++i) {
    client.request("GET /" + std::to_string(i) + " HTTP/1.1");
    EXPECT_EQ(client.reply().body, "GET /" + std::to_string(i) + "  ");
  }
  client.request("HEAD /head HTTP/1.1");
  const HttpReply head = client.reply(10, false);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), std::to_string(std::string("HEAD /head  ").size()));
  client.send("GET /one HTTP/1.1\r\nHost: a\r\n\r\nGET /two HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.reply().body, "GET /one  ");
  EXPECT_EQ(client.reply().body, "GET /two  ");
}

TEST_F(Http, ChunkedBodiesAreTaken) {
  const HttpServer server({}, echo);
  HttpClient client(server.port());
  client.request("POST /c HTTP/1.1", "Transfer-Encoding: chunked\r\n");
  client.send("3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n");
  EXPECT_EQ(client.reply().body, "POST /c  abcdefg");
}

TEST_F(Http, SlowHandlersDoNotHoldUpOthers) {
  HttpOptions options;
  options.workers = 4;
  std::promise<void> quick;  // kept once the quick request is answered; the slow one waits for that
  const std::shared_future<void> answered = quick.get_future();
  const HttpServer server(options, [&](const HttpRequest& request) {
    if (request.target != "/wait") return echo(request);
    return text(answered.wait_for(std::chrono::seconds(20)) == std::future_status::ready ? "after" : "held up");
  });
  HttpClient slow(server.port());
  slow.request("GET /wait HTTP/1.1");
  EXPECT_EQ(http(server.port(), "GET /quick").status, 200);
  quick.set_value();
  EXPECT_EQ(slow.reply().body, "after");
}

TEST_F(Http, TooManyWaitingRequestsAreRefused) {
  HttpOptions options;
  options.workers = 1;
  options.most_waiting = 2;
  const HttpServer server(options, echo);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server.port()));
    clients.back()->request("GET /slow HTTP/1.1");
  }
  int refused = 0;
  for (auto& client : clients) refused += client->reply().status == 503 ? 1 : 0;
  EXPECT_GE(refused, 4);
  EXPECT_LE(refused, 6);
}

TEST_F(Http, MalformedRequestsAreRefused) {
  const HttpServer server(hasty(), echo);
  const std::string bodies[] = {
      "\r\n\r\n\r\n",
      "GARBAGE\r\n\r\n",
      "GET\r\n\r\n",
      "GET / HTTP/9.9\r\nHost: a\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",  // no Host
      "GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
      std::string(200, '\0'),
      "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello"};
  for (const auto& bytes : bodies) {
    HttpClient client(server.port());
    client.send(bytes);
    const HttpReply reply = client.reply(5);
    EXPECT_TRUE(reply.status == 0 || reply.status == 400 || reply.status == 505) << bytes << " -> " << reply.status;
    EXPECT_TRUE(client.closes_within(5)) << bytes;
  }
  EXPECT_EQ(http(server.port(), "GET /after").status, 200);
}

TEST_F(Http, HugeHeadsAreRefused) {
  const HttpServer server(hasty(), echo);
  for (const std::string& bytes : {"GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n",
                                   "GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(100'000, 'a') + "\r\n\r\n"}) {
    HttpClient client(server.port());
    client.send(bytes);
    const HttpReply reply = client.reply(5);
    EXPECT_TRUE(reply.status == 0 || reply.status == 414 || reply.status == 431 || reply.status == 413) << reply.status;
  }
  std::string many = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 5000; ++i) many += "X-" + std::to_string(i) + ": 1\r\n";
  HttpClient client(server.port());
  client.send(many + "\r\n");
  EXPECT_NE(client.reply(5).status, 200);
  EXPECT_EQ(http(server.port(), "GET /after").status, 200);
}

TEST_F(Http, HugeBodiesAreRefused) {
  const HttpServer server(hasty(), echo);
  EXPECT_EQ(http(server.port(), "POST /", "Content-Length: 99999999999\r\n").status, 413);
  HttpClient client(server.port());
  client.request("POST /c HTTP/1.1", "Transfer-Encoding: chunked\r\n");
  const std::string chunk = "4000\r\n" + std::string(0x4000, 'a') + "\r\n";
  for (int i = 0; i < 16 && client.send(chunk); ++i) {
  }
  client.send("0\r\n\r\n");
  EXPECT_EQ(client.reply(5).status, 413);
}

TEST_F(Http, SlowHeadsAreCutOff) {
  const HttpServer server(hasty(), echo);
  // A byte now and then would keep a connection for ever, if only silence counted.
  for (const std::string& start : {std::string("GET / HT"), std::string("GET / HTTP/1.1\r\nHost: a\r\nX-Long: ")}) {
    HttpClient client(server.port());
    client.send(start);
    const double seconds = seconds_of([&] {
      for (int i = 0; i < 100 && client.send("a"); ++i) std::this_thread::sleep_for(milliseconds(50));
    });
    EXPECT_LT(seconds, 3);
  }
}

TEST_F(Http, SlowBodiesAreCutOff) {
  const HttpServer server(hasty(), echo);
  HttpClient client(server.port());
  client.request("POST / HTTP/1.1", "Content-Length: 1000\r\n");
  const double seconds = seconds_of([&] {
    for (int i = 0; i < 100 && client.send("a"); ++i) std::this_thread::sleep_for(milliseconds(50));
  });
  EXPECT_LT(seconds, 3);
}

TEST_F(Http, SlowReadersAreCutOff) {
  HttpOptions options = hasty();
  options.send_seconds = -1023.5;  // with 1024 seconds for 32 MiB: half a second
  const HttpServer server(options, echo);
  HttpClient client(server.port());
  client.request("GET /large HTTP/1.1");
  size_t got = 0;
  const double seconds = seconds_of([&] {
    char buffer[1024];
    for (int i = 0; i < 100; ++i) {
      const ssize_t size = ::recv(client.fd(), buffer, sizeof buffer, 0);
      if (size <= 0 || server.counts().closed_slow > 0) break;
      got += static_cast<size_t>(size);
      std::this_thread::sleep_for(milliseconds(30));
    }
  });
  EXPECT_EQ(server.counts().closed_slow, 1u);
  EXPECT_LT(got, 32u << 20);
  EXPECT_LT(seconds, 3);
  EXPECT_EQ(http(server.port(), "GET /after").status, 200);
}

TEST_F(Http, IdleConnectionsAreClosed) {
  const HttpServer server(hasty(), echo);
  HttpClient never(server.port()), once(server.port());
  once.request("GET / HTTP/1.1");
  EXPECT_EQ(once.reply().status, 200);
  EXPECT_TRUE(never.closes_within(3));
  EXPECT_TRUE(once.closes_within(3));
}

TEST_F(Http, ManyIdleConnectionsLeaveRoomForOthers) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const size_t wanted = std::min<size_t>(10'000, files.rlim_cur > 1000 ? files.rlim_cur - 800 : 100);
  HttpOptions options;
  options.most_connections = 200;
  const HttpServer server(options, echo);
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (size_t i = 0; i < wanted; ++i) {
    idle.push_back(std::make_unique<HttpClient>(server.port()));
    if (i % 1000 == 500) {
      EXPECT_LT(seconds_of([&] { EXPECT_EQ(http(server.port(), "GET /x").status, 200); }), 2);
    }
  }
  EXPECT_LT(seconds_of([&] { EXPECT_EQ(http(server.port(), "GET /after").status, 200); }), 2);
  EXPECT_LE(server.counts().connections, options.most_connections + 64);
  EXPECT_GE(server.counts().closed_slow, wanted - options.most_connections - 64);
}

/// Streams that a test writes to.
struct StreamServer {
  std::mutex mutex;
  std::vector<std::shared_ptr<EventStream>> streams;
  HttpServer server;

  explicit StreamServer(HttpOptions options = {})
      : server(options, [this](const HttpRequest&) {
          HttpResponse response{.headers = {{"Content-Type", "text/event-stream"}}};
          response.stream = std::make_shared<EventStream>();
          response.stream->write("hello\n");
          std::lock_guard lock(mutex);
          streams.push_back(response.stream);
          return response;
        }) {}
  std::shared_ptr<EventStream> stream(size_t number) {
    for (int i = 0; i < 500; ++i) {
      {
        std::lock_guard lock(mutex);
        if (streams.size() > number) return streams[number];
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
    throw std::runtime_error("no stream");
  }
};

TEST_F(Http, StreamsGoOnUntilTheyEnd) {
  StreamServer serving;
  HttpClient client(serving.server.port());
  client.request("GET / HTTP/1.1");
  EXPECT_EQ(client.stream_head().status, 200);
  EXPECT_EQ(client.stream_until("\n"), "hello\n");
  for (int i = 0; i < 100; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    EXPECT_TRUE(serving.stream(0)->write(line));
    EXPECT_EQ(client.stream_until("\n"), line);
  }
  serving.stream(0)->close();
  EXPECT_FALSE(serving.stream(0)->write("late"));
  EXPECT_THROW(client.stream_until("late", 3), std::runtime_error);
}

TEST_F(Http, StreamsEndWhenTheClientGoes) {
  StreamServer serving;
  {
    HttpClient client(serving.server.port());
    client.request("GET / HTTP/1.1");
    client.stream_head();
    client.stream_until("hello");
  }
  for (int i = 0; i < 300 && serving.stream(0)->write(": beat\n"); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(serving.stream(0)->ended());
}

TEST_F(Http, StreamsEndWhenTheClientDoesNotRead) {
  HttpOptions options;
  options.idle_seconds = 0.2;
  StreamServer serving(options);
  HttpClient client(serving.server.port());
  client.request("GET / HTTP/1.1");
  const std::string line(8 << 10, 'x');
  size_t written = 0;
  while (serving.stream(0)->write(line)) {
    written += line.size();
    ASSERT_LT(written, 256u << 20);
    if (written > (16 << 20)) std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(client.closes_within(5));
}

TEST_F(Http, TooManyStreamsAreRefused) {
  HttpOptions options;
  options.most_streams = 3;
  StreamServer serving(options);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(std::make_unique<HttpClient>(serving.server.port()));
    clients.back()->request("GET / HTTP/1.1");
    EXPECT_EQ(clients.back()->stream_head().status, i < 3 ? 200 : 503);
  }
}

TEST_F(Http, EndsWithEverythingUnderWay) {
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<HttpClient>> clients;
    std::shared_ptr<EventStream> stream;
    std::atomic<bool> going = true;
    std::thread writer;
    {
      StreamServer serving;
      const HttpServer other({}, echo);
      for (int i = 0; i < 5; ++i) {
        clients.push_back(std::make_unique<HttpClient>(serving.server.port()));
        clients.back()->request("GET / HTTP/1.1");
        clients.push_back(std::make_unique<HttpClient>(other.port()));
        clients.back()->request(i % 2 ? "GET /slow HTTP/1.1" : "GET /large HTTP/1.1");
        clients.push_back(std::make_unique<HttpClient>(other.port()));
        clients.back()->send("GET / HT");
      }
      stream = serving.stream(0);
      writer = std::thread([&] {
        while (going) {
          stream->write("x\n");
          std::this_thread::sleep_for(milliseconds(1));
        }
      });
    }
    going = false;
    writer.join();
    for (auto& client : clients) EXPECT_TRUE(client->closes_within(5));
  }
}

TEST_F(Http, ATakenPortIsSaidInWords) {
  const HttpServer server({}, echo);
  HttpOptions options;
  options.port = server.port();
  EXPECT_EQ(error_of([&] { HttpServer second(options, echo); }),
            "127.0.0.1:" + std::to_string(server.port()) +
                ": the port is taken: another program listens there. Choose another with --port, or --port 0 for a "
                "free one");
  options.host = "203.0.113.77";
  EXPECT_NE(error_of([&] { HttpServer second(options, echo); }).find("cannot listen there"), std::string::npos);
  options.host = "no such host";
  EXPECT_NE(error_of([&] { HttpServer second(options, echo); }).find("no such address"), std::string::npos);
}

TEST_F(Http, ManyClientsAtOnce) {
  const HttpServer server({}, echo);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&, t] {
      HttpClient client(server.port());
      for (int i = 0; i < 100; ++i) {
        const std::string target = "/" + std::to_string(t) + "/" + std::to_string(i);
        client.request("GET " + target + " HTTP/1.1");
        right += client.reply().body == "GET " + target + "  " ? 1 : 0;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 1600);
}

}  // namespace
}  // namespace ramet::tests
