#include "ramet/cli/command_table.h"

#include <CLI/CLI.hpp>
#include <limits>

#include "ramet/base/error.h"

namespace ramet::cli {
namespace {

/// CLI11 hides options in the group "".
template <typename Entry>
bool is_visible(const Entry* entry) {
  return !entry->get_group().empty();
}

/// "INT in [1 - 4096]": a check of the class CLI::Range.
void read_range(const std::string& check, ValueForm& form) {
  const size_t open = check.find(" in ["), middle = check.find(" - ");
  if (open == std::string::npos || middle == std::string::npos || !check.ends_with("]")) return;
  form.least = check.substr(open + 5, middle - open - 5);
  form.most = check.substr(middle + 3, check.size() - middle - 4);
  if (form.most == std::to_string(std::numeric_limits<int64_t>::max())) form.most.clear();
}

}  // namespace

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return (parent ? full_name(*parent) + " " : "") + command.get_name();
}

std::vector<const CLI::App*> visible_commands(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App* each) { return is_visible(each); });
}

const CLI::App& find_command(const CLI::App& command, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (each->get_name() == name) return *each;
    if (is_visible(each)) names.push_back(each->get_name());
  }
  const std::string near = nearest_name(name, names);
  throw Error({.what = "no such command",
               .where = command.get_parent() ? full_name(command) : "",
               .found = "'" + name.substr(0, 80) + "'",
               .expected = near.empty() ? "" : "perhaps '" + near + "'",
               .remedy = "`" + full_name(command) + " --help` lists the commands"});
}

std::string help_page(const CLI::App& command) {
  return command.get_formatter()->make_help(&command, full_name(command), CLI::AppFormatMode::Normal);
}

std::vector<const CLI::Option*> arguments_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return is_visible(option) && option->get_positional(); });
}

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return is_visible(option) && option->nonpositional(); });
}

ValueForm value_form(const CLI::Option& option) {
  ValueForm form;
  const std::vector<std::string> parts = CLI::detail::split(option.get_type_name(), ':');
  form.types = CLI::detail::split(parts[0], '|');
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].starts_with("{") && parts[i].ends_with("}"))
      form.words = CLI::detail::split(parts[i].substr(1, parts[i].size() - 2), ',');
    read_range(parts[i], form);
  }
  return form;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

}  // namespace ramet::cli
