#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/sweep/space.h"

namespace ramet::sweep {

/// All that a sweep's file says. `sweep_help` documents every key.
struct SweepOptions {
  std::string name{};
  std::string recipe{};       ///< file of the recipe, absolute; "": `recipe_text`
  std::string recipe_text{};  ///< the recipe that stands in the file itself, as TOML
  std::string folder{};       ///< of relative paths in `recipe_text`
  std::string method = "random";
  int64_t points = 0;  ///< 0: all of the grid
  int64_t seeds = 1, seed = 0;
  std::string metric = "held_out_loss", goal = "min", of = "last";

  struct Stop {
    int64_t no_improvement = 0;  ///< points; 0: never
    double seconds = 0;          ///< 0: no limit
    std::optional<double> target{};
  } stop{};

  struct Resources {
    int64_t parallel = 1;
    int64_t threads = 0;   ///< of a run; 0: an equal share of the cores
    int64_t cores = 0;     ///< 0: all
    std::string memory{};  ///< "" : what is free when the sweep begins
  } use{};

  struct Tpe {
    int64_t first = 10, candidates = 24;
    double good = 0.1;
  } tpe{};

  struct Halving {
    std::string points = "random";
    int64_t steps = 0;
    double factor = 3;
  } halving{};

  std::vector<std::pair<std::string, RecipeValue>> settings{};  ///< keys of the recipe that all points share
  std::vector<Parameter> parameters{};                          ///< in alphabetical order of their keys

  bool maximizes() const { return goal == "max"; }
  bool halves() const { return method == "halving"; }
  /// How points are drawn: "grid", "random", "latin_hypercube" or "tpe".
  const std::string& drawing() const { return halves() ? halving.points : method; }
};

/// Parses a sweep's file. Relative paths are taken from `folder`. Throws Error with FILE:LINE and the key; an unknown
/// key names the nearest known one, of the sweep or of the recipe. Does not open the recipe.
SweepOptions parse_sweep(std::string_view text, const std::string& source, const std::filesystem::path& folder);
SweepOptions load_sweep(const std::filesystem::path& path);
/// Every key as TOML; parses back to equal options.
std::string print_sweep(const SweepOptions& options);
/// Documentation of every key.
std::string sweep_help();

/// The recipe that points change: that of the file or the text, with `settings`. Throws Error.
Recipe base_recipe(const SweepOptions& options);

}  // namespace ramet::sweep
