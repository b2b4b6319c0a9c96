#include "ramet/track/system_metrics.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "ramet/base/error.h"
#include "ramet/track/nvml.h"

namespace ramet::track {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kKilobyte = 1024, kSector = 512;
constexpr double kShortest = 0.2;  // seconds: of the last sample

/// Counters that only grow.
struct Counters {
  double busy = 0, idle = 0, own = 0;  // processor time
  double read = 0, written = 0, received = 0, sent = 0;
  bool has_disks = false, has_network = false, has_processors = false;
};

void read_processors(Counters& counters) {
  std::ifstream file("/proc/stat");
  std::string name;
  double times[8] = {};
  if (!(file >> name) || name != "cpu") return;
  for (double& time : times) file >> time;
  counters.has_processors = static_cast<bool>(file);
  counters.idle = times[3] + times[4];  // and waiting for disks
  for (const double time : times) counters.busy += time;
  counters.busy -= counters.idle;
}

void read_disks(Counters& counters) {
  std::ifstream file("/proc/diskstats");
  std::error_code error;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string major, minor, name;
    double numbers[7] = {};
    words >> major >> minor >> name;
    for (double& number : numbers) words >> number;
    // Whole disks alone: what partitions and mappings read counts once.
    const bool made = name.starts_with("loop") || name.starts_with("ram") || name.starts_with("zram") ||
                      name.starts_with("dm-") || name.starts_with("md");
    if (!words || made || !fs::exists("/sys/block/" + name, error)) continue;
    counters.has_disks = true;
    counters.read += numbers[2] * kSector, counters.written += numbers[6] * kSector;
  }
}

void read_network(Counters& counters) {
  std::ifstream file("/proc/net/dev");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(' ');
    if (line.substr(begin, colon - begin) == "lo") continue;
    std::istringstream words(line.substr(colon + 1));
    double numbers[9] = {};
    for (double& number : numbers) words >> number;
    if (!words) continue;
    counters.has_network = true;
    counters.received += numbers[0], counters.sent += numbers[8];
  }
}

Counters read_counters() {
  Counters counters;
  read_processors(counters);
  read_disks(counters);
  read_network(counters);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  counters.own = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  return counters;
}

/// A value of a file of lines "NAME:  123 kB", in bytes; -1 when it has none.
double kilobytes_of(const char* file, const char* name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name)) return std::strtod(line.c_str() + std::strlen(name), nullptr) * kKilobyte;
  return -1;
}

}  // namespace

struct SystemReader::State {
  fs::path disk;
  Counters last;
  Clock::time_point when{};
  bool has_last = false;
  Nvml nvml;
};

SystemReader::SystemReader(fs::path disk) : state_(std::make_unique<State>()) { state_->disk = std::move(disk); }
SystemReader::~SystemReader() = default;

std::vector<LoggedNumber> SystemReader::read() {
  std::vector<LoggedNumber> sample;
  const Counters now = read_counters(), &last = state_->last;
  const auto when = Clock::now();
  const double seconds = std::chrono::duration<double>(when - state_->when).count();
  if (state_->has_last && seconds > 0) {
    const double busy = now.busy - last.busy, all = busy + now.idle - last.idle;
    if (now.has_processors && all > 0) sample.emplace_back("cpu_percent", 100 * busy / all);
    sample.emplace_back("process_cpu_percent", 100 * (now.own - last.own) / seconds);
    if (now.has_disks) {
      sample.emplace_back("disk_read_bytes_per_second", (now.read - last.read) / seconds);
      sample.emplace_back("disk_write_bytes_per_second", (now.written - last.written) / seconds);
    }
    if (now.has_network) {
      sample.emplace_back("network_receive_bytes_per_second", (now.received - last.received) / seconds);
      sample.emplace_back("network_send_bytes_per_second", (now.sent - last.sent) / seconds);
    }
  }
  state_->last = now, state_->when = when, state_->has_last = true;
  const double total = kilobytes_of("/proc/meminfo", "MemTotal:"),
               free = kilobytes_of("/proc/meminfo", "MemAvailable:");
  if (total >= 0 && free >= 0) {
    sample.emplace_back("memory_bytes", total - free);
    sample.emplace_back("memory_available_bytes", free);
  }
  if (const double own = kilobytes_of("/proc/self/status", "VmRSS:"); own >= 0)
    sample.emplace_back("process_memory_bytes", own);
  struct statvfs disk{};
  if (::statvfs(state_->disk.c_str(), &disk) == 0)
    sample.emplace_back("disk_free_bytes", static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize));
  state_->nvml.read(sample);
  return sample;
}

std::string system_log_name(int rank) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string name;
  for (const char* c = host; *c != '\0'; ++c)
    name += std::isalnum(static_cast<unsigned char>(*c)) || *c == '.' ? *c : '_';
  return (name.empty() ? "host" : name) + "-" + std::to_string(rank) + ".ramet";
}

struct SystemSampler::State {
  SystemReader reader;
  RunLogWriter log;
  double seconds;
  int64_t number;
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  std::thread thread;

  State(const fs::path& run, const fs::path& file, double every, int64_t first)
      : reader(run), log(file), seconds(every), number(first) {
    (void)reader.read();
    thread = std::thread([this] { work(); });
  }
  ~State() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
      wake.notify_one();
    }
    thread.join();
  }
  void work() {
    std::unique_lock lock(mutex);
    auto last = Clock::now();
    for (bool over = false, any = false; !over; any = true) {
      over = wake.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return stop; });
      const auto now = Clock::now();
      if (over && any && std::chrono::duration<double>(now - last).count() < kShortest) return;
      last = now;
      lock.unlock();
      log.metrics(number++, reader.read());
      lock.lock();
    }
  }
};

namespace {

/// The number of the sample that follows those that a log holds.
int64_t next_number(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return 0;
  const RunLog log = read_run_log(file);
  return log.steps.empty() ? 0 : log.steps.rbegin()->first + 1;
}

}  // namespace

SystemSampler::SystemSampler(const fs::path& run, int rank, double seconds) {
  if (!(seconds > 0)) return;
  try {
    const fs::path folder = run / "system";
    std::error_code error;
    fs::create_directories(folder, error);
    const fs::path file = folder / system_log_name(rank);
    state_ = std::make_unique<State>(run, file, seconds, next_number(file));
  } catch (const std::exception& error) {
    problem_ = error.what();
  }
}

SystemSampler::~SystemSampler() = default;

}  // namespace ramet::track
