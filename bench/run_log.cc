// How many points a second one processor takes into a run's log, with the thread that writes them: steps of one metric,
// and of ten.
//
//   bench/run_log [FOLDER]     a line of JSON each; the log goes into FOLDER (default: the folder for temporary files)

#include <sched.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>

#include "ramet/track/run_log.h"

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

}  // namespace

int main(int argc, char** argv) {
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
