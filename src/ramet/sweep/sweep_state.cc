#include "ramet/sweep/sweep_state.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ramet::sweep {
namespace {

using nlohmann::json;

double number_in(const json& event, const char* key, double otherwise = 0) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : otherwise;
}

int64_t whole_in(const json& event, const char* key, int64_t otherwise = 0) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

std::string text_in(const json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> score_in(const json& event) {
  const auto found = event.find("score");
  return found != event.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::optional<RecipeValue> value_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  return {};
}

/// The values of a planned point; nothing where one is missing.
std::optional<PointValues> values_in(const json& event, const SweepOptions& options) {
  const auto values = event.find("values");
  if (values == event.end() || !values->is_object()) return {};
  PointValues result;
  for (const Parameter& parameter : options.parameters) {
    const auto found = values->find(parameter.key);
    const auto value = found == values->end() ? std::nullopt : value_of(*found);
    if (!value) return {};
    result.push_back(*value);
  }
  return result;
}

/// Takes events one by one.
class Fold {
 public:
  Fold(SweepState& state, const SweepOptions& options, const json& event)
      : state_(state), options_(options), event_(event) {}

  void apply() {
    const std::string kind = text_in(event_, "event");
    state_.seen = std::max(state_.seen, number_in(event_, "time", state_.seen));
    if (kind == "sweep_started")
      start(true);
    else if (kind == "sweep_resumed")
      start(false);
    else if (kind == "point_planned" || kind == "point_refused")
      plan(kind == "point_refused");
    else if (kind == "run_started")
      start_run();
    else if (kind == "run_ended")
      end_run();
    else if (kind == "point_scored")
      score();
    else if (kind == "sweep_ended")
      state_.status = text_in(event_, "status"), state_.reason = text_in(event_, "reason");
  }

 private:
  void start(bool first) {
    const double now = number_in(event_, "time");
    if (first) state_.id = text_in(event_, "id"), state_.prefix = text_in(event_, "prefix"), state_.started = now;
    if (!first) state_.seconds = number_in(event_, "seconds");
    state_.session_started = state_.seen = now;
    state_.status = "running", state_.reason.clear();
  }

  void plan(bool refused) {
    if (whole_in(event_, "point", -1) != std::ssize(state_.points)) return;
    const auto values = values_in(event_, options_);
    if (!values) return;
    SweepPoint point{.values = *values};
    if (refused) point.refusal = text_in(event_, "reason").empty() ? "refused" : text_in(event_, "reason");
    point.planned_bytes = whole_in(event_, "planned_bytes"), point.host_bytes = whole_in(event_, "planned_host_bytes");
    point.process_bytes = whole_in(event_, "process_bytes"), point.device_memory = whole_in(event_, "device_memory");
    point.steps = whole_in(event_, "steps"), point.compile_seconds = number_in(event_, "compile_seconds");
    for (int64_t seed = 0; seed < options_.seeds; ++seed) point.runs.push_back({.seed = seed});
    state_.points.push_back(std::move(point));
  }

  SweepPoint* point() const {
    const int64_t number = whole_in(event_, "point", -1);
    return number >= 0 && number < std::ssize(state_.points) ? &state_.points[static_cast<size_t>(number)] : nullptr;
  }
  SweepRun* run() const {
    SweepPoint* const of = point();
    const int64_t seed = whole_in(event_, "seed", -1);
    return of && seed >= 0 && seed < std::ssize(of->runs) ? &of->runs[static_cast<size_t>(seed)] : nullptr;
  }

  void start_run() {
    SweepRun* const started = run();
    if (!started) return;
    const int64_t rung = whole_in(event_, "rung");
    if (rung > point()->rung) {
      point()->rung = rung;
      for (SweepRun& each : point()->runs) each.score.reset(), each.status = "waiting";
    }
    started->id = text_in(event_, "run"), started->status = "running", started->error.clear();
  }

  void end_run() {
    SweepRun* const ended = run();
    if (!ended) return;
    ended->status = text_in(event_, "status"), ended->error = text_in(event_, "error");
    ended->steps = whole_in(event_, "steps"), ended->score = score_in(event_);
    if (ended->status == "killed") ++ended->kills;
    ended->seconds += number_in(event_, "seconds");
  }

  void score() {
    SweepPoint* const scored = point();
    if (!scored || whole_in(event_, "rung") != std::ssize(scored->scores)) return;
    scored->scores.push_back(score_in(event_));
    scored->spreads.push_back(number_in(event_, "spread"));
  }

  SweepState& state_;
  const SweepOptions& options_;
  const json& event_;
};

}  // namespace

void SweepState::apply(std::string_view event, const SweepOptions& options) {
  const json parsed = json::parse(event, nullptr, false);
  if (parsed.is_object()) Fold(*this, options, parsed).apply();
}

bool is_better(const SweepOptions& options, std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a.has_value() && !b;
  return options.maximizes() ? *a > *b : *a < *b;
}

int64_t rung_steps(const SweepOptions& options, int64_t rung, int64_t steps) {
  if (!options.halves()) return steps;
  const double wanted = static_cast<double>(options.halving.steps) * std::pow(options.halving.factor, rung);
  return wanted >= static_cast<double>(steps) ? steps : static_cast<int64_t>(std::floor(wanted + 1e-6));
}

int64_t rungs_of(const SweepOptions& options, const SweepState& state) {
  if (!options.halves()) return 1;
  int64_t most = 0, rungs = 1;
  for (const SweepPoint& point : state.points) most = std::max(most, point.steps);
  while (rung_steps(options, rungs - 1, most) < most) ++rungs;
  return rungs;
}

std::vector<int64_t> promoted(const SweepOptions& options, const SweepState& state, int64_t rung) {
  if (rung == 0 || rung >= rungs_of(options, state)) return {};
  std::vector<int64_t> candidates;
  if (rung == 1)
    for (int64_t i = 0; i < std::ssize(state.points); ++i) candidates.push_back(i);
  else
    candidates = promoted(options, state, rung - 1);
  std::vector<int64_t> scored;
  for (const int64_t i : candidates) {
    const SweepPoint& point = state.points[static_cast<size_t>(i)];
    if (!point.settled(rung - 1)) return {};
    if (!point.refused() && point.score(rung - 1)) scored.push_back(i);
  }
  const auto score = [&](int64_t i) { return state.points[static_cast<size_t>(i)].score(rung - 1); };
  std::stable_sort(scored.begin(), scored.end(),
                   [&](int64_t a, int64_t b) { return is_better(options, score(a), score(b)); });
  const auto kept = static_cast<int64_t>(
      std::floor(static_cast<double>(options.points) / std::pow(options.halving.factor, rung) + 1e-9));
  scored.resize(static_cast<size_t>(std::min<int64_t>(std::ssize(scored), std::max<int64_t>(kept, 1))));
  std::sort(scored.begin(), scored.end());
  return scored;
}

int64_t best_point(const SweepOptions& options, const SweepState& state) {
  int64_t best = -1;
  size_t rung = 0;
  for (int64_t i = 0; i < std::ssize(state.points); ++i) {
    const SweepPoint& point = state.points[static_cast<size_t>(i)];
    if (!point.last_score()) continue;
    if (best < 0 || point.scores.size() > rung ||
        (point.scores.size() == rung &&
         is_better(options, point.last_score(), state.points[static_cast<size_t>(best)].last_score())))
      best = i, rung = point.scores.size();
  }
  return best;
}

std::vector<TriedPoint> tried_points(const SweepState& state, int64_t needed) {
  std::vector<TriedPoint> tried;
  for (int64_t i = 0; i < needed; ++i) {
    const SweepPoint& point = state.points[static_cast<size_t>(i)];
    tried.push_back({point.values, point.score(0)});
  }
  return tried;
}

}  // namespace ramet::sweep
