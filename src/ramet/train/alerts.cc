#include "ramet/train/alerts.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/device/host_memory.h"
#include "ramet/track/http.h"

extern char** environ;

namespace ramet::train {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr auto kHostPeriod = std::chrono::seconds(10);
constexpr size_t kMostText = 4000;  // bytes of an alert's text

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string text_of(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

json object_of(const Alert& alert) {
  return {{"event", "alert"},   {"kind", alert.kind},   {"level", alert.level}, {"step", alert.step},
          {"time", alert.time}, {"title", alert.title}, {"text", alert.text}};
}

/// A program's standard input with these bytes, which it may leave unread.
int input_of(const std::string& bytes) {
  const int fd = ::memfd_create("alert", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (::write(fd, bytes.data(), bytes.size()) != std::ssize(bytes) || ::lseek(fd, 0, SEEK_SET) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

/// A command of the shell in a process group of its own, begun without a copy of this process's page tables.
class ShellCommand {
 public:
  ShellCommand(const std::string& command, const std::string& input, const std::vector<std::string>& variables) {
    std::vector<std::string> words = {"sh", "-c", command}, settings = variables;
    for (char** each = environ; *each; ++each) settings.emplace_back(*each);
    std::vector<char*> arguments, environment;
    for (std::string& word : words) arguments.push_back(word.data());
    for (std::string& setting : settings) environment.push_back(setting.data());
    arguments.push_back(nullptr), environment.push_back(nullptr);
    const int fd = input_of(input);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    if (fd >= 0) ::posix_spawn_file_actions_adddup2(&files, fd, 0);
    ::posix_spawn_file_actions_adddup2(&files, 2, 1);  // the standard output may be JSON for a program
    posix_spawnattr_t how;
    ::posix_spawnattr_init(&how);
    sigset_t standard, none;
    sigemptyset(&none);
    sigemptyset(&standard);
    for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ}) sigaddset(&standard, signal);
    ::posix_spawnattr_setsigdefault(&how, &standard);
    ::posix_spawnattr_setsigmask(&how, &none);
    ::posix_spawnattr_setpgroup(&how, 0);
    ::posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    problem_ = ::posix_spawn(&pid_, "/bin/sh", &files, &how, arguments.data(), environment.data());
    ::posix_spawnattr_destroy(&how);
    ::posix_spawn_file_actions_destroy(&files);
    if (fd >= 0) ::close(fd);
  }

  /// Waits at most so many seconds; then the command and all that it began is killed. Returns what went wrong, or "".
  std::string wait(double seconds) {
    if (problem_ != 0) return std::generic_category().message(problem_);
    const auto start = Clock::now();
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) != pid_) {
      if (seconds_since(start) > seconds) {
        ::kill(-pid_, SIGKILL);
        ::waitpid(pid_, &status, 0);
        return "it was killed: it took longer than " + std::to_string(static_cast<int64_t>(seconds)) + " s";
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
    return WIFEXITED(status) ? "it ended with status " + std::to_string(WEXITSTATUS(status))
                             : "it ended by signal " + std::to_string(WTERMSIG(status));
  }

 private:
  pid_t pid_ = -1;
  int problem_ = 0;
};

int64_t bytes_of_folder(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator each(folder, error), end; !error && each != end; each.increment(error))
    if (each->is_regular_file(error)) bytes += static_cast<int64_t>(each->file_size(error));
  return bytes;
}

}  // namespace

std::string json_of(const Alert& alert) { return text_of(object_of(alert)); }

/// What the thread and the training thread share. The thread holds a reference of its own: where the system hangs (a
/// disk that is gone), the training thread leaves it behind.
struct AlertObserver::Background {
  AlertOptions options;
  AlertedRun run;
  std::string hook_problem{};
  HttpSend hook{};

  std::mutex mutex;
  std::condition_variable wake, quiet;
  std::deque<Alert> waiting;
  std::vector<std::string> problems;
  int64_t left_out = 0;
  fs::path checkpoint;
  std::optional<HostState> host;  ///< looked at, not yet judged
  bool working = false, ended = false;
  std::thread thread;

  /// The body of the thread.
  void work() {
    auto looked = Clock::now() - kHostPeriod;
    int64_t checkpoint_bytes = -1;
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait_until(lock, looked + kHostPeriod, [&] { return ended || !waiting.empty() || !checkpoint.empty(); });
      if (ended && waiting.empty()) break;
      working = true;
      const fs::path saved = std::exchange(checkpoint, {});
      std::optional<Alert> alert;
      if (!waiting.empty()) alert = std::move(waiting.front()), waiting.pop_front();
      lock.unlock();
      std::vector<std::string> failed;
      if (alert) failed = deliver(*alert);
      if (!saved.empty()) checkpoint_bytes = bytes_of_folder(saved);
      std::optional<HostState> state;
      if (!saved.empty() || Clock::now() - looked >= kHostPeriod) {
        state = look();
        state->checkpoint_bytes = checkpoint_bytes;
        looked = Clock::now();
      }
      lock.lock();
      if (state) host = state;
      for (std::string& each : failed)
        if (problems.size() < kMostWaiting) problems.push_back(std::move(each));
      working = false;
      quiet.notify_all();
    }
  }

  HostState look() const {
    HostState state;
    struct statvfs disk{};
    if (::statvfs(run.folder.c_str(), &disk) == 0)
      state.disk_free = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
    state.memory_free = available_memory();
    return state;
  }

  std::vector<std::string> deliver(const Alert& alert) {
    json whole = object_of(alert);
    whole["run"] = run.id, whole["name"] = run.name, whole["run_directory"] = run.folder.string();
    const std::string text = text_of(whole);
    std::vector<std::string> failed;
    if (!options.command.empty()) {
      ShellCommand command(options.command, text + "\n",
                           {"RAMET_ALERT_KIND=" + alert.kind, "RAMET_ALERT_LEVEL=" + alert.level,
                            "RAMET_ALERT_STEP=" + std::to_string(alert.step), "RAMET_ALERT_TITLE=" + alert.title,
                            "RAMET_ALERT_TEXT=" + alert.text, "RAMET_RUN=" + run.id, "RAMET_RUN_NAME=" + run.name,
                            "RAMET_RUN_DIRECTORY=" + run.folder.string()});
      if (const std::string why = command.wait(options.time_limit); !why.empty())
        failed.push_back("the command of an alert (" + alert.kind + ") failed: " + why);
    }
    if (hook) {
      const ClientResponse response =
          hook({.method = "POST", .url = options.webhook, .headers = {"Content-Type: application/json"}, .body = text});
      if (response.status < 200 || response.status > 299)
        failed.push_back(
            "the webhook of an alert (" + alert.kind + ") failed: " +
            (response.status == 0 ? response.body.substr(0, 200) : "status " + std::to_string(response.status)));
    }
    return failed;
  }
};

AlertObserver::AlertObserver(const AlertOptions& options, const AlertedRun& run, std::function<void(const Alert&)> tell,
                             std::function<void(const std::string&)> warn)
    : options_(options), rules_(options), tell_(std::move(tell)), warn_(std::move(warn)) {
  if (!options.on) return;
  background_ = std::make_shared<Background>();
  background_->options = options, background_->run = run;
  if (!options.webhook.empty()) {
    HttpAccess access{};
    access.seconds = options.time_limit;
    background_->hook = http_client(access);
  }
  background_->thread = std::thread([state = background_] { state->work(); });
}

AlertObserver::~AlertObserver() { finish(); }

void AlertObserver::on_start(const Training& training, const RunStart&) { step_ = training.steps_done(); }

void AlertObserver::on_step(int64_t done, const Numbers& metrics) {
  step_ = done;
  if (!background_) return;
  for (Alert& alert : rules_.on_step(done, metrics)) send(std::move(alert));
  std::optional<HostState> host;
  std::vector<std::string> problems;
  {
    const std::lock_guard lock(background_->mutex);
    host = std::exchange(background_->host, std::nullopt);
    problems = std::exchange(background_->problems, {});
  }
  if (host)
    for (Alert& alert : rules_.on_host(done, *host)) send(std::move(alert));
  if (warn_)
    for (const std::string& problem : problems) warn_(problem);
}

void AlertObserver::on_checkpoint(int64_t, const fs::path& path) {
  if (!background_) return;
  {
    const std::lock_guard lock(background_->mutex);
    background_->checkpoint = path;
  }
  background_->wake.notify_all();
}

void AlertObserver::on_end(const Training&, const TrainingResult&) { finish(); }

void AlertObserver::on_failure(const Training& training, const std::string& error) {
  if (background_ && !training.not_finite().empty())
    send({.kind = "not_finite",
          .level = "error",
          .step = training.steps_done() + 1,
          .title = training.not_finite() + " is not finite",
          .text = error});
  finish();
}

void AlertObserver::raise(const std::string& level, const std::string& title, const std::string& text) {
  send({.kind = "user", .level = level, .step = step_, .title = title, .text = text});
}

void AlertObserver::send(Alert alert) {
  alert.time = now();
  if (alert.text.size() > kMostText) alert.text.resize(kMostText);
  tell_(alert);
  if (!background_ || (options_.command.empty() && options_.webhook.empty())) return;
  {
    const std::lock_guard lock(background_->mutex);
    if (background_->waiting.size() < kMostWaiting)
      background_->waiting.push_back(std::move(alert));
    else
      ++background_->left_out;
  }
  background_->wake.notify_all();
}

void AlertObserver::finish() {
  if (!background_) return;
  const std::shared_ptr<Background> state = std::exchange(background_, nullptr);
  std::unique_lock lock(state->mutex);
  state->ended = true;
  state->wake.notify_all();
  const double longest = 1 + 4 * options_.time_limit;  // two alerts, a command and a webhook each
  const bool done = state->quiet.wait_for(lock, std::chrono::duration<double>(longest),
                                          [&] { return state->waiting.empty() && !state->working; });
  std::vector<std::string> problems = std::exchange(state->problems, {});
  if (state->left_out > 0)
    problems.push_back(std::to_string(state->left_out) + " alerts were not sent: too many waited");
  if (!done) problems.push_back("the last alerts may not have been sent: the command, the webhook or the disk hangs");
  lock.unlock();
  if (done)
    state->thread.join();
  else
    state->thread.detach();
  if (warn_)
    for (const std::string& problem : problems) warn_(problem);
}

}  // namespace ramet::train
