#pragma once

// Published prediction files against published data files. Inside data/ and cli/ only.

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ramet/text/tasks/metrics.h"

namespace ramet::text {

struct ScoreRequest {
  std::string kind;  ///< one of published_task_names()
  std::filesystem::path data, predictions;
  /// conll: without a file of predictions, `data` has the right label in the last column but one, the predicted one in
  /// the last, as conlleval reads it.
  std::filesystem::path no_answer_probabilities{};  ///< squad2
  double no_answer_threshold = 1.0;                 ///< squad2
  std::vector<std::string> labels{};                ///< instead of the kind's
};

struct FileScores {
  Metrics metrics;      ///< the one that decides first
  int64_t scored = 0;   ///< examples (conll: sentences)
  int64_t missing = 0;  ///< questions without a prediction
  std::vector<std::pair<std::string, Metrics>> parts;  ///< conll: each type of chunk
};

/// Scores predictions as the task publishes it. Predictions are SQuAD's JSON (id to answer); for GLUE a TSV of index
/// and prediction, for CLUE JSON lines of id and label (or answer), every id once; for CoNLL columns with the predicted
/// label last. Error with file and line for all that is not so.
FileScores score_files(const ScoreRequest& request);

}  // namespace ramet::text
