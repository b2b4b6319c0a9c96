#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/recipe/recipe.h"
#include "ramet/text/task.h"
#include "ramet/text/tokenizer.h"
#include "ramet/train/compile.h"

namespace ramet::recipe {

/// The model whose answers a task is learned from beside its labels (knowledge distillation: Hinton et al. 2015, arXiv
/// 1503.02531): a run of a task, one of its checkpoints, or a published model with a head for the same labels. It reads
/// the same texts with its own tokenizer, and its sizes, precision and sparse weights are its own. Its answers do not
/// depend on layouts and threads; they are computed once, and kept in memory and in the cache folder.
class Teacher {
 public:
  /// Of a recipe whose task is opened; `texts`: those that it trains on. Throws Error, naming task.teacher, for a task
  /// of another kind than one label a text, a folder that is no such model, and a model of other labels.
  Teacher(const Recipe& student, const TaskSplit& texts);

  /// Hash of all that decides the answers beside the texts.
  Hash identity() const { return identity_; }
  /// Computes the answers, unless that is done, with the threads, the kind of device and the progress of `where`.
  void answer(const Where& where);
  /// The logits of a text, by its number; computes all of them when none was. From any thread.
  std::span<const float> logits(int64_t feature);

 private:
  std::vector<float> compute(const Where& where) const;

  std::filesystem::path folder_;                     ///< as it was named
  std::optional<std::filesystem::path> checkpoint_;  ///< of a run
  Recipe recipe_;                                    ///< complete
  std::string where_;                                ///< of errors
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const TaskSet> task_;
  int64_t texts_ = 0, classes_ = 0;
  Hash identity_;
  std::string subject_;  ///< of kept answers, without the texts and the device
  std::mutex mutex_;
  std::vector<float> logits_;  ///< [texts, classes], once they are computed
};

/// The recipe of a model that answers alone: the teacher that it learned from may be gone.
Recipe without_teacher(Recipe recipe);

}  // namespace ramet::recipe
