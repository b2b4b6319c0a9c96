// The parts of eval, predict and train that are only for tasks.
#include "ramet/cli/task.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "ramet/cli/console.h"
#include "ramet/recipe/task.h"
#include "ramet/recipe/task_predictor.h"
#include "ramet/recipe/teacher.h"

namespace ramet::cli {
namespace {

namespace fs = std::filesystem;

/// Runs of one task, opened: the recipe and data of the first, and what each answers.
class Ensemble {
 public:
  Ensemble(const Subject& subject, const TaskArguments& task, const ModelOptions& options, bool quiet)
      : options_(options), quiet_(quiet) {
    Recipe recipe = subject.recipe;
    split_ = !task.split.empty() ? task.split : task.file.empty() ? "dev" : "test";
    if (!task.file.empty()) {
      const std::string file = fs::absolute(task.file).lexically_normal().string();
      (split_ == "train" ? recipe.task.train : split_ == "dev" ? recipe.task.dev : recipe.task.test) = file;
      recipe.places["task." + split_] = "--file";
    }
    preparation_ = prepare(without_teacher(recipe));
    data_ = task_split(*preparation_.task, split_);
    answer(subject);
    for (const std::string& run : task.with) answer(find_subject(run, options));
  }

  const TaskSplit& data() const { return *data_; }
  const std::string& split() const { return split_; }
  std::span<const TaskOutputs> outputs() const { return outputs_; }
  Numbers numbers() const { return task_numbers(preparation_.recipe, *data_, outputs_); }
  int64_t runs() const { return std::ssize(outputs_); }

 private:
  void answer(const Subject& subject) {
    if (!is_task_run(subject))
      throw Error({.what = "no run of a task with a checkpoint",
                   .where = subject.run.empty() ? subject.recipe.name : subject.run.string()});
    const Preparation own = outputs_.empty() ? Preparation{} : prepare(without_teacher(subject.recipe));
    const Preparation& other = outputs_.empty() ? preparation_ : own;
    // Answers can be averaged where the features are the same, token by token.
    if (other.recipe.task.kind != preparation_.recipe.task.kind ||
        other.tokenizer->hash() != preparation_.tokenizer->hash() ||
        other.recipe.data.sequence_length != preparation_.recipe.data.sequence_length ||
        other.recipe.task.classes != preparation_.recipe.task.classes ||
        other.recipe.task.stride != preparation_.recipe.task.stride ||
        other.recipe.task.max_query != preparation_.recipe.task.max_query)
      throw Error(
          {.what = "the runs of an ensemble do not read the same features",
           .where = subject.run.string(),
           .found = other.recipe.task.kind + ", sequences of " + std::to_string(other.recipe.data.sequence_length),
           .expected = "the task, tokenizer, labels and lengths of the first run"});
    TaskPredictor predictor(other.recipe, preparation_.tokenizer, prediction_layout(subject.recipe, options_),
                            options_.where());
    predictor.predictor().load(Checkpoint(*subject.checkpoint));
    StatusLine line;
    outputs_.push_back(predictor.predict(data_, [&](int64_t done, int64_t total) {
      if (!quiet_ && is_terminal()) line.show(std::to_string(done) + " of " + std::to_string(total));
    }));
  }

  const ModelOptions& options_;
  const bool quiet_;
  std::string split_;
  Preparation preparation_;
  std::shared_ptr<const TaskSplit> data_;
  std::vector<TaskOutputs> outputs_;
};

JsonLine result_line(const Ensemble& ensemble) {
  JsonLine line;
  line.set("event", "end")
      .set("split", ensemble.split())
      .set("examples", ensemble.data().examples())
      .set("runs", ensemble.runs());
  return line;
}

std::string of_runs(const Ensemble& ensemble) {
  return ensemble.runs() > 1 ? ", " + std::to_string(ensemble.runs()) + " runs together" : "";
}

}  // namespace

void add_task_options(CLI::App& command, TaskArguments& task) {
  command.add_option("--split", task.split, "tasks: which file of the task (default: dev; with --file: test)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"train", "dev", "test"}));
  command.add_option("--file", task.file, "tasks: a file to take instead, in the task's format")->type_name("FILE");
  command.add_option("--with", task.with, "tasks: a further run; the answers of all are joined (an ensemble)")
      ->type_name("RUN");
}

bool is_task_run(const Subject& subject) { return subject.recipe.is_task() && subject.checkpoint.has_value(); }

int eval_task(const Subject& subject, const TaskArguments& task, const ModelOptions& options, const Session& session) {
  if (!session.leads()) return 0;
  const Ensemble ensemble(subject, task, options, session.json);
  if (!ensemble.data().labelled())
    throw Error({.what = "the file has no answers to measure against",
                 .where = "--split " + ensemble.split(),
                 .remedy = "`ramet predict` writes what the model answers"});
  const Numbers numbers = ensemble.numbers();
  if (session.json)
    result_line(ensemble).set(numbers).set("checkpoint", subject.checkpoint->string()).print();
  else
    std::printf("%s, %lld examples%s: %s\n", ensemble.split().c_str(),
                static_cast<long long>(ensemble.data().examples()), of_runs(ensemble).c_str(),
                numbers_text(numbers, false).c_str());
  return 0;
}

int predict_task(const Subject& subject, const TaskArguments& task, const ModelOptions& options,
                 const Session& session) {
  if (task.out.empty())
    throw Error({.what = "no file for the predictions", .where = "predict", .remedy = "Name one with --out"});
  const Ensemble ensemble(subject, task, options, session.json);
  ensemble.data().write_predictions(ensemble.outputs(), task.out);
  const Numbers numbers = ensemble.data().labelled() ? ensemble.numbers() : Numbers{};
  if (session.json) {
    result_line(ensemble).set(numbers).set("out", task.out).print();
  } else {
    std::printf("%s: predictions for %lld examples of %s%s\n", task.out.c_str(),
                static_cast<long long>(ensemble.data().examples()), ensemble.split().c_str(),
                of_runs(ensemble).c_str());
    if (!numbers.empty()) std::printf("%s\n", numbers_text(numbers, false).c_str());
  }
  return 0;
}

void tell_seeds(const std::string& name, const std::vector<SeedResult>& results, bool json) {
  if (results.empty()) return;
  JsonLine line;
  line.set("event", "seeds").set("name", name).set("runs", static_cast<int64_t>(results.size()));
  std::vector<std::vector<std::string>> rows = {{"", "mean", "deviation", "least", "greatest"}};
  for (const auto& [number, first] : results[0].numbers) {
    std::vector<double> values;
    for (const SeedResult& result : results) values.push_back(number_of(result.numbers, number));
    const auto count = static_cast<double>(values.size());
    double mean = 0, squares = 0;
    for (const double value : values) mean += value / count;
    for (const double value : values) squares += (value - mean) * (value - mean);
    const double deviation = values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
    const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
    line.set(number + "_mean", mean).set(number + "_deviation", deviation);
    line.set(number + "_least", *least).set(number + "_greatest", *greatest);
    rows.push_back({number, number_text(mean), number_text(deviation), number_text(*least), number_text(*greatest)});
  }
  if (json) return line.print();
  std::printf("%zu seeds of %s:\n%s", results.size(), name.c_str(), table_text(rows).c_str());
}

}  // namespace ramet::cli
