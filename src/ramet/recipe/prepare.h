#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "ramet/layout/layout.h"
#include "ramet/recipe/recipe.h"
#include "ramet/text/task.h"
#include "ramet/text/tokenizer.h"
#include "ramet/train/training.h"

namespace ramet::recipe {

class Teacher;

/// A prepared recipe: its workload, options and layout, and the data and configuration that the workload was made of.
struct Preparation {
  Recipe recipe;  ///< complete: every field that decides a number is set
  Workload workload;
  TrainOptions options;                        ///< those of the recipe
  Layout layout;                               ///< fits the model and the options
  std::shared_ptr<const Tokenizer> tokenizer;  ///< of the corpus or the task; null for synthetic data
  std::shared_ptr<const TaskSet> task;         ///< of a task recipe
  std::shared_ptr<Teacher> teacher;            ///< of a task recipe that has one; else null
  std::filesystem::path model_file;            ///< of a recipe of a model file, which its run keeps; else empty

  int64_t samples_per_step() const { return options.micro_batch * options.accumulation; }
  int64_t units_per_step() const { return samples_per_step() * workload.units.per_sample; }
};

/// Opens the data, completes the recipe and builds the model. Throws Error naming the recipe's line for sizes that
/// contradict each other, the data or the weights to begin from, and for layouts that do not fit them.
Preparation prepare(const Recipe& recipe);

/// The training of a preparation, once a teacher has answered; `where.layout_source` is the recipe's.
Training make_training(Preparation preparation, Where where);
/// Only its programs, for this machine or another (train/compile.h).
CompiledWorkload compile_recipe(const Preparation& preparation, Where where);
CompiledWorkload compile_recipe(const Preparation& preparation, const Machine& machine, Where where);

/// The recipe with every unset size filled in, from the preset and, for text, from the vocabulary's size. `prepare`
/// does it.
Recipe complete_recipe(Recipe recipe, int64_t corpus_vocabulary = 0);

/// Only the model of a complete recipe, with the passes that it asks for.
Model build_model(const Recipe& complete);

}  // namespace ramet::recipe
