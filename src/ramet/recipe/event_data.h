#pragma once

#include <memory>

#include "ramet/graphs/events.h"
#include "ramet/model/tgn.h"
#include "ramet/recipe/recipe.h"

namespace ramet::recipe {

/// The events of a recipe: samples to train on and, where a part is held out, to evaluate on, in one room.
struct OpenedEvents {
  std::shared_ptr<const graphs::EventGraph> graph;
  std::shared_ptr<const graphs::EventSource> train, held_out;  ///< held_out: null where no part is
  bool exact = false;                                          ///< whether the room is the least that fits

  TgnTask task_of(const Recipe& recipe) const;
};

/// Opens the graph set of a recipe and finds the room of its samples. Throws Error naming the key that is wrong.
OpenedEvents open_events(const Recipe& recipe);
/// The sizes of the recipe's network.
TgnConfig tgn_config_of(const Recipe& recipe);

}  // namespace ramet::recipe
