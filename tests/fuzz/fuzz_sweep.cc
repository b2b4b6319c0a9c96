#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/sweep/draw.h"

using namespace ramet::tests;

// What parses also prints, and draws its first points.
RAMET_FUZZ_TARGET(sweep, std::string_view input) {
  SweepOptions options = ramet::sweep::parse_sweep(input, "fuzz.toml", "sweeps");
  if (options.recipe.empty()) options.recipe = "/recipe.toml", options.recipe_text.clear();
  const std::string printed = print_sweep(options);
  if (print_sweep(ramet::sweep::parse_sweep(printed, "printed.toml", "sweeps")) != printed)
    internal_error("sweep", "a sweep does not survive printing and parsing");
  options.use.parallel = 1;
  std::vector<TriedPoint> tried;
  for (int64_t i = 0; i < std::min<int64_t>(options.points, 12); ++i)
    tried.push_back({draw_point(options, i, tried), i % 3 == 0 ? std::nullopt : std::optional(static_cast<double>(i))});
}

RAMET_FUZZ_SEEDS(sweep) {
  return {
      .inputs = {"recipe = \"a.toml\"\npoints = 12\nmethod = \"tpe\"\n[tpe]\nfirst = 3\n[parameters]\n"
                 "'train.schedule.learning_rate' = {low = 1e-5, high = 1e-2, scale = \"log\"}\n"
                 "'train.precision' = [\"f32\", \"bf16\"]\n'model.layers' = {low = 2, high = 8, step = 2}\n",
                 "method = \"grid\"\nseeds = 2\n[recipe]\nname = \"x\"\n[recipe.train]\nsteps = 4\n[parameters]\n"
                 "train.seed = [1, 2]\ntrain.clip_norm = {low = 0, high = 1, grid = 3}\n[set]\ntrain.steps = 9\n",
                 "recipe = \"b\"\npoints = 9\nmethod = \"halving\"\n[halving]\npoints = \"latin_hypercube\"\nsteps = "
                 "2\nfactor = 2.5\n[parameters]\n'train.optimizer.nesterov' = [true, false]\n[stop]\nseconds = "
                 "3\n[use]\nparallel = 2\nmemory = \"1GiB\"\n"},
      .words = {"[parameters]\n",
                "[set]\n",
                "[stop]\n",
                "[use]\n",
                "[tpe]\n",
                "[halving]\n",
                "[recipe]\n",
                "low = ",
                "high = ",
                "step = ",
                "grid = ",
                "scale = \"log\"",
                "values = [",
                "1e-300",
                "1e300",
                "9223372036854775807",
                "-1",
                "nan",
                "inf",
                "true",
                "'train.steps'",
                "\"layout\" = [\"p=2\"]",
                "goal = \"max\"\n",
                "target = ",
                "no_improvement = 3\n",
                "{}",
                "[]",
                "1979-05-27",
                "\\u0000"}};
}
