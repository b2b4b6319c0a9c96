#pragma once

// What the kinds of recipes share whose models read arrays. Inside recipe/ only.

#include <string>
#include <utility>

#include "ramet/base/error.h"
#include "ramet/recipe/recipe.h"

namespace ramet::recipe {

/// What `act` makes; its errors name the key of the recipe that they follow from.
template <typename Act>
auto for_key(const Recipe& recipe, const std::string& key, Act act) {
  try {
    return act();
  } catch (const Error& error) {
    ErrorParts parts = error.parts();
    parts.where = recipe.where(key) + (parts.where.empty() ? "" : ", " + parts.where);
    throw Error(std::move(parts), error.kind());
  }
}

/// Refuses a share of nothing, and held-out samples that are given in two ways.
void check_held_out(const Recipe& recipe);

/// The error of a command that needs samples to train on, or held-out ones.
Error without_arrays(const Recipe& recipe, bool held_out);

}  // namespace ramet::recipe
