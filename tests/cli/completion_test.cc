// The page of commands, and completion, asked through the shells themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "cli/process.h"
#include "ramet/base/file.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Words = std::vector<std::string>;

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool is_installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

class Completion : public ::testing::Test {
 protected:
  Completion() {
    write_file_atomic(folder_ / "small.toml", std::string());
    write_file_atomic(folder_ / "notes.txt", std::string());
    fs::create_directories(folder_ / "text files");
    fs::create_directories(folder_ / "mine/2026-tiny-abc/checkpoints");
    write_file_atomic(folder_ / "mine/2026-tiny-abc/recipe.toml", std::string());
    write_file_atomic(folder_ / "mine/2026-tiny-abc/run.json", std::string("{}"));
    write_file_atomic(folder_ / "mine/2026-tiny-abc/log.ramet", std::string());
  }
  Outcome ramet(const Words& arguments) const { return Process(arguments, folder_.path()).wait(); }

  /// Runs a shell with a script whose first argument is the program and whose others are `arguments`.
  Words run_script(const Words& shell, const Words& arguments) const {
    const Outcome outcome = Process(arguments, folder_.path(), shell).wait();
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return lines_of(outcome.out);
  }

  /// What bash's completion function answers. `words` are those of readline, which takes "=" for a word of its own.
  Words bash(const std::string& line, const Words& words) const {
    const std::string script = R"(
PATH=$(dirname "$0"):$PATH
source <(ramet completion bash)
COMP_LINE=$1 COMP_POINT=${#1}
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
registered=$(complete -p ramet)
[[ $registered =~ -F\ ([^ ]+) ]] && "${BASH_REMATCH[1]}" ramet "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
for reply in "${COMPREPLY[@]}"; do echo "$reply"; done
)";
    Words arguments = {line};
    arguments.insert(arguments.end(), words.begin(), words.end());
    return run_script({"bash", "--norc", "-c", script}, arguments);
  }
  /// Of a line without "=" and quotes: its words are what blanks part.
  Words bash(const std::string& line) const {
    Words words;
    std::string word;
    for (std::istringstream stream(line); stream >> word;) words.push_back(word);
    if (line.ends_with(" ")) words.push_back("");
    return bash(line, words);
  }

  /// All options that `ramet COMMAND --help` prints.
  Words options_in_help(Words command) const {
    command.push_back("--help");
    const std::string help = ramet(command).out;
    Words names;
    const std::regex option("\n  (?:-h,)?(--[a-z-]+)");
    for (std::sregex_iterator at(help.begin(), help.end(), option), end; at != end; ++at) names.push_back((*at)[1]);
    return names;
  }
  /// All commands that `ramet COMMAND --help` prints.
  Words commands_in_help(Words command) const {
    command.push_back("--help");
    const std::string help = ramet(command).out;
    const size_t at = help.find("\nSubcommands:\n");
    Words names;
    if (at == std::string::npos) return names;
    const std::string list = help.substr(at);
    const std::regex name("\n  ([a-z]+)");
    for (std::sregex_iterator each(list.begin(), list.end(), name), end; each != end; ++each)
      names.push_back((*each)[1]);
    return names;
  }

  TemporaryFolder folder_;
};

TEST_F(Completion, ThePageOfCommandsIsTheOneThatTheProgramPrints) {
  const Outcome page = ramet({"help", "--markdown"});
  ASSERT_EQ(page.status, 0) << page.err;
  EXPECT_EQ(page.out, read_file(RAMET_SOURCE_DIR "/docs/commands.md"))
      << "Write the page anew with `build/ramet help --markdown > docs/commands.md`";
}

TEST_F(Completion, ThePageHasEveryCommandAndOptionOfHelp) {
  const std::string page = ramet({"help", "--markdown"}).out;
  const auto check = [&](const Words& command) {
    std::string name = "ramet";
    for (const std::string& word : command) name += " " + word;
    const size_t begin = page.find("# " + name + "\n");
    ASSERT_NE(begin, std::string::npos) << name;
    const std::string section = page.substr(begin, page.find("\n## ", begin) - begin);
    for (const std::string& option : options_in_help(command))
      EXPECT_TRUE(option == "--help" || section.find("`" + option) != std::string::npos) << name << " " << option;
  };
  for (const std::string& command : commands_in_help({})) {
    check({command});
    for (const std::string& below : commands_in_help({command})) check({command, below});
  }
  EXPECT_THAT(page, HasSubstr("## ramet runs\n"));
  EXPECT_THAT(page, HasSubstr("### ramet runs export\n"));
  EXPECT_THAT(page, Not(HasSubstr("ramet complete`")));  // hidden
}

TEST_F(Completion, HelpPrintsThePagesOfHelp) {
  EXPECT_EQ(ramet({"help"}).out, ramet({"--help"}).out);
  EXPECT_EQ(ramet({"help", "train"}).out, ramet({"train", "--help"}).out);
  EXPECT_EQ(ramet({"help", "runs", "export"}).out, ramet({"runs", "export", "--help"}).out);
  const Outcome unknown = ramet({"help", "runs", "exprot"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("ramet runs: no such command; found 'exprot'; expected perhaps 'export'"),
                                 HasSubstr("`ramet runs --help` lists the commands")));
  EXPECT_THAT(ramet({"complet"}).err, HasSubstr("perhaps 'completion'"));
}

TEST_F(Completion, BashOffersEveryCommandAndOptionOfHelp) {
  const Words commands = commands_in_help({});
  EXPECT_GT(commands.size(), 14u);
  EXPECT_THAT(bash("ramet "), ::testing::UnorderedElementsAreArray(commands));
  for (const std::string& command : commands) {
    const Words below = commands_in_help({command});
    if (below.empty()) {
      EXPECT_THAT(bash("ramet " + command + " -"), ::testing::UnorderedElementsAreArray(options_in_help({command})));
    }
    for (const std::string& each : below)
      EXPECT_THAT(bash("ramet " + command + " " + each + " -"),
                  ::testing::UnorderedElementsAreArray(options_in_help({command, each})));
  }
  EXPECT_THAT(bash("ramet runs "),
              UnorderedElementsAre("list", "reindex", "sql", "metrics", "importance", "show", "compare", "export",
                                   "push", "import", "tag", "note", "group", "rename", "pin", "archive"));
  EXPECT_THAT(bash("ramet pr"), UnorderedElementsAre("probe", "predict"));
  EXPECT_THAT(bash("ramet train --se"), UnorderedElementsAre("--set", "--seeds"));
  EXPECT_THAT(bash("ramet train --seeds 3 --se"), ElementsAre("--set"));  // --set may stand several times
  EXPECT_THAT(bash("ramet help runs ex"), ElementsAre("export"));
  EXPECT_THAT(bash("ramet --v"), ElementsAre("--version"));
  EXPECT_THAT(bash("ramet nonsense "), UnorderedElementsAre("--help", "--version"));
}

TEST_F(Completion, BashOffersFixedWords) {
  EXPECT_THAT(bash("ramet completion "), UnorderedElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(bash("ramet runs export latest --format "), UnorderedElementsAre("csv", "json", "tensorboard", "wandb"));
  EXPECT_THAT(bash("ramet pack --algorithm spfhp n"), UnorderedElementsAre("nnlshp", "notes.txt"));  // or the argument
  EXPECT_THAT(bash("ramet inspect graph small.toml --part f"), ElementsAre("forward"));
  EXPECT_THAT(bash("ramet simulate small.toml --machine ipu-pod1"), Contains("ipu-pod16"));
  EXPECT_THAT(bash("ramet simulate small.toml --machine lo"), ElementsAre("local"));
  EXPECT_THAT(bash("ramet score squ"), UnorderedElementsAre("squad", "squad2"));
  EXPECT_THAT(bash("ramet train small.toml --layout au"), ElementsAre("auto"));
  EXPECT_THAT(bash("ramet train --layout=au", {"ramet", "train", "--layout", "=", "au"}), ElementsAre("auto"));
  EXPECT_THAT(bash("ramet train --layout=", {"ramet", "train", "--layout", "="}), Contains("auto"));
  EXPECT_THAT(bash("ramet train small.toml --steps "), IsEmpty());  // a number
}

TEST_F(Completion, BashOffersKeysOfRecipes) {
  EXPECT_THAT(bash("ramet train small.toml --set train.prec"), ElementsAre("train.precision="));
  const Words typed = {"ramet", "train", "small.toml", "--set", "train.precision", "="};
  EXPECT_THAT(bash("ramet train small.toml --set train.precision=", typed),
              UnorderedElementsAre("f32", "bf16", "f16", "f8"));
  Words more = typed;
  more.push_back("b");
  EXPECT_THAT(bash("ramet train small.toml --set train.precision=b", more), ElementsAre("bf16"));
  EXPECT_THAT(bash("ramet train small.toml --set data.shuffle=t",
                   {"ramet", "train", "small.toml", "--set", "data.shuffle", "=", "t"}),
              ElementsAre("true"));
  // Two words that a blank parts are not one.
  EXPECT_THAT(bash("ramet train --set name= sm", {"ramet", "train", "--set", "name", "=", "sm"}),
              ElementsAre("small.toml"));
}

TEST_F(Completion, BashOffersFilesFoldersAndRuns) {
  EXPECT_THAT(bash("ramet train "), AllOf(Contains("small.toml"), Contains("text files"), Contains("mine")));
  EXPECT_THAT(bash("ramet plan small.toml --svg=no", {"ramet", "plan", "small.toml", "--svg", "=", "no"}),
              ElementsAre("notes.txt"));
  EXPECT_THAT(bash("ramet corpus --out "), UnorderedElementsAre("mine", "text files"));  // folders alone
  EXPECT_THAT(bash("ramet runs show 2"), IsEmpty());                                     // in runs/ there is none
  EXPECT_THAT(bash("ramet runs show --run-dir mine 2"), ElementsAre("2026-tiny-abc"));
  EXPECT_THAT(bash("ramet runs show --run-dir=mine 2", {"ramet", "runs", "show", "--run-dir", "=", "mine", "2"}),
              ElementsAre("2026-tiny-abc"));
  EXPECT_THAT(bash("ramet runs show l"), ElementsAre("latest"));
  EXPECT_THAT(bash("ramet runs compare latest l"), ElementsAre("latest"));  // takes several
  EXPECT_THAT(bash("ramet score sst2 sm"), ElementsAre("small.toml"));      // the second argument is a file
  EXPECT_THAT(bash("ramet probe "), Contains("--seconds"));                 // takes no argument: options
  EXPECT_THAT(bash("ramet train small.toml -- -"), IsEmpty());              // behind "--" nothing is an option
}

TEST_F(Completion, AScriptForNoOtherShell) {
  const Outcome outcome = ramet({"completion", "csh"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("csh not in {bash,zsh,fish}"));
}

TEST_F(Completion, Zsh) {
  if (!is_installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  write_file_atomic(folder_ / "_ramet", ramet({"completion", "zsh"}).out);
  run_script({"zsh", "-f", "-c", "zsh -n _ramet"}, {});
  // zsh's own functions are replaced by ones that print what they are given.
  const std::string script = R"(
setopt no_global_rcs
PATH=${0:h}:$PATH
compdef() { : }
compset() { PREFIX=${PREFIX##*=} }
_describe() { print -rl -- "${(@P)4}" }
_files() { print -r -- "files ${*:-}" }
source ./_ramet
words=("$@") CURRENT=$# PREFIX=${@[-1]}
_ramet
)";
  const auto zsh = [&](const Words& words) { return run_script({"zsh", "-f", "-c", script}, words); };
  EXPECT_THAT(zsh({"ramet", "runs", "li"}), ElementsAre("list:All runs, oldest first"));
  EXPECT_THAT(zsh({"ramet", "train", "--layout=au"}), Contains(HasSubstr("auto:")));
  EXPECT_THAT(zsh({"ramet", "train", "--set", "train.prec"}), Contains(HasSubstr("train.precision=:")));
  EXPECT_THAT(zsh({"ramet", "plan", ""}), ElementsAre("files "));
  EXPECT_THAT(zsh({"ramet", "vocab", "--out", ""}), ElementsAre("files -/"));
}

TEST_F(Completion, Fish) {
  if (!is_installed("fish")) GTEST_SKIP() << "fish is not installed";
  write_file_atomic(folder_ / "ramet.fish", ramet({"completion", "fish"}).out);
  run_script({"fish", "--no-config", "-c", "fish --no-execute ramet.fish"}, {});
  const std::string script = "set -x PATH " RAMET_BINARY_DIR " $PATH; source ramet.fish; complete -C $argv[2]";
  const auto fish = [&](const std::string& line) { return run_script({"fish", "--no-config", "-c", script}, {line}); };
  EXPECT_THAT(fish("ramet runs li"), ElementsAre("list\tAll runs, oldest first"));
  EXPECT_THAT(fish("ramet train --layout=au"), Contains(HasSubstr("--layout=auto\t")));
  EXPECT_THAT(fish("ramet train --set train.precision=b"), Contains(HasSubstr("train.precision=bf16")));
  EXPECT_THAT(fish("ramet plan sm"), Contains(HasSubstr("small.toml")));
  EXPECT_THAT(fish("ramet vocab --out "), Not(Contains(HasSubstr("small.toml"))));
  EXPECT_THAT(fish("ramet plan small.toml --svg=no"), Contains(HasSubstr("--svg=notes.txt")));
}

}  // namespace
}  // namespace ramet::tests
