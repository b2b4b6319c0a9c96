#pragma once

#include <memory>
#include <vector>

#include "ramet/layout/layout.h"
#include "ramet/recipe/graph_data.h"
#include "ramet/train/feeder.h"
#include "ramet/train/predictor.h"

namespace ramet::recipe {

/// What a network for graphs answers for the part of its data that a recipe holds out (data.graphs.held_out), or for
/// all of the data where the recipe has no split. Under MPI every rank has one, and all make the same calls.
class GraphPredictor {
 public:
  GraphPredictor(const Recipe& complete, const Layout& layout, const Where& where);

  Predictor& predictor() { return *predictor_; }  ///< for its weights
  /// One row for each graph (or node): "graph" ("node") i64, its number in the set; what the program "predict" gives;
  /// and "targets", the true numbers in the targets' unit, or "labels", where they are known to belong to the part.
  /// Rows are in the order of the numbers. Of several tasks the names begin with the task's, "qm9_values"; answers for
  /// edges have their numbers in "edge".
  std::vector<NamedTensor> predict(const RequestProgress& progress = {});

  /// Where one answer lies: the pack, and the place in it.
  struct AnswerPlace {
    int64_t pack, place;
  };

 private:
  struct Places {
    NamedTensor numbers{};
    std::vector<AnswerPlace> in_order{};
  };
  Places places_of(Per per, int64_t packs) const;
  /// Adds what there is of the tasks at one level.
  void add_tasks(Per per, int64_t packs, const std::vector<NamedTensor>& answers, const Batch& labels,
                 std::vector<NamedTensor>& results) const;

  OpenedGraphs graphs_;
  std::shared_ptr<const graphs::GraphSource> source_;
  std::unique_ptr<Predictor> predictor_;
};

}  // namespace ramet::recipe
