#include "ramet/api/engine.h"

#include <filesystem>

#include "ramet/predict.h"
#include "ramet/train/predictor.h"

namespace ramet::v0 {
namespace {

constexpr const char* kLayout = "PredictOptions::layout";

train::Where where_of(const PredictOptions& options) {
  train::Where where = api::engine_where(options.threads, options.device_memory, options.device);
  where.layout_source = kLayout;
  return where;
}

/// The programs to compile, which the model must have.
std::vector<std::string> programs_of(const Model& model, const PredictOptions& options) {
  std::vector<std::string> programs = options.programs;
  if (programs.empty()) programs.push_back(api::kPredict);
  for (const std::string& program : programs) model.contents().request(program);
  return programs;
}

}  // namespace

struct Predictor::State {
  Model model;
  train::Predictor predictor;

  State(const Model& the_model, const std::string& weights, const PredictOptions& asked)
      : model(the_model),
        predictor(model.contents().engine,
                  api::engine_options({.precision = asked.precision, .chunks = asked.chunks}, model.contents()),
                  layout::parse_layout(asked.layout, kLayout), where_of(asked), programs_of(model, asked)) {
    if (weights.empty())
      predictor.initialize();
    else
      predictor.load(std::filesystem::path(weights));
  }

  Arrays run(const std::string& program, const NamedViews& samples, bool pads) {
    return api::run_request(
        predictor.program(program), model.contents().engine, samples, pads,
        [&](int64_t batches, int64_t count, const runtime::ClusterFeed& feed, const runtime::Wanted& wanted) {
          return predictor.run(program, batches, count, feed, wanted);
        });
  }
};

Predictor::Predictor(const Model& model, const std::string& weights, const PredictOptions& options)
    : state_(std::make_unique<State>(model, weights, options)) {}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

Arrays Predictor::predict(const NamedViews& samples) { return state_->run(api::kPredict, samples, true); }

Arrays Predictor::run(const std::string& program, const NamedViews& samples) {
  return state_->run(program, samples, false);
}

CallTimes Predictor::times() const {
  const train::PredictionTimes& times = state_->predictor.times();
  return {.calls = times.calls,
          .samples = times.samples,
          .seconds = times.seconds,
          .median = times.latency(0.5),
          .p90 = times.latency(0.9),
          .p99 = times.latency(0.99)};
}

int64_t Predictor::bytes() const { return state_->predictor.planned_bytes(); }

std::string Predictor::weights_hash() const { return state_->predictor.weights_hash(); }

}  // namespace ramet::v0
