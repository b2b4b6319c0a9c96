#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ramet/data/source.h"
#include "ramet/model/model.h"
#include "ramet/runtime/cluster.h"
#include "ramet/train/metrics.h"

namespace ramet::train {

/// An evaluation other than that of the model's metrics on held-out samples. Under MPI every rank has
/// one, and all make the same calls in the same order.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// The program that it runs.
  virtual std::string program() const = 0;
  /// The programs that it runs where the rows of tables live in streaming memory (layout key offload=rows) and no
  /// program can read a whole table. Empty: it has none, and such a layout is refused.
  virtual std::vector<NamedGraph> programs_by_rows() const { return {}; }
  /// The numbers for the cluster's current weights; the first one decides which checkpoint is best. On the leading
  /// rank; empty on other ranks, and when there is nothing to evaluate on. An exception on one rank ends all ranks.
  virtual Numbers evaluate(Cluster& cluster) = 0;
  /// Whether a greater first number means better weights, so that those of the best evaluation are worth a checkpoint
  /// of their own. Such a run is not evaluated before its first step.
  virtual bool finds_best() const { return false; }
};

/// A table of which a micro-batch reads some rows: a weight, and the data inputs whose values are the numbers of these
/// rows. The model reads such an input for nothing else.
struct RowInputs {
  std::string weight;
  std::vector<std::string> inputs;
};

/// Everything that a training run needs except its options, its layout and a place: the model and its data.
struct Workload {
  Model model;
  std::shared_ptr<const Source> train;     ///< null: evaluations alone
  std::shared_ptr<const Source> held_out;  ///< null: nothing is held out
  std::unique_ptr<Evaluator> evaluator;    ///< null: the model's metrics on held-out samples
  Units units;
  std::string data_identity;  ///< hash of the data, which a checkpoint keeps; "": made of the seed alone
  /// Hash of the text that a person wrote and that decides the numbers of the run (a recipe). Checkpoints keep it; "":
  /// not compared.
  std::string recipe_identity;
  std::string init_from;             ///< weights to begin from: a file, a published folder or a checkpoint; "": drawn
  int prefetch = 2;                  ///< batches made ahead of their use
  std::vector<std::string> remarks;  ///< warnings before the run
  std::vector<std::string> notes;    ///< what is good to know before the run: the room of batches, and what sets it
  std::vector<RowInputs> rows{};     ///< tables that a layout may leave in streaming memory (offload=rows)
};

}  // namespace ramet::train
