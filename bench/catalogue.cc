// Folders of runs as training leaves them, made quickly: what bench/catalogue.py times the catalogue with.
//
//   bench/catalogue make FOLDER RUNS STEPS METRICS     runs of so many steps, each with so many metrics
//   bench/catalogue index FOLDER                       seconds of: a rebuilding, an indexing of nothing new, lists
//   bench/catalogue series FOLDER                      milliseconds of courses of the longest metric

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <tuple>

#include "ramet/base/file.h"
#include "ramet/track/catalogue.h"
#include "ramet/track/run_log.h"

namespace {

using namespace ramet::bench;
namespace fs = std::filesystem;

double seconds_of(const std::function<void()>& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void make_run(const fs::path& path, int64_t number, int64_t steps, int64_t metrics) {
  fs::create_directories(path);
  std::vector<LoggedNumber> values = {{"loss", 0}, {"learning_rate", 0}, {"grad_norm", 0}, {"tokens_per_second", 0}};
  for (auto i = static_cast<int64_t>(values.size()); i < metrics; ++i)
    values.emplace_back("metric_" + std::to_string(i), 0);
  values.resize(static_cast<size_t>(metrics));
  {
    RunLogWriter log(path / "log.ramet");
    log.event(R"({"event":"start","from_step":0,"to_step":)" + std::to_string(steps) + "}");
    log.event(R"({"event":"axis","samples_per_step":32,"units_per_step":4096,"units":"tokens"})");
    for (int64_t step = 1; step <= steps; ++step) {
      for (size_t i = 0; i < values.size(); ++i)
        values[i].second = std::exp(-0.001 * static_cast<double>(step)) +
                           0.01 * std::sin(static_cast<double>(step * (number + 7 * static_cast<int64_t>(i))));
      log.metrics(step, values);
    }
    log.event(R"({"event":"end","status":"done","steps":)" + std::to_string(steps) + "}");
  }
  std::string recipe =
      "name = \"made\"\n\n[train]\nseed = " + std::to_string(number % 10) + "\nsteps = " + std::to_string(steps) +
      "\n\n[train.schedule]\nlearning_rate = " + std::to_string(1e-4 * static_cast<double>(1 + number % 7)) +
      "\n\n[model]\nkind = \"bert\"\n";
  for (int i = 0; i < 60; ++i) recipe += "key_" + std::to_string(i) + " = " + std::to_string(i) + "\n";
  char started[64];

  std::snprintf(started, sizeof started, "2026-01-%02lldT%02lld:%02lld:%02lld.000000+0000",
                static_cast<long long>(1 + number / 86400 % 28), static_cast<long long>(number / 3600 % 24),
                static_cast<long long>(number / 60 % 60), static_cast<long long>(number % 60));
  std::ofstream(path / "recipe.toml") << recipe;
  std::ofstream(path / "machine.json") << R"({"processor":"made","processors":2})";
  std::ofstream(path / "run.json")
      << R"({"id":")" + path.filename().string() + R"(","name":"made","started":")" + started +
             R"(","version":"0.1.0","command":["ramet","train"],"kernel_class":"k","threads":2})";
}

int make(const fs::path& folder, int64_t runs, int64_t steps, int64_t metrics) {
  for (int64_t number = 0; number < runs; ++number) {
    char name[40];
    std::snprintf(name, sizeof name, "2026-01-01-made-%06lld", static_cast<long long>(number));
    make_run(folder / name, number, steps, metrics);
  }
  return 0;
}

int index(const fs::path& folder) {
  Catalogue catalogue = Catalogue::open(folder, Access::kIndex);
  IndexReport report;
  const double rebuilt = seconds_of([&] { report = catalogue.rebuild(); });
  std::printf("{\"runs\": %lld, \"points\": %lld, \"log_bytes\": %lld, \"rebuild_seconds\": %.3f, ",
              static_cast<long long>(report.runs), static_cast<long long>(report.points),
              static_cast<long long>(report.bytes), rebuilt);
  std::printf("\"catalogue_bytes\": %lld, ", static_cast<long long>(fs::file_size(folder / "catalogue.db")));
  std::printf("\"nothing_new_seconds\": %.3f, ", seconds_of([&] { (void)catalogue.index(); }));
  RunPage page;
  std::printf("\"list_all_seconds\": %.3f, ",
              seconds_of([&] { page = catalogue.runs({.columns = {"loss", "config.train.seed"}, .limit = -1}); }));
  std::printf(
      "\"filtered_page_seconds\": %.3f}\n", seconds_of([&] {
        page = catalogue.runs(
            {.filter = "config.train.seed = 3 and loss < 2.5", .sort = "loss", .columns = {"loss"}, .limit = 100});
      }));
  return 0;
}

int series(const fs::path& folder) {
  const Catalogue catalogue = Catalogue::open(folder, Access::kRead);
  const RunPage page = catalogue.runs({.sort = "-points.loss", .columns = {"points.loss"}, .limit = 1});
  const std::string run = page.runs.at(0).id;
  const int64_t points = std::get<int64_t>(page.runs[0].columns[0]);
  for (const auto& [name, from, to] :
       {std::tuple("whole", 0.0, 1e300),
        {"a tenth", 0.45 * static_cast<double>(points), 0.55 * static_cast<double>(points)},
        {"a thousandth", 0.5 * static_cast<double>(points), 0.501 * static_cast<double>(points)}})
    for (int round = 0; round < 2; ++round) {
      Series found;
      const double seconds = seconds_of(
          [&] { found = catalogue.series({.run = run, .metric = "loss", .from = from, .to = to, .buckets = 600}); });
      if (round == 1)
        std::printf("{\"points\": %lld, \"part\": \"%s\", \"entries\": %zu, \"milliseconds\": %.2f}\n",
                    static_cast<long long>(found.points), name, found.x.size(), 1000 * seconds);
    }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "make" && argc == 6) return make(argv[2], std::atoll(argv[3]), std::atoll(argv[4]), std::atoll(argv[5]));
  if (what == "index") return index(argv[2]);
  if (what == "series") return series(argv[2]);
  std::fprintf(stderr, "usage: catalogue make FOLDER RUNS STEPS METRICS | index FOLDER | series FOLDER\n");
  return 2;
}
