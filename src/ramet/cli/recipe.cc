#include <CLI/CLI.hpp>
#include <cstdio>

#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/layout/layout.h"

namespace ramet::cli {

void add_recipe(CLI::App& app, Session& session) {
  struct Arguments {
    std::string file;
    std::vector<std::string> settings;
    bool complete = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("recipe", "Check a recipe and print it whole; --help documents every key");
  command->add_option("recipe", arguments->file, "file of the recipe")->type_name("RECIPE")->required();
  command->add_option("--set", arguments->settings, "change a key, as train.steps=100; may stand several times")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command->add_flag("--complete", arguments->complete, "fill in what the preset and the data decide");
  command->footer("A recipe is a TOML file. All keys:\n\n" + recipe_help() +
                  "\nA layout is a text, as \"p=2 t=2x1 r=2\", or a table [layout], of these keys:\n\n" +
                  layout_help());
  command->callback([arguments, &session] {
    session.action = [arguments] {
      const Recipe recipe = load_recipe(arguments->file, arguments->settings);
      std::fputs(print_recipe(arguments->complete ? prepare(recipe).recipe : recipe).c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace ramet::cli
