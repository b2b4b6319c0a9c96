#include "ramet/recipe/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/prepare.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Recipe parse(const std::string& text, std::vector<std::string> settings = {}) {
  return parse_recipe(text, "bert.toml", "/recipes", settings);
}

std::string error_of(const std::string& text, std::vector<std::string> settings = {}) {
  try {
    parse(text, settings);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(Recipe, DefaultsAreARecipe) {
  const Recipe recipe = parse("");
  EXPECT_EQ(recipe.name, "bert");
  EXPECT_EQ(recipe.model.kind, "bert");
  EXPECT_EQ(recipe.model.preset, "mini");
  EXPECT_EQ(recipe.train.steps, 1000);
  EXPECT_FALSE(recipe.model.layers.has_value());
  EXPECT_TRUE(recipe.places.empty());
}

TEST(Recipe, ReadsEveryKindOfValue) {
  const Recipe recipe = parse(R"(
name = "a run"
[model]
kind = "gpt2"
preset = "124m"
layers = 3
dropout = 0
[data]
shuffle = false
masking.probability = 0.2
[train]
steps = 50
clip_norm = 2
optimizer = { kind = "lamb", beta2 = 0.98 }
[train.schedule]
learning_rate = 6e-4
)");
  EXPECT_EQ(recipe.name, "a run");
  EXPECT_EQ(recipe.model.layers, 3);
  EXPECT_EQ(recipe.model.dropout, 0.0);
  EXPECT_FALSE(recipe.data.shuffle);
  EXPECT_EQ(recipe.data.masking_probability, 0.2);
  EXPECT_EQ(recipe.train.clip_norm, 2.0);
  EXPECT_EQ(recipe.train.optimizer.kind, "lamb");
  EXPECT_EQ(recipe.train.optimizer.beta2, 0.98);
  EXPECT_EQ(recipe.train.schedule.learning_rate, 6e-4);
  EXPECT_EQ(recipe.where("train.steps"), "bert.toml:12 train.steps");
  EXPECT_EQ(recipe.where("train.lanes"), "train.lanes");
}

TEST(Recipe, UnknownKeysNameTheNearest) {
  EXPECT_EQ(
      error_of("[train]\n\nstepz = 5\n"),
      "bert.toml:3: unknown key 'train.stepz'; expected perhaps 'train.steps'. `ramet recipe --help` lists all keys");
  EXPECT_THAT(error_of("[trian]\nsteps = 5\n"),
              StartsWith("bert.toml:1: unknown key 'trian'; expected perhaps 'train'"));
  EXPECT_THAT(error_of("train.optimizer.beta_1 = 0.5"),
              HasSubstr("unknown key 'train.optimizer.beta_1'; expected perhaps 'train.optimizer.beta1'"));
  EXPECT_THAT(error_of("[train]\nlearning_rate = 0.1"),
              HasSubstr("unknown key 'train.learning_rate'; expected perhaps 'train.schedule.learning_rate'"));
  EXPECT_THAT(error_of("[data.masking]\nwhole_words = true"), HasSubstr("expected perhaps 'data.masking.whole_word'"));
  EXPECT_EQ(error_of("xyzzyxyzzyxyzzy = 1"),
            "bert.toml:1: unknown key 'xyzzyxyzzyxyzzy'. `ramet recipe --help` lists all keys");
  EXPECT_THAT(error_of("", {"train.step=5"}),
              StartsWith("--set: unknown key 'train.step'; expected perhaps 'train.steps'"));
}

TEST(Recipe, WrongValuesNameThePlace) {
  EXPECT_EQ(error_of("[train]\nsteps = \"many\""),
            "bert.toml:2 train.steps: wrong kind of value; found 'many'; expected a whole number from 1 to 1000000000");
  EXPECT_EQ(error_of("[train]\nsteps = 0"),
            "bert.toml:2 train.steps: out of range; found 0; expected a whole number from 1 to 1000000000");
  EXPECT_EQ(error_of("[train]\nsteps = 1.5"),
            "bert.toml:2 train.steps: wrong kind of value; found 1.5; expected a whole number from 1 to 1000000000");
  EXPECT_THAT(error_of("[train]\nclip_norm = nan"), HasSubstr("train.clip_norm: not a finite number; found nan"));
  EXPECT_THAT(error_of("[train]\nclip_norm = -1"),
              HasSubstr("train.clip_norm: out of range; found -1; expected a number from 0 to"));
  EXPECT_EQ(error_of("[train]\nprecision = \"fp16\""),
            "bert.toml:2 train.precision: unknown choice; found 'fp16'; expected f32, bf16, f16 or f8");
  EXPECT_EQ(error_of("[data]\nshuffle = 1"),
            "bert.toml:2 data.shuffle: wrong kind of value; found 1; expected true or false");
  EXPECT_THAT(error_of("[model]\ndropout = 1"),
              HasSubstr("bert.toml:2 model.dropout: out of range; found 1; expected a number from 0 to 0.99"));
  EXPECT_THAT(error_of("train = 3"), HasSubstr("bert.toml:1: 'train' is a table; found 3; expected [train]"));
  EXPECT_THAT(error_of("[train.steps]\na = 1"), HasSubstr("train.steps: wrong kind of value; found a table"));
  EXPECT_THAT(error_of("[[train]]\nsteps = 1"), HasSubstr("'train' is a table; found a list"));
  EXPECT_THAT(error_of("name = 2026-01-01"),
              HasSubstr("name: wrong kind of value; found a date or time; expected a text in quotes"));
  EXPECT_THAT(error_of("[train]\nsteps = 99999999999999999999"), StartsWith("bert.toml:2: not TOML: "));
  EXPECT_THAT(error_of("[train]\nbits = \"quick\""),
              HasSubstr("train.bits: unknown choice; found 'quick'; expected exact or fast"));
  EXPECT_THAT(error_of("[model]\npreset = \"huge\""),
              StartsWith("bert.toml:2 model.preset: unknown preset of bert; found 'huge'; expected tiny, mini, small, "
                         "medium, base, large, minilm-l6 or minilm-l12"));
  EXPECT_THAT(error_of("[train]\nrecompute = \"some\""), StartsWith("bert.toml:2 train.recompute: "));
  EXPECT_THAT(error_of("[model]\ninit_from = \"a\\u0000b\""), HasSubstr("a text with a NUL character"));
}

TEST(Recipe, SyntaxErrorsNameTheLine) {
  EXPECT_THAT(error_of("[train]\nsteps = \n"), StartsWith("bert.toml:2: not TOML: "));
  EXPECT_THAT(error_of("[=]\n"), StartsWith("bert.toml:1: not TOML: "));  // once an assertion of the parser's
  EXPECT_THAT(error_of("[train]\nsteps = 1\nsteps = 2\n"), StartsWith("bert.toml:3: not TOML: "));
  EXPECT_THAT(error_of("name = \"\xff\xfe\""), HasSubstr("not TOML"));
  EXPECT_THAT(error_of(std::string(300'000, ' ')), HasSubstr("too long for a recipe"));
}

TEST(Recipe, KeysMustAgree) {
  EXPECT_EQ(error_of("[train.optimizer]\nin_backward = true"),
            "bert.toml:2 train.optimizer.in_backward: weights cannot be updated in the backward pass while gradients "
            "are clipped "
            "by the norm of all; found train.clip_norm = 1; expected 0. Set train.clip_norm = 0, or leave "
            "train.optimizer.in_backward out");
  EXPECT_EQ(error_of("[train]\nclip_norm = 0\naccumulation = 2\n[train.optimizer]\nin_backward = true"),
            "bert.toml:5 train.optimizer.in_backward: weights cannot be updated in the backward pass while gradients "
            "are summed "
            "over micro-batches; found train.accumulation = 2; expected 1. Set train.accumulation = 1, or leave "
            "train.optimizer.in_backward out");
  EXPECT_EQ(error_of("[train]\naccumulation = 12\nlanes = 5"),
            "bert.toml:3 train.lanes: train.lanes must divide train.accumulation; found 5 lanes of 12 micro-batches; "
            "expected 1, 2, 3, 4, 6 or 12");
  EXPECT_THAT(error_of("[data]\nkind = \"text\""),
              HasSubstr("bert.toml:2 data.kind: data.kind = \"text\" needs data.corpus"));
  EXPECT_THAT(error_of("[train.schedule]\nend = 1"),
              HasSubstr("the learning rate would rise after the warm-up; found 1; expected at most"));
  EXPECT_THAT(error_of("[train.schedule]\nwarmup_steps = 10\nsteps = 5"),
              HasSubstr("the schedule ends before its warm-up does; found 5"));
  EXPECT_THAT(error_of("[data]\nsequence_length = 16\nmasking.max_predictions = 17"),
              HasSubstr("more predictions than tokens; found 17"));
  EXPECT_THAT(error_of("[train.optimizer]\nnesterov = true\nmomentum = 0"), HasSubstr("needs a momentum above 0"));
}

TEST(Recipe, SettingsWinAndAreChecked) {
  const Recipe recipe =
      parse("[train]\nsteps = 5\n",
            {"train.steps=7", "train.precision=f32", "name=\"x y\"", "model.preset=124m", "model.kind=gpt2",
             "train.schedule.learning_rate=1e-3", "data.shuffle=false", "data.corpus=texts/a"});
  EXPECT_EQ(recipe.train.steps, 7);
  EXPECT_EQ(recipe.train.precision, "f32");
  EXPECT_EQ(recipe.name, "x y");
  EXPECT_EQ(recipe.model.preset, "124m");
  EXPECT_EQ(recipe.train.schedule.learning_rate, 1e-3);
  EXPECT_EQ(recipe.data.corpus, (std::filesystem::current_path() / "texts/a").string());
  EXPECT_EQ(recipe.where("train.steps"), "--set train.steps");
  EXPECT_THAT(error_of("", {"train.steps"}),
              StartsWith("--set: not a setting; found 'train.steps'; expected KEY=VALUE"));
  EXPECT_THAT(error_of("", {"train.steps=many"}), StartsWith("--set train.steps: wrong kind of value; found 'many'"));
  EXPECT_THAT(error_of("", {"train.steps=1\nname=2"}), HasSubstr("wrong kind of value"));
  EXPECT_THAT(error_of("", {"train=1"}), HasSubstr("'train' is a table, not a key"));
  EXPECT_THAT(error_of("", {"name=\xff"}), HasSubstr("--set name: not a text of UTF-8"));
  EXPECT_THAT(error_of("", {"=1"}), HasSubstr("not a setting"));
}

TEST(Recipe, PathsAreTakenFromTheRecipesFolder) {
  const Recipe recipe =
      parse("[data]\nkind = \"text\"\ncorpus = \"../corpora/bible\"\n[model]\ninit_from = \"/weights\"");
  EXPECT_EQ(recipe.data.corpus, "/corpora/bible");
  EXPECT_EQ(recipe.model.init_from, "/weights");
}

TEST(Recipe, PrintsWhatParsesBack) {
  const std::vector<std::string> texts = {
      "", "[model]\nkind = \"gpt2\"\npreset = \"1.5b\"\nlayers = 2\n[train]\nclip_norm = 0.1\nloss_scale = 512.0\n",
      "name = \"q\\\"uo\\\\te\\n\\u0001 \\u00e4\"\n[train.schedule]\nlearning_rate = "
      "1.2345678901234567e-5\n[data]\nkind = \"text\"\ncorpus = \"c d\"\n"};
  for (const auto& text : texts) {
    const Recipe recipe = parse(text);
    const std::string printed = print_recipe(recipe);
    EXPECT_EQ(print_recipe(parse(printed)), printed) << printed;
    EXPECT_EQ(recipe_hash(parse(printed)), recipe_hash(recipe));
  }
}

TEST(Recipe, TheHashFollowsWhatDecidesBits) {
  const Hash hash = recipe_hash(parse(""));
  EXPECT_EQ(recipe_hash(parse("", {"data.prefetch=7", "train.checkpoint.keep=9", "name=other", "train.recompute=all"})),
            hash);
  for (const char* setting :
       {"train.seed=1", "train.precision=f32", "train.schedule.learning_rate=2e-4", "data.masking.whole_word=true"})
    EXPECT_NE(recipe_hash(parse("", {setting})), hash) << setting;
}

TEST(Recipe, ResumeChangesOnlyWhatDecidesNothing) {
  Recipe recipe = parse("");
  change_resumed_recipe(recipe, std::vector<std::string>{"train.checkpoint.keep=5"});
  EXPECT_EQ(recipe.train.checkpoint.keep, 5);
  try {
    change_resumed_recipe(recipe, std::vector<std::string>{"train.seed=5"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr(
            "--set train.seed: this key decides the numbers of the run, so it cannot change while a run is resumed"));
  }
}

TEST(Recipe, EveryKeyIsDocumentedAndSound) {
  const std::string help = recipe_help();
  std::string last_table;
  std::vector<std::string> tables;
  for (const auto& key : recipe_keys()) {
    EXPECT_FALSE(key.doc.empty()) << key.name;
    EXPECT_LE(key.low, key.high) << key.name;
    const std::string leaf = key.name.substr(key.name.rfind('.') + 1);
    EXPECT_THAT(help, HasSubstr("  " + leaf + " = ")) << key.name;
    Recipe defaults;
    key.field(defaults);
  }
  EXPECT_THAT(help, HasSubstr("[train.optimizer]"));
  EXPECT_THAT(help, HasSubstr("steps = a whole number from 1 to 1000000000; default 1000"));
  EXPECT_THAT(recipe_help("train.schedule"), StartsWith("[train.schedule]\n"));
  EXPECT_EQ(recipe_help("train.schedule").find("[train]"), std::string::npos);
  EXPECT_THROW(recipe_help("trian"), Error);
}

/// A recipe's hash is taken over its keys as they are printed: where a key stands in the tables must not show.
TEST(Recipe, KeysStandWhereTheyAlwaysStood) {
  std::vector<std::string> names;
  // Those of images, LSTMs, graphs of every sort and events are in no other kind's recipe.
  const std::set<const RecipeKind*> others = {&image_kind(),     &lstm_kind(), &graph_kind(),
                                              &knowledge_kind(), &walk_kind(), &tgn_kind()};
  for (const auto& key : recipe_keys())
    if (!others.contains(key.owner) && (key.name.starts_with("model.") || key.name.starts_with("data.")))
      names.push_back(key.name);
  EXPECT_THAT(
      names,
      ElementsAre("model.kind", "model.preset", "model.layers", "model.hidden", "model.heads", "model.intermediate",
                  "model.vocabulary_size", "model.pad_vocabulary", "model.max_positions", "model.dropout",
                  "model.attention_dropout", "model.epsilon", "model.types", "model.activation", "model.init_from",
                  "model.file", "data.kind", "data.train", "data.held_out", "data.held_out_share", "data.corpus",
                  "data.sequence_length", "data.next_sentence", "data.short_sequences", "data.variants", "data.shuffle",
                  "data.prefetch", "data.packing", "data.packing_depth", "data.masking.probability",
                  "data.masking.whole_word", "data.masking.max_predictions"));
  const auto hash_of = [](const std::string& kind) {
    return recipe_hash(complete_recipe(parse_recipe("", "a.toml", ".", std::vector<std::string>{"model.kind=" + kind})))
        .hex();
  };
  // As they were when every key stood in one table.
  EXPECT_EQ(hash_of("bert"), "085c667ded755ba06057d8bb56a6f8a1");
  EXPECT_EQ(hash_of("gpt2"), "dc8e5c33fa29baa0f78552364c269030");
}

TEST(Recipe, EachKindOwnsItsKeys) {
  const std::string help = recipe_help();
  const size_t bert = help.find("Of bert, roberta, distilbert alone:"), task = help.find("Of task alone:");
  ASSERT_NE(bert, help.npos);
  ASSERT_NE(task, help.npos);
  EXPECT_LT(help.find("[train.optimizer]"), bert);
  EXPECT_GT(help.find("next_sentence ="), bert);
  EXPECT_LT(help.find("next_sentence ="), task);
  EXPECT_GT(help.find("n_best ="), task);
  for (const RecipeKind* kind : recipe_kinds())
    for (const std::string& name : kind->model_kinds()) {
      Recipe recipe;
      recipe.model.kind = name;
      EXPECT_EQ(&kind_of(recipe), kind) << name;
    }
}

TEST(Recipe, LoadsAFileAndNamesItInErrors) {
  const TemporaryFolder folder;
  write_file_atomic(folder / "mine.toml", "[train]\nsteps = 3\n[data]\nkind = \"text\"\ncorpus = \"c\"\n");
  const Recipe recipe = load_recipe(folder / "mine.toml");
  EXPECT_EQ(recipe.name, "mine");
  EXPECT_EQ(recipe.data.corpus, (folder / "c").string());
  EXPECT_THROW(load_recipe(folder / "absent.toml"), Error);
}

TEST(Recipe, SurvivesHostileTexts) {
  EXPECT_THAT(error_of("a" +
                       [] {
                         std::string dots;
                         for (int i = 0; i < 100'000; ++i) dots += ".a";
                         return dots;
                       }() +
                       " = 1"),
              HasSubstr("too many dots"));
  std::string deep;
  for (int i = 0; i < 4000; ++i) deep += "a.";
  EXPECT_NE(error_of(deep + "a = 1"), "no error");
  EXPECT_NE(error_of("a = " + std::string(100'000, '[')), "no error");
  const std::string good =
      "name = \"x\"\n[model]\nkind = \"bert\"\nlayers = 2\n[train]\nsteps = 10\noptimizer = { kind = \"sgd\", momentum "
      "= 0.5 }\n";
  std::mt19937_64 random(7);
  for (int i = 0; i < 4000; ++i) {
    std::string text = good;
    for (auto edits = random() % 4 + 1; edits > 0; --edits) {
      const size_t at = random() % (text.size() + 1);
      if (random() % 2)
        text.insert(at, 1, "[]{}=.\"'\n#0e,\\\xc3"[random() % 16]);
      else
        text.erase(at, random() % 5);
    }
    try {
      const Recipe recipe = parse(text);
      ASSERT_EQ(print_recipe(parse(print_recipe(recipe))), print_recipe(recipe));
    } catch (const Error&) {
    }
  }
}

TEST(Recipe, HoldsALayoutAsTextOrTable) {
  EXPECT_EQ(parse("").layout, "p=1");
  EXPECT_EQ(parse("layout = \"r=2  p=3\"").layout, "p=3 r=2");
  const Recipe recipe = parse("[layout]\np = 2\nrts = [\"weights\"]\nr = 2\nstreaming = \"pages\"\n");
  EXPECT_EQ(recipe.layout, "p=2 r=2 rts=weights streaming=/recipes/pages");
  EXPECT_EQ(layout_source(recipe), "bert.toml:1 layout");
  EXPECT_EQ(parse_recipe(print_recipe(recipe), "again.toml", "/elsewhere").layout, recipe.layout);
  EXPECT_EQ(parse("", {"layout=t=2x2"}).layout, "t=2x2");
  const char* table = "[layout]\np = 2\nr = 2\nrts = \"weights\"\n";
  const Recipe set = parse(table, {"layout.r=4", "layout.streaming=/pages of all", "layout.p=1"});
  EXPECT_EQ(set.layout, "r=4 rts=weights streaming=\"/pages of all\"");
  EXPECT_EQ(layout_source(set), "--set layout");
  Recipe changed = parse("");
  set_layout(changed, "r=4");
  EXPECT_EQ(changed.layout, "r=4");
  EXPECT_EQ(layout_source(changed), "--layout");
  change_resumed_recipe(changed, std::vector<std::string>{"layout=p=2"});
  EXPECT_EQ(changed.layout, "p=2");
  EXPECT_EQ(recipe_hash(changed), recipe_hash(parse(""))) << "a layout decides no bit";
}

TEST(Recipe, BadLayoutsSayWhere) {
  EXPECT_THAT(error_of("[model]\n[layout]\np = 2\nphase = 3\n"),
              StartsWith("bert.toml:4 layout.phase: unknown key 'phase' of a layout; expected perhaps 'phases'"));
  EXPECT_THAT(error_of("layout = \"p=none\""), StartsWith("bert.toml:1 layout p: not a whole number; found 'none'"));
  EXPECT_THAT(error_of("layout = 3"),
              StartsWith("bert.toml:1 layout: wrong kind of value; found 3; expected a text in quotes, or a table"));
  EXPECT_THAT(error_of("", {"layout=q=2"}), StartsWith("--set layout q: unknown key 'q'"));
  EXPECT_THAT(error_of("", {"layout.stages=2"}), StartsWith("--set layout.stages: unknown key 'stages' of a layout"));
  EXPECT_THAT(error_of("", {"layout.p=none"}), StartsWith("--set layout.p: not a whole number; found 'none'"));
}

}  // namespace
}  // namespace ramet::tests
