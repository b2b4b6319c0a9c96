#pragma once

#include <optional>
#include <string>

#include "ramet/cli/commands.h"

namespace ramet::cli {

/// What `ramet plan` is asked of a search for a layout.
struct SearchArguments {
  std::string machine;  ///< a preset or a file; empty: the one at hand
  int candidates = 24;
  int64_t samples = 0;
  bool explain = false;
};
void add_search_options(CLI::App& command, SearchArguments& arguments);

/// `ramet plan RECIPE --layout auto`: searches and prints. Returns the exit status.
int plan_search(const std::string& recipe, const ModelOptions& options, const SearchArguments& arguments, bool json);

/// The recipe with the best layout for this machine, for `ramet train RECIPE --layout auto`. Prints the layout to
/// stderr.
Recipe with_best_layout(const Recipe& recipe, const ModelOptions& options, bool json);

}  // namespace ramet::cli
