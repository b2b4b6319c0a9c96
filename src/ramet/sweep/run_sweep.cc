#include "ramet/sweep/run_sweep.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "ramet/base/clock.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/lock_file.h"
#include "ramet/base/thread_team.h"
#include "ramet/base/words.h"
#include "ramet/device/host_memory.h"
#include "ramet/sweep/child_process.h"
#include "ramet/track/run_directory.h"
#include "ramet/track/run_log.h"
#include "ramet/track/run_record.h"

namespace ramet::sweep {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr int64_t kMostKills = 2;  // ends by a signal that a run is begun again after
constexpr auto kPause = std::chrono::milliseconds(20);

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string date_text() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&time, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

std::string short_id() {
  char text[16];
  std::snprintf(text, sizeof text, "%06x", std::random_device()() & 0xffffff);
  return text;
}

json json_of(std::optional<double> value) { return value && std::isfinite(*value) ? json(*value) : json(nullptr); }

json json_of(const SweepOptions& options, const PointValues& values) {
  json object = json::object();
  for (size_t i = 0; i < values.size(); ++i)
    std::visit([&](const auto& value) { object[options.parameters[i].key] = value; }, values[i]);
  return object;
}

/// The last line that a process printed, without the progress before it.
std::string last_line_of(const fs::path& path) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error&) {
    return "";
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t line = text.rfind('\n');
  return text.substr(line == std::string::npos ? 0 : line + 1).substr(0, 2000);
}

/// The score of a run of `to_step` steps; nothing where it is not a number. Throws Error where the run has no such
/// metric at all.
std::optional<double> score_of(const RunLog& log, const SweepOptions& options, int64_t to_step) {
  std::optional<double> score;
  bool there = false;
  for (const auto& [step, value] : log.series(options.metric)) {
    there = true;
    if (step > to_step) break;
    if (options.of == "last") score.reset();
    if (!std::isfinite(value)) continue;
    if (options.of == "last" || is_better(options, value, score)) score = value;
  }
  if (!there) {
    const std::vector<std::string> names = log.names();
    const std::string near = nearest_name(options.metric, names);
    throw Error({.what = "the runs log no number of this name",
                 .where = "metric",
                 .found = "'" + options.metric + "'",
                 .expected = near.empty() ? joined(names) : "perhaps '" + near + "'",
                 .remedy = "Change `metric` in the sweep's file, and begin the sweep under another name"});
  }
  return score;
}

/// A job: one run of a point, up to the end of a rung.
struct Job {
  int64_t point = 0, seed = 0, rung = 0;
};

/// A job that a process works on: a child, or one that outlived the sweep that had begun it.
struct Active : Job {
  int64_t to_step = 0, bytes = 0, slot = 0;
  std::unique_ptr<ChildProcess> child;
  Clock::time_point began = Clock::now();
};

/// One session of a sweep.
class Session {
 public:
  Session(const SweepFolder& folder, const RunSweepOptions& how)
      : folder_(folder),
        how_(how),
        options_(folder.options()),
        lock_(LockFile::take(folder.lock())),
        used_(static_cast<size_t>(options_.use.parallel), false) {
    if (!lock_)
      throw Error({.what = "another process runs this sweep",
                   .where = folder.path().string(),
                   .remedy = "Wait for it, or stop it"});
    if (fs::exists(folder.log()))
      for (const std::string& event : read_run_log(folder.log()).events) state_.apply(event, options_);
    log_ = std::make_unique<RunLogWriter>(folder.log());
  }

  SweepState run() {
    if (state_.status == "done") return state_;
    begin();
    try {
      while (step()) std::this_thread::sleep_for(kPause);
    } catch (...) {
      stop_children();
      throw;
    }
    end();
    return state_;
  }

 private:
  void emit(json event) {
    event["time"] = now();
    const std::string text = event.dump(-1, ' ', false, json::error_handler_t::replace);
    state_.apply(text, options_);
    log_->event(text);
    log_->flush();
    if (how_.on_event) how_.on_event(text);
  }

  void begin() {
    if (state_.id.empty()) {
      const std::string id = short_id();
      emit({{"event", "sweep_started"},
            {"name", folder_.name()},
            {"id", id},
            {"prefix", date_text() + "-" + folder_.name() + "-" + id},
            {"method", options_.method},
            {"points", options_.points},
            {"seeds", options_.seeds},
            {"parallel", options_.use.parallel},
            {"threads", options_.use.threads},
            {"memory_bytes", limits_of(options_).memory}});
    } else {
      emit({{"event", "sweep_resumed"}, {"name", folder_.name()}, {"seconds", state_.active_seconds()}});
    }
  }

  void end() {
    const int64_t best = best_point(options_, state_);
    const bool interrupted = how_.stop && how_.stop->asked();
    emit({{"event", "sweep_ended"},
          {"status", interrupted ? "interrupted" : "done"},
          {"reason", interrupted ? "asked to stop" : ended_by_},
          {"points", state_.points.size()},
          {"best", best},
          {"score", best < 0 ? json(nullptr) : json_of(state_.points[static_cast<size_t>(best)].last_score())}});
  }

  /// Everything that can be done now. Returns whether there is more to wait for.
  bool step() {
    reap();
    if (stopping()) {
      for (const auto& each : active_)
        if (each->child) each->child->ask_to_stop();
    } else {
      while (start_next()) {
      }
    }
    if (how_.on_progress) how_.on_progress(progress());
    return !active_.empty();
  }

  bool stopping() {
    if (how_.stop && how_.stop->asked()) return true;
    if (options_.stop.seconds <= 0) return false;
    if (state_.seconds + (now() - state_.session_started) < options_.stop.seconds) return false;
    ended_by_ = "time";
    return true;
  }

  void stop_children() {
    for (const auto& each : active_)
      if (each->child) each->child->ask_to_stop();
    for (const auto& each : active_)
      while (each->child && !each->child->ended()) std::this_thread::sleep_for(kPause);
  }

  SweepProgress progress() const {
    SweepProgress progress{.points = std::ssize(state_.points), .running = std::ssize(active_)};
    for (const SweepPoint& point : state_.points) progress.settled += point.settled(0);
    progress.best = best_point(options_, state_);
    return progress;
  }

  SweepPoint& point(int64_t number) { return state_.points[static_cast<size_t>(number)]; }

  // --- runs that have ended ---

  void reap() {
    for (size_t i = 0; i < active_.size();) {
      Active& each = *active_[i];
      std::optional<ProcessEnd> end;
      if (each.child)
        end = each.child->ended();
      else if (!is_running(run_folder(each)))
        end = ProcessEnd{};
      if (!end) {
        ++i;
        continue;
      }
      const std::unique_ptr<Active> ended = std::move(active_[i]);
      active_.erase(active_.begin() + static_cast<int64_t>(i));
      used_[static_cast<size_t>(ended->slot)] = false;
      end_run(*ended, *end);
    }
  }

  void end_run(const Active& job, const ProcessEnd& end) {
    const RunRecord run = read_run(run_folder(job));
    std::string status, error;
    std::optional<double> score;
    if (run.status == RunStatus::kDone && run.steps() >= job.to_step && end.signal == 0) {
      status = "done";
      score = score_of(run.log, options_, job.to_step);
    } else if (end.signal != 0) {
      status = stopping() ? "interrupted" : "killed";
      if (status == "killed") error = "ended by signal " + std::to_string(end.signal);
    } else if (end.status != 0) {
      status = "failed";
      error = run.status == RunStatus::kFailed && !run.problem.empty() ? run.problem : last_line_of(output_of(job));
      if (error.empty()) error = "ended with status " + std::to_string(end.status);
    } else {
      status = stopping() || !job.child ? "interrupted" : "killed";
      if (status == "killed") error = "somebody else stopped the run";
    }
    if (status == "killed" && point(job.point).runs[static_cast<size_t>(job.seed)].kills >= kMostKills)
      status = "failed", error += ", " + std::to_string(kMostKills + 1) + " times";
    json event = {{"event", "run_ended"}, {"point", job.point},      {"seed", job.seed},
                  {"rung", job.rung},     {"run", run_id(job)},      {"status", status},
                  {"steps", run.steps()}, {"score", json_of(score)}, {"seconds", seconds_since(job.began)}};
    if (!error.empty()) event["error"] = error;
    emit(std::move(event));
    score_point(job.point);
  }

  /// Scores a point on its rung once all its runs there have ended.
  void score_point(int64_t number) {
    const SweepPoint& scored = point(number);
    if (scored.settled(scored.rung)) return;
    std::vector<double> scores;
    for (const SweepRun& run : scored.runs) {
      if (run.status != "done" && run.status != "failed") return;
      if (run.score) scores.push_back(*run.score);
    }
    std::optional<double> mean;
    double spread = 0;
    if (scores.size() == scored.runs.size()) {
      double sum = 0, squares = 0;
      for (const double score : scores) sum += score;
      mean = sum / static_cast<double>(scores.size());
      for (const double score : scores) squares += (score - *mean) * (score - *mean);
      if (scores.size() > 1) spread = std::sqrt(squares / static_cast<double>(scores.size() - 1));
    }
    emit({{"event", "point_scored"},
          {"point", number},
          {"rung", scored.rung},
          {"steps", rung_steps(options_, scored.rung, scored.steps)},
          {"score", json_of(mean)},
          {"spread", spread}});
  }

  // --- what comes next ---

  /// Starts a run, or draws a point. Returns whether it did.
  bool start_next() {
    if (const std::optional<Job> job = next_job()) return start(*job);
    return may_draw() && draw();
  }

  /// The first job that nobody works on, by rung, point and seed.
  std::optional<Job> next_job() {
    const int64_t rungs = rungs_of(options_, state_);
    for (int64_t rung = 0; rung < rungs; ++rung) {
      std::vector<int64_t> numbers;
      if (rung > 0 && std::ssize(state_.points) == options_.points) numbers = promoted(options_, state_, rung);
      for (int64_t i = 0; rung == 0 && i < std::ssize(state_.points); ++i) numbers.push_back(i);
      for (const int64_t number : numbers) {
        const SweepPoint& each = point(number);
        if (each.settled(rung)) continue;
        for (const SweepRun& run : each.runs) {
          const bool ended = each.rung == rung && (run.status == "done" || run.status == "failed");
          if (!ended && !is_active(number, run.seed)) return Job{number, run.seed, rung};
        }
      }
    }
    return {};
  }

  bool is_active(int64_t number, int64_t seed) const {
    return std::any_of(active_.begin(), active_.end(),
                       [&](const auto& each) { return each->point == number && each->seed == seed; });
  }

  /// Whether the next point can be drawn, from results that are there, and would find a place.
  bool may_draw() {
    const int64_t number = std::ssize(state_.points);
    if (number >= options_.points || drawn_out_) return false;
    int64_t open = 0;
    for (const SweepPoint& each : state_.points) open += !each.settled(0);
    if (open >= options_.use.parallel) return false;
    const int64_t needed = points_needed(options_, number);
    for (int64_t i = 0; i < needed; ++i)
      if (!point(i).settled(0)) return false;
    const std::string rule = stop_rule(needed);
    if (rule.empty()) return true;
    drawn_out_ = true, ended_by_ = rule;
    return false;
  }

  /// The rule that holds after the first `tried` points; "": none. So where a sweep stops depends on no time.
  std::string stop_rule(int64_t tried) {
    std::optional<double> best;
    int64_t at = -1;
    for (int64_t i = 0; i < tried; ++i)
      if (is_better(options_, point(i).score(0), best)) best = point(i).score(0), at = i;
    const auto& stop = options_.stop;
    if (best && stop.target && !is_better(options_, *stop.target, best)) return "target";
    if (stop.no_improvement > 0 && tried - 1 - at >= stop.no_improvement) return "no improvement";
    return "";
  }

  bool draw() {
    const int64_t number = std::ssize(state_.points);
    const PointValues values = draw_point(options_, number, tried_points(state_, points_needed(options_, number)));
    if (how_.on_progress) {
      SweepProgress now_doing = progress();
      now_doing.doing = "planning point " + std::to_string(number);
      how_.on_progress(now_doing);
    }
    PointPlan plan;
    try {
      plan = plan_point(load_recipe(folder_.recipe(), point_settings(options_, values)), limits_of(options_));
    } catch (const Error& error) {
      plan.refusal = error.what();
    }
    json event = {{"event", plan.refusal.empty() ? "point_planned" : "point_refused"},
                  {"point", number},
                  {"values", json_of(options_, values)},
                  {"steps", plan.steps},
                  {"planned_bytes", plan.planned_bytes},
                  {"planned_host_bytes", plan.host_bytes},
                  {"process_bytes", plan.process_bytes},
                  {"device_memory", plan.device_memory},
                  {"compile_seconds", plan.compile_seconds}};
    if (!plan.refusal.empty()) event["reason"] = plan.refusal;
    emit(std::move(event));
    return true;
  }

  // --- starting runs ---

  /// "-p0003", "-p0003-s1"
  std::string suffix_of(const Job& job) const {
    char number[32];
    std::snprintf(number, sizeof number, "-p%04lld", static_cast<long long>(job.point));
    return number + (options_.seeds > 1 ? "-s" + std::to_string(job.seed) : "");
  }
  std::string run_id(const Job& job) const { return state_.prefix + suffix_of(job); }
  fs::path run_folder(const Job& job) const { return folder_.runs() / run_id(job); }
  fs::path output_of(const Job& job) const { return folder_.output(run_id(job)); }

  /// Begins or continues a run where there is room for it.
  bool start(const Job& job) {
    const SweepPoint& of = point(job.point);
    const auto slot = std::find(used_.begin(), used_.end(), false);
    if (slot == used_.end()) return false;
    int64_t bytes = of.process_bytes;
    for (const auto& each : active_) bytes += each->bytes;
    if (!active_.empty() && bytes > limits_of(options_).memory) return false;
    auto active = std::make_unique<Active>();
    static_cast<Job&>(*active) = job;
    active->to_step = rung_steps(options_, job.rung, of.steps);
    active->bytes = of.process_bytes;
    active->slot = slot - used_.begin();
    const fs::path folder = run_folder(job);
    const bool there = is_run(folder);
    emit({{"event", "run_started"},
          {"point", job.point},
          {"seed", job.seed},
          {"rung", job.rung},
          {"run", run_id(job)},
          {"to_step", active->to_step},
          {"resumed", there}});
    if (there && !is_running(folder)) {
      const RunRecord run = read_run(folder);
      if (run.status == RunStatus::kFailed || (run.status == RunStatus::kDone && run.steps() >= active->to_step)) {
        end_run(*active, {run.status == RunStatus::kFailed ? 1 : 0, 0});
        return true;
      }
    }
    annotate_group(folder, folder_.name());
    if (!is_running(folder))
      active->child =
          std::make_unique<ChildProcess>(command_of(*active, there), output_of(job), processors_of(*active));
    *slot = true;
    active_.push_back(std::move(active));
    return true;
  }

  std::vector<std::string> command_of(const Active& job, bool there) const {
    const SweepPoint& of = state_.points[static_cast<size_t>(job.point)];
    std::vector<std::string> words = {how_.program, "train"};
    if (there) {
      words.insert(words.end(), {"--resume", run_folder(job).string()});
    } else {
      words.insert(words.end(), {folder_.recipe().string(), "--run", run_folder(job).string(), "--seeds", "1"});
      std::vector<std::string> settings = point_settings(options_, of.values);
      const int64_t seed = load_recipe(folder_.recipe(), settings).train.seed + job.seed;
      settings.push_back("train.seed=" + std::to_string(seed));
      settings.push_back(setting_of("name", folder_.name() + suffix_of(job)));
      for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    }
    words.insert(words.end(), {"--run-dir", folder_.runs().string(), "--threads", std::to_string(options_.use.threads),
                               "--steps", std::to_string(job.to_step)});
    if (of.device_memory > 0) words.insert(words.end(), {"--device-memory", std::to_string(of.device_memory)});
    return words;
  }

  /// The processors of the run's place; all where this machine has fewer than the sweep was made for.
  std::vector<int> processors_of(const Active& job) const {
    const std::vector<int> all = allowed_processors();
    const int64_t threads = options_.use.threads, first = job.slot * threads;
    if (std::ssize(all) < options_.use.parallel * threads) return {};
    return {all.begin() + first, all.begin() + first + threads};
  }

  const SweepFolder& folder_;
  const RunSweepOptions& how_;
  const SweepOptions options_;
  std::optional<LockFile> lock_;
  std::vector<bool> used_;  ///< places for runs
  std::vector<std::unique_ptr<Active>> active_;
  SweepState state_;
  std::unique_ptr<RunLogWriter> log_;
  bool drawn_out_ = false;
  std::string ended_by_ = "all points";
};

}  // namespace

SweepOptions settle_resources(SweepOptions options) {
  auto& use = options.use;
  const int64_t processors = available_processors();
  if (use.cores == 0) use.cores = processors;
  if (use.cores > processors)
    throw Error({.what = "the machine has fewer processors",
                 .where = "use.cores",
                 .found = std::to_string(use.cores),
                 .expected = "at most " + std::to_string(processors)});
  if (use.threads == 0) use.threads = use.cores / use.parallel;
  if (use.threads < 1 || use.threads * use.parallel > use.cores)
    throw Error({.what = "not enough cores for so many runs at once",
                 .where = "use.parallel",
                 .found = std::to_string(use.parallel) + " runs of " +
                          std::to_string(std::max<int64_t>(use.threads, 1)) + " threads on " +
                          std::to_string(use.cores) + " cores",
                 .remedy = "Lower use.parallel or use.threads"});
  if (use.memory.empty()) use.memory = std::to_string(available_memory() / 10 * 9);
  return options;
}

PointLimits limits_of(const SweepOptions& settled) {
  const int64_t memory = parse_size(settled.use.memory);
  return {.memory = memory, .share = memory / settled.use.parallel, .threads = static_cast<int>(settled.use.threads)};
}

SweepState run_sweep(const SweepFolder& folder, const RunSweepOptions& options) {
  return Session(folder, options).run();
}

}  // namespace ramet::sweep
