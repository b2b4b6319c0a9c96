#include "ramet/train/run_recorder.h"

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ramet/base/clock.h"
#include "ramet/base/file.h"
#include "ramet/base/version.h"
#include "ramet/measure/probe.h"
#include "ramet/train/feeds.h"
#include "ramet/train/run_files.h"
#include "ramet/transport/process.h"

namespace ramet::train {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

std::string text_of(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

/// JSON has no NaN and no infinity.
json number_json(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

void add(json& event, const Numbers& numbers, const std::string& prefix = "") {
  for (const auto& [name, value] : numbers) event[prefix + name] = number_json(value);
}

}  // namespace

Numbers held_out_numbers(const Numbers& evaluation) {
  Numbers held_out;
  for (const auto& [name, value] : evaluation) held_out.emplace_back("held_out_" + name, value);
  return held_out;
}

std::string devices_json(const Cluster& cluster) {
  json devices = json::array();
  const std::vector<int64_t>& arenas = cluster.arena_bytes();
  for (size_t device = 0; device < arenas.size(); ++device) {
    const Executable& exe =
        cluster.stages()[static_cast<size_t>(cluster.mesh().position(static_cast<int>(device)).stage)];
    devices.push_back({{"device", device},
                       {"planned_bytes", exe.planned_bytes()},
                       {"streaming_bytes", exe.streaming_bytes},
                       {"arena_bytes", arenas[device]}});
  }
  return text_of(devices);
}

RunRecorder::RunRecorder(const RunDirectory& directory, std::function<void(const std::string& json)> echo)
    : directory_(directory), log_(std::make_shared<RunLogWriter>(directory.log())), echo_(std::move(echo)) {}

RunRecorder::RunRecorder(const RunDirectory& directory, std::shared_ptr<RunLogWriter> log)
    : directory_(directory), log_(std::move(log)) {}

void RunRecorder::on_start(const Training& training, const RunStart& start) {
  training_ = &training;
  const json event = {{"event", "start"},
                      {"from_step", start.from_step},
                      {"to_step", start.to_step},
                      {"planned_bytes", training.planned_bytes()},
                      {"planned_host_bytes", training.host_memory().total()},
                      {"compile_seconds", training.compiled().seconds},
                      {"kernel_class", training.kernel_class()},
                      {"threads", training.threads()},
                      {"layout", print_layout(training.asked_layout())},
                      {"devices", training.cluster().mesh().devices()},
                      {"ranks", training.cluster().ranks()},
                      {"version", version()},
                      {"run_directory", directory_.path().string()},
                      {"time", seconds_since_1970()}};
  log_->event(text_of(event));
  log_->event(text_of({{"event", "axis"},
                       {"samples_per_step", training.samples_per_step()},
                       {"units_per_step", training.units_per_step()},
                       {"units", training.workload().units.name}}));
  for (const RunOrigin& origin : origins_) log_->event(lineage_event(origin));
  if (echo_) echo_(text_of(event));
  const RunPrograms programs = programs_of(training);
  write_file_atomic(directory_.plan(), plan_json(programs));
  write_file_atomic(directory_.liveness(), liveness_json(programs));
  write_file_atomic(directory_.program(), program_json(programs));
  if (training.profiled() && training.cluster().ranks() == 1) {
    const RealBatch real = real_batch(training.workload().train.get(), training.options().micro_batch);
    machine_ = local_machine(training.cluster().stages(), training.layout(), false, real.views);
  }
}

void RunRecorder::on_step(int64_t done, const Numbers& metrics) {
  log_->metrics(done, metrics);
  ++steps_, seconds_ += number_of(metrics, "step_seconds");
  if (!echo_) return;
  json event = {{"event", "step"}, {"step", done}};
  add(event, metrics);
  echo_(text_of(event));
}

void RunRecorder::on_evaluation(int64_t done, const Numbers& metrics) {
  const Numbers held_out = held_out_numbers(metrics);
  log_->metrics(done, held_out);
  if (!echo_) return;
  json event = {{"event", "evaluation"}, {"step", done}};
  add(event, held_out);
  echo_(text_of(event));
}

void RunRecorder::on_checkpoint(int64_t done, const fs::path& path) {
  const std::string event = text_of({{"event", "checkpoint"}, {"step", done}, {"path", path.string()}});
  log_->event(event);
  if (echo_) echo_(event);
  write_times();
}

void RunRecorder::event(const std::string& json) {
  log_->event(json);
  if (echo_) echo_(json);
}

void RunRecorder::on_numerics(const NumericsReport& report) {
  const fs::path file = directory_.numerics(report.step);
  fs::create_directories(directory_.numerics());
  write_file_atomic(file, json_of(report) + "\n");
  const NumericsFinding* first = report.first_out_of_range();
  json event = {
      {"event", "numerics"}, {"step", report.step}, {"tensors", report.findings.size()}, {"path", file.string()}};
  if (first) {
    event["first_out_of_range"] = std::string(name_of(first->record.row.kind)) + " " + first->record.row.name;
    event["overflow"] = first->overflow, event["underflow"] = first->underflow;
  }
  log_->event(text_of(event));
  if (echo_) echo_(text_of(event));
}

void RunRecorder::on_end(const Training&, const TrainingResult&) { write_times(); }

void RunRecorder::on_failure(const Training& training, const std::string& error) {
  log_->event(text_of({{"event", "end"},
                       {"status", "failed"},
                       {"steps", training.steps_done()},
                       {"error", error},
                       {"time", seconds_since_1970()}}));
}

void RunRecorder::write_times() {
  if (!training_) return;
  const double mean = steps_ > 0 ? seconds_ / static_cast<double>(steps_) : 0;
  write_file_atomic(directory_.times(), times_json(*training_, steps_, mean, machine_));
}

std::string RunRecorder::finish(const Training& training, const TrainingResult& result,
                                const std::string& weights_hash) {
  const auto samples = static_cast<double>(training.samples_per_step());
  json end = {{"event", "end"},
              {"status", result.interrupted ? "interrupted" : "done"},
              {"steps", result.steps},
              {"loss", number_json(number_of(result.last_step, "loss"))},
              {"weights_hash", weights_hash},
              {training.workload().units.name + "_per_second", result.units_per_second},
              {"step_seconds", result.step_seconds},
              {"samples_per_second", result.step_seconds > 0 ? samples / result.step_seconds : 0.0},
              {"planned_bytes", training.planned_bytes()},
              {"planned_host_bytes", training.host_memory().total()},
              {"measured_peak_bytes", measured_peak_bytes()},
              {"compile_seconds", training.compiled().seconds},
              {"devices", json::parse(devices_json(training.cluster()))},
              {"run_directory", directory_.path().string()},
              {"checkpoint", result.checkpoint.string()},
              {"time", seconds_since_1970()}};
  if (training.options().loss_scale.automatic)
    end["loss_scale"] = training.loss_scale().scale, end["skipped_steps"] = training.loss_scale().skipped;
  add(end, result.last_evaluation, "held_out_");
  add(end, result.best_evaluation, "best_");
  if (!result.best_evaluation.empty()) end["best_steps"] = result.best_steps;
  log_->event(text_of(end));
  const bool written = log_->flush();
  std::string warnings;
  if (log_->dropped() > 0)
    warnings += std::to_string(log_->dropped()) + " metrics were not logged: the disk was too slow\n";
  if (!written) warnings += "the end of the run's log could not be written (" + log_->problem() + ")\n";
  if (echo_) echo_(text_of(end));
  return warnings;
}

}  // namespace ramet::train
