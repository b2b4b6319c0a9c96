#include "ramet/cli/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "ramet/cli/command_table.h"
#include "ramet/cli/commands.h"
#include "ramet/machine/machine_toml.h"
#include "ramet/sweep/sweep_folder.h"
#include "ramet/text/task.h"
#include "ramet/track/run_directory.h"

namespace ramet::cli {
namespace {

/// The command line up to the word that is being typed.
struct TypedLine {
  const CLI::App* command = nullptr;      ///< the innermost command named
  const CLI::Option* option = nullptr;    ///< the option whose value is being typed, or may be
  bool wants_value = false;               ///< the word can be nothing but a value of `option`
  bool options_ended = false;             ///< behind "--"
  std::vector<std::string> arguments;     ///< positional arguments that are complete
  std::vector<const CLI::Option*> given;  ///< options that are complete
  std::string runs = "runs";              ///< the folder of runs
};

void add_words(Completion& to, const std::vector<std::string>& words) {
  for (const std::string& word : words) to.words.push_back({word, ""});
}

/// "latest", and the runs in the folder of runs.
void offer_runs(Completion& to, const TypedLine& line, const std::string&) {
  to.words.push_back({"latest", "the newest run"});
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(line.runs, error))
    if (is_run(entry.path())) add_words(to, {entry.path().filename().string()});
}

void offer_sweeps(Completion& to, const TypedLine& line, const std::string&) {
  add_words(to, sweep::list_sweeps(line.runs));
}

void offer_machines(Completion& to, const TypedLine&, const std::string&) {
  for (const MachinePreset& preset : machine_presets()) to.words.push_back({preset.name, "a preset"});
}

void offer_tasks(Completion& to, const TypedLine&, const std::string&) { add_words(to, published_task_names()); }

void offer_layouts(Completion& to, const TypedLine&, const std::string&) {
  to.words.push_back({"auto", "the fastest layout that is found"});
}

/// The values of a key that takes fixed words, a path or yes and no.
void add_values(Completion& to, const RecipeKey& key) {
  Recipe recipe;
  if (std::holds_alternative<bool*>(key.field(recipe))) add_words(to, {"true", "false"});
  add_words(to, key.choices);
  if (key.kind == RecipeKey::Kind::kPath) to.paths = PathKind::kFiles;
}

/// Keys of a recipe, as "train.steps="; behind the "=", the key's values.
void offer_keys(Completion& to, const TypedLine&, const std::string& typed) {
  const size_t equals = typed.find('=');
  Recipe recipe;
  for (const RecipeKey& key : recipe_keys()) {
    const bool is_table = std::holds_alternative<std::vector<GroupOptions>*>(key.field(recipe));
    if (equals == std::string::npos && !is_table) to.words.push_back({key.name + "=", key.doc});
    if (typed.substr(0, equals) == key.name && equals != std::string::npos) add_values(to, key);
  }
}

void add_subcommands(Completion& to, const CLI::App& command) {
  for (const CLI::App* each : visible_commands(command))
    to.words.push_back({each->get_name(), each->get_description()});
}

const CLI::App* subcommand_of(const CLI::App& command, const std::string& name) {
  for (const CLI::App* each : visible_commands(command))
    if (each->get_name() == name) return each;
  return nullptr;
}

/// Arguments that are commands themselves: the next one below those that are named already.
void offer_commands(Completion& to, const TypedLine& line, const std::string&) {
  const CLI::App* named = line.command->get_parent();
  for (const std::string& name : line.arguments)
    if (named) named = subcommand_of(*named, name);
  if (named) add_subcommands(to, *named);
}

/// What completes a value, by the name of its type in --help. Types that are not here, as N or SECONDS, complete to
/// nothing.
struct TypeSource {
  const char* type;
  PathKind paths;
  void (*add)(Completion&, const TypedLine&, const std::string& typed);
};
constexpr TypeSource kSources[] = {
    {"RECIPE", PathKind::kFiles, nullptr},        {"FILE", PathKind::kFiles, nullptr},
    {"FILE.pftrace", PathKind::kFiles, nullptr},  {"PATH", PathKind::kFiles, nullptr},
    {"DATA", PathKind::kFiles, nullptr},          {"PREDICTIONS", PathKind::kFiles, nullptr},
    {"DIR", PathKind::kFolders, nullptr},         {"CHECKPOINT", PathKind::kFolders, nullptr},
    {"RUN", PathKind::kFolders, offer_runs},      {"MACHINE", PathKind::kFiles, offer_machines},
    {"LAYOUT", PathKind::kFiles, offer_layouts},  {"TASK", PathKind::kNone, offer_tasks},
    {"SWEEP", PathKind::kFolders, offer_sweeps},  {"KEY=VALUE", PathKind::kNone, offer_keys},
    {"COMMAND", PathKind::kNone, offer_commands},
};

/// A type that is written in small letters is a word to be typed as it is: "local|MACHINE".
bool is_word(const std::string& type) {
  return std::none_of(type.begin(), type.end(), [](unsigned char c) { return std::isupper(c); });
}

void add_value(Completion& to, const CLI::Option& option, const TypedLine& line, const std::string& typed) {
  const ValueForm form = value_form(option);
  add_words(to, form.words);
  for (const std::string& type : form.types) {
    if (!type.empty() && is_word(type)) add_words(to, {type});
    for (const TypeSource& source : kSources) {
      if (type != source.type) continue;
      to.paths = std::max(to.paths, source.paths);
      if (source.add) source.add(to, line, typed);
    }
  }
}

void add_options(Completion& to, const TypedLine& line) {
  for (const CLI::Option* option : options_of(*line.command)) {
    const bool again = option->get_expected_max() > 1;
    if (!again && std::find(line.given.begin(), line.given.end(), option) != line.given.end()) continue;
    for (const std::string& name : option->get_lnames()) to.words.push_back({"--" + name, option->get_description()});
  }
}

/// The option of a word as "--layout" or "--layout=auto"; null where the command has none of that name.
const CLI::Option* option_of(const CLI::App& command, const std::string& word) {
  for (const CLI::Option* option : options_of(command))
    if (option->check_name(word.substr(0, word.find('=')))) return option;
  return nullptr;
}

void take_value(TypedLine& line, const CLI::Option& option, const std::string& value) {
  if (option.get_name() == "--run-dir") line.runs = value;
}

/// Takes one complete word.
void read_word(TypedLine& line, const std::string& word) {
  const bool dashed = word.starts_with("-") && word != "-" && !line.options_ended;
  if (line.wants_value || (line.option && !dashed)) {
    take_value(line, *line.option, word);
    line.wants_value = false;
    if (line.option->get_expected_max() == 1) line.option = nullptr;
    return;
  }
  line.option = nullptr;
  if (word == "--") {
    line.options_ended = true;
  } else if (dashed) {
    const CLI::Option* option = option_of(*line.command, word);
    if (!option) return;
    line.given.push_back(option);
    const size_t equals = word.find('=');
    if (equals != std::string::npos) take_value(line, *option, word.substr(equals + 1));
    if (!takes_value(*option) || equals != std::string::npos) return;
    line.option = option;
    line.wants_value = option->get_expected_min() > 0;
  } else if (const CLI::App* command = subcommand_of(*line.command, word)) {
    line.command = command;
  } else {
    line.arguments.push_back(word);
  }
}

/// The next positional argument; the last one may take all further words.
const CLI::Option* next_argument(const TypedLine& line) {
  const auto all = arguments_of(*line.command);
  if (line.arguments.size() < all.size()) return all[line.arguments.size()];
  return !all.empty() && all.back()->get_expected_max() > 1 ? all.back() : nullptr;
}

}  // namespace

Completion complete(const CLI::App& root, const std::vector<std::string>& words) {
  Completion completion;
  if (words.size() < 2) return completion;
  TypedLine line;
  line.command = &root;
  for (size_t i = 1; i + 1 < words.size(); ++i) read_word(line, words[i]);
  const std::string& typed = words.back();
  const bool dashed = typed.starts_with("-") && !line.options_ended && !line.wants_value;
  const size_t equals = typed.find('=');
  if (dashed && equals != std::string::npos) {
    if (const CLI::Option* option = option_of(*line.command, typed))
      add_value(completion, *option, line, typed.substr(equals + 1));
  } else if (dashed) {
    add_options(completion, line);
  } else {
    if (line.option) add_value(completion, *line.option, line, typed);
    if (!line.wants_value) {
      if (line.arguments.empty()) add_subcommands(completion, *line.command);
      const CLI::Option* argument = next_argument(line);
      if (argument) add_value(completion, *argument, line, typed);
      if (!argument && !line.options_ended && completion.words.empty()) add_options(completion, line);
    }
  }
  const std::string behind = typed.substr(typed.find_last_of('=') + 1);
  std::erase_if(completion.words, [&](const CompletionWord& each) { return !each.word.starts_with(behind); });
  return completion;
}

namespace {

void print_completion(const Completion& completion) {
  const char* const names[] = {"none", "folders", "files"};
  std::printf("%s\n", names[static_cast<int>(completion.paths)]);
  for (const auto& [word, description] : completion.words) {
    const std::string line = description.substr(0, description.find('\n'));
    std::printf("%s\t%s\n", word.c_str(), line.c_str());
  }
}

}  // namespace

void add_completion(CLI::App& app, Session& session) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "Print a script that lets the tab key of a shell complete ramet");
  command->add_option("shell", *shell, "the shell: bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
  command->footer(
      "For this shell alone, or as a line of its start file (~/.bashrc, ~/.zshrc, ~/.config/fish/config.fish):\n\n"
      "  source <(ramet completion bash)\n"
      "  source <(ramet completion zsh)\n"
      "  ramet completion fish | source");
  command->callback([shell, &session] {
    session.action = [shell] {
      std::fputs(completion_script(*shell).c_str(), stdout);
      return 0;
    };
  });

  // Called by these scripts with the words of a command line: "ramet", and those behind it.
  CLI::App* asked = app.add_subcommand("complete", "what may stand where the tab key was pressed")->group("");
  asked->prefix_command();
  asked->callback([asked, &app, &session] {
    session.action = [asked, &app] {
      print_completion(complete(app, asked->remaining()));
      return 0;
    };
  });
}

}  // namespace ramet::cli
