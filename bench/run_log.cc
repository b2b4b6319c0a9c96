// How many points a second one processor takes into a run's log, with the thread that writes them: steps of one metric,
// and of ten.
//
//   bench/run_log [FOLDER]     a line of JSON each; the log goes into FOLDER (default: the folder for temporary files)
//   bench/run_log same FOLDER STEPS NAME,NAME...     FOLDER/run with the points of bench/trackers.py, by the public API

#include <sched.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "ramet/track/run_log.h"
// Behind those of src/.
#include "ramet/log.h"

namespace {

using namespace ramet::bench;

/// Of all threads of this process.
double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void measure_log(const std::filesystem::path& folder, size_t metrics, bool in_turn, int64_t points) {
  const auto path = folder / "run_log_bench.ramet";
  std::filesystem::remove(path);
  std::vector<LoggedNumber> values;
  for (size_t i = 0; i < metrics; ++i) values.emplace_back("metric_" + std::to_string(i), 0.5 * static_cast<double>(i));
  const auto start = std::chrono::steady_clock::now();
  const double worked = processor_seconds();
  int64_t dropped = 0;
  double logging = 0;
  {
    RunLogWriter log(path);
    const auto entries = static_cast<int64_t>(in_turn ? points : points / static_cast<int64_t>(metrics));
    for (int64_t entry = 0; entry < entries; ++entry) {
      if (in_turn) {
        log.metrics(entry / static_cast<int64_t>(metrics),
                    std::span(values).subspan(static_cast<size_t>(entry) % metrics, 1));
      } else {
        values[0].second = static_cast<double>(entry);
        log.metrics(entry, values);
      }
      // A writer that gets no processor would have the queue run full: as training does, let it have one now and then.
      if (entry % 4096 == 0) ::sched_yield();
    }
    logging = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    log.flush();
    dropped = log.dropped();
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf(
      "{\"metrics_a_step\": %zu, \"one_at_a_time\": %s, \"points\": %lld, \"dropped_entries\": %lld, "
      "\"logging_seconds\": %.3f, \"durable_seconds\": %.3f, \"points_a_second\": %.0f, \"points_a_processor_second\": "
      "%.0f, \"bytes\": %lld}\n",
      metrics, in_turn ? "true" : "false", static_cast<long long>(points), static_cast<long long>(dropped), logging,
      seconds, static_cast<double>(points) / seconds, static_cast<double>(points) / (processor_seconds() - worked),
      static_cast<long long>(std::filesystem::file_size(path)));
  std::filesystem::remove(path);
}

/// Point (step, i): exp(-0.001 step) + 0.01 sin(7 i step).
int log_same_points(const std::filesystem::path& folder, int64_t steps, const std::string& all_names) {
  std::vector<std::pair<std::string, double>> numbers;
  std::istringstream names(all_names);
  for (std::string name; std::getline(names, name, ',');) numbers.emplace_back(name, 0);
  v0::Run run({.name = "bench", .exactly = (folder / "run").string()});
  const auto start = std::chrono::steady_clock::now();
  const auto since_start = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double worked = processor_seconds();
  for (int64_t step = 1; step <= steps; ++step) {
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i].second = std::exp(-0.001 * static_cast<double>(step)) +
                          0.01 * std::sin(static_cast<double>(step * (7 * static_cast<int64_t>(i))));
    run.log(step, numbers);
  }
  const double logging = since_start();
  const bool kept = run.flush();
  std::printf("{\"logging_seconds\": %.4f, \"kept_seconds\": %.4f, \"processor_seconds\": %.4f, \"dropped\": %lld}\n",
              logging, since_start(), processor_seconds() - worked, static_cast<long long>(run.dropped()));
  return kept ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "same") return log_same_points(argv[2], std::atoll(argv[3]), argv[4]);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  ::sched_setaffinity(0, sizeof one, &one);
  const std::filesystem::path folder =
      argc > 1 ? std::filesystem::path(argv[1]) : std::filesystem::temp_directory_path();
  measure_log(folder, 1, true, 5'000'000);
  measure_log(folder, 10, true, 5'000'000);
  measure_log(folder, 10, false, 20'000'000);
  return 0;
}
