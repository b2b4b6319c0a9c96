#include "ramet/recipe/arrays.h"

namespace ramet::recipe {

void check_held_out(const Recipe& recipe) {
  const auto& data = recipe.data;
  if (data.held_out_share == 0) return;
  const bool nothing = data.kind == "arrays" && data.train.empty();
  if (nothing || !data.held_out.empty())
    throw Error({.what = nothing ? "a share of no samples cannot be held out"
                                 : "held-out samples are a file or a share, not both",
                 .where = recipe.where("data.held_out_share"),
                 .remedy = nothing ? "Set data.train" : "Leave one of the two out"});
}

Error without_arrays(const Recipe& recipe, bool held_out) {
  if (!held_out)
    return Error({.what = "the recipe names no arrays to train on",
                  .where = recipe.where("data.train"),
                  .remedy = "Set data.train"});
  return Error({.what = "the recipe holds no samples out for evaluation",
                .where = recipe.where("data.held_out"),
                .remedy = "Set data.held_out to a file of arrays, or data.held_out_share"});
}

}  // namespace ramet::recipe
