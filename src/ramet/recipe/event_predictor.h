#pragma once

#include <memory>
#include <vector>

#include "ramet/layout/layout.h"
#include "ramet/recipe/event_data.h"
#include "ramet/train/predictor.h"

namespace ramet::recipe {

/// What a temporal graph network says of the events that a recipe holds out (data.events.held_out). It goes through
/// them in order, from the memory of the weights' checkpoint on. Under MPI every rank has one, and all make the same
/// calls.
class EventPredictor {
 public:
  /// Throws Error where no part of the events is held out.
  EventPredictor(const Recipe& complete, const Layout& layout, const Where& where);

  Predictor& predictor() { return *predictor_; }  ///< for its weights
  /// One row for each event, in order of time: "event" i64, its number in this order; "part" u8, 1 for validation and 2
  /// for test; "source", "target" and "negative" i32, numbers of nodes; "score" f32 of the event, and "negative_score"
  /// f32 of the same source with the wrong destination.
  std::vector<NamedTensor> predict();

 private:
  OpenedEvents events_;
  std::unique_ptr<Predictor> predictor_;
};

}  // namespace ramet::recipe
