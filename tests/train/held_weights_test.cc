#include "ramet/train/held_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/base/rounding.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/checkpoint.h"
#include "ramet/train/training.h"
#include "ramet/weights/safetensors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Settings = std::vector<std::string>;

Preparation small(const Settings& more, const std::string& kind = "bert") {
  Settings settings = {"model.kind=" + kind,
                       "model.preset=mini",
                       "model.layers=2",
                       "model.hidden=32",
                       "model.heads=4",
                       "model.vocabulary_size=96",
                       "model.max_positions=16",
                       "data.sequence_length=16",
                       "train.micro_batch=4",
                       "train.accumulation=2",
                       "train.schedule.learning_rate=0.01",
                       "train.schedule.warmup_steps=1",
                       "train.evaluation.batches=3",
                       "train.seed=5"};
  settings.insert(settings.end(), more.begin(), more.end());
  return prepare(parse_recipe("", "small.toml", ".", settings));
}

bool has_tie(const std::map<std::string, std::vector<float>>& weights);

struct Trained {
  std::vector<double> losses;
  bool tie = false;  ///< before a step
  std::map<std::string, std::vector<float>> weights;
};

/// The weights in f32 as an exported file has them.
std::map<std::string, std::vector<float>> exported(const Training& trainer, const std::filesystem::path& file) {
  trainer.export_weights(file);
  std::map<std::string, std::vector<float>> result;
  const SafetensorsReader reader(file);
  for (const auto& entry : reader.tensors()) {
    const auto bytes = reader.bytes(entry);
    auto& values = result[entry.name];
    values.resize(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  return result;
}

Trained train(const Settings& more, int steps, const std::string& kind = "bert") {
  const TemporaryFolder folder;
  Training trainer = make_training(small(more, kind), {});
  trainer.initialize();
  Trained trained;
  for (int i = 0; i < steps; ++i) {
    if (steps < 10) trained.tie = trained.tie || has_tie(exported(trainer, folder / "before.safetensors"));
    trained.losses.push_back(number_of(trainer.step(), "loss"));
  }
  trained.weights = exported(trainer, folder / "model.safetensors");
  return trained;
}

/// Whether a weight lies half way between two bf16 numbers of which a cast takes the even, and a split weight the
/// other.
bool has_tie(const std::map<std::string, std::vector<float>>& weights) {
  for (const auto& [name, values] : weights)
    for (const float value : values)
      if (split_f32(value).high != f32_to_bf16(value)) return true;
  return false;
}

/// A split run has the bits of one with f32 masters and bf16 products as long as no weight is such a tie; a small model
/// mostly has none.
TEST(HeldWeights, SplitOnesHaveTheBitsOfF32MastersAndBf16Products) {
  for (const char* optimizer : {"adamw", "lamb", "sgd"})
    for (const char* kind : {"bert", "gpt2"}) {
      int compared = 0;
      for (int seed = 1; seed <= 6; ++seed) {
        const Settings more = {"train.precision=bf16", std::string("train.optimizer.kind=") + optimizer,
                               "model.layers=1", "train.seed=" + std::to_string(seed)};
        Settings split = more;
        split.push_back("train.weights=split");
        const Trained expected = train(more, 2, kind), found = train(split, 2, kind);
        if (expected.tie) continue;
        ++compared;
        EXPECT_EQ(found.losses, expected.losses) << optimizer << " " << kind << " " << seed;
        EXPECT_TRUE(found.weights == expected.weights) << optimizer << " " << kind << " " << seed;
      }
      EXPECT_GT(compared, 0) << optimizer << " " << kind;
    }
}

/// No state, and nothing derived from weights, is f32 but where the recipe says so.
TEST(HeldWeights, In16BitsHaveNoF32Copy) {
  const std::vector<std::pair<std::string, Settings>> recipes = {
      {"f16", {"train.precision=f16", "train.weights=f16", "train.accumulators=f16", "train.optimizer.state=f16"}},
      {"bf16", {"train.precision=bf16", "train.weights=bf16", "train.accumulators=bf16", "train.optimizer.state=bf16"}},
      {"split",
       {"train.precision=bf16", "train.weights=split", "train.accumulators=bf16", "train.optimizer.state=bf16"}}};
  for (const auto& [name, more] : recipes) {
    for (const char* kind : {"bert", "gpt2"}) {
      Training trainer = make_training(small(more, kind), {});
      int64_t weights = 0, held = 0;
      for (const Executable& exe : trainer.cluster().stages())
        for (const StatePlace& state : exe.states) {
          const StateTensor& tensor = state.tensor;
          EXPECT_NE(tensor.type.dtype, DType::kF32) << name << " " << tensor.name;
          if (tensor.kind == StateKind::kWeight) held += tensor.type.bytes(), weights += tensor.type.elements();
        }
      EXPECT_EQ(held, 2 * weights) << name;  // low halves are elements too
    }
  }
}

/// Updates much smaller than the distance of neighbours are not lost: the loss falls as with f32 masters.
TEST(HeldWeights, LearnWithStochasticRounding) {
  const Settings slow = {"train.schedule.learning_rate=0.002", "train.schedule.kind=constant"};
  const auto loss = [&](Settings more) {
    more.insert(more.end(), slow.begin(), slow.end());
    const Trained trained = train(more, 40);
    double sum = 0;
    for (size_t i = 30; i < 40; ++i) sum += trained.losses[i] / 10;
    return sum;
  };
  const double expected = loss({"train.precision=f32"});
  for (const Settings& more :
       {Settings{"train.precision=f16", "train.weights=f16", "train.accumulators=f16", "train.optimizer.state=f16"},
        Settings{"train.precision=bf16", "train.weights=bf16", "train.accumulators=bf16", "train.optimizer.state=bf16"},
        Settings{"train.precision=bf16", "train.weights=f16", "train.optimizer.state=f16"},
        Settings{"train.precision=f16"}})
    EXPECT_NEAR(loss(more), expected, 0.05 * expected) << more[0] << " " << more.size();
}

/// A checkpoint of any form continues with the same bits on another layout, and begins a run of any other form.
TEST(HeldWeights, GoThroughCheckpoints) {
  const TemporaryFolder folder;
  for (const Settings& more : {Settings{"train.precision=f16", "train.weights=f16", "train.optimizer.state=f16"},
                               Settings{"train.precision=bf16", "train.weights=split", "train.optimizer.state=bf16"}}) {
    Settings lanes = more;
    lanes.push_back("train.lanes=2");
    Training whole = make_training(small(lanes), {});
    whole.initialize();
    whole.step();
    const auto path = whole.save(folder / more[1]);
    whole.step();
    Preparation other = small(lanes);
    set_layout(other.recipe, "r=2 rts=weights,optimizer");
    other = prepare(Recipe(other.recipe));
    Training resumed = make_training(std::move(other), {});
    EXPECT_EQ(resumed.restore(Checkpoint(path)), "");
    resumed.step();
    EXPECT_EQ(resumed.weights_hash(), whole.weights_hash()) << more[1];

    // From its weights: in f32 they are what they were, in f16 their rounding.
    Training from_split = make_training(small({"train.precision=f32", "model.init_from=" + path.string()}), {});
    from_split.initialize();
    Training again = make_training(small(lanes), {});
    EXPECT_EQ(again.restore(Checkpoint(path)), "");
    EXPECT_EQ(exported(from_split, folder / "a.safetensors"), exported(again, folder / "b.safetensors"));
    Training narrow =
        make_training(small({"train.precision=f16", "train.weights=f16", "model.init_from=" + path.string()}), {});
    narrow.initialize();
    for (const auto& [name, values] : exported(narrow, folder / "c.safetensors"))
      for (const float value : values) ASSERT_EQ(value, f16_to_f32(f32_to_f16(value))) << name;
  }
}

TEST(HeldWeights, OfTypesThatProductsDoNotReadAreRefused) {
  const auto message = [](const Settings& more) {
    try {
      small(more);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(
      message({"train.weights=f16", "train.precision=f32"}),
      AllOf(HasSubstr("products of this precision cannot read weights that are held as \"f16\""),
            HasSubstr("train.weights"), HasSubstr("train.precision = \"f32\""), HasSubstr("hold weights in f32")));
  EXPECT_THAT(message({"train.weights=split", "train.precision=f16"}),
              AllOf(HasSubstr("held as \"split\""), HasSubstr("\"bf16\", which read the high half")));
  EXPECT_THAT(message({"train.weights=f8"}), AllOf(HasSubstr("unknown choice"), HasSubstr("f32, f16, bf16 or split")));
  EXPECT_THAT(message({"train.accumulators=split"}), HasSubstr("f32, f16 or bf16"));
  EXPECT_THAT(message({"train.optimizer.state=f8e4m3"}), HasSubstr("f32, f16 or bf16"));
}

/// 256 micro-batches: their gradients are summed in f16 with an error that does not grow with their number.
TEST(Accumulators, OfF16LoseNoSmallGradients) {
  const auto norms = [](const Settings& more) {
    Settings settings = {"train.micro_batch=1", "train.accumulation=256", "train.precision=f32", "train.clip_norm=0"};
    settings.insert(settings.end(), more.begin(), more.end());
    Training trainer = make_training(small(settings), {});
    trainer.initialize();
    return trainer.step();
  };
  const double expected = number_of(norms({}), "grad_norm");
  for (const char* held : {"f16", "bf16"}) {
    const Numbers numbers = norms({std::string("train.accumulators=") + held, "train.loss_scale=1024"});
    EXPECT_NEAR(number_of(numbers, "grad_norm"), expected, (held[0] == 'f' ? 0.005 : 0.05) * expected) << held;
    const double underflow = number_of(numbers, "gradient_underflow");
    EXPECT_GE(underflow, 0);
    EXPECT_LT(underflow, 0.5);
  }
  // Without a loss scale most of f16's sums are below its smallest normal number, and that is told.
  const Numbers unscaled = norms({"train.accumulators=f16", "train.loss_scale=0.0001"});
  EXPECT_GT(number_of(unscaled, "gradient_underflow"), 0.3);
}

}  // namespace
}  // namespace ramet::tests
