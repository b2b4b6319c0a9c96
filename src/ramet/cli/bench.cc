// How fast a model answers: latencies and throughput by batch size.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "ramet/base/clock.h"
#include "ramet/base/rng.h"
#include "ramet/cli/commands.h"
#include "ramet/cli/console.h"
#include "ramet/recipe/array_predictor.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/task_predictor.h"
#include "ramet/recipe/text_predictor.h"

namespace ramet::cli {
namespace {

struct BenchArguments : ModelOptions {
  std::string subject;
  std::vector<int64_t> batches = {1, 8, 32};
  int64_t prompt = 128, tokens = 128;
  double seconds = 3;
  bool profile = false;

  Where where(MpiSession* mpi) const {
    Where where = ModelOptions::where(mpi);
    where.profile = profile;
    return where;
  }
};

/// The recipe of a preset, as "bert-base" or "gpt2-124m"; nothing for another name.
std::optional<Recipe> recipe_of_preset(const std::string& name, const ModelOptions& options) {
  for (const std::string& kind : model_kinds()) {
    if (!name.starts_with(kind + "-")) continue;
    std::vector<std::string> settings = {"model.kind=" + kind};
    const std::string preset = name.substr(kind.size() + 1);
    const Recipe plain = parse_recipe("", name, ".", settings);
    const std::vector<std::string> known = kind_of(plain).presets(plain);
    if (std::find(known.begin(), known.end(), preset) == known.end()) continue;
    settings.push_back("model.preset=" + preset);
    settings.insert(settings.end(), options.settings.begin(), options.settings.end());
    Recipe recipe = parse_recipe("", name, ".", settings);
    if (!options.layout.empty()) set_layout(recipe, options.layout);
    return recipe;
  }
  return {};
}

Subject find_bench_subject(const BenchArguments& arguments) {
  std::error_code error;
  if (!std::filesystem::exists(arguments.subject, error))
    if (auto recipe = recipe_of_preset(arguments.subject, arguments)) {
      Subject subject;
      subject.recipe = std::move(*recipe);
      return subject;
    }
  return find_subject(arguments.subject, arguments);
}

/// One row of the answer.
struct BenchRow {
  int64_t batch = 0;
  double ready_seconds = 0;           ///< from the model's file to the first call: reading, compiling, weights
  PredictionTimes times;              ///< of calls; of a decoder of single tokens
  std::vector<double> first_seconds;  ///< decoding: until the first token
};

void set_weights(Predictor& predictor, const Subject& subject) {
  if (subject.checkpoint)
    predictor.load(Checkpoint(*subject.checkpoint));
  else
    predictor.initialize(subject.recipe.model.init_from);
}

/// Numbers that the model may be fed with: integers within their limits, others around 0.
NamedTensor random_input(const std::string& name, const TensorType& type, const Model& model) {
  NamedTensor tensor{name, type, {}};
  tensor.bytes.resize(static_cast<size_t>(type.bytes()));
  double low = 0, high = 0;
  for (const InputSpec& spec : model.inputs)
    if (spec.name == name) low = spec.low.value_or(0), high = spec.high.value_or(0);
  const RandomStream random(1, RandomPurpose::kSynthetic, 0, hash64(name));
  for (int64_t i = 0; i < type.elements(); ++i) {
    const auto draw = static_cast<double>(random.uniform(static_cast<uint64_t>(i)));
    const double number = is_floating(type.dtype) ? 2 * draw - 1 : low + std::floor(draw * (high - low + 1));
    store_element(tensor.bytes.data(), type.dtype, i, number);
  }
  return tensor;
}

/// Times calls of `run`, each of so many samples, until there are enough of them. All ranks end together.
PredictionTimes time_calls(const BenchArguments& arguments, Predictor& predictor, int64_t samples,
                           const Session& session, const std::function<void()>& run) {
  constexpr int64_t kWarm = 2, kLeast = 5;
  for (int64_t warm = 0; warm < kWarm; ++warm) run();
  PredictionTimes times;
  while (times.calls < kLeast || !predictor.cluster().any(times.seconds >= arguments.seconds)) {
    const auto start = Clock::now();
    run();
    times.add(samples, seconds_since(start));
  }
  if (arguments.profile && session.leads()) print_profile(predictor.cluster(), times.calls + kWarm);
  return times;
}

/// The model of a file, or a network for images, on so many random samples: its program "predict", or its evaluation.
BenchRow bench_arrays(const BenchArguments& arguments, const Subject& subject, const Recipe& complete, int64_t batch,
                      const Session& session) {
  const auto began = Clock::now();
  Recipe recipe = complete;
  if (recipe.model.file.empty()) recipe.train.micro_batch = batch;
  const Model model = build_model(recipe);
  std::vector<NamedTensor> rows;
  std::vector<ArrayColumn> columns;
  for (const InputSpec& input : model.inputs) {
    std::vector<int64_t> dims = input.type.shape.dims();
    dims[0] = batch;
    rows.push_back(random_input(input.name, {input.type.dtype, Shape(dims)}, model));
  }
  for (const NamedTensor& each : rows)
    columns.push_back({.name = each.name,
                       .stored = std::string(name_of(each.type.dtype)),
                       .shape = each.type.shape,
                       .data = each.bytes.data()});
  ArrayPredictor predictor(recipe, "", std::move(columns), "random samples",
                           prediction_layout(subject.recipe, arguments), arguments.where(session.mpi.get()));
  set_weights(predictor.predictor(), subject);
  const double ready = seconds_since(began);
  return {batch, ready, time_calls(arguments, predictor.predictor(), batch, session, [&] { predictor.predict(); }), {}};
}

/// The program "predict" on full batches, again and again.
BenchRow bench_program(const BenchArguments& arguments, const Subject& subject, const Recipe& recipe, int64_t batch,
                       const Session& session) {
  const auto began = Clock::now();
  Model model = recipe.is_task() ? build_task_answers(recipe, batch)
                                 : build_mask_model(recipe, batch, recipe.data.max_predictions.value_or(1), 1);
  std::vector<NamedTensor> inputs;
  const Graph graph = model.programs.front().graph;
  for (const GraphInput& input : graph.inputs())
    if (const Value& value = graph.value(input.value); input.role == InputRole::kData)
      inputs.push_back(random_input(value.name, value.type, model));
  Predictor predictor(std::move(model), recipe.train, prediction_layout(subject.recipe, arguments),
                      arguments.where(session.mpi.get()), {"predict"});
  set_weights(predictor, subject);
  const double ready = seconds_since(began);
  return {
      batch, ready, time_calls(arguments, predictor, batch, session, [&] { predictor.run("predict", inputs); }), {}};
}

/// Texts of random tokens, again and again.
BenchRow bench_decoding(const BenchArguments& arguments, const Subject& subject, const Recipe& recipe, int64_t batch,
                        const Session& session) {
  const auto began = Clock::now();
  auto [model, decoding] = build_decoding_model(recipe, batch, arguments.prompt + arguments.tokens);
  if (decoding.room < arguments.prompt + arguments.tokens)
    throw Error({.what = "the model has too few positions",
                 .where = "--prompt-tokens and --tokens",
                 .found = std::to_string(arguments.prompt + arguments.tokens),
                 .expected = "at most " + std::to_string(decoding.room)});
  Decoder decoder(std::move(model), decoding, recipe.train, prediction_layout(subject.recipe, arguments),
                  arguments.where(session.mpi.get()));
  set_weights(decoder.predictor(), subject);
  const RandomStream random(1, RandomPurpose::kSynthetic, 0, 0);
  std::vector<std::vector<int32_t>> prompts(static_cast<size_t>(batch));
  for (uint64_t i = 0; auto& prompt : prompts)
    for (int64_t t = 0; t < arguments.prompt; ++t)
      prompt.push_back(static_cast<int32_t>(random.below(i++, static_cast<uint32_t>(decoding.vocabulary))));
  BenchRow row{batch, seconds_since(began), {}, {}};
  const text::SamplingOptions greedy;
  const auto vocabulary = static_cast<size_t>(decoding.vocabulary);
  const auto choose = [&](std::span<const float> logits) {
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < prompts.size(); ++i)
      tokens.push_back(text::next_token(logits.subspan(i * vocabulary, vocabulary), prompts[i], greedy, 0, 0));
    return tokens;
  };
  choose(decoder.begin(prompts));
  const auto begin = std::chrono::steady_clock::now();
  do {
    auto start = std::chrono::steady_clock::now();
    std::vector<int32_t> tokens = choose(decoder.begin(prompts));
    row.first_seconds.push_back(seconds_since(start));
    for (int64_t t = 1; t < arguments.tokens; ++t) {
      start = std::chrono::steady_clock::now();
      tokens = choose(decoder.next(tokens));
      row.times.add(batch, seconds_since(start));
    }
  } while (!decoder.predictor().cluster().any(seconds_since(begin) >= arguments.seconds));
  if (arguments.profile && session.leads()) print_profile(decoder.predictor().cluster(), row.times.calls);
  return row;
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", 1000 * seconds);
  return text;
}

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

int bench(const BenchArguments& arguments, Session& session) {
  join_job(session);
  const auto began = Clock::now();
  const Subject subject = find_bench_subject(arguments);
  const bool reads_arrays = !subject.recipe.is_task() && !kind_of(subject.recipe).reads_text();
  const Recipe recipe = reads_arrays ? complete_recipe(subject.recipe) : prepare(subject.recipe).recipe;
  const bool decodes = kind_of(recipe).continues_texts();
  const double opened = seconds_since(began);
  std::vector<std::vector<std::string>> table = {
      decodes ? std::vector<std::string>{"batch", "first token ms", "token p50 ms", "p90 ms", "p99 ms", "tokens/s"}
              : std::vector<std::string>{"batch", "calls", "p50 ms", "p90 ms", "p99 ms", "samples/s"}};
  for (const int64_t batch : arguments.batches) {
    const auto measure = reads_arrays ? bench_arrays : decodes ? bench_decoding : bench_program;
    const BenchRow row = measure(arguments, subject, recipe, batch, session);
    const PredictionTimes& times = row.times;
    if (!session.leads()) continue;
    JsonLine line;
    line.set("event", "bench").set("batch", batch).set("calls", times.calls);
    line.set("ready_ms", 1000 * (row.ready_seconds + opened));
    for (const auto& [name, share] : {std::pair("p50_ms", 0.5), {"p90_ms", 0.9}, {"p99_ms", 0.99}})
      line.set(name, 1000 * times.latency(share));
    if (decodes) line.set("first_token_ms", 1000 * middle(row.first_seconds));
    line.set(decodes ? "tokens_per_second" : "samples_per_second", times.samples_per_second());
    if (session.json) line.print();
    table.push_back({std::to_string(batch),
                     decodes ? milliseconds(middle(row.first_seconds)) : std::to_string(times.calls),
                     milliseconds(times.latency(0.5)), milliseconds(times.latency(0.9)),
                     milliseconds(times.latency(0.99)), number_text(times.samples_per_second())});
  }
  if (session.leads() && !session.json) std::fputs(table_text(table).c_str(), stdout);
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand("bench", "Measure how fast a model answers");
  command
      ->add_option("subject", arguments->subject,
                   "a run (its newest checkpoint), a checkpoint of a run, a recipe, a model's file (*.ramet) or a "
                   "preset, as bert-base, gpt2-124m and resnet-50 (random weights)")
      ->type_name("RUN|RECIPE|PRESET")
      ->required();
  command->add_option("--batch", arguments->batches, "samples of a call, as 1,8,32")
      ->type_name("N,...")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->capture_default_str();
  command->add_option("--seconds", arguments->seconds, "measure each batch size so long at least")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command->add_option("--prompt-tokens", arguments->prompt, "gpt2: tokens of each prompt")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->capture_default_str();
  command->add_option("--tokens", arguments->tokens, "gpt2: tokens to add to each")
      ->type_name("N")
      ->check(CLI::Range(int64_t{2}, int64_t{1'000'000}))
      ->capture_default_str();
  command->add_flag("--profile", arguments->profile,
                    "time every kernel, and print where the time went; of gpt2, the reading of prompts is in it");
  add_model_options(*command, *arguments);
  add_layout_option(*command, *arguments);
  add_time_limit_option(*command, *arguments);
  add_runs_option(*command, arguments->runs);
  add_json_option(*command, session);
  command->footer(
      "A call of bert fills a batch of sequences' masks; of gpt2 it adds one token to each text of a batch, after the\n"
      "prompts were read; of a network for images and of a model's file it computes the program \"predict\", or the\n"
      "evaluation, for a batch of random samples (of a file in its own micro-batches). pN is the latency that N of\n"
      "a hundred calls do not exceed.");
  command->callback(
      [arguments, &session] { session.action = [arguments, &session] { return bench(*arguments, session); }; });
}

}  // namespace ramet::cli
