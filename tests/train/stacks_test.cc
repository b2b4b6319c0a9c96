#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/error.h"
#include "ramet/model/blocks.h"
#include "ramet/recipe/prepare.h"

// A model of two stacks, an encoder and a decoder that reads what the encoder ends with: layouts cut it along both.

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 2, kLength = 16, kHidden = 32, kHeads = 4, kWords = 96;
constexpr int kEncoder = 2, kDecoder = 3;

class EncoderDecoder {
 public:
  EncoderDecoder(Graph& graph, std::vector<StateTensor>* weights, bool training, bool declares)
      : model_(graph, weights, 0.1, training, 5), build_(model_.build()), declares_(declares) {}

  void run() {
    const Tensor ids = build_.input("input_ids", DType::kI32, {kBatch, kLength}, kTokenAxes);
    Tensor x = embed(ids, "source");
    for (int i = 0; i < kEncoder; ++i) {
      const InfoScope scope(build_, part("encoder", i));
      x = attend(x, x, "encoder." + std::to_string(i), false);
      x = feed_forward(x, "encoder." + std::to_string(i));
    }
    const Tensor memory = model_.norm(x, "encoder.norm", 1e-5);
    Tensor y = embed(ids, "target");
    for (int i = 0; i < kDecoder; ++i) {
      const InfoScope scope(build_, part("decoder", i));
      const std::string path = "decoder." + std::to_string(i);
      y = attend(y, y, path + ".own", true);
      y = attend(y, memory, path + ".memory", false);
      y = feed_forward(y, path);
    }
    const Tensor labels = build_.input("labels", DType::kI32, {kBatch, kLength}, kTokenAxes);
    const Tensor rows = reshape(model_.norm(y, "decoder.norm", 1e-5), {kBatch * kLength, kHidden});
    const CrossEntropy next =
        cross_entropy(model_.dense(rows, "head", kWords, kVocab, kEmbed), reshape(labels, {kBatch * kLength}), kWords);
    build_.output("loss", next.loss);
    build_.output("correct", next.correct);
    build_.output("count", next.count);
  }

 private:
  NodeInfo part(const std::string& stack, int index) const {
    NodeInfo info = stack;
    if (declares_) info.part = {stack, index};
    return info;
  }
  Tensor embed(Tensor ids, const std::string& name) {
    const Tensor words = model_.matrix(name + ".words", {kWords, kHidden}, {kVocab, kEmbed});
    return model_.drop(gather(words, ids), 0.1, name + ".drop");
  }
  Tensor attend(Tensor x, Tensor memory, const std::string& path, bool causal) {
    const auto heads = [&](Tensor from, const char* name) {
      return reshape(model_.dense(from, path + name, kHidden, LogicalAxis{"heads"}, kEmbed),
                     {kBatch, kLength, kHeads, kHidden / kHeads});
    };
    AttentionOptions options;
    options.causal = causal;
    const Tensor mixed = attention(heads(x, ".query"), heads(memory, ".key"), heads(memory, ".value"), {}, {}, options);
    const Tensor out =
        model_.dense(reshape(mixed, {kBatch, kLength, kHidden}), path + ".out", kHidden, kEmbed, LogicalAxis{"heads"});
    return model_.norm(add(x, model_.drop(out, 0.1, path + ".drop")), path + ".norm", 1e-5);
  }
  Tensor feed_forward(Tensor x, const std::string& path) {
    const Tensor wide = gelu(model_.dense(x, path + ".wide", 2 * kHidden, kMlp, kEmbed));
    return model_.norm(add(x, model_.dense(wide, path + ".narrow", kHidden, kEmbed, kMlp)), path + ".norm2", 1e-5);
  }

  ModelBuilder model_;
  GraphBuilder& build_;
  const bool declares_;
};

Training make_stacks(const std::string& layout, bool declares = true) {
  const std::vector<std::string> settings = {"model.kind=gpt2",
                                             "model.preset=mini",
                                             "model.layers=5",
                                             "model.hidden=32",
                                             "model.heads=4",
                                             "model.vocabulary_size=96",
                                             "model.max_positions=16",
                                             "data.sequence_length=16",
                                             "train.micro_batch=2",
                                             "train.accumulation=4",
                                             "train.lanes=2",
                                             "train.chunks=2",
                                             "train.precision=f32",
                                             "train.schedule.learning_rate=0.01",
                                             "train.schedule.warmup_steps=1",
                                             "train.seed=5"};
  const Recipe recipe = parse_recipe("", "stacks.toml", ".", settings);
  Preparation made = prepare(recipe);
  Model model;
  model.name = "encoder-decoder";
  EncoderDecoder(model.forward, &model.weights, true, declares).run();
  EncoderDecoder(model.evaluate, nullptr, false, declares).run();
  model.metrics = {mean_metric("loss", "count"), share_metric("accuracy", "correct", "count")};
  model.tokens_per_micro_batch = kBatch * kLength;
  made.workload.model = std::move(model);
  return Training(std::move(made.workload), made.options, parse_layout(layout), {});
}

std::string train(const std::string& layout, std::vector<std::vector<std::string>>* stacks = nullptr) {
  Training training = make_stacks(layout);
  training.initialize();
  for (int step = 0; step < 2; ++step) training.step();
  if (stacks)
    for (const Executable& exe : training.cluster().stages()) {
      auto& found = stacks->emplace_back();
      for (const Segment& segment : exe.segments)
        for (const Instruction& instruction : segment.instructions)
          if (instruction.part.known() && instruction.pass == NodePass::kForward)
            if (const std::string part = text_of(instruction.part);
                std::find(found.begin(), found.end(), part) == found.end())
              found.push_back(part);
      std::sort(found.begin(), found.end());
    }
  return training.weights_hash() + " " + std::to_string(number_of(training.evaluate(), "loss"));
}

TEST(Stacks, AnEncoderAndADecoderAreCutAlongBoth) {
  const std::string expected = train("");
  using Parts = std::vector<std::vector<std::string>>;
  Parts two, three;
  EXPECT_EQ(train("p=2 layers=3+2", &two), expected);
  EXPECT_EQ(two, (Parts{{"decoder 0", "encoder 0", "encoder 1"}, {"decoder 1", "decoder 2"}}));
  EXPECT_EQ(train("p=3 layers=1+2+2", &three), expected);
  EXPECT_EQ(three, (Parts{{"encoder 0"}, {"decoder 0", "encoder 1"}, {"decoder 1", "decoder 2"}}));
  for (const char* layout : {"p=2", "p=3", "p=2 t=2", "phases=5 offload=activations,optimizer", "p=2 recompute=layer",
                             "recompute=layer:1,4", "p=3 r=2 schedule=zero-bubble", "t=2 sequence=true"}) {
    SCOPED_TRACE(layout);
    EXPECT_EQ(train(layout), expected);
  }
}

TEST(Stacks, AModelThatDeclaresNoPartsIsCutNowhere) {
  EXPECT_NO_THROW(make_stacks("t=2", false));
  try {
    make_stacks("p=2", false);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a model that declares no layers to be cut at; expected 2 or more. Build each "
                                        "layer inside a PartScope(builder, \"encoder\", i)"));
  }
}

}  // namespace
}  // namespace ramet::tests
