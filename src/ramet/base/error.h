#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ramet/base/house.h"
#include "ramet/error.h"

namespace ramet {

using v0::Error;
using v0::ErrorKind;
using v0::ErrorParts;

/// Throws an `Error` of kind `kFailure` that says that Ramet itself is at fault. For states that no
/// input can reach; `where` names the function.
[[noreturn]] void internal_error(const std::string& where, const std::string& what);

/// The first of the candidates nearest to `word` by edit distance, or "" when none is near: more edits than one and a
/// third of the letters, or as many as there are letters. For "unknown key 'stepz'; did you mean 'steps'?".
template <typename Range>
std::string nearest_name(const std::string& word, const Range& candidates);

/// Levenshtein distance between two strings, in edits.
int edit_distance(const std::string& a, const std::string& b);

template <typename Range>
std::string nearest_name(const std::string& word, const Range& candidates) {
  std::string best;
  int best_distance = std::min(static_cast<int>(word.size() / 3) + 2, static_cast<int>(word.size()));
  for (const auto& candidate : candidates) {
    // Lengths alone can tell; so a word of megabytes costs nothing.
    const auto difference =
        static_cast<int64_t>(std::string_view(candidate).size()) - static_cast<int64_t>(word.size());
    if (std::abs(difference) >= best_distance) continue;
    const int distance = edit_distance(word, std::string(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = std::string(candidate);
    }
  }
  return best;
}

}  // namespace ramet
