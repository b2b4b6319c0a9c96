#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ramet::cli {

// The program's commands and options, read from the tables of CLI11 that --help is printed from. docs/commands.md and
// the completion of shells are made with these functions, so neither can differ from --help.

/// "ramet runs export"
std::string full_name(const CLI::App& command);
/// The commands below `command` that --help lists, in its order.
std::vector<const CLI::App*> visible_commands(const CLI::App& command);
/// The command of this name below `command`, a hidden one too. Throws Error naming the nearest visible one.
const CLI::App& find_command(const CLI::App& command, const std::string& name);
/// The page that `ramet COMMAND --help` prints.
std::string help_page(const CLI::App& command);

/// Positional arguments, in the order in which they are typed.
std::vector<const CLI::Option*> arguments_of(const CLI::App& command);
/// All others, --help first.
std::vector<const CLI::Option*> options_of(const CLI::App& command);

/// What --help says of an option's value, which CLI11 keeps as one text: "N:INT in [1 - 4096]", "TEXT:{csv,json}".
struct ValueForm {
  std::vector<std::string>
      types;  ///< alternatives, in capitals but for words that are typed as they are: "RECIPE", "RUN"
  std::vector<std::string> words;  ///< the only values that are accepted; empty: others are, too
  std::string least, most;         ///< of a number; empty: no bound
};
ValueForm value_form(const CLI::Option& option);
/// Whether a value is typed behind the option's name.
bool takes_value(const CLI::Option& option);

}  // namespace ramet::cli
