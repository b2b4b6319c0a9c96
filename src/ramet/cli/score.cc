// What predictions are worth, by a task's official measures.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/text/tasks/score_files.h"

namespace ramet::cli {
namespace {

struct ScoreArguments {
  std::string kind, data, predictions, no_answer, labels;
  double threshold = 1.0;
};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

int score(const ScoreArguments& arguments, bool json) {
  ScoreRequest request{.kind = arguments.kind,
                       .data = arguments.data,
                       .predictions = arguments.predictions,
                       .no_answer_probabilities = arguments.no_answer,
                       .no_answer_threshold = arguments.threshold,
                       .labels = CLI::detail::split(arguments.labels, ',')};
  std::erase(request.labels, "");
  const FileScores scores = score_files(request);
  if (json) {
    JsonLine line;
    line.set("event", "score").set("task", arguments.kind).set("examples", scores.scored);
    if (scores.missing > 0) line.set("missing", scores.missing);
    for (const auto& [name, value] : scores.metrics) line.set(name, value);
    line.print();
    for (const auto& [part, metrics] : scores.parts) {
      JsonLine of_part;
      of_part.set("event", "part").set("type", part);
      for (const auto& [name, value] : metrics) of_part.set(name, value);
      of_part.print();
    }
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {{"", ""}};
  for (const auto& [name, value] : scores.metrics) rows.push_back({name, number(value)});
  rows.front() = {arguments.kind, std::to_string(scores.scored) + " examples"};
  std::fputs(table_text(rows).c_str(), stdout);
  if (!scores.parts.empty()) {
    rows = {{"", "f1", "precision", "recall"}};
    for (const auto& [part, metrics] : scores.parts) {
      rows.push_back({part});
      for (const auto& [name, value] : metrics) rows.back().push_back(number(value));
    }
    std::printf("\n%s", table_text(rows).c_str());
  }
  if (scores.missing > 0) warn(std::to_string(scores.missing) + " examples have no prediction");
  return 0;
}

}  // namespace

void add_score(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ScoreArguments>();
  CLI::App* command = app.add_subcommand("score", "Score a file of predictions by a task's official measures");
  command
      ->add_option("task", arguments->kind,
                   "squad, squad2, cmrc2018, drcd, conll2003, mrpc, stsb, tnews, ... (docs/tasks.md lists all)")
      ->type_name("TASK")
      ->required();
  command->add_option("data", arguments->data, "the published file with the right answers")
      ->type_name("DATA")
      ->required();
  command
      ->add_option(
          "predictions", arguments->predictions,
          "reading comprehension: JSON of id to answer; GLUE: TSV of index and prediction; CLUE: JSON lines of id "
          "and label; CoNLL: columns, the predicted label last (without it: in DATA, behind the right one)")
      ->type_name("PREDICTIONS");
  command
      ->add_option("--no-answer", arguments->no_answer, "squad2: JSON of id to the probability that there is no answer")
      ->type_name("FILE");
  command
      ->add_option("--no-answer-threshold", arguments->threshold,
                   "squad2: above this probability the answer counts as none")
      ->check(CLI::Range(-1e30, 1e30))
      ->capture_default_str();
  command->add_option("--labels", arguments->labels, "classes, separated by commas, instead of the task's")
      ->type_name("A,B,...");
  add_json_option(*command, session);
  command->callback(
      [arguments, &session] { session.action = [arguments, &session] { return score(*arguments, session.json); }; });
}

}  // namespace ramet::cli
