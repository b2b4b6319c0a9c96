#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <sstream>

#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/cli/task.h"
#include "ramet/data/arrays.h"
#include "ramet/model/array_file.h"
#include "ramet/recipe/array_predictor.h"
#include "ramet/recipe/event_predictor.h"
#include "ramet/recipe/graph_predictor.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/knowledge.h"
#include "ramet/recipe/text_predictor.h"
#include "ramet/text/corpus.h"

namespace ramet::cli {
namespace {

namespace fs = std::filesystem;

struct PredictArguments : ModelOptions {
  std::string subject, weights, tokenizer, arrays, program;
  std::vector<std::string> texts, prompts;
  int64_t k = 5, batch = 0;
  GenerateOptions generate;
  bool stream = false, ids = false;
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

void tell_masks(const std::string& text, const std::vector<std::vector<MaskCandidate>>& masks, bool json) {
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

/// Gives a predictor its weights: of a file, of the run, or those that the recipe begins from.
void load_weights(Predictor& predictor, const PredictArguments& arguments, const Subject& subject) {
  if (!arguments.weights.empty()) return predictor.load(std::filesystem::path(arguments.weights));
  if (subject.checkpoint) return predictor.load(Checkpoint(*subject.checkpoint));
  if (!subject.recipe.model.init_from.empty()) return predictor.initialize(subject.recipe.model.init_from);
  throw Error({.what = "no weights: a recipe has none of its own, and the run has no checkpoint yet",
               .where = arguments.subject,
               .remedy = "Name a run with a checkpoint, or give a file with --weights"});
}

int fill_masks(const PredictArguments& arguments, const Subject& subject, const Recipe& recipe,
               std::shared_ptr<const Tokenizer> tokenizer, const Layout& layout, const Session& session) {
  MaskFiller filler(recipe, std::move(tokenizer), layout, arguments.where(session.mpi.get()), arguments.k,
                    arguments.batch);
  load_weights(filler.predictor(), arguments, subject);
  const auto masks = filler.fill(arguments.texts);
  for (size_t i = 0; i < masks.size() && session.leads(); ++i) tell_masks(arguments.texts[i], masks[i], session.json);
  return 0;
}

/// The line of JSON of a text that has ended.
void tell_end(const std::string& text, const std::string& continuation, size_t tokens, TextEnd end) {
  JsonLine()
      .set("event", "text")
      .set("text", text)
      .set("continuation", continuation)
      .set("tokens", static_cast<int64_t>(tokens))
      .set("end", std::string(name_of(end)))
      .print();
}

/// Prints texts as they come: the first at once, piece by piece, the others behind it.
class TextPrinter {
 public:
  TextPrinter(const PredictArguments& arguments, const Session& session) : arguments_(arguments), session_(session) {}

  void piece(size_t prompt, const std::string& text) {
    if (!session_.leads()) return;
    if (session_.json) {
      if (arguments_.stream)
        JsonLine().set("event", "piece").set("prompt", static_cast<int64_t>(prompt)).set("text", text).print();
      return;
    }
    if (prompt > 0) return;
    begin();
    print(text);
  }

  void end(const std::vector<GeneratedText>& texts) {
    if (!session_.leads()) return;
    for (size_t i = 0; i < texts.size(); ++i) {
      if (session_.json) {
        tell_end(arguments_.texts[i], texts[i].text, texts[i].tokens.size(), texts[i].end);
        continue;
      }
      if (i == 0)
        begin(), print("\n");
      else
        print(arguments_.texts[i] + texts[i].text + "\n");
    }
  }

 private:
  void begin() {
    if (!begun_) print(arguments_.texts[0]);
    begun_ = true;
  }
  static void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  const PredictArguments& arguments_;
  const Session& session_;
  bool begun_ = false;
};

/// Positions that texts of these prompts may take.
int64_t room_of(const PredictArguments& arguments, const Tokenizer& tokenizer) {
  size_t longest = 1;
  for (const std::string& text : arguments.texts) longest = std::max(longest, tokenizer.encode(text).size());
  return static_cast<int64_t>(longest) + arguments.generate.tokens;
}

int continue_texts(const PredictArguments& arguments, const Subject& subject, const Recipe& recipe,
                   const std::shared_ptr<const Tokenizer>& tokenizer, const Layout& layout, const Session& session) {
  const int64_t room = room_of(arguments, *tokenizer);
  if (room > recipe.data.sequence_length && arguments.weights.empty() && recipe.model.init_from.empty() &&
      session.leads())
    warn("the run was trained on sequences of " + std::to_string(recipe.data.sequence_length) +
         " tokens: its positions behind them mean nothing yet");
  TextGenerator generator(recipe, tokenizer, layout, arguments.where(session.mpi.get()), arguments.batch, room);
  load_weights(generator.predictor(), arguments, subject);
  TextPrinter printer(arguments, session);
  const std::vector<GeneratedText> texts =
      generator.generate(arguments.texts, arguments.generate,
                         [&](size_t prompt, const std::string& piece) { printer.piece(prompt, piece); });
  printer.end(texts);
  return 0;
}

/// Gives the model of a file its states: of a file or checkpoint, of the run, or the model's own first values.
void load_states(Predictor& predictor, const PredictArguments& arguments, const Subject& subject) {
  if (!arguments.weights.empty()) return predictor.load(std::filesystem::path(arguments.weights));
  if (subject.checkpoint) return predictor.load(Checkpoint(*subject.checkpoint));
  predictor.initialize(subject.recipe.model.init_from);
}

void tell_results(const std::vector<NamedTensor>& results, int64_t samples, const std::vector<std::string>& left_out,
                  const PredictArguments& arguments, bool json) {
  std::vector<std::string> names;
  for (const NamedTensor& result : results) names.push_back(result.name);
  if (json) {
    JsonLine()
        .set("event", "end")
        .set("samples", samples)
        .set("results", names)
        .set("left_out", left_out)
        .set("out", arguments.task.out)
        .print();
    return;
  }
  std::printf("%s: for %lld samples\n", arguments.task.out.c_str(), static_cast<long long>(samples));
  for (const NamedTensor& result : results) std::printf("  %s %s\n", result.name.c_str(), result.type.text().c_str());
  for (const std::string& name : left_out) std::printf("  %s needs an input that the arrays lack\n", name.c_str());
}

/// What the model of a file, or a network for images, gives for a file of arrays.
int predict_arrays(const Subject& subject, const PredictArguments& arguments, const Session& session) {
  for (const auto& [option, value] : {std::pair("--in", &arguments.arrays), std::pair("--out", &arguments.task.out)})
    if (value->empty())
      throw Error({.what = std::string("no file of arrays ") + (option[2] == 'i' ? "to read" : "to write"),
                   .where = "predict",
                   .expected = option + std::string(" FILE"),
                   .remedy = "`ramet predict RUN --in rows.npz --out results.npz`"});
  if (!arguments.texts.empty())
    throw Error({.what = "the model reads arrays, not texts", .where = "predict", .remedy = "Give --in"});
  ArrayPredictor predictor(complete_recipe(subject.recipe), arguments.program, open_arrays(arguments.arrays),
                           arguments.arrays, prediction_layout(subject.recipe, arguments),
                           arguments.where(session.mpi.get()));
  load_states(predictor.predictor(), arguments, subject);
  StatusLine line;
  const std::vector<NamedTensor> results = predictor.predict([&](int64_t begun, int64_t total) {
    if (session.leads() && !session.json && is_terminal())
      line.show(std::to_string(begun) + " of " + std::to_string(total));
  });
  line.clear();
  if (!session.leads()) return 0;
  save_npz(arguments.task.out, results);
  tell_results(results, predictor.samples(), predictor.left_out(), arguments, session.json);
  return 0;
}

/// What a network for graphs (GraphPredictor), or for events in time (EventPredictor), answers for the held-out part of
/// its data.
template <typename PartPredictor>
int predict_part(const std::string& data, const Subject& subject, const PredictArguments& arguments,
                 const Session& session) {
  if (arguments.task.out.empty())
    throw Error({.what = "no file of arrays to write",
                 .where = "predict",
                 .expected = "--out FILE",
                 .remedy = "`ramet predict RUN --out answers.npz --set " + data + ".held_out=test`"});
  if (!arguments.texts.empty() || !arguments.arrays.empty())
    throw Error({.what = "the network reads the graph set of its recipe",
                 .where = "predict",
                 .found = arguments.arrays.empty() ? "a text" : "--in",
                 .remedy = "Name another set by --set " + data + ".set=FILE"});
  PartPredictor predictor(complete_recipe(subject.recipe), prediction_layout(subject.recipe, arguments),
                          arguments.where(session.mpi.get()));
  load_states(predictor.predictor(), arguments, subject);
  const std::vector<NamedTensor> results = predictor.predict();
  if (!session.leads()) return 0;
  save_npz(arguments.task.out, results);
  tell_results(results, results[0].type.elements(), {}, arguments, session.json);
  return 0;
}

/// Token ids in text, with blanks or commas between.
std::vector<int32_t> parse_ids(const std::string& text) {
  std::string apart = text;
  std::replace(apart.begin(), apart.end(), ',', ' ');
  std::istringstream words(apart);
  std::vector<int32_t> ids;
  for (std::string word; words >> word;) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size())
      throw Error({.what = "no token id", .where = "--ids", .found = "'" + word + "'", .expected = "a number"});
    ids.push_back(id);
  }
  return ids;
}

std::string text_of_ids(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  return text;
}

/// Texts as token ids, which need no tokenizer.
int continue_ids(const PredictArguments& arguments, const Subject& subject, const Recipe& recipe, const Layout& layout,
                 const Session& session) {
  if (!arguments.generate.stop_words.empty())
    throw Error(
        {.what = "stop words are text", .where = "--stop", .found = "--ids", .remedy = "Leave one of them out"});
  std::vector<std::vector<int32_t>> prompts;
  int64_t room = 1;
  for (const std::string& text : arguments.texts) {
    prompts.push_back(parse_ids(text));
    room = std::max(room, std::ssize(prompts.back()) + arguments.generate.tokens);
  }
  auto [model, decoding] = build_decoding_model(recipe, arguments.batch, room);
  Decoder decoder(std::move(model), decoding, recipe.train, layout, arguments.where(session.mpi.get()));
  load_weights(decoder.predictor(), arguments, subject);
  const std::vector<Continuation> found =
      decoder.generate(prompts, {.tokens = arguments.generate.tokens, .sampling = arguments.generate.sampling});
  for (size_t i = 0; i < found.size() && session.leads(); ++i)
    if (session.json)
      tell_end(arguments.texts[i], text_of_ids(found[i].tokens), found[i].tokens.size(), found[i].end);
    else
      std::printf("%s\n", text_of_ids(found[i].tokens).c_str());
  return 0;
}

/// The likeliest entities for each query.
int answer_queries(const Subject& subject, const PredictArguments& arguments, const Session& session) {
  if (arguments.texts.empty())
    throw Error({.what = "no query",
                 .where = "predict",
                 .expected = "head, relation and tail with tabs between, and '?' for the head or the tail"});
  const Recipe recipe = complete_recipe(subject.recipe);
  QueryAnswerer answerer(recipe, arguments.k, prediction_layout(subject.recipe, arguments),
                         arguments.where(session.mpi.get()));
  load_states(answerer.predictor(), arguments, subject);
  const auto answers = answerer.answer(arguments.texts);
  for (size_t i = 0; i < answers.size() && session.leads(); ++i) {
    if (!session.json) std::printf("%s\n", arguments.texts[i].c_str());
    for (const QueryAnswerer::Candidate& each : answers[i])
      if (session.json)
        JsonLine()
            .set("event", "answer")
            .set("query", arguments.texts[i])
            .set("entity", each.entity)
            .set("score", each.score)
            .print();
      else
        std::printf("  %-40s %.4f\n", each.entity.c_str(), each.score);
  }
  return 0;
}

int predict(PredictArguments arguments, Session& session) {
  const Subject subject = find_subject(arguments.subject, arguments);
  join_job(session);
  if (subject.recipe.is_task()) return session.leads() ? predict_task(subject, arguments.task, arguments, session) : 0;
  if (subject.recipe.data.kind == "graphs")
    return predict_part<GraphPredictor>("data.graphs", subject, arguments, session);
  if (subject.recipe.data.kind == "events")
    return predict_part<EventPredictor>("data.events", subject, arguments, session);
  if (kind_of(subject.recipe).answers_queries()) {
    arguments.texts.insert(arguments.texts.end(), arguments.prompts.begin(), arguments.prompts.end());
    return answer_queries(subject, arguments, session);
  }
  if (!kind_of(subject.recipe).reads_text()) return predict_arrays(subject, arguments, session);
  arguments.texts.insert(arguments.texts.end(), arguments.prompts.begin(), arguments.prompts.end());
  if (arguments.texts.empty())
    throw Error({.what = "no text", .where = "predict", .remedy = "`ramet predict RUN \"The sky is [MASK].\"`"});
  if (arguments.batch == 0) arguments.batch = std::min<int64_t>(8, std::ssize(arguments.texts));
  const Layout layout = prediction_layout(subject.recipe, arguments);
  if (arguments.ids) return continue_ids(arguments, subject, prepare(subject.recipe).recipe, layout, session);
  const auto tokenizer = find_tokenizer(arguments, subject);
  const Recipe recipe =
      complete_recipe(subject.recipe, subject.recipe.data.kind == "text" ? tokenizer->vocabulary_size() : 0);
  return kind_of(recipe).continues_texts() ? continue_texts(arguments, subject, recipe, tokenizer, layout, session)
                                           : fill_masks(arguments, subject, recipe, tokenizer, layout, session);
}

}  // namespace

void add_predict(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command =
      app.add_subcommand("predict",
                         "Fill the [MASK]s of texts (bert), continue texts (gpt2), answer a task's "
                         "file, give the results of a network for images or of a model file for arrays, the answers of "
                         "a network for graphs or for events in time for the held-out part of its data, or the "
                         "likeliest entities for triples of a knowledge graph");
  command
      ->add_option(
          "subject", arguments->subject,
          "a run (its newest checkpoint), a checkpoint of a run, a recipe with --weights, or a model's file (*.ramet)")
      ->type_name("RUN|RECIPE|MODEL")
      ->required();
  command->add_option("text", arguments->texts, "texts")->type_name("TEXT");
  command->add_option("--prompt", arguments->prompts, "a text, as the positional ones; may stand several times")
      ->type_name("TEXT")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option(
          "--out", arguments->task.out,
          "tasks: write the answers here, in the task's public format; images, model files, graphs and events: "
          "the results, as .npz")
      ->type_name("FILE");
  command
      ->add_option(
          "--in", arguments->arrays,
          "images and model files: arrays to read (.npz, .npy, .safetensors or a folder of .npy); results that need "
          "more inputs than it has are left out")
      ->type_name("FILE");
  command
      ->add_option(
          "--program", arguments->program,
          "images and model files: evaluate, or a program on request (default: predict, where the model has it, else "
          "evaluate)")
      ->type_name("NAME");
  add_task_options(*command, arguments->task);
  command
      ->add_option("--weights", arguments->weights,
                   "instead of the run's checkpoint: a file with Hugging Face's names (safetensors, or what PyTorch "
                   "saves), or another checkpoint")
      ->type_name("PATH");
  command->add_option("--tokenizer", arguments->tokenizer, "tokenizer's folder or file (default: the run's own)")
      ->type_name("PATH");
  command->add_option("--batch", arguments->batch, "texts that are computed at once (default: all, at most 8)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  command
      ->add_option("--top", arguments->k, "bert: candidates for each mask; knowledge graphs: entities for each query")
      ->type_name("K")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->capture_default_str();
  GenerateOptions& generate = arguments->generate;
  command->add_option("--tokens", generate.tokens, "gpt2: most tokens to add")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000}))
      ->capture_default_str();
  command
      ->add_option("--temperature", generate.sampling.temperature,
                   "gpt2: 0 takes the likeliest token; above it tokens are drawn, the more evenly the higher it is")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-k", generate.sampling.top_k, "gpt2: draw from the K likeliest tokens; 0: from all")
      ->type_name("K")
      ->check(CLI::Range(int64_t{0}, int64_t{10'000'000}))
      ->capture_default_str();
  command
      ->add_option("--top-p", generate.sampling.top_p,
                   "gpt2: draw from the likeliest tokens that have this share of the probability together")
      ->type_name("SHARE")
      ->capture_default_str();
  command
      ->add_option("--repetition-penalty", generate.sampling.repetition_penalty,
                   "gpt2: make tokens that the text holds already less likely; 1: no less")
      ->type_name("FACTOR")
      ->capture_default_str();
  command->add_option("--stop", generate.stop_words, "gpt2: end a text before this word; may stand several times")
      ->type_name("WORD")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--seed", generate.sampling.seed, "gpt2: of the draws")
      ->check(CLI::Range(uint64_t{0}, uint64_t{INT64_MAX}))
      ->capture_default_str();
  command->add_flag("--ids", arguments->ids, "gpt2: texts are token ids, as \"15496 995\"; no tokenizer is needed");
  command->add_flag("--stream", arguments->stream, "gpt2 with --json: a line for each new piece of a text as well");
  add_model_options(*command, *arguments);
  add_layout_option(*command, *arguments);
  add_time_limit_option(*command, *arguments);
  add_runs_option(*command, arguments->runs);
  add_json_option(*command, session);
  command->footer(
      "The same prompts, options and seed give the same texts on every layout, number of threads and --batch. A text "
      "ends\n"
      "with its last token, before a stop word or <|endoftext|>, or with the last position that the model has.");
  command->callback(
      [arguments, &session] { session.action = [arguments, &session] { return predict(*arguments, session); }; });
}

}  // namespace ramet::cli
