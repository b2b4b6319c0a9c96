#pragma once

// The tables of a recipe's keys, a file each. Inside recipe/ only.

#include <vector>

#include "ramet/recipe/recipe.h"

namespace ramet::recipe {

inline constexpr double kManySteps = 1e9;      // of steps, batches and sizes: more is a slip of the keyboard
inline constexpr double kAnyInteger = 9.2e18;  // what 63 bits hold

#define RAMET_FIELD(member) [](Recipe& recipe) -> RecipeField { return &recipe.member; }

std::vector<RecipeKey> common_keys();    ///< of every recipe
std::vector<RecipeKey> language_keys();  ///< that models of text share
std::vector<RecipeKey> bert_keys();
std::vector<RecipeKey> task_keys();
std::vector<RecipeKey> model_file_keys();
std::vector<RecipeKey> array_keys();  ///< that models that read arrays share
std::vector<RecipeKey> image_keys();
std::vector<RecipeKey> sparse_keys();
std::vector<RecipeKey> graph_keys();
std::vector<RecipeKey> knowledge_keys();
std::vector<RecipeKey> walk_keys();
std::vector<RecipeKey> tgn_keys();

}  // namespace ramet::recipe
