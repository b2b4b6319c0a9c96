#include "ramet/recipe/teacher.h"

#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/base/words.h"
#include "ramet/kernel/devices.h"
#include "ramet/model/presets.h"
#include "ramet/recipe/kept_answers.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/packed_rows.h"
#include "ramet/recipe/sparse.h"
#include "ramet/recipe/task.h"
#include "ramet/recipe/text_models.h"
#include "ramet/text/unicode.h"
#include "ramet/train/checkpoint.h"
#include "ramet/train/feeder.h"
#include "ramet/train/predictor.h"
#include "ramet/weights/tensor_file.h"

namespace ramet::recipe {
namespace {

namespace fs = std::filesystem;

/// A split whose labels are the numbers of its texts, so that answers find back from packed rows.
class NumberedTexts final : public TaskSplit {
 public:
  explicit NumberedTexts(std::shared_ptr<const TaskSplit> texts) : texts_(std::move(texts)) {}
  int64_t examples() const override { return texts_->examples(); }
  int64_t features() const override { return texts_->features(); }
  TaskFeature feature(int64_t index) const override {
    TaskFeature feature = texts_->feature(index);
    feature.label = static_cast<int32_t>(index);
    return feature;
  }
  bool labelled() const override { return false; }
  std::vector<std::pair<std::string, double>> score(std::span<const TaskOutputs> runs) const override {
    return texts_->score(runs);
  }
  void write_predictions(std::span<const TaskOutputs> runs, const fs::path& path) const override {
    texts_->write_predictions(runs, path);
  }

 private:
  std::shared_ptr<const TaskSplit> texts_;
};

fs::path checkpoint_of(const fs::path& folder, const fs::path& run, const std::string& where) {
  if (folder != run) return folder;
  if (auto found = answering_checkpoint(run)) return *std::move(found);
  throw Error({.what = "the teacher's run has no checkpoint yet",
               .where = where,
               .found = folder.string(),
               .remedy = "Let it train first, or name another run"});
}

[[noreturn]] void refuse_labels(const std::string& where, const std::string& found, const std::string& expected) {
  throw Error({.what = "the teacher answers with other labels",
               .where = where,
               .found = found,
               .expected = expected,
               .remedy = "Name a model that was trained on this task with these labels in this order"});
}

std::vector<std::u32string> in_lower_case(const std::vector<std::string>& texts) {
  std::vector<std::u32string> lower;
  for (const std::string& text : texts) lower.push_back(text::lower_case(text));
  return lower;
}

/// Names may differ, as "1" and "POSITIVE" do; the same names must come in the same order.
void check_labels(const std::string& where, const std::vector<std::string>& teacher, int64_t teacher_count,
                  const std::vector<std::string>& student, int64_t count) {
  if (teacher_count != count) refuse_labels(where, std::to_string(teacher_count) + " labels", std::to_string(count));
  const std::vector<std::u32string> theirs = in_lower_case(teacher), ours = in_lower_case(student);
  if (theirs == ours || !std::is_permutation(theirs.begin(), theirs.end(), ours.begin(), ours.end())) return;
  refuse_labels(where, listed(teacher), listed(student));
}

Hash hash_of_tokens(const TaskSplit& texts) {
  Hasher hasher;
  const auto add = [&](const std::vector<int32_t>& numbers) {
    const auto count = static_cast<int64_t>(numbers.size());
    hasher.update(&count, sizeof count);
    hasher.update(numbers.data(), numbers.size() * sizeof(int32_t));
  };
  for (int64_t i = 0; i < texts.features(); ++i)
    for (const TaskRow& row : texts.feature(i).rows) add(row.input_ids), add(row.token_type_ids);
  return hasher.digest();
}

/// To be raised when answers get other bits.
constexpr int kAnswersVersion = 1;

/// The recipe of a run for the texts of another recipe's task.
Recipe recipe_of_run(const Recipe& student, const fs::path& run, const std::string& where) {
  Recipe recipe = load_recipe(run / "recipe.toml");
  if (!recipe.is_task() || recipe.task.head != name_of(TaskHead::kClassification))
    throw Error({.what = "the teacher was not trained to give a text a label",
                 .where = where,
                 .found = run.string() + ": " +
                          (recipe.is_task() ? "task.kind = \"" + recipe.task.kind + "\"" : "a run of no task"),
                 .expected = "a run of the same task"});
  check_labels(where, parts_of(recipe.task.labels), recipe.task.classes.value_or(0), parts_of(student.task.labels),
               *student.task.classes);
  recipe.model.init_from.clear();
  recipe.task = student.task;
  recipe.task.tokenizer.clear();
  kind_of(recipe).begin_from_run(recipe, run);
  return recipe;
}

Recipe recipe_of_published(const Recipe& student, const fs::path& folder, const std::string& where) {
  std::error_code ignored;
  const auto config = fs::is_directory(folder, ignored) ? read_published_config(folder) : std::nullopt;
  if (!config || !has_weights(folder))
    throw Error({.what = "the teacher is no trained model",
                 .where = where,
                 .found = folder.string(),
                 .expected = "the folder of a run of a task, of one of its checkpoints, or of a published model with "
                             "config.json and weights"});
  if (!bert_family(config->kind))
    throw Error({.what = "the teacher is no encoder",
                 .where = where,
                 .found = config->kind,
                 .expected = "bert, roberta or distilbert"});
  if (!config->labels.empty())
    check_labels(where, config->labels, std::ssize(config->labels), parts_of(student.task.labels),
                 *student.task.classes);
  Recipe recipe = student;
  recipe.model = {};
  recipe.model.kind = config->kind;
  recipe.model.init_from = folder.string();
  recipe.sparse = {};
  recipe.train.scaling = "none";
  recipe.train.groups.clear();
  recipe.task.tokenizer.clear();
  std::erase_if(recipe.places, [](const auto& place) { return place.first.starts_with("model."); });
  return recipe;
}

/// Of names and numbers, whatever the files' form is.
Hash hash_of_published(const fs::path& folder) {
  const auto file = open_tensor_file(folder);
  std::vector<StoredTensor> tensors = file->tensors();
  std::ranges::sort(tensors, {}, &StoredTensor::name);
  std::string text;
  for (const StoredTensor& tensor : tensors) {
    std::vector<float> numbers(tensor.floating ? static_cast<size_t>(tensor.shape.elements()) : 0);
    if (tensor.floating) file->read(tensor, numbers);
    text += tensor.name + hash_bytes(numbers.data(), numbers.size() * sizeof(float)).hex();
  }
  return hash_text(text);
}

}  // namespace

Recipe without_teacher(Recipe recipe) {
  recipe.task.teacher.clear();
  recipe.task.teacher_weight.reset();
  recipe.task.teacher_temperature.reset();
  return recipe;
}

Teacher::Teacher(const Recipe& student, const TaskSplit& texts)
    : folder_(fs::path(student.task.teacher).lexically_normal()),
      where_(student.where("task.teacher")),
      texts_(texts.features()),
      classes_(*student.task.classes) {
  if (student.task.head != name_of(TaskHead::kClassification))
    throw Error({.what = "only a task of one label a text has a teacher",
                 .where = where_,
                 .found = "task.kind = \"" + student.task.kind + "\", a task of the kind " + student.task.head,
                 .remedy = "Leave task.teacher out"});
  if (folder_.filename().empty()) folder_ = folder_.parent_path();
  const fs::path run = run_of(folder_);
  Recipe recipe = run.empty() ? recipe_of_published(student, folder_, where_) : recipe_of_run(student, run, where_);
  if (!run.empty()) checkpoint_ = checkpoint_of(folder_, run, where_);
  recipe = without_teacher(std::move(recipe));
  recipe.layout = "p=1";
  recipe.data = student.data;
  tokenizer_ = open_task_tokenizer(recipe);
  task_ = open_task(task_options(recipe, *tokenizer_), tokenizer_);
  recipe_ = complete_recipe(std::move(recipe));
  if (!task_->train() || task_->train()->features() != texts_) internal_error("Teacher", "it reads other texts");
  if (tokenizer_->vocabulary_size() > *recipe_.model.vocabulary_size)
    throw Error({.what = "the teacher's tokenizer has more tokens than the teacher has rows for",
                 .where = where_,
                 .found = std::to_string(tokenizer_->vocabulary_size()),
                 .expected = "at most " + std::to_string(*recipe_.model.vocabulary_size)});
  const std::string weights =
      checkpoint_ ? Checkpoint(*checkpoint_).info().weights_hash : hash_of_published(folder_).hex();
  identity_ = hash_text(weights + recipe_hash(recipe_).hex() + tokenizer_->hash().hex());
  Recipe answering = recipe_;  // without what the student's task says of its training, and where its texts are
  answering.task = {};
  answering.task.kind = recipe_.task.kind;
  answering.task.head = recipe_.task.head;
  answering.task.classes = recipe_.task.classes;
  subject_ = "answers " + std::to_string(kAnswersVersion) + " " + weights + " " + recipe_hash(answering).hex() + " " +
             tokenizer_->hash().hex();
}

void Teacher::answer(const Where& where) {
  const std::lock_guard lock(mutex_);
  if (!logits_.empty()) return;
  const std::string subject = subject_ + " " + hash_of_tokens(*task_->train()).hex() + " " +
                              kernel::find_device(where.device).backend().kernel_class();
  if (auto kept = kept_answers(subject, texts_ * classes_)) {
    logits_ = *std::move(kept);
    return;
  }
  logits_ = compute(where);
  keep_answers(subject, logits_);
}

std::span<const float> Teacher::logits(int64_t feature) {
  answer({});
  return std::span<const float>(logits_).subspan(static_cast<size_t>(feature * classes_),
                                                 static_cast<size_t>(classes_));
}

std::vector<float> Teacher::compute(const Where& where) const {
  const int64_t samples = prediction_samples(recipe_), depth = recipe_.data.packs() ? recipe_.data.packing_depth : 1;
  Model model = build_model(recipe_);
  model.programs = {
      {"predict", with_sparse_weights(model, build_task_predictor(recipe_, samples, recipe_.data.packs()))}};
  Predictor predictor(std::move(model), recipe_.train, Layout{},
                      {.threads = where.threads,
                       .device = where.device,
                       .time_limit = where.time_limit,
                       .progress = where.progress,
                       .layout_source = where_},
                      {"predict"});
  if (checkpoint_)
    predictor.load(Checkpoint(*checkpoint_));
  else
    predictor.import_weights(folder_);
  const std::shared_ptr<const Source> rows =
      in_packed_rows(make_task_batches(std::make_shared<NumberedTexts>(task_->train()),
                                       task_batch_options(recipe_, *tokenizer_, false)),
                     recipe_, 0, false);
  const int64_t count = rows->epoch_samples(0), batches = (count + samples - 1) / samples;
  Feeder feeder(rows, predictor.cluster(), {.micro_batch = samples, .program = "predict", .count = batches});
  feeder.begin(0);
  const int64_t bytes = texts_ * classes_ * static_cast<int64_t>(sizeof(float));
  const ClusterFeed feed = feed_with_progress(feeder.feed(), samples, count, [&](int64_t begun, int64_t total) {
    if (where.progress) where.progress("the teacher's answers", bytes * std::min(begun, total) / total, bytes);
  });
  const std::vector<ResultTensors> answers = predictor.run("predict", batches, count, feed);
  std::vector<float> logits(static_cast<size_t>(texts_ * classes_), std::nanf(""));
  for (int64_t row = 0; row < count; ++row) {
    const Batch batch = rows->make(row, 1);
    const auto* numbers = reinterpret_cast<const int32_t*>(batch.at("labels").bytes.data());
    const auto& answer = answers[static_cast<size_t>(row / samples)].front();
    for (int64_t i = 0; i < depth; ++i)
      for (int64_t c = 0; numbers[i] >= 0 && c < classes_; ++c)
        logits[static_cast<size_t>(numbers[i] * classes_ + c)] =
            static_cast<float>(answer.get((row % samples * depth + i) * classes_ + c));
  }
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); }))
    throw Error({.what = "the teacher gave an answer that is not finite", .where = where_, .found = folder_.string()},
                ErrorKind::kFailure);
  return logits;
}

}  // namespace ramet::recipe
