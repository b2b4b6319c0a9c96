#include <CLI/CLI.hpp>
#include <cstdio>

#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/cli/task.h"
#include "ramet/data/arrays.h"
#include "ramet/model/array_file.h"
#include "ramet/recipe/array_predictor.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/predictor.h"
#include "ramet/text/corpus.h"

namespace ramet::cli {
namespace {

namespace fs = std::filesystem;

struct PredictArguments : ModelOptions {
  std::string subject, weights, tokenizer, arrays, program = "evaluate";
  std::vector<std::string> texts;
  int64_t k = 5, tokens = 40, seed = 0;
  double temperature = 0;
  TaskArguments task;
};

/// The tokenizer of the command line, of the run, or of the recipe's corpus.
std::shared_ptr<const Tokenizer> find_tokenizer(const PredictArguments& arguments, const Subject& subject) {
  std::error_code error;
  if (!arguments.tokenizer.empty()) return load_tokenizer(arguments.tokenizer);
  if (!subject.run.empty() && fs::is_directory(subject.run / "tokenizer", error))
    return load_tokenizer(subject.run / "tokenizer");
  if (subject.recipe.data.kind == "text") return load_tokenizer(subject.recipe.data.corpus);
  throw Error({.what = "no tokenizer: synthetic data has none",
               .where = arguments.subject,
               .remedy = "Give one with --tokenizer"});
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f%%", 100 * share);
  return text;
}

void tell_masks(const std::string& text, const std::vector<std::vector<Predictor::Candidate>>& masks, bool json) {
  if (json) {
    for (size_t m = 0; m < masks.size(); ++m) {
      std::vector<std::string> tokens;
      for (const auto& candidate : masks[m]) tokens.push_back(candidate.token);
      JsonLine()
          .set("event", "mask")
          .set("text", text)
          .set("mask", static_cast<int64_t>(m))
          .set("tokens", tokens)
          .set("probability", masks[m].empty() ? 0 : masks[m][0].probability)
          .print();
    }
    return;
  }
  std::string filled;
  size_t at = 0, mask = 0;
  for (size_t found; (found = text.find("[MASK]", at)) != std::string::npos && mask < masks.size(); at = found + 6)
    filled += text.substr(at, found - at) + "[" + masks[mask++].at(0).token + "]";
  std::printf("%s\n", (filled + text.substr(at)).c_str());
  for (const auto& candidates : masks) {
    std::string line;
    for (const auto& candidate : candidates) line += "  " + candidate.token + " " + percent(candidate.probability);
    std::printf("  %s\n", line.c_str());
  }
}

/// What the model of a file gives for a file of arrays.
int predict_arrays(const Subject& subject, const PredictArguments& arguments, bool json) {
  for (const auto& [option, value] : {std::pair("--in", &arguments.arrays), std::pair("--out", &arguments.task.out)})
    if (value->empty())
      throw Error({.what = std::string("no file of arrays ") + (option[2] == 'i' ? "to read" : "to write"),
                   .where = "predict",
                   .expected = option + std::string(" FILE"),
                   .remedy = "`ramet predict RUN --in rows.npz --out results.npz`"});
  if (!arguments.texts.empty())
    throw Error({.what = "the model of a file reads arrays, not texts", .where = "predict", .remedy = "Give --in"});
  const Recipe recipe = complete_recipe(subject.recipe);
  ArrayPredictor predictor(recipe, arguments.program, open_arrays(arguments.arrays), arguments.arrays,
                           arguments.threads);
  if (!arguments.weights.empty())
    predictor.begin(arguments.weights);
  else if (subject.checkpoint)
    predictor.load(Checkpoint(*subject.checkpoint));
  else
    predictor.begin(recipe.model.init_from);
  StatusLine line;
  const std::vector<NamedTensor> results = predictor.predict([&](int64_t done, int64_t total) {
    if (!json && is_terminal()) line.show(std::to_string(done) + " of " + std::to_string(total));
  });
  line.clear();
  save_npz(arguments.task.out, results);
  std::vector<std::string> names;
  for (const NamedTensor& result : results) names.push_back(result.name);
  if (json) {
    JsonLine()
        .set("event", "end")
        .set("samples", predictor.samples())
        .set("results", names)
        .set("left_out", predictor.left_out())
        .set("out", arguments.task.out)
        .print();
    return 0;
  }
  std::printf("%s: for %lld samples\n", arguments.task.out.c_str(), static_cast<long long>(predictor.samples()));
  for (const NamedTensor& result : results) std::printf("  %s %s\n", result.name.c_str(), result.type.text().c_str());
  for (const std::string& name : predictor.left_out())
    std::printf("  %s needs an input that the arrays lack\n", name.c_str());
  return 0;
}

int predict(const PredictArguments& arguments, const Session& session) {
  const bool json = session.json;
  const Subject subject = find_subject(arguments.subject, arguments);
  if (subject.recipe.is_task()) return predict_task(subject, arguments.task, arguments, session);
  if (!kind_of(subject.recipe).reads_text()) return predict_arrays(subject, arguments, json);
  if (arguments.texts.empty())
    throw Error({.what = "no text", .where = "predict", .remedy = "`ramet predict RUN \"The sky is [MASK].\"`"});
  const auto tokenizer = find_tokenizer(arguments, subject);
  const Recipe recipe =
      complete_recipe(subject.recipe, subject.recipe.data.kind == "text" ? tokenizer->vocabulary_size() : 0);
  Predictor predictor(recipe, tokenizer, arguments.threads, arguments.k);
  if (!arguments.weights.empty())
    predictor.load_weights(arguments.weights);
  else if (subject.checkpoint)
    predictor.load(Checkpoint(*subject.checkpoint));
  else if (!recipe.model.init_from.empty())
    predictor.load_weights(recipe.model.init_from);
  else
    throw Error({.what = "no weights: a recipe has none of its own, and the run has no checkpoint yet",
                 .where = arguments.subject,
                 .remedy = "Name a run with a checkpoint, or give a file with --weights"});
  for (const auto& text : arguments.texts) {
    if (!kind_of(recipe).continues_texts()) {
      tell_masks(text, predictor.fill_masks(text), json);
      continue;
    }
    const std::string more =
        predictor.continue_text(text, arguments.tokens, arguments.temperature, static_cast<uint64_t>(arguments.seed));
    if (json)
      JsonLine().set("event", "text").set("text", text).set("continuation", more).print();
    else
      std::printf("%s%s\n", text.c_str(), more.c_str());
  }
  return 0;
}

}  // namespace

void add_predict(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command = app.add_subcommand("predict",
                                         "Fill the [MASK]s of texts (bert), continue texts (gpt2), answer a task's "
                                         "file, or give a model file's results for arrays");
  command
      ->add_option(
          "subject", arguments->subject,
          "a run (its newest checkpoint), a checkpoint of a run, a recipe with --weights, or a model's file (*.ramet)")
      ->type_name("RUN|RECIPE|MODEL")
      ->required();
  command->add_option("text", arguments->texts, "texts")->type_name("TEXT");
  command
      ->add_option("--out", arguments->task.out,
                   "tasks: write the answers here, in the task's public format; model files: the results, as .npz")
      ->type_name("FILE");
  command
      ->add_option("--in", arguments->arrays,
                   "model files: arrays to read (.npz, .npy, .safetensors or a folder of .npy); results that need more "
                   "inputs than it has are left out")
      ->type_name("FILE");
  command->add_option("--program", arguments->program, "model files: evaluate, or a program on request")
      ->type_name("NAME")
      ->capture_default_str();
  add_task_options(*command, arguments->task);
  command
      ->add_option("--weights", arguments->weights,
                   "safetensors file with Hugging Face's names, instead of a checkpoint")
      ->type_name("FILE");
  command->add_option("--tokenizer", arguments->tokenizer, "tokenizer's folder or file (default: the run's own)")
      ->type_name("PATH");
  command->add_option("--top", arguments->k, "candidates for each place")
      ->type_name("K")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->capture_default_str();
  command->add_option("--tokens", arguments->tokens, "gpt2: tokens to add")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000}))
      ->capture_default_str();
  command
      ->add_option("--temperature", arguments->temperature,
                   "gpt2: 0 takes the likeliest token, above it one of the likeliest is drawn")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "gpt2: of the draws")
      ->check(CLI::Range(int64_t{0}, INT64_MAX))
      ->capture_default_str();
  add_model_options(*command, *arguments);
  add_runs_option(*command, arguments->runs);
  add_json_option(*command, session);
  command->callback(
      [arguments, &session] { session.action = [arguments, &session] { return predict(*arguments, session); }; });
}

}  // namespace ramet::cli
