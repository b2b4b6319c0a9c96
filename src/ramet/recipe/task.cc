#include "ramet/recipe/task.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/recipe/encoder.h"
#include "ramet/recipe/keys.h"
#include "ramet/recipe/packed_rows.h"
#include "ramet/recipe/task_evaluator.h"
#include "ramet/recipe/teacher.h"
#include "ramet/recipe/text_models.h"

namespace ramet::recipe {
namespace {

namespace fs = std::filesystem;

/// Names with commas between; nothing where a name has one itself.
std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (name.find(',') != std::string::npos) return "";
    text += (text.empty() ? "" : ",") + name;
  }
  return text;
}

/// The first of these tokens that the vocabulary has.
int32_t token_of(const Tokenizer& tokenizer, std::initializer_list<const char*> names, const Recipe& recipe) {
  for (const char* name : names)
    if (const int32_t id = tokenizer.vocabulary().find(name); id >= 0) return id;
  throw Error(
      {.what = "the tokenizer has no token " + std::string(*names.begin()) + ", which frames the texts of a task",
       .where = recipe.where("task.tokenizer"),
       .remedy = "Give the tokenizer that the model was trained with"});
}

TaskFrame frame_of(const Recipe& recipe, const Tokenizer& tokenizer) {
  TaskFrame frame;
  const bool roberta = recipe.model.kind == "roberta" && tokenizer.kind() == "bpe";
  const auto token = [&](const char* bert, const char* other) {
    return roberta ? token_of(tokenizer, {other, bert}, recipe) : token_of(tokenizer, {bert, other}, recipe);
  };
  frame.classify = token("[CLS]", "<s>");
  frame.separator = token("[SEP]", "</s>");
  frame.padding = token("[PAD]", "<pad>");
  frame.two_separators = roberta;
  frame.types = recipe.model.kind == "bert" && recipe.model.types.value_or(2) > 1;
  return frame;
}

/// Sets the number of steps, the warm-up and the pace of evaluations from epochs, where the recipe does not give them
/// in steps.
void count_steps(Recipe& recipe, const Source* train) {
  const auto left_out = [&](const char* key) { return !recipe.places.count(key); };
  const int64_t rows = train ? train->epoch_samples(0) : 0,
                samples = recipe.train.micro_batch * recipe.train.accumulation;
  const int64_t epoch = std::max<int64_t>(1, (rows + samples - 1) / samples);
  if (left_out("train.steps"))
    recipe.train.steps = std::max<int64_t>(
        1, static_cast<int64_t>(
               std::ceil(recipe.task.epochs * static_cast<double>(rows) / static_cast<double>(samples) - 1e-9)));
  if (left_out("train.schedule.warmup_steps"))
    recipe.train.schedule.warmup_steps =
        static_cast<int64_t>(std::floor(recipe.task.warmup * static_cast<double>(recipe.train.steps)));
  if (left_out("train.evaluation.every")) recipe.train.evaluation.every = epoch;
}

HeadShape head_shape(const Recipe& recipe) {
  const auto& task = recipe.task;
  const TaskHead head = task_head_from_name(task.head);
  const bool of_sentences = head == TaskHead::kClassification || head == TaskHead::kRegression;
  const bool firmer = recipe.model.kind == "distilbert" && of_sentences;  // its published configuration's 0.2
  return {.kind = head,
          .labels = task.classes.value_or(1),
          .choices = task.choices.value_or(1),
          .dropout = task.dropout.value_or(firmer ? 0.2 : *recipe.model.dropout),
          .teacher_weight = task.has_teacher() ? *task.teacher_weight : 0,
          .teacher_temperature = task.teacher_temperature.value_or(1)};
}

/// Names of the labels of a complete recipe's model, for others.
std::vector<std::string> labels_of(const Recipe& recipe) {
  const auto head = task_head_from_name(recipe.task.head);
  if (head != TaskHead::kClassification && head != TaskHead::kTokens) return {};
  const int64_t count = recipe.task.classes.value_or(0);
  std::vector<std::string> labels;
  for (size_t at = 0; !recipe.task.labels.empty() && at <= recipe.task.labels.size();) {
    const size_t end = std::min(recipe.task.labels.find(',', at), recipe.task.labels.size());
    labels.push_back(recipe.task.labels.substr(at, end - at));
    at = end + 1;
  }
  if (std::ssize(labels) == count) return labels;
  labels.clear();
  for (int64_t i = 0; i < count; ++i) labels.push_back("LABEL_" + std::to_string(i));
  return labels;
}

void check_teacher(const Recipe& recipe) {
  if (!recipe.task.teacher.empty()) return;
  for (const auto& [key, given] : {std::pair("task.teacher_weight", recipe.task.teacher_weight.has_value()),
                                   std::pair("task.teacher_temperature", recipe.task.teacher_temperature.has_value())})
    if (given)
      throw Error({.what = "there is no teacher",
                   .where = recipe.where(key),
                   .remedy = "Name one in task.teacher, or leave " + std::string(key) + " out"});
}

/// Fine-tuning of an encoder on a task.
class TaskKind final : public RecipeKind {
 public:
  std::string title() const override { return "task"; }
  std::string chosen_by() const override { return "task.kind"; }
  bool takes(const Recipe& recipe) const override { return recipe.is_task(); }
  std::vector<RecipeKey> keys() const override { return task_keys(); }
  bool keeps_its_keys() const override { return true; }
  std::vector<std::string> presets(const Recipe& recipe) const override {
    return bert_preset_names(*bert_family(recipe.model.kind));
  }
  void check(const Recipe& recipe) const override {
    if (!bert_family(recipe.model.kind))
      throw Error({.what = "tasks are fine-tuned on encoders",
                   .where = recipe.where("model.kind"),
                   .found = recipe.model.kind,
                   .expected = "bert, roberta or distilbert"});
    check_packing(recipe);
    check_activation(recipe);
    check_teacher(recipe);
  }
  void complete(Recipe& recipe, int64_t corpus_vocabulary) const override {
    check(recipe);
    if (recipe.task.has_teacher()) {  // as Sanh et al. 2020 (arXiv 2005.07683) prune
      fill(recipe.task.teacher_weight, 0.9);
      fill(recipe.task.teacher_temperature, 2.0);
    }
    complete_encoder(recipe, corpus_vocabulary);
  }
  void take_published(Recipe& recipe, const PublishedConfig& config) const override {
    check(recipe);
    take_published_encoder(recipe, config);
  }
  OpenedData open(Recipe& recipe, Preparation& into) const override;
  void begin_from_run(Recipe& recipe, const std::filesystem::path& run) const override {
    std::error_code error;
    if (std::filesystem::is_directory(run / "tokenizer", error)) recipe.task.tokenizer = (run / "tokenizer").string();
  }
  Error without_samples(const Recipe& recipe, bool held_out) const override {
    if (held_out) return RecipeKind::without_samples(recipe, held_out);
    return Error({.what = "the task has no file to train on",
                  .where = recipe.where("task.kind"),
                  .remedy = "Set task.train, or name a folder that has it in task.data"});
  }
  Model build_model(const Recipe& recipe) const override {
    Model model =
        build_bert_task(bert_config(recipe), encoder_batch(recipe, recipe.train.micro_batch), head_shape(recipe));
    // Answers take no more samples at a time than training, so that they fit wherever the model trains.
    const int64_t samples = prediction_samples(recipe, recipe.train.micro_batch);
    model.programs.push_back({"predict", build_task_predictor(recipe, samples)});
    return model;
  }
  PublishedModel published(const Recipe& recipe, const Tokenizer* tokenizer) const override {
    PublishedModel model = published_encoder(recipe, tokenizer);
    const TaskHead head = task_head_from_name(recipe.task.head);
    model.architecture += head == TaskHead::kSpan     ? "QuestionAnswering"
                          : head == TaskHead::kTokens ? "TokenClassification"
                          : head == TaskHead::kChoice ? "MultipleChoice"
                                                      : "SequenceClassification";
    model.config.labels = labels_of(recipe);
    model.regression = head == TaskHead::kRegression;
    return model;
  }
};

}  // namespace

const RecipeKind& task_kind() {
  static const TaskKind kind;
  return kind;
}

OpenedData TaskKind::open(Recipe& recipe, Preparation& result) const {
  result.tokenizer = open_task_tokenizer(recipe);
  result.task = open_task(task_options(recipe, *result.tokenizer), result.tokenizer);
  const TaskSet& task = *result.task;
  recipe.task.head = std::string(name_of(task.head()));
  const bool labelled = task.head() == TaskHead::kClassification || task.head() == TaskHead::kTokens;
  recipe.task.classes = labelled ? std::ssize(task.labels()) : 1;
  recipe.task.choices = task.choices();
  if (labelled && recipe.task.labels.empty()) recipe.task.labels = joined(task.labels());
  if (recipe.data.packs() && task.head() == TaskHead::kChoice)
    throw Error({.what = "the rows of a choice are not packed",
                 .where = recipe.where("data.packing"),
                 .found = "task.kind = \"" + recipe.task.kind + "\"",
                 .remedy = "Leave data.packing out for this task"});
  std::string contents = task.hash();
  if (task.train()) {
    TaskBatchOptions options = task_batch_options(recipe, *result.tokenizer, true);
    if (recipe.task.has_teacher()) {
      const auto teacher = std::make_shared<Teacher>(recipe, *task.train());
      contents += teacher->identity().hex();
      options.teacher = [teacher](int64_t feature) { return teacher->logits(feature); };
      options.teacher_classes = *recipe.task.classes;
      result.teacher = teacher;
    }
    options.contents = contents;
    result.workload.train = in_packed_rows(make_task_batches(task.train(), options), recipe, 0, true);
  }
  count_steps(recipe, result.workload.train.get());
  if (!recipe.model.vocabulary_size) recipe.model.vocabulary_size = result.tokenizer->vocabulary_size();
  if (*recipe.model.vocabulary_size < result.tokenizer->vocabulary_size())
    throw Error(
        {.what = "the tokenizer has more tokens than the model has rows for",
         .where = recipe.where(recipe.places.count("task.tokenizer") ? "task.tokenizer" : "model.vocabulary_size"),
         .found = std::to_string(result.tokenizer->vocabulary_size()),
         .expected = "at most " + std::to_string(*recipe.model.vocabulary_size),
         .remedy = "Give the tokenizer that the model was trained with"});
  result.workload.data_identity = hash_text(contents + result.tokenizer->hash().hex()).hex();
  return {.make_workload = [this](Preparation& into) {
    const Recipe& complete = into.recipe;
    into.workload.units = {.name = "tokens",
                           .per_sample = complete.task.choices.value_or(1) * complete.data.sequence_length,
                           .mask = padding_mask(complete)};
    into.workload.evaluator = make_task_evaluator(complete, into.tokenizer, into.task);
    into.workload.model = build_model(complete);
  }};
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; !text.empty() && at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    size_t begin = at, behind = end;
    while (begin < behind && text[begin] == ' ') ++begin;
    while (behind > begin && text[behind - 1] == ' ') --behind;
    parts.push_back(text.substr(begin, behind - begin));
    at = end + 1;
  }
  return parts;
}

std::shared_ptr<const Tokenizer> open_task_tokenizer(const Recipe& recipe) {
  std::error_code ignored;
  const fs::path weights = recipe.model.init_from;
  if (!recipe.task.tokenizer.empty()) return load_tokenizer(recipe.task.tokenizer);
  if (const fs::path run = run_of(weights); fs::is_directory(run / "tokenizer", ignored))
    return load_tokenizer(run / "tokenizer");
  if (fs::is_directory(weights, ignored)) return load_tokenizer(weights);
  throw Error(
      {.what = "no tokenizer for the task",
       .where = recipe.where("task.kind"),
       .expected = "task.tokenizer, or model.init_from with the folder of a published model",
       .remedy = "Set task.tokenizer to a folder with vocab.txt, tokenizer.json, or vocab.json and merges.txt"});
}

TaskOptions task_options(const Recipe& recipe, const Tokenizer& tokenizer) {
  const auto& task = recipe.task;
  TaskOptions options;
  options.kind = task.kind;
  options.data = task.data;
  options.train = task.train, options.dev = task.dev, options.test = task.test;
  options.text = task.text, options.pair = task.pair, options.label = task.label, options.id = task.id;
  options.labels = parts_of(task.labels);
  options.max_length = recipe.data.sequence_length;
  options.stride = task.stride, options.max_query = task.max_query, options.max_answer = task.max_answer;
  options.n_best = task.n_best, options.null_threshold = task.null_threshold;
  options.limit_train = task.limit_train, options.limit_dev = task.limit_dev;
  options.frame = frame_of(recipe, tokenizer);
  const auto place = recipe.places.find("task.kind");
  options.where = (place == recipe.places.end() ? "" : place->second + " ") + "task.";
  return options;
}

Graph build_task_predictor(const Recipe& recipe, int64_t samples, bool packed) {
  BatchShape shape = encoder_batch(recipe, samples);
  if (!packed) shape.depth = 0;  // answers are asked for one by one
  return build_bert_task_predict(bert_config(recipe), shape, head_shape(recipe));
}

int64_t prediction_samples(const Recipe& recipe, int64_t most) {
  constexpr int64_t kTokens = 4096;  // enough for matrix products to be at their best
  const int64_t tokens = recipe.data.sequence_length * recipe.task.choices.value_or(1);
  return std::clamp<int64_t>(kTokens / tokens, 1, std::clamp<int64_t>(most, 1, 64));
}

TaskBatchOptions task_batch_options(const Recipe& complete, const Tokenizer& tokenizer, bool training) {
  return {.head = task_head_from_name(complete.task.head),
          .choices = complete.task.choices.value_or(1),
          .max_length = complete.data.sequence_length,
          .padding = frame_of(complete, tokenizer).padding,
          .shuffle = training && complete.data.shuffle,
          .seed = static_cast<uint64_t>(complete.train.seed)};
}

std::shared_ptr<const TaskSplit> task_split(const TaskSet& task, const std::string& name) {
  auto split = name == "train" ? task.train() : name == "dev" ? task.dev() : name == "test" ? task.test() : nullptr;
  if (split) return split;
  throw Error({.what = "the task has no such file",
               .where = "task." + name,
               .found = "'" + name + "'",
               .remedy = "Give it with --set task." + name + "=FILE, or name a folder that has it in task.data"});
}

}  // namespace ramet::recipe
