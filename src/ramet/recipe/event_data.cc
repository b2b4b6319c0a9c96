#include "ramet/recipe/event_data.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/recipe/arrays.h"

namespace ramet::recipe {
namespace {

using graphs::EventGraph;
using graphs::EventOptions;
using graphs::EventRoom;
using graphs::EventSource;
using graphs::EventUse;

bool evaluates(const Recipe& recipe, const EventGraph& graph) {
  return !recipe.data.events.split.empty() && graph.has_part(recipe.data.events.held_out);
}

/// Room for every sample of the run: the exact maximum where the run's epochs are known.
EventRoom room_of(const Recipe& recipe, const EventGraph& graph, const EventOptions& options) {
  if (!recipe.train.epochs) return EventSource::most_room(graph, options);
  const int64_t samples = (graph.part("train").size() + options.batch - 1) / options.batch;
  // The last step may go beyond the last epoch.
  const int64_t trained = static_cast<int64_t>(std::ceil(*recipe.train.epochs)) * samples + recipe.train.accumulation;
  EventRoom room = EventSource::room_of(graph, options, EventUse::kTrain, "", trained);
  // Of all that may be evaluated, so that the room does not depend on which part is.
  const std::string last = graph.has_part("test") ? "test" : "validation";
  if (recipe.data.events.split.empty() || !graph.has_part(last)) return room;
  const int64_t held_out = graph.events() - graph.part("train").end;
  const EventRoom more = EventSource::room_of(graph, options, EventUse::kEvaluate, last, held_out / options.batch + 2);
  for (int64_t EventRoom::* const part :
       {&EventRoom::members, &EventRoom::others, &EventRoom::neighbors, &EventRoom::edges})
    room.*part = std::max(room.*part, more.*part);
  return room;
}

}  // namespace

TgnTask OpenedEvents::task_of(const Recipe& recipe) const {
  return {.room = train->room(),
          .nodes = graph->nodes(),
          .batch = recipe.data.events.batch,
          .message_width = graph->message_width(),
          .seed = recipe.train.seed};
}

OpenedEvents open_events(const Recipe& recipe) {
  const auto& data = recipe.data.events;
  if (data.set.empty())
    throw Error({.what = "a temporal graph network needs a graph set of events",
                 .where = recipe.where("data.events.set"),
                 .remedy = "Make one with `ramet graphs prepare events`"});
  const auto set = for_key(recipe, "data.events.set",
                           [&] { return std::make_shared<const graphs::GraphSet>(graphs::GraphSet::open(data.set)); });
  OpenedEvents opened;
  opened.graph =
      for_key(recipe, "data.events.split", [&] { return std::make_shared<const EventGraph>(set, data.split); });
  const EventOptions options{
      .batch = data.batch,
      .recent = data.recent,
      .negatives = data.negatives == "strict" ? graphs::Negatives::kStrict : graphs::Negatives::kRandom,
      .seed = static_cast<uint64_t>(recipe.train.seed)};
  const EventRoom room = room_of(recipe, *opened.graph, options);
  opened.exact = recipe.train.epochs.has_value();
  opened.train = for_key(recipe, "data.events.negatives", [&] {
    return std::make_shared<const EventSource>(opened.graph, options, EventUse::kTrain, "", room);
  });
  if (evaluates(recipe, *opened.graph))
    opened.held_out = for_key(recipe, "data.events.held_out", [&] {
      return std::make_shared<const EventSource>(opened.graph, options, EventUse::kEvaluate, data.held_out, room);
    });
  return opened;
}

TgnConfig tgn_config_of(const Recipe& recipe) {
  const auto& tgn = recipe.model.tgn;
  return {
      .memory = tgn.memory, .time = tgn.time, .embedding = tgn.embedding, .heads = tgn.heads, .dropout = tgn.dropout};
}

}  // namespace ramet::recipe
