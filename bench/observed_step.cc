// By how much the run's log, the sampler of the system and the alerts change the time of a training step. Blocks of
// steps of one training take turns, with and without them (on, off, off, on, ...), so that what drifts on the machine
// meets both alike. usage: observed_step [RECIPE.toml] [--set a.b=c ...] [--pairs N] [--block STEPS] [--every SECONDS]

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench_tools.h"
#include "ramet/base/error.h"
#include "ramet/recipe/prepare.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/system_metrics.h"
#include "ramet/train/alerts.h"
#include "ramet/train/run_recorder.h"

namespace {

using namespace ramet::bench;
namespace fs = std::filesystem;

struct ObservedArguments {
  std::string recipe = "examples/bert-mini.toml";
  std::vector<std::string> settings;
  int64_t pairs = 40, block = 20;
  double every = 1;
};

ObservedArguments parse(int count, char** words) {
  ObservedArguments wanted;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto next = [&] { return std::string(i + 1 < count ? words[++i] : ""); };
    if (word == "--set")
      wanted.settings.push_back(next());
    else if (word == "--pairs")
      wanted.pairs = std::stoll(next());
    else if (word == "--block")
      wanted.block = std::stoll(next());
    else if (word == "--every")
      wanted.every = std::stod(next());
    else
      wanted.recipe = word;
  }
  return wanted;
}

/// Hands steps to the observers of a run in every block that is on, and takes the time of each block.
class BlockObserver final : public TrainingObserver {
 public:
  BlockObserver(const ObservedArguments& wanted, const RunDirectory& directory)
      : wanted_(wanted),
        directory_(directory),
        recorder_(directory),
        alerts_({.flat = 50}, {.id = "bench", .name = "bench", .folder = directory.path()},
                [this](const Alert& alert) { recorder_.event(json_of(alert)); }) {}

  void on_start(const Training& training, const RunStart& start) override {
    recorder_.on_start(training, start);
    alerts_.on_start(training, start);
  }

  void on_step(int64_t done, const Numbers& metrics) override {
    if (sampler_) {
      alerts_.on_step(done, metrics);
      recorder_.on_step(done, metrics);
    }
    const int64_t warm_up = wanted_.block;
    if (done < warm_up || (done - warm_up) % wanted_.block != 0) return;
    const double now = seconds();
    if (done > warm_up) blocks_.push_back(now - begin_);
    // on, off, off, on, on, off, off, on, ...
    const bool on = (blocks_.size() + 1) / 2 % 2 == 0;
    sampler_.reset();
    if (on) sampler_.emplace(directory_.path(), 0, wanted_.every);
    begin_ = seconds();
  }

  void finish() {
    sampler_.reset();
    alerts_.finish();
  }

  /// Of each pair of neighbours: time observed over time alone, less 1.
  std::vector<double> changes() const {
    std::vector<double> all;
    for (size_t i = 0; i + 1 < blocks_.size(); i += 2) {
      const bool first_on = i / 2 % 2 == 0;
      all.push_back(first_on ? blocks_[i] / blocks_[i + 1] - 1 : blocks_[i + 1] / blocks_[i] - 1);
    }
    return all;
  }
  double mean_step() const {
    double sum = 0;
    for (double block : blocks_) sum += block;
    return sum / static_cast<double>(blocks_.size()) / static_cast<double>(wanted_.block);
  }

 private:
  const ObservedArguments& wanted_;
  const RunDirectory& directory_;
  RunRecorder recorder_;
  AlertObserver alerts_;
  std::optional<SystemSampler> sampler_;
  std::vector<double> blocks_;
  double begin_ = 0;
};

int compare_blocks(const ObservedArguments& wanted) {
  const fs::path folder = fs::temp_directory_path() / "ramet-observed-step";
  fs::remove_all(folder);
  Recipe recipe = load_recipe(wanted.recipe, wanted.settings);
  recipe.train.steps = (2 * wanted.pairs + 1) * wanted.block;
  recipe.train.evaluation.every = 0;
  Preparation preparation = prepare(recipe);
  const RunDirectory directory =
      RunDirectory::create_at(folder, {recipe.name, print_recipe(preparation.recipe), {"observed_step"}, "", 0});
  Training training = make_training(std::move(preparation), Where{});
  training.initialize();
  BlockObserver observer(wanted, directory);
  train::train(training, {}, observer);
  observer.finish();

  std::vector<double> changes = observer.changes();
  double mean = 0, squares = 0;
  for (double change : changes) mean += change / static_cast<double>(changes.size());
  for (double change : changes) squares += (change - mean) * (change - mean);
  const auto count = static_cast<double>(changes.size());
  const double half = 1.96 * std::sqrt(squares / (count - 1) / count);
  // The interval of the median by order statistics: it asks for no distribution, and a step that something else of the
  // machine held up does not widen it.
  std::sort(changes.begin(), changes.end());
  const auto rank = static_cast<size_t>(std::max(0.0, std::floor((count - 1.96 * std::sqrt(count)) / 2)));
  std::printf(
      "{\"pairs\": %zu, \"block\": %lld, \"sampled_every\": %g, \"step_seconds\": %.4f, \"mean_percent\": %.3f, "
      "\"mean_interval_95_percent\": [%.3f, %.3f], \"median_percent\": %.3f, \"median_interval_95_percent\": [%.3f, "
      "%.3f]}\n",
      changes.size(), static_cast<long long>(wanted.block), wanted.every, observer.mean_step(), 100 * mean,
      100 * (mean - half), 100 * (mean + half), 100 * changes[changes.size() / 2], 100 * changes[rank],
      100 * changes[changes.size() - 1 - rank]);
  fs::remove_all(folder);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    const ObservedArguments wanted = parse(count, words);
    if (wanted.pairs < 20 || wanted.block < 1) {
      std::fprintf(stderr,
                   "observed_step: --pairs must be 20 or more (the interval is the normal one), --block 1 or more\n");
      return 2;
    }
    return compare_blocks(wanted);
  } catch (const ramet::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
