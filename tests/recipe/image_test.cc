#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "ramet/data/arrays.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/prepare.h"
#include "support/errors.h"
#include "support/small_arrays.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Recipe read(const std::string& text, const std::vector<std::string>& settings = {}) {
  return parse_recipe(text, "small.toml", ".", settings);
}

const std::string kSmall = R"([model]
kind = "resnet"
blocks = "1,1,1,1"
width = 8
[data]
kind = "synthetic"
height = 16
[data.augment]
pad = 2
mixup = 0.2
[train]
micro_batch = 2
precision = "f32"
label_smoothing = 0.1
)";

TEST(ImageRecipe, IsCompletedAndReadsBack) {
  const Preparation ready = prepare(read(kSmall));
  const Recipe& recipe = ready.recipe;
  EXPECT_EQ(recipe.model.preset, "18");
  EXPECT_EQ(recipe.model.stem, "small");
  EXPECT_EQ(*recipe.model.classes, 10);
  EXPECT_EQ(*recipe.data.width, 16);
  EXPECT_EQ(*recipe.data.channels, 3);
  EXPECT_EQ(ready.workload.units.name, "images");
  const std::string printed = print_recipe(recipe);
  for (const char* key : {"sequence_length", "corpus", "vocabulary", "masking", "activation"})
    EXPECT_THAT(printed, Not(HasSubstr(key))) << "keys of models of text";
  const Recipe again = read(printed);
  EXPECT_EQ(print_recipe(again), printed);
  EXPECT_EQ(recipe_hash(again), recipe_hash(recipe));
  EXPECT_NE(recipe_hash(read(kSmall, {"data.augment.flip=0.5"})), recipe_hash(read(kSmall)));
  EXPECT_THAT(print_recipe(read("model.kind = \"bert\"\n")), Not(HasSubstr("augment")));
}

TEST(ImageRecipe, EveryPresetIsKnownByItsName) {
  for (const char* kind : {"resnet", "vit", "convnext", "efficientnet", "unet"}) {
    const Recipe recipe = read("model.kind = \"" + std::string(kind) + "\"\n");
    EXPECT_EQ(kind_of(recipe).presets(recipe).front(), recipe.model.preset);
    const Recipe complete = complete_recipe(recipe);
    EXPECT_EQ(*complete.data.height, 224);
    EXPECT_EQ(kind_of(recipe).takes_any_batch(recipe), std::string(kind) == "vit" || std::string(kind) == "convnext");
  }
}

TEST(ImageRecipe, ErrorsNameTheLineOfTheRecipeAndWhatIsWrong) {
  const std::string resnet = "[model]\nkind = \"resnet\"\n";
  const std::pair<std::string, const char*> cases[] = {
      {resnet + "preset = \"51\"\n", "small.toml:3 model.preset: unknown preset of resnet; found '51'"},
      {resnet + "layers = 3\n",
       "small.toml:3 model.layers: a key of models of text; found a recipe of a network for images"},
      {resnet + "blocks = \"2,x\"\n",
       "small.toml:3 model.blocks: not a list of numbers; found '2,x'; expected as \"2,2,2,2\""},
      {resnet + "blocks = \"2,2\"\n", "small.toml:3 model.blocks: the numbers of blocks of a resnet"},
      {resnet + "stem = \"tiny\"\n", "small.toml:3 model.stem: unknown choice"},
      {resnet + "[data]\nmean = \"0.5,nan\"\n", "small.toml:4 data.mean: not a list of numbers"},
      {resnet + "[data]\nmean = \"0.5,0.4\"\n", "small.toml:4 data.mean: one number for each channel"},
      {resnet + "[data]\nkind = \"text\"\n",
       "small.toml:4 data.kind: data of a kind that the model does not read; found \"text\" for model.kind = "
       "\"resnet\""},
      {resnet + "[data]\nkind = \"mnist\"\nfolder = \"/no/where\"\n",
       "small.toml:5 data.folder, /no/where: the folder lacks"},
      {resnet + "[data]\nkind = \"arrays\"\ntrain = \"/no/where.npz\"\n", "small.toml:5 data.train, /no/where.npz"},
      {resnet + "[data]\ntrain = \"x.npz\"\n",
       "small.toml:4 data.train: files of arrays are for data.kind = \"arrays\""},
      {resnet + "[data]\nheld_out_share = 0.1\n", "small.toml:4 data.held_out_share: synthetic images are endless"},
      {"[model]\nkind = \"unet\"\n[data.augment]\nmixup = 0.1\n",
       "small.toml:4 data.augment.mixup: images with masks are not mixed"},
      {"[model]\nkind = \"unet\"\n[train]\nlabel_smoothing = 0.1\n",
       "small.toml:4 train.label_smoothing: images with masks"},
      {"[model]\nkind = \"vit\"\n[data]\nheight = 30\n", "patches must cover the image"},
      {"[model]\nkind = \"bert\"\nwidth = 3\n",
       "small.toml:3 model.width: a key of a network for images without a network for images"},
      {"[model]\nkind = \"bert\"\n[data]\nkind = \"mnist\"\n",
       "small.toml:4 data.kind: data of a kind that the model does not read"},
      {resnet + "[data]\nheigth = 3\n", "expected perhaps 'data.height'"},
      {resnet + "[train]\nepochs = 2\n", "synthetic data has no epochs"},
  };
  for (const auto& [text, expected] : cases) {
    SCOPED_TRACE(text);
    EXPECT_THAT(error_of([&] { prepare(read(text)); }), HasSubstr(expected));
  }
}

TEST(ImageRecipe, ArraysGiveTheSizes) {
  const TemporaryFolder folder;
  save_npz(folder / "train.npz",
           {array_of("images", DType::kU8, {12, 8, 9, 3}, std::vector<uint8_t>(12 * 8 * 9 * 3, 5)),
            array_of("labels", DType::kI32, {12}, std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4})});
  const std::string text =
      "[model]\nkind = \"resnet\"\nblocks = \"1,1,1,1\"\nwidth = 4\n[data]\nkind = \"arrays\"\ntrain = \"" +
      (folder / "train.npz").string() + "\"\nheld_out_share = 0.25\n[train]\nmicro_batch = 3\nepochs = 2\n";
  const Preparation ready = prepare(read(text));
  EXPECT_EQ(*ready.recipe.model.classes, 7);
  EXPECT_EQ(*ready.recipe.data.height, 8);
  EXPECT_EQ(*ready.recipe.data.width, 9);
  EXPECT_EQ(ready.recipe.train.steps, 6);
  EXPECT_EQ(ready.workload.held_out->epoch_samples(0), 3);
  EXPECT_NE(ready.workload.data_identity, "");
  EXPECT_EQ(*complete_recipe(read(text)).model.classes, 7) << "without preparing";
  EXPECT_THAT(error_of([&] { prepare(read(text, {"data.channels=1"})); }),
              HasSubstr("--set data.channels: the images have another number of channels; found 1; expected 3"));
  EXPECT_THAT(error_of([&] { prepare(read(text, {"model.kind=unet", "model.blocks=2"})); }),
              HasSubstr("a unet learns from masks, which the images do not have"));
  const Preparation few = prepare(read(text, {"model.classes=3"}));
  EXPECT_THAT(error_of([&] { few.workload.train->make(0, 9); }), HasSubstr("a class that the model does not have"));
}

TEST(ImageRecipe, FashionMnistIsReadFromItsPackage) {
  const std::string text =
      "[model]\nkind = \"resnet\"\n[data]\nkind = \"mnist\"\n[data.augment]\npad = 2\nflip = 0.5\n";
  if (!std::ifstream("/usr/share/datasets/fashion-mnist/train-labels-idx1-ubyte.gz"))
    GTEST_SKIP() << "Debian's package dataset-fashion-mnist is not installed";
  const Preparation ready = prepare(read(text));
  EXPECT_EQ(*ready.recipe.data.channels, 1);
  EXPECT_EQ(*ready.recipe.data.height, 28);
  EXPECT_EQ(*ready.recipe.model.classes, 10);
  EXPECT_EQ(ready.workload.train->epoch_samples(0), 60'000);
  EXPECT_EQ(ready.workload.held_out->epoch_samples(0), 10'000);
}

}  // namespace
}  // namespace ramet::tests
