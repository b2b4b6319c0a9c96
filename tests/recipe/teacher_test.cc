// Tasks that are learned from a teacher's answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/recipe/prepare.h"
#include "ramet/recipe/publish.h"
#include "ramet/recipe/task.h"
#include "ramet/recipe/task_predictor.h"
#include "support/cache_folder.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kTexts = 41, kSteps = 4;
const fs::path kVocabulary = fs::path(RAMET_SOURCE_DIR) / "tests/samples/data/tiny-vocab.txt";

class TeacherRecipe : public ::testing::Test {
 protected:
  TeacherRecipe() {
    fs::copy_file(kVocabulary, folder_ / "vocab.txt");
    static const std::vector<std::string> words = {"the", "want", "run", "low", "cafe", "wanted", "lowest"};
    std::mt19937 random(7);
    std::string classes = "text\tlabel\n", values = "text\tlabel\n", three = "text\tlabel\n";
    for (int64_t i = 0; i < kTexts; ++i) {
      std::string line;
      for (size_t w = random() % 9 + 1; w > 0; --w) line += (line.empty() ? "" : " ") + words[random() % words.size()];
      classes += line + "\t" + (line.find("low") != std::string::npos ? "one" : "other") + "\n";
      three += line + "\t" + std::to_string(i % 3) + "\n";
      values += line + "\t" + std::to_string(i) + "\n";
    }
    write_file_atomic(folder_ / "classes.tsv", classes);
    write_file_atomic(folder_ / "three.tsv", three);
    write_file_atomic(folder_ / "values.tsv", values);
    write_file_atomic(folder_ / "choice.tsv", "text\ta\tb\tlabel\nthe\trun\twant\t1\n");
  }

  Recipe recipe(const std::vector<std::string>& more = {}, const std::string& layout = "p=1") const {
    std::vector<std::string> settings = {"model.preset=tiny",
                                         "model.layers=2",
                                         "model.hidden=32",
                                         "model.heads=2",
                                         "model.intermediate=64",
                                         "model.max_positions=16",
                                         "data.sequence_length=16",
                                         "task.kind=classification",
                                         "task.text=text",
                                         "task.label=label",
                                         "task.train=" + (folder_ / "classes.tsv").string(),
                                         "task.tokenizer=" + (folder_ / "vocab.txt").string(),
                                         "train.precision=f32",
                                         "train.micro_batch=2",
                                         "train.accumulation=4",
                                         "train.lanes=2",
                                         "train.chunks=2",
                                         "train.schedule.learning_rate=0.01",
                                         "train.schedule.warmup_steps=1",
                                         "train.steps=" + std::to_string(kSteps)};
    settings.insert(settings.end(), more.begin(), more.end());
    Recipe made = parse_recipe("", "student.toml", ".", settings);
    set_layout(made, layout);
    return made;
  }

  /// The folder of a run of a wider and deeper model.
  fs::path teacher(const std::string& name, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"model.layers=3", "model.hidden=48", "model.heads=3", "train.seed=5"});
    Preparation preparation = prepare(recipe(more));
    const fs::path run = folder_ / name;
    fs::create_directories(run);
    write_file_atomic(run / "recipe.toml", print_recipe(preparation.recipe));
    preparation.tokenizer->save(run / "tokenizer");
    Training training = make_training(std::move(preparation), {.threads = 1});
    training.initialize();
    for (int64_t step = 0; step < kSteps; ++step) training.step();
    training.save(run / "checkpoints");
    return run;
  }
  std::vector<std::string> taught_by(const fs::path& folder, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), "task.teacher=" + folder.string());
    return more;
  }

  static std::string hash_of(const Recipe& recipe, int threads = 1) {
    Training training = make_training(prepare(recipe), {.threads = threads});
    training.initialize();
    for (int64_t step = 0; step < kSteps; ++step) training.step();
    return training.weights_hash();
  }
  std::string error_of(const std::vector<std::string>& more) const {
    try {
      make_training(prepare(recipe(more)), {.threads = 1});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  TemporaryFolder folder_;
  OwnCache cache_{folder_ / "cache"};
};

/// What a run answers for the texts that its recipe trains on.
TaskOutputs answers_of(const fs::path& run) {
  Recipe recipe = load_recipe(run / "recipe.toml");
  const Preparation preparation = prepare(recipe);
  TaskPredictor predictor(preparation.recipe, preparation.tokenizer, Layout{}, {.threads = 1});
  predictor.predictor().load(Checkpoint(list_checkpoints(run / "checkpoints").back()));
  return predictor.predict(preparation.task->train());
}

/// Numbers of a row of a batch.
template <typename T>
std::span<const T> numbers_of(const Batch& batch, int64_t row, const char* name) {
  const NamedTensor& tensor = batch.at(name);
  const auto count = static_cast<size_t>(tensor.type.elements() / batch.count);
  return {reinterpret_cast<const T*>(tensor.bytes.data()) + static_cast<size_t>(row) * count, count};
}

TEST_F(TeacherRecipe, EveryTextComesWithItsAnswer) {
  for (const char* precision : {"f32", "bf16"})
    for (const char* packing : {"none", "lpfhp"}) {
      SCOPED_TRACE(std::string(precision) + " " + packing);
      const fs::path run = teacher(std::string(precision) + packing, {"train.precision=" + std::string(precision)});
      const TaskOutputs expected = answers_of(run);
      const Preparation student =
          prepare(recipe(taught_by(run, {"task.dev=" + (folder_ / "classes.tsv").string(),
                                         std::string("data.packing=") + packing, "data.packing_depth=4"})));
      const Source& rows = *student.workload.train;
      std::set<int64_t> seen;
      const int64_t count = rows.epoch_samples(0);
      const Batch batch = rows.make(0, count);
      for (int64_t row = 0; row < count; ++row) {
        const auto ids = numbers_of<int32_t>(batch, row, "input_ids"),
                   labels = numbers_of<int32_t>(batch, row, "labels");
        const auto logits = numbers_of<float>(batch, row, "teacher_logits");
        const bool packed = std::string(packing) != "none";
        for (size_t i = 0; i < labels.size(); ++i) {
          const size_t begin = packed ? static_cast<size_t>(numbers_of<int32_t>(batch, row, "first_positions")[i]) : 0;
          if (labels[i] < 0) {
            EXPECT_EQ(logits[2 * i], 0);
            continue;
          }
          int64_t found = -1;  // the same text may be there twice, with the same answer
          for (int64_t text = 0; text < kTexts; ++text) {
            const std::vector<int32_t> own = student.task->train()->feature(text).rows[0].input_ids;
            const auto here = ids.subspan(begin, std::min(own.size(), ids.size() - begin));
            if (std::ranges::equal(own, here)) found = text, seen.insert(text);
          }
          ASSERT_GE(found, 0);
          for (size_t c = 0; c < 2; ++c)
            EXPECT_NEAR(logits[2 * i + c], expected.of(found)[c], precision[0] == 'b' && packed ? 0.02 : 1e-6);
        }
      }
      EXPECT_EQ(std::ssize(seen), kTexts);
    }
}

TEST_F(TeacherRecipe, AModelThatIsItsOwnTeacherHasNoLoss) {
  for (const char* packing : {"none", "lpfhp"}) {
    const std::vector<std::string> form = {"model.dropout=0", "model.attention_dropout=0",
                                           "data.packing=" + std::string(packing), "data.packing_depth=4"};
    const fs::path run = teacher(packing, form);
    std::vector<std::string> own = taught_by(run, form);
    own.insert(own.end(), {"model.layers=3", "model.hidden=48", "model.heads=3", "task.teacher_weight=1",
                           "model.init_from=" + run.string()});
    Training training = make_training(prepare(recipe(own)), {.threads = 1});
    training.initialize();
    EXPECT_NEAR(number_of(training.step(), "loss"), 0, 1e-6) << packing;
  }
}

TEST_F(TeacherRecipe, ReadsTextsWithItsOwnTokenizer) {
  std::string turned;  // the same words under other numbers
  std::vector<std::string> words;
  const std::string text = read_file(kVocabulary);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  for (size_t i = words.size(); i-- > 0;) turned += words[i] + "\n";
  write_file_atomic(folder_ / "turned.txt", turned);
  const fs::path run = teacher("run");
  const TaskOutputs expected = answers_of(run);
  const Preparation student =
      prepare(recipe(taught_by(run, {"data.shuffle=false", "task.tokenizer=" + (folder_ / "turned.txt").string()})));
  const Batch batch = student.workload.train->make(0, kTexts);
  EXPECT_EQ(std::memcmp(batch.at("teacher_logits").bytes.data(), expected.values.data(), kTexts * 2 * sizeof(float)),
            0);
}

TEST_F(TeacherRecipe, AnyLayoutGivesTheSameBits) {
  const fs::path run = teacher("run", {"train.precision=bf16"});
  for (const std::vector<std::string>& form :
       {std::vector<std::string>{}, {"train.precision=bf16", "data.packing=lpfhp", "data.packing_depth=4"}}) {
    const std::string hash = hash_of(recipe(taught_by(run, form)));
    EXPECT_EQ(hash_of(recipe(taught_by(run, form)), 3), hash);
    for (const char* layout : {"p=2", "t=2", "t=2 sequence=true", "r=2 rts=weights,grads,optimizer",
                               "p=2 phases=1 offload=optimizer", "p=2 t=2 r=2 recompute=layer"})
      EXPECT_EQ(hash_of(recipe(taught_by(run, form), layout)), hash) << layout << form.size();
  }
}

TEST_F(TeacherRecipe, ARunGoesOnAfterItWasKilled) {
  const Recipe whole = recipe(taught_by(teacher("run")));
  Training first = make_training(prepare(whole), {.threads = 1});
  first.initialize();
  first.step();
  const Checkpoint checkpoint(first.save(folder_ / "student"));
  Training second = make_training(prepare(recipe(taught_by(folder_ / "run"), "t=2")), {.threads = 2});
  EXPECT_EQ(second.restore(checkpoint), "");
  for (int64_t step = 1; step < kSteps; ++step) second.step();
  EXPECT_EQ(second.weights_hash(), hash_of(whole));
  // With another teacher it would be another run.
  Training other = make_training(prepare(recipe(taught_by(teacher("other", {"train.seed=6"})))), {.threads = 1});
  try {
    other.restore(checkpoint);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("data"));
  }
}

TEST_F(TeacherRecipe, AStudentBeginsFromItsTeacher) {
  const fs::path run = teacher("run", {"model.dropout=0.2"});
  const auto begun_from = [&](const fs::path& folder, std::vector<std::string> more = {}) {
    std::vector<std::string> settings{"model.init_from=" + folder.string(), "task.teacher=" + run.string()};
    settings.insert(settings.end(), more.begin(), more.end());
    for (const char* left : {"data.sequence_length=16", "task.kind=classification", "task.text=text",
                             "task.label=label", "train.precision=f32", "train.micro_batch=2", "train.steps=4"})
      settings.emplace_back(left);
    settings.push_back("task.train=" + (folder_ / "classes.tsv").string());
    return parse_recipe("", "student.toml", ".", settings);
  };
  const Recipe student = begun_from(run);
  EXPECT_EQ(student.model.layers, 3);
  EXPECT_EQ(student.model.hidden, 48);
  EXPECT_EQ(student.model.dropout, 0.2);
  const std::string hash = hash_of(student);
  EXPECT_EQ(hash_of(begun_from(list_checkpoints(run / "checkpoints").back())), hash);
  EXPECT_EQ(begun_from(list_checkpoints(run / "checkpoints").back() / "").model.layers, 3);
  EXPECT_EQ(begun_from(run, {"model.dropout=0.3"}).model.dropout, 0.3) << "what the recipe says counts";
  // Of another preset or kind it says all itself.
  EXPECT_FALSE(begun_from(run, {"model.preset=small"}).model.layers.has_value());
  EXPECT_FALSE(begun_from(run, {"model.kind=distilbert"}).model.layers.has_value());
  EXPECT_THROW((void)hash_of(recipe({"model.init_from=" + run.string()})), Error) << "sizes of its own";
  // A recipe that lies beside weights, or above their folder, is no run's.
  fs::create_directories(folder_ / "project/models/own");
  write_file_atomic(folder_ / "project/recipe.toml", "[model]\nlayers = 7\n");
  write_file_atomic(folder_ / "project/models/own/recipe.toml", "[model]\nlayers = 8\n");
  EXPECT_FALSE(begun_from(folder_ / "project/models/own").model.layers.has_value());
  EXPECT_FALSE(begun_from("/").model.layers.has_value());
  EXPECT_FALSE(begun_from(folder_ / "project/models/w.safetensors").model.layers.has_value());
  // A complete recipe does not need the run.
  const std::string complete = print_recipe(prepare(student).recipe);
  fs::rename(run, folder_ / "gone");
  EXPECT_EQ(parse_recipe(complete, "student.toml", ".").model.hidden, 48);
}

TEST_F(TeacherRecipe, AnswersAreKept) {
  const fs::path run = teacher("run");
  const auto hash_and_answers = [&](const std::vector<std::string>& more) {
    bool answered = false;
    Training training = make_training(prepare(recipe(taught_by(run, more))),
                                      {.threads = 1, .progress = [&](std::string_view what, int64_t, int64_t) {
                                         answered |= what.ends_with("answers");
                                       }});
    training.initialize();
    training.step();
    return std::pair(training.weights_hash(), answered);
  };
  const auto [hash, answered] = hash_and_answers({});
  EXPECT_TRUE(answered);
  EXPECT_EQ(hash_and_answers({}), std::pair(hash, false));
  // Another student of the same texts.
  EXPECT_FALSE(hash_and_answers({"train.seed=3", "model.layers=1", "task.epochs=1"}).second);
  EXPECT_TRUE(hash_and_answers({"task.limit_train=20"}).second) << "other texts";
  EXPECT_TRUE(hash_and_answers({"data.sequence_length=14"}).second) << "texts that are cut";
  // Files that are not whole are made anew.
  for (const auto& damage :
       {+[](std::string& text) { text[text.size() - 3] ^= 1; }, +[](std::string& text) { text.pop_back(); },
        +[](std::string& text) { text.clear(); }, +[](std::string& text) { text[3] ^= 1; }}) {
    for (const fs::directory_entry& file : fs::directory_iterator(folder_ / "cache/ramet")) {
      if (!file.path().filename().string().starts_with("answers-")) continue;
      std::string text = read_file(file.path());
      damage(text);
      write_file_atomic(file.path(), text);
    }
    EXPECT_EQ(hash_and_answers({}), std::pair(hash, true));
    EXPECT_EQ(hash_and_answers({}), std::pair(hash, false));
  }
  // Of another teacher nothing is kept.
  const fs::path other = teacher("run", {"train.seed=6"});
  EXPECT_TRUE(hash_and_answers({}).second) << other;
}

TEST_F(TeacherRecipe, AWeightOf0IsNoTeacher) {
  const std::string plain = hash_of(recipe());
  const fs::path run = teacher("run");
  EXPECT_EQ(hash_of(recipe(taught_by(run, {"task.teacher_weight=0"}))), plain);
  const std::string half = hash_of(recipe(taught_by(run, {"task.teacher_weight=0.5"})));
  EXPECT_NE(half, plain);
  EXPECT_NE(hash_of(recipe(taught_by(run, {"task.teacher_weight=1"}))), half);
  EXPECT_NE(hash_of(recipe(taught_by(run, {"task.teacher_weight=0.5", "task.teacher_temperature=5"}))), half);
}

TEST_F(TeacherRecipe, ARunItsCheckpointAndItsExportTeachTheSame) {
  const fs::path run = teacher("run"), checkpoint = list_checkpoints(run / "checkpoints").back();
  const std::string hash = hash_of(recipe(taught_by(run)));
  EXPECT_EQ(hash_of(recipe(taught_by(checkpoint))), hash);
  const Preparation preparation = prepare(load_recipe(run / "recipe.toml"));
  const std::vector<StateTensor> weights = preparation.workload.model.weights;
  std::map<std::string, std::vector<std::byte>> values;
  Checkpoint(checkpoint).load(weights, [&](const StateTensor& weight, std::span<const std::byte> bytes) {
    values[weight.name].assign(bytes.begin(), bytes.end());
  });
  const auto read = [&](const std::string& name, std::span<std::byte> to) {
    std::ranges::copy(values.at(name), to.begin());
  };
  publish_model(folder_ / "published", preparation.recipe, weights, preparation.tokenizer.get(), read);
  EXPECT_EQ(hash_of(recipe(taught_by(folder_ / "published"))), hash);
}

TEST_F(TeacherRecipe, RefusesWhatCannotTeach) {
  const fs::path run = teacher("run");
  const auto file = [&](const char* name) { return "task.train=" + (folder_ / name).string(); };
  EXPECT_THAT(error_of(taught_by(run, {"task.kind=regression", file("values.tsv")})),
              AllOf(HasSubstr("task.teacher"), HasSubstr("one label a text"), HasSubstr("regression")));
  EXPECT_THAT(error_of(taught_by(run, {"task.kind=choice", file("choice.tsv"), "task.pair=a, b"})),
              AllOf(HasSubstr("task.teacher"), HasSubstr("one label a text")));
  EXPECT_THAT(error_of(taught_by(run, {file("three.tsv")})),
              AllOf(HasSubstr("task.teacher"), HasSubstr("other labels"), HasSubstr("2 labels"), HasSubstr("3")));
  EXPECT_THAT(error_of(taught_by(run, {"task.labels=other,one"})),
              AllOf(HasSubstr("other labels"), HasSubstr("one, other"), HasSubstr("other, one")));
  EXPECT_THAT(error_of(taught_by(folder_ / "nowhere")),
              AllOf(HasSubstr("task.teacher"), HasSubstr("no trained model"), HasSubstr("nowhere")));
  EXPECT_THAT(error_of(taught_by(run, {"data.sequence_length=8", "task.teacher_weight=2"})),
              HasSubstr("task.teacher_weight"));
  EXPECT_THAT(error_of({"task.teacher_weight=0.5"}),
              AllOf(HasSubstr("there is no teacher"), HasSubstr("teacher_weight")));
  fs::remove_all(run / "checkpoints");
  EXPECT_THAT(error_of(taught_by(run)), AllOf(HasSubstr("no checkpoint yet"), HasSubstr("task.teacher")));
}

}  // namespace
}  // namespace ramet::tests
