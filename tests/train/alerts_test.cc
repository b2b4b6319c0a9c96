#include "ramet/train/alerts.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "ramet/base/clock.h"
#include "ramet/base/file.h"
#include "ramet/track/http.h"
#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A loss that wobbles by one percent, the same in every run.
double wobble(int64_t step) { return 3.0 + 0.03 * static_cast<double>((step * 7919) % 101 - 50) / 50; }

std::vector<std::string> kinds_of(const std::vector<Alert>& alerts) {
  std::vector<std::string> kinds;
  for (const Alert& alert : alerts) kinds.push_back(alert.kind);
  return kinds;
}

Numbers numbers(double loss, double seconds = 0.1, double waited = 0) {
  return {{"loss", loss}, {"step_seconds", seconds}, {"data_seconds", waited}};
}

TEST(AlertRules, ASteadyRunRaisesNothing) {
  AlertRules rules{AlertOptions{}};
  for (int64_t step = 1; step <= 3000; ++step) {
    const double falling = 4.0 / (1 + 0.01 * static_cast<double>(step));
    EXPECT_THAT(
        kinds_of(rules.on_step(step, numbers(falling + wobble(step), 0.1 + 0.02 * static_cast<double>(step % 3)))),
        IsEmpty())
        << step;
  }
}

TEST(AlertRules, ASpikeIsToldOnceUntilItHasGone) {
  AlertRules rules(AlertOptions{.repeat = 50});
  std::vector<int64_t> at;
  for (int64_t step = 1; step <= 300; ++step) {
    const bool high = step == 60 || step == 62 || (step >= 150 && step < 230);
    const std::vector<Alert> alerts = rules.on_step(step, numbers(high ? 5.0 : wobble(step)));
    for (const Alert& alert : alerts) {
      EXPECT_EQ(alert.kind, "spike");
      EXPECT_EQ(alert.level, "warn");
      EXPECT_THAT(alert.text, HasSubstr("loss of step " + std::to_string(step) + " is 5, "));
      at.push_back(step);
    }
  }
  // 200: 50 steps later the loss is still high, and the median still is not.
  EXPECT_THAT(at, ElementsAre(60, 62, 150));
}

TEST(AlertRules, AnInfiniteLossIsAnErrorAndOneThatIsNotDefinedIsNot) {
  AlertRules rules{AlertOptions{}};
  EXPECT_THAT(kinds_of(rules.on_step(1, numbers(std::nan("")))), IsEmpty());
  const std::vector<Alert> alerts = rules.on_step(2, numbers(INFINITY));
  ASSERT_THAT(kinds_of(alerts), ElementsAre("not_finite"));
  EXPECT_EQ(alerts[0].level, "error");
  EXPECT_THAT(kinds_of(rules.on_step(3, numbers(INFINITY))), IsEmpty());
}

TEST(AlertRules, AFlatLossIsToldWhereItIsAskedFor) {
  AlertRules off{AlertOptions{}}, on{AlertOptions{.flat = 50}};
  std::vector<int64_t> at;
  for (int64_t step = 1; step <= 400; ++step) {
    const double loss = step < 200 ? 6 - 0.01 * static_cast<double>(step) : 4;
    EXPECT_THAT(kinds_of(off.on_step(step, numbers(loss))), IsEmpty());
    for (const Alert& alert : on.on_step(step, numbers(loss))) {
      at.push_back(step);
      EXPECT_EQ(alert.kind, "flat");
    }
  }
  ASSERT_EQ(at.size(), 1u);
  EXPECT_GT(at[0], 250);
  EXPECT_LE(at[0], 300);
}

TEST(AlertRules, SpeedIsComparedWithTheRunsOwn) {
  AlertRules rules{AlertOptions{}};
  std::vector<int64_t> at;
  for (int64_t step = 1; step <= 400; ++step) {
    const double seconds = step > 200 ? 0.25 : step == 100 ? 9 : 0.1;  // one slow step alone is none
    for (const Alert& alert : rules.on_step(step, numbers(wobble(step), seconds))) {
      at.push_back(step);
      EXPECT_EQ(alert.kind, "slow");
      EXPECT_THAT(alert.text, HasSubstr("40% of the run's own speed"));
    }
  }
  ASSERT_EQ(at.size(), 1u);
  EXPECT_GT(at[0], 205);
  EXPECT_LE(at[0], 220);
}

TEST(AlertRules, WaitingForDataIsToldByItsShare) {
  AlertRules rules{AlertOptions{}};
  std::vector<std::string> kinds;
  for (int64_t step = 1; step <= 100; ++step)
    for (const Alert& alert : rules.on_step(step, numbers(wobble(step), 0.1, step > 50 ? 0.06 : 0.01)))
      kinds.push_back(alert.kind);
  EXPECT_THAT(kinds, ElementsAre("starved"));
}

TEST(AlertRules, DiskAndMemoryHaveLeastSizes) {
  AlertRules rules(AlertOptions{.disk = "1GiB", .memory = "100MiB"});
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_THAT(kinds_of(rules.on_host(1, {.disk_free = 2000 * kMiB, .memory_free = 200 * kMiB})), IsEmpty());
  EXPECT_THAT(kinds_of(rules.on_host(2, {})), IsEmpty()) << "not known";
  EXPECT_THAT(kinds_of(rules.on_host(3, {.disk_free = 900 * kMiB, .memory_free = 90 * kMiB})),
              ElementsAre("disk", "memory"));
  EXPECT_THAT(kinds_of(rules.on_host(4, {.disk_free = 900 * kMiB, .memory_free = 110 * kMiB})), IsEmpty());
  EXPECT_THAT(kinds_of(rules.on_host(5, {.disk_free = 5000 * kMiB, .memory_free = 500 * kMiB})), IsEmpty());
  const std::vector<Alert> alerts =
      rules.on_host(6, {.disk_free = 3000 * kMiB, .memory_free = 500 * kMiB, .checkpoint_bytes = 4000 * kMiB});
  ASSERT_THAT(kinds_of(alerts), ElementsAre("disk")) << "the next checkpoint does not fit";
  EXPECT_EQ(alerts[0].level, "error");
}

TEST(AlertRules, ZeroSwitchesARuleOff) {
  AlertOptions options{.spike = 0, .slow = 0, .starved = 0, .disk = "", .memory = ""};
  AlertRules rules(options);
  for (int64_t step = 1; step <= 200; ++step)
    EXPECT_THAT(kinds_of(rules.on_step(step, numbers(step == 150 ? 50 : wobble(step), step > 100 ? 9 : 0.1, 9))),
                IsEmpty());
  EXPECT_THAT(kinds_of(rules.on_host(1, {.disk_free = 0, .memory_free = 0})), IsEmpty());
}

/// An observer, and all that it tells.
struct Observed {
  explicit Observed(const AlertOptions& options)
      : observer(
            options, {.id = "run-1", .name = "tiny", .folder = folder.path()},
            [this](const Alert& alert) { told.push_back(alert); },
            [this](const std::string& problem) { problems.push_back(problem); }) {}
  TemporaryFolder folder;
  std::vector<Alert> told;
  std::vector<std::string> problems;
  AlertObserver observer;
};

AlertOptions with_command(const std::string& command, double limit = 20) {
  AlertOptions options{.disk = "", .memory = ""};
  options.command = command, options.time_limit = limit;
  return options;
}

TEST(AlertObserver, ACommandGetsTheAlertOnItsInputAndInItsEnvironment) {
  const TemporaryFolder folder;
  const std::string file = (folder / "got").string();
  {
    Observed observed(
        with_command("cat > " + file + "; echo \"$RAMET_ALERT_KIND $RAMET_ALERT_STEP $RAMET_RUN\" > " + file + ".env"));
    observed.observer.on_step(41, {});
    observed.observer.raise("info", "half way", "it's \"fine\"\nso far; $HOME `id`");
    ASSERT_EQ(observed.told.size(), 1u);
    EXPECT_EQ(json::parse(json_of(observed.told[0]))["event"], "alert");
  }
  const json got = json::parse(read_file(file));
  EXPECT_EQ(got["kind"], "user");
  EXPECT_EQ(got["step"], 41);
  EXPECT_EQ(got["text"], "it's \"fine\"\nso far; $HOME `id`");
  EXPECT_EQ(got["run"], "run-1");
  EXPECT_GT(got["time"].get<double>(), 1e9);
  EXPECT_EQ(read_file(file + ".env"), "user 41 run-1\n");
}

TEST(AlertObserver, ACommandThatHangsIsKilledAndHoldsUpNothing) {
  auto observed = std::make_unique<Observed>(with_command("sleep 100 & sleep 100", 2));
  const auto start = Clock::now();
  observed->observer.raise("warn", "a", "b");
  for (int64_t step = 1; step <= 100; ++step) observed->observer.on_step(step, numbers(1));
  EXPECT_LT(seconds_since(start), 1.5) << "training goes on";
  observed->observer.finish();
  EXPECT_LT(seconds_since(start), 20);
  ASSERT_EQ(observed->problems.size(), 1u);
  EXPECT_THAT(observed->problems[0], HasSubstr("(user) failed: it was killed"));
}

TEST(AlertObserver, ACommandThatReadsNothingOrFailsEndsNothing) {
  Observed observed(with_command("exit 3"));
  observed.observer.raise("warn", "a", std::string(100000, 'x'));
  EXPECT_EQ(observed.told[0].text.size(), 4000u);
  observed.observer.finish();
  EXPECT_THAT(observed.problems, ElementsAre("the command of an alert (user) failed: it ended with status 3"));
}

TEST(AlertObserver, MoreAlertsThanCanWaitAreCounted) {
  Observed observed(with_command("sleep 0.2", 0.5));
  for (int i = 0; i < 100; ++i) observed.observer.raise("info", "a", "b");
  EXPECT_EQ(observed.told.size(), 100u) << "the log and the console get all of them";
  observed.observer.finish();
  EXPECT_THAT(observed.problems, testing::Contains(HasSubstr("alerts were not sent: too many waited")));
}

TEST(AlertObserver, OffMeansOff) {
  AlertOptions options = with_command("exit 1");
  options.on = false;
  Observed observed(options);
  for (int64_t step = 1; step <= 100; ++step) observed.observer.on_step(step, numbers(step == 99 ? INFINITY : 1));
  observed.observer.finish();
  EXPECT_THAT(observed.told, IsEmpty());
  EXPECT_THAT(observed.problems, IsEmpty());
}

/// A server that answers one request with a status, and keeps what it was sent.
class OneAnswer {
 public:
  explicit OneAnswer(int status) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(socket_, 4) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("cannot listen");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, status] { answer(status); });
  }
  ~OneAnswer() {
    ::shutdown(socket_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    ::close(socket_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/hook"; }
  const std::string& request() {
    if (thread_.joinable()) thread_.join();
    return request_;
  }

 private:
  void answer(int status) {
    const int peer = ::accept(socket_, nullptr, nullptr);
    if (peer < 0) return;
    char buffer[4096];
    while (status != 0 && (request_.find("\r\n\r\n") == std::string::npos || request_.back() != '}')) {
      const ssize_t got = ::read(peer, buffer, sizeof buffer);
      if (got <= 0) break;
      request_.append(buffer, static_cast<size_t>(got));
    }
    if (status == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // no answer in time
    const std::string reply = "HTTP/1.1 " + std::to_string(status) + " x\r\nContent-Length: 0\r\n\r\n";
    if (status != 0) (void)!::write(peer, reply.data(), reply.size());
    ::close(peer);
  }
  int socket_ = -1, port_ = 0;
  std::string request_;
  std::thread thread_;
};

/// What a webhook that answers so makes of an alert.
std::vector<std::string> problems_of_hook(OneAnswer& server, double limit) {
  AlertOptions options{.disk = "", .memory = ""};
  options.webhook = server.url(), options.time_limit = limit;
  Observed observed(options);
  observed.observer.raise("warn", "a title", "a text");
  observed.observer.finish();
  return observed.problems;
}

TEST(AlertObserver, AWebhookGetsTheAlertAsJson) {
  if (error_of([] { http_client({}); }) != "no error") GTEST_SKIP() << "built without libcurl";
  OneAnswer server(204);
  EXPECT_THAT(problems_of_hook(server, 10), IsEmpty());
  const std::string& request = server.request();
  EXPECT_THAT(request, HasSubstr("POST /hook HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Content-Type: application/json\r\n"));
  const json body = json::parse(request.substr(request.find("\r\n\r\n") + 4));
  EXPECT_EQ(body["text"], "a text");
  EXPECT_EQ(body["name"], "tiny");
}

TEST(AlertObserver, AWebhookThatFailsOrHangsIsAProblemAndNoMore) {
  if (error_of([] { http_client({}); }) != "no error") GTEST_SKIP() << "built without libcurl";
  OneAnswer refusing(500), silent(0);
  EXPECT_THAT(problems_of_hook(refusing, 10), ElementsAre(HasSubstr("(user) failed: status 500")));
  EXPECT_THAT(problems_of_hook(silent, 0.3), ElementsAre(HasSubstr("(user) failed: ")));
}

}  // namespace
}  // namespace ramet::tests
