#include "ramet/recipe/event_predictor.h"

#include <cstring>

#include "ramet/base/error.h"
#include "ramet/recipe/kinds.h"
#include "ramet/train/feeder.h"

namespace ramet::recipe {
namespace {

const char* const kScore = "score";

template <typename T>
void append(NamedTensor& to, T value) {
  to.bytes.resize(to.bytes.size() + sizeof value);
  std::memcpy(to.bytes.data() + to.bytes.size() - sizeof value, &value, sizeof value);
}

}  // namespace

EventPredictor::EventPredictor(const Recipe& complete, const Layout& layout, const Where& where)
    : events_(open_events(complete)) {
  if (!events_.held_out) throw kind_of(complete).without_samples(complete, true);
  predictor_ = std::make_unique<Predictor>(build_tgn(tgn_config_of(complete), events_.task_of(complete)),
                                           complete.train, layout, where, std::vector<std::string>{kScore});
}

std::vector<NamedTensor> EventPredictor::predict() {
  const graphs::EventSource& source = *events_.held_out;
  const graphs::EventGraph& graph = *events_.graph;
  const int64_t batches = source.epoch_samples(0);
  Feeder feeder(events_.held_out, predictor_->cluster(), {.micro_batch = 1, .program = kScore, .count = batches});
  feeder.begin(0);
  const std::vector<ResultTensors> answers = predictor_->run(kScore, batches, batches, feeder.feed());
  NamedTensor event{"event", {DType::kI64, {}}, {}}, part{"part", {DType::kU8, {}}, {}},
      from{"source", {DType::kI32, {}}, {}}, to{"target", {DType::kI32, {}}, {}},
      negative{"negative", {DType::kI32, {}}, {}}, score{"score", {DType::kF32, {}}, {}},
      negative_score{"negative_score", {DType::kF32, {}}, {}};
  int64_t count = 0;
  for (int64_t i = 0; i < batches; ++i) {
    const graphs::EventRange events = source.events_of(i);
    const std::vector<int32_t> negatives = source.negatives_of(i);
    for (int64_t k = 0; k < events.size(); ++k, ++count) {
      const int64_t e = events.begin + k;
      append(event, e);
      append(part, static_cast<uint8_t>(graph.has_part("test") && e >= graph.part("test").begin ? 2 : 1));
      append(from, graph.source(e)), append(to, graph.target(e));
      append(negative, negatives[static_cast<size_t>(k)]);
      for (const ResultTensor& each : answers[static_cast<size_t>(i)])
        append(each.name == "event_score" ? score : negative_score, static_cast<float>(each.get(k)));
    }
  }
  std::vector<NamedTensor> results{event, part, from, to, negative, score, negative_score};
  for (NamedTensor& each : results) each.type.shape = Shape{count};
  return results;
}

}  // namespace ramet::recipe
