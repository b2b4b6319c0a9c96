#include "ramet/track/run_directory.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <system_error>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"
#include "ramet/base/thread_team.h"
#include "ramet/base/version.h"

namespace ramet::track {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostName = 60;

std::string time_text(const char* format, std::time_t now = std::time(nullptr)) {
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

std::string moment_text(std::time_t seconds, int64_t microseconds) {
  char fraction[32];
  std::snprintf(fraction, sizeof fraction, ".%06lld", static_cast<long long>(microseconds));
  return time_text("%Y-%m-%dT%H:%M:%S", seconds) + fraction + time_text("%z", seconds);
}

/// Now, to the microsecond: runs that begin in one second keep their order. All of it is from one reading of one clock:
/// `time` may be milliseconds behind, and so a second.
std::string start_text() {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  return moment_text(now.tv_sec, now.tv_nsec / 1000);
}

/// A name as part of a folder's name.
std::string file_name_of(const std::string& name) {
  std::string text;
  for (const char c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (text.size() < kMostName) text += plain ? c : '-';
  }
  while (text.starts_with('.')) text.erase(0, 1);
  return text.empty() ? "run" : text;
}

std::string short_id() {
  std::random_device device;
  const uint32_t bits = device() ^ static_cast<uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  char text[16];
  std::snprintf(text, sizeof text, "%06x", bits & 0xffffff);
  return text;
}

/// First line that a command prints, or "" when it fails.
std::string line_of(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "re");
  if (!pipe) return "";
  char buffer[256] = "";
  const bool got = std::fgets(buffer, sizeof buffer, pipe) != nullptr;
  const int status = ::pclose(pipe);
  std::string line = got && status == 0 ? buffer : "";
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

json git_state() {
  const std::string commit = line_of("git rev-parse HEAD");
  if (commit.empty()) return nullptr;
  return {{"commit", commit}, {"changed", !line_of("git status --porcelain --untracked-files=no | head -n 1").empty()}};
}

/// Words from the command line need not be UTF-8; JSON must be.
std::string dump(const json& value) { return value.dump(1, ' ', false, json::error_handler_t::replace) + "\n"; }

std::string first_match(const char* file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with(key)) {
      const size_t colon = line.find(':');
      const size_t begin = colon == std::string::npos ? std::string::npos : line.find_first_not_of(" \t", colon + 1);
      return begin == std::string::npos ? "" : line.substr(begin);
    }
  return "";
}

void write_facts(const fs::path& path, const RunFacts& facts) {
  const json run = {{"id", path.filename().string()},
                    {"name", facts.name},
                    {"started", start_text()},
                    {"version", version()},
                    {"compiler", __VERSION__},
                    {"command", facts.command},
                    {"working_directory", fs::current_path().string()},
                    {"kernel_class", facts.kernel_class},
                    {"threads", facts.threads},
                    {"git", git_state()}};
  write_file_atomic(path / "recipe.toml", facts.recipe);
  write_file_atomic(path / "machine.json", describe_machine());
  write_file_atomic(path / "run.json", dump(run));  // last: it makes the folder a run
}

}  // namespace

std::filesystem::path new_run_path(const fs::path& parent, const std::string& name, double started) {
  const std::string stem = time_text("%Y-%m-%d", static_cast<std::time_t>(started)) + "-" + file_name_of(name) + "-";
  fs::path path = parent / (stem + short_id());
  std::error_code error;
  while (fs::exists(path, error)) path = parent / (stem + short_id());
  return path;
}

void write_import_facts(const fs::path& folder, const std::string& id, const ImportFacts& facts) {
  const int64_t microseconds = std::llround(facts.started * 1e6);
  const json run = {{"id", id},
                    {"name", facts.name},
                    {"started", moment_text(microseconds / 1'000'000, microseconds % 1'000'000)},
                    {"version", version()},
                    {"command", facts.command.empty() ? json::array() : json::array({facts.command})},
                    {"git", facts.git.empty() ? json(nullptr) : json{{"commit", facts.git}}},
                    {"imported", json::parse(facts.imported)}};
  write_file_atomic(folder / "run.json", dump(run));
}

RunDirectory RunDirectory::create(const fs::path& parent, const RunFacts& facts) {
  return create_at(new_run_path(parent, facts.name, static_cast<double>(std::time(nullptr))), facts);
}

RunDirectory RunDirectory::create_at(const fs::path& path, const RunFacts& facts) {
  if (is_run(path))
    throw Error({.what = "the folder holds a run already",
                 .where = path.string(),
                 .remedy = "Choose another, or continue that run with --resume"});
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    throw Error({.what = "cannot make the run's folder (" + error.message() + ")", .where = path.string()},
                ErrorKind::kFailure);
  const fs::path absolute = fs::canonical(path, error);
  std::optional<LockFile> lock = LockFile::take(path / "lock");
  if (!lock) throw Error({.what = "another process makes a run in this folder", .where = path.string()});
  RunDirectory run(error ? path : absolute, std::move(*lock));
  write_facts(run.path_, facts);
  return run;
}

RunDirectory RunDirectory::reopen(const fs::path& path) {
  if (!is_run(path))
    throw Error(
        {.what = "not a run: it has no run.json", .where = path.string(), .remedy = "`ramet runs list` shows runs"});
  std::error_code error;
  const fs::path absolute = fs::canonical(path, error);
  std::optional<LockFile> lock = LockFile::take(path / "lock");
  if (!lock)
    throw Error(
        {.what = "another process is running this run", .where = path.string(), .remedy = "Wait for it, or stop it"});
  return RunDirectory(error ? path : absolute, std::move(*lock));
}

std::filesystem::path RunDirectory::numerics(int64_t step) const {
  char name[40];
  std::snprintf(name, sizeof name, "step-%08lld.json", static_cast<long long>(step));
  return numerics() / name;
}

double seconds_of_moment(const std::string& text) {
  std::tm parts{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!rest) return 0;
  double fraction = 0;
  if (*rest == '.') {
    double scale = 0.1;
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest, scale /= 10) fraction += scale * (*rest - '0');
  }
  int64_t offset = 0;
  if (*rest == '+' || *rest == '-') {
    const int digits = std::atoi(rest + 1);
    offset = (*rest == '-' ? -1 : 1) * (digits / 100 * 3600 + digits % 100 * 60);
  }
  return static_cast<double>(::timegm(&parts) - offset) + fraction;
}

bool is_run(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path / "run.json", error);
}

bool is_running(const fs::path& run) { return LockFile::is_held(run / "lock"); }

std::string describe_machine() {
  utsname system{};
  ::uname(&system);
  struct sysinfo memory{};
  ::sysinfo(&memory);
  json features = json::array();
  std::istringstream flags(first_match("/proc/cpuinfo", "flags"));
  for (std::string flag; flags >> flag;)
    if (flag == "avx2" || flag == "fma" || flag == "avx512f" || flag == "avx512_bf16" || flag == "avx512_vnni" ||
        flag == "amx_bf16")
      features.push_back(flag);
  return dump({{"processor", first_match("/proc/cpuinfo", "model name")},
               {"features", features},
               {"processors", available_processors()},
               {"memory_bytes", static_cast<uint64_t>(memory.totalram) * memory.mem_unit},
               {"system", std::string(system.sysname) + " " + system.release},
               {"architecture", system.machine},
               {"host", system.nodename}});
}

}  // namespace ramet::track
