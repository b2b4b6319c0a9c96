// The pages of --help: each alone, and all of them as the page docs/commands.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "ramet/base/error.h"
#include "ramet/cli/command_table.h"
#include "ramet/cli/commands.h"

namespace ramet::cli {
namespace {

struct HelpArguments {
  std::vector<std::string> command;
  bool markdown = false;
};

/// Text of a help page as Markdown. What stands in backticks is code in both.
std::string marked(const std::string& text) {
  std::string result;
  bool code = false;
  for (const char c : text) {
    if (c == '`') code = !code;
    if (!code && (c == '*' || c == '<' || c == '[')) result += '\\';
    result += c;
  }
  return result;
}

/// One cell of a table: there a bar must be escaped even in code.
std::string cell(const std::string& text) { return CLI::detail::find_and_replace(text, "|", "\\|"); }

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  return CLI::detail::join(words, between);
}

/// "from 1 to 4096"
std::string range_text(const ValueForm& form) {
  if (form.least.empty()) return "";
  return form.most.empty() ? form.least + " or more" : "from " + form.least + " to " + form.most;
}

/// What --help says beside the description: bounds, the default, and which options exclude each other.
std::string facts_of(const CLI::Option& option, const ValueForm& form) {
  std::string text;
  const auto add = [&](const std::string& fact) { text += fact.empty() ? "" : "; " + fact; };
  if (!takes_value(option)) return text;
  add(range_text(form));
  const std::string usual = option.get_default_str();
  if (!usual.empty() && option.get_description().find("(default: ") == std::string::npos)
    add("default: `" + usual + "`");
  if (option.get_required() && !option.get_positional()) add("required");
  std::vector<std::string> excluded;
  for (const CLI::Option* other : option.get_excludes()) excluded.push_back("`" + other->get_name() + "`");
  std::sort(excluded.begin(), excluded.end());
  if (!excluded.empty()) add("not with " + joined(excluded, ", "));
  return text;
}

std::string row_of(const CLI::Option& option) {
  const ValueForm form = value_form(option);
  std::string name = option.get_name(option.get_positional(), true);
  if (takes_value(option)) name += " " + joined(form.words.empty() ? form.types : form.words, "|");
  if (option.get_expected_max() > 1) name += " ...";
  return "| `" + cell(name) + "` | " + cell(marked(option.get_description()) + facts_of(option, form)) + " |\n";
}

std::string rows_of(const std::string& head, const std::vector<const CLI::Option*>& options) {
  std::string rows;
  for (const CLI::Option* option : options)
    if (option->get_name() != "--help") rows += row_of(*option);
  return rows.empty() ? "" : "| " + head + " | |\n| --- | --- |\n" + rows + "\n";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The line "Usage: ..." of the help page, without its first word.
std::string usage_of(const CLI::App& command) {
  const std::string page = help_page(command), mark = "\nUsage: ";
  const size_t at = page.find(mark) + mark.size();
  return page.substr(at, page.find('\n', at) - at);
}

/// Footers are sentences, but for those with lists of keys, whose lines stay as they are.
std::string footer_of(const CLI::App& command) {
  const std::string text = command.get_footer();
  if (text.empty()) return "";
  const bool is_list = text.find("\n ") != std::string::npos;
  return is_list ? "```text\n" + text + (text.ends_with("\n") ? "" : "\n") + "```\n\n" : marked(text) + "\n\n";
}

/// "ramet-runs-export": what a link to the section of a command ends with.
std::string anchor_of(const CLI::App& command) { return CLI::detail::find_and_replace(full_name(command), " ", "-"); }

std::string list_of_commands(const CLI::App& command) {
  std::string text = "| command | |\n| --- | --- |\n";
  for (const CLI::App* each : visible_commands(command))
    text += "| [`" + full_name(*each) + "`](#" + anchor_of(*each) + ") | " +
            cell(marked(first_line(each->get_description()))) + " |\n";
  return text + "\n";
}

std::string section_of(const CLI::App& command, int level) {
  std::string text = std::string(static_cast<size_t>(level), '#') + " " + full_name(command) + "\n\n";
  std::istringstream lines(command.get_description());
  for (std::string line; std::getline(lines, line);) text += marked(line) + "\n\n";
  text += "    " + usage_of(command) + "\n\n";
  text += rows_of("argument", arguments_of(command)) + rows_of("option", options_of(command));
  if (!visible_commands(command).empty()) text += list_of_commands(command);
  text += footer_of(command);
  for (const CLI::App* each : visible_commands(command)) text += section_of(*each, level + 1);
  return text;
}

std::string markdown_of(const CLI::App& root) {
  std::string text =
      "# Commands\n\n"
      "`ramet help --markdown` prints this page from the tables that `--help` is printed from; a test compares the "
      "two.\n"
      "Each command takes `--help` and `ramet` itself `--version`. In a shell, the tab key completes commands, options "
      "and\n"
      "values: see [`ramet completion`](#ramet-completion). `...` marks what may be given several times.\n\n" +
      list_of_commands(root);
  for (const CLI::App* command : visible_commands(root)) text += section_of(*command, 2);
  text.pop_back();  // the empty line behind the last section
  return text;
}

}  // namespace

void add_help(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<HelpArguments>();
  CLI::App* command = app.add_subcommand("help", "Print the help of a command, or all help as Markdown");
  auto* names = command->add_option("command", arguments->command, "a command and, for some, its subcommand")
                    ->type_name("COMMAND");
  command->add_flag("--markdown", arguments->markdown, "print all help as one page of Markdown (docs/commands.md)")
      ->excludes(names);
  command->callback([arguments, &app, &session] {
    session.action = [arguments, &app] {
      const CLI::App* asked = &app;
      for (const std::string& name : arguments->command) asked = &find_command(*asked, name);
      std::fputs((arguments->markdown ? markdown_of(app) : help_page(*asked)).c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace ramet::cli
