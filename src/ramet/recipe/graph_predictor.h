#pragma once

#include <memory>
#include <vector>

#include "ramet/layout/layout.h"
#include "ramet/recipe/graph_data.h"
#include "ramet/train/feeder.h"
#include "ramet/train/predictor.h"

namespace ramet::recipe {

/// The answers of the program "predict" by number. `answers` are its results for all packs of the first epoch of
/// `source`, [packs, items, ...]. One row for each graph (or node): "graph" ("node") i64, its number in the set; the
/// results; and "targets", the true numbers in the targets' unit, or "labels", where they are known to belong to the
/// part. Rows are in the order of the numbers. Of several tasks the names begin with the task's, "qm9_values"; answers
/// for edges have their numbers in "edge".
std::vector<NamedTensor> answers_by_number(const OpenedGraphs& graphs, const graphs::GraphSource& source,
                                           std::vector<NamedTensor> answers);

/// What a network for graphs answers for the part of its data that a recipe holds out (data.graphs.held_out), or for
/// all of the data where the recipe has no split. Under MPI every rank has one, and all make the same calls.
class GraphPredictor {
 public:
  GraphPredictor(const Recipe& complete, const Layout& layout, const Where& where);

  Predictor& predictor() { return *predictor_; }  ///< for its weights
  /// As answers_by_number says.
  std::vector<NamedTensor> predict(const RequestProgress& progress = {});

 private:
  OpenedGraphs graphs_;
  std::shared_ptr<const graphs::GraphSource> source_;
  std::unique_ptr<Predictor> predictor_;
};

}  // namespace ramet::recipe
