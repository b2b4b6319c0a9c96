#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/recipe/recipe.h"

using namespace ramet::tests;

// What stands behind a form feed is taken as settings, one a line, as `--set` gives them.
RAMET_FUZZ_TARGET(recipe, std::string_view input) {
  const size_t cut = std::min(input.find('\f'), input.size());
  std::vector<std::string> settings;
  for (size_t at = cut + 1; at < input.size();) {
    const size_t end = std::min(input.find('\n', at), input.size());
    settings.emplace_back(input.substr(at, end - at));
    at = end + 1;
  }
  const Recipe recipe = parse_recipe(input.substr(0, cut), "fuzz.toml", "recipes", settings);
  const std::string printed = print_recipe(recipe);
  const Recipe again = parse_recipe(printed, "printed.toml", "", {});
  if (print_recipe(again) != printed) internal_error("recipe", "a recipe does not survive printing and parsing");
}

RAMET_FUZZ_SEEDS(recipe) {
  fuzz::Seeds seeds = {.inputs = {"name = \"x\"\n[model]\nkind = \"bert\"\npreset = \"mini\"\n[train]\nsteps = "
                                  "10\nlanes = 2\nprecision = \"f32\"\n",
                                  "train.schedule = {kind = \"cosine\", learning_rate = 1e-3, warmup_steps = "
                                  "5}\n[data]\nkind = \"synthetic\"\n",
                                  "\ftrain.steps=7\nmodel.dropout=0.2\ndata.kind=text\ndata.corpus=a/b\n"},
                       .words = {"[[train]]", "= true", "= []", "= {}", "1979-05-27", "0x10", "1_000", "+inf", "'''",
                                 "\"\"\"", "\\u0000", "\f", "="}};
  for (const auto& key : recipe_keys()) {
    seeds.words.push_back(key.name);
    for (const auto& choice : key.choices) seeds.words.push_back('"' + choice + '"');
  }
  return seeds;
}
