// Fine-tuning on packed rows: to the bit what the same texts give one a row.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/training.h"
#include "support/made_source.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kLength = 24, kRows = 3, kDepth = 4, kSteps = 3;

/// So many of the vocabulary's words.
std::string words(std::mt19937& random, int count) {
  static const std::vector<std::string> all = {"the", "want", "run", "low", "cafe", "wanted", "lowest"};
  std::string text;
  for (int i = 0; i < count; ++i) text += (i ? " " : "") + all[random() % all.size()];
  return text;
}

/// Files of texts of one to nine words, for every kind of head, and a recipe for each.
class PackedTask : public ::testing::Test {
 protected:
  PackedTask() {
    std::filesystem::copy_file(std::filesystem::path(RAMET_SOURCE_DIR) / "tests/samples/data/tiny-vocab.txt",
                               folder_ / "vocab.txt");
    std::mt19937 random(7);
    std::string classes = "text\tlabel\n", values = "text\tlabel\n", tokens, spans;
    for (int i = 0; i < 60; ++i) {
      const int count = static_cast<int>(random() % 9) + 1;
      const std::string text = words(random, count);
      classes += text + "\t" + (i % 3 == 0 ? "one" : "other") + "\n";
      values += text + "\t" + std::to_string(static_cast<double>(random() % 50) / 10) + "\n";
      for (int w = 0; w < count; ++w) tokens += words(random, 1) + " NN " + (random() % 2 ? "B-X" : "O") + "\n";
      tokens += "\n";
      const std::string answer = text.substr(0, text.find(' '));
      spans += std::string(i ? "," : "") + R"({"context": ")" + text + R"(", "qas": [{"id": ")" + std::to_string(i) +
               R"(", "question": "the", "answers": [{"text": ")" + answer + R"(", "answer_start": 0}]}]})";
    }
    write_file_atomic(folder_ / "classification.tsv", classes);
    write_file_atomic(folder_ / "regression.tsv", values);
    write_file_atomic(folder_ / "tokens.txt", tokens);
    write_file_atomic(folder_ / "span.json",
                      R"({"version": "1.1", "data": [{"title": "t", "paragraphs": [)" + spans + "]}]}");
  }

  Recipe recipe(const std::string& kind, const std::string& file, const std::vector<std::string>& more) const {
    std::vector<std::string> settings = {"model.preset=tiny",
                                         "model.layers=2",
                                         "model.hidden=32",
                                         "model.heads=2",
                                         "model.intermediate=64",
                                         "model.max_positions=" + std::to_string(kLength),
                                         "model.dropout=0",
                                         "model.attention_dropout=0",
                                         "data.sequence_length=" + std::to_string(kLength),
                                         "task.kind=" + kind,
                                         "task.train=" + (folder_ / file).string(),
                                         "task.tokenizer=" + (folder_ / "vocab.txt").string(),
                                         "task.stride=4",
                                         "task.max_query=4",
                                         "train.precision=f32",
                                         "train.accumulation=2",
                                         "train.schedule.learning_rate=0.01",
                                         "train.schedule.warmup_steps=1",
                                         "train.steps=" + std::to_string(kSteps)};
    if (file.ends_with(".tsv")) settings.insert(settings.end(), {"task.text=text", "task.label=label"});
    settings.insert(settings.end(), more.begin(), more.end());
    return parse_recipe("", "packed.toml", ".", settings);
  }
  Recipe packed_recipe(const std::string& kind, const std::string& file, int64_t depth = kDepth,
                       int64_t rows = kRows) const {
    return recipe(kind, file,
                  {"data.packing=lpfhp", "data.packing_depth=" + std::to_string(depth),
                   "train.micro_batch=" + std::to_string(rows)});
  }

  TemporaryFolder folder_;
};

/// The sequences of packed rows one a row, packed at depth 1 or plain: micro-batch i has those of packed micro-batch i,
/// and behind them rows of nothing.
class Unpacked final : public MadeSource {
 public:
  Unpacked(std::shared_ptr<const Source> packed, std::shared_ptr<const Source> like)
      : packed_(std::move(packed)), like_(std::move(like)) {}
  Signature signature(int64_t count) const override { return like_->signature(count); }

  Batch batch(int64_t first_sample, int64_t count) const override {
    const Batch from = packed_->make(first_sample / count * kRows, kRows);
    Batch to = like_->make(0, count);
    for (NamedTensor& tensor : to.tensors) {
      const bool labels = tensor.name == "labels" || tensor.name.ends_with("_positions");
      std::fill_n(numbers(tensor), tensor.type.elements(),
                  labels && tensor.name != "first_positions" && tensor.type.dtype == DType::kI32 ? -1 : 0);
    }
    int64_t row = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      const int32_t* segments = numbers(from.at("segment_ids")) + r * kLength;
      for (int64_t begin = 0, end, n = 0; begin < kLength && segments[begin] != 0; begin = end, ++row, ++n) {
        for (end = begin; end < kLength && segments[end] == segments[begin];) ++end;
        for (NamedTensor& tensor : to.tensors) take(from, tensor, r, n, begin, end, row);
      }
    }
    sequences += row;
    return to;
  }
  mutable std::atomic<int64_t> sequences = 0;

 private:
  static int32_t* numbers(NamedTensor& tensor) { return reinterpret_cast<int32_t*>(tensor.bytes.data()); }
  static const int32_t* numbers(const NamedTensor& tensor) {
    return reinterpret_cast<const int32_t*>(tensor.bytes.data());
  }
  /// Of packed row `r` sequence `n`, tokens [begin, end), as row `row`.
  static void take(const Batch& from, NamedTensor& to, int64_t r, int64_t n, int64_t begin, int64_t end, int64_t row) {
    const int64_t width = to.type.elements() / to.type.shape.dims()[0];
    int32_t* const at = numbers(to) + row * width;
    if (to.name == "attention_mask" || to.name == "segment_ids") {
      std::fill_n(at, end - begin, 1);
    } else if (to.name == "first_positions") {
      *at = 0;
    } else if (width == kLength) {
      std::copy_n(numbers(from.at(to.name)) + r * kLength + begin, end - begin, at);
    } else {
      *at = numbers(from.at(to.name))[r * kDepth + n];
      if (to.name.ends_with("_positions")) *at -= static_cast<int32_t>(begin);
    }
  }

  std::shared_ptr<const Source> packed_, like_;
};

struct Outcome {
  std::vector<Numbers> steps;
  std::map<std::string, std::vector<float>> states;
};

Outcome train(Preparation preparation) {
  Training trainer = make_training(std::move(preparation), {.threads = 2});
  trainer.initialize();
  Outcome outcome;
  for (int64_t i = 0; i < kSteps; ++i) outcome.steps.push_back(trainer.step());
  for (const StateTensor& each : trainer.compiled().states) {
    std::vector<float>& values = outcome.states[each.name];
    values.resize(static_cast<size_t>(each.type.elements()));
    trainer.read_state(each.name, std::as_writable_bytes(std::span(values)));
  }
  return outcome;
}

void expect_equal(const Outcome& many, const Outcome& one) {
  for (size_t i = 0; i < kSteps; ++i)
    for (const char* name : {"loss", "grad_norm"})
      EXPECT_EQ(number_of(many.steps[i], name), number_of(one.steps[i], name)) << name << " of step " << i;
  ASSERT_EQ(many.states.size(), one.states.size());
  for (const auto& [name, values] : one.states)
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(many.states.at(name)[i], values[i]) << name << " [" << i << "]";
}

TEST_F(PackedTask, TrainsWithTheBitsOfTextsOneARow) {
  for (const auto& [kind, file] :
       std::map<std::string, std::string>{{"classification", "classification.tsv"}, {"conll", "tokens.txt"}}) {
    SCOPED_TRACE(kind);
    const Preparation packed = prepare(packed_recipe(kind, file));
    Preparation single =
        prepare(recipe(kind, file, {"train.sums=in-order", "train.micro_batch=" + std::to_string(kRows * kDepth)}));
    const auto source = std::make_shared<Unpacked>(packed.workload.train, single.workload.train);
    single.workload.train = source;
    expect_equal(train(prepare(packed.recipe)), train(std::move(single)));
    EXPECT_GT(source->sequences, kSteps * 2 * kRows * 5 / 4) << "it is packing that is compared";
  }
}

TEST_F(PackedTask, RowsOfOneTextHaveTheSameBits) {
  for (const auto& [kind, file] : std::map<std::string, std::string>{{"classification", "classification.tsv"},
                                                                     {"conll", "tokens.txt"},
                                                                     {"regression", "regression.tsv"},
                                                                     {"squad", "span.json"}}) {
    SCOPED_TRACE(kind);
    const Preparation packed = prepare(packed_recipe(kind, file));
    Preparation single = prepare(packed_recipe(kind, file, 1, kRows * kDepth));
    single.workload.train = std::make_shared<Unpacked>(packed.workload.train, single.workload.train);
    const Outcome many = train(prepare(packed.recipe)), one = train(std::move(single));
    expect_equal(many, one);
    EXPECT_GT(number_of(many.steps[0], "loss"), 0.1);
    EXPECT_LT(number_of(many.steps[0], "loss"), 20) << "no label stands where no text is";
  }
}

TEST_F(PackedTask, AnEpochIsItsRows) {
  const Preparation packed = prepare(recipe("classification", "classification.tsv",
                                            {"data.packing=lpfhp", "data.packing_depth=4", "train.micro_batch=1"}));
  const int64_t rows = packed.workload.train->epoch_samples(0);
  EXPECT_GT(rows, 60 / 4 - 1);
  EXPECT_LT(rows, 45);
  int64_t texts = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const Batch batch = packed.workload.train->make(row, 1);
    const auto* labels = reinterpret_cast<const int32_t*>(batch.at("labels").bytes.data());
    texts += std::count_if(labels, labels + 4, [](int32_t label) { return label >= 0; });
  }
  EXPECT_EQ(texts, 60);
}

TEST_F(PackedTask, ChoicesAreNotPacked) {
  write_file_atomic(folder_ / "choice.tsv", "text\ta\tb\tlabel\nthe\trun\twant\t1\n");
  try {
    prepare(recipe("choice", "choice.tsv", {"task.pair=a, b", "data.packing=lpfhp"}));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("the rows of a choice are not packed"), HasSubstr("data.packing")));
  }
}

}  // namespace
}  // namespace ramet::tests
