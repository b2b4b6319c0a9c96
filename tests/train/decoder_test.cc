// Decoding with caches: the logits of the whole sequence, and the same texts on any layout and in any batch.
#include "ramet/train/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ramet/base/rng.h"
#include "ramet/layout/layout.h"
#include "ramet/ops/build.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/text_predictor.h"
#include "ramet/transform/precision.h"
#include "support/errors.h"
#include "support/small_training.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRoom = 24, kVocabulary = 96;

/// A complete recipe of a small GPT-2.
Recipe small_gpt2(const std::string& precision = "f32") {
  return SmallTraining("gpt2", {"train.precision=" + precision, "model.max_positions=24", "data.sequence_length=24"})
      .preparation.recipe;
}

std::unique_ptr<Decoder> make_decoder(const Recipe& recipe, int64_t samples, const std::string& layout = "",
                                      int64_t room = kRoom, std::vector<int64_t> widths = {1, 4, 16}) {
  Model model = build_model(recipe);
  Decoding decoding{.samples = samples, .room = room, .vocabulary = kVocabulary, .widths = std::move(widths)};
  decoding.cache = precision_from_name(recipe.train.precision).compute;
  kind_of(recipe).add_decoding(recipe, decoding, model);
  auto decoder = std::make_unique<Decoder>(std::move(model), decoding, recipe.train, parse_layout(layout), Where{});
  decoder->predictor().initialize();
  return decoder;
}

std::vector<std::vector<int32_t>> prompts_of(const std::vector<size_t>& lengths) {
  const RandomStream random(5, RandomPurpose::kTest, 0, 0);
  std::vector<std::vector<int32_t>> prompts;
  uint64_t drawn = 0;
  for (const size_t length : lengths) {
    prompts.emplace_back();
    for (size_t i = 0; i < length; ++i)
      prompts.back().push_back(static_cast<int32_t>(random.below(drawn++, kVocabulary)));
  }
  return prompts;
}

/// Logits of the whole sequence at once, [S, vocabulary], by the graph that evaluates: what its loss reads.
std::vector<float> whole_logits(const Recipe& recipe, const std::vector<int32_t>& ids) {
  Recipe alone = recipe;
  alone.data.sequence_length = std::ssize(ids);
  alone.train.micro_batch = 1;
  Model model = build_model(alone);
  Graph graph = model.evaluate;
  graph.set_name("logits");
  ValueId logits = kNoValue;
  for (const Node& node : graph.nodes())
    if (node.op->name == "matmul") logits = node.outputs[0];  // the last
  graph.add_output("logits", logits);
  model.programs.push_back({"logits", std::move(graph)});
  Predictor predictor(std::move(model), alone.train, Layout{}, Where{}, {"logits"});
  predictor.initialize();
  std::vector<NamedTensor> inputs;
  for (const char* name : {"input_ids", "labels"}) {
    const auto* bytes = reinterpret_cast<const std::byte*>(ids.data());
    inputs.push_back({name, {DType::kI32, Shape{1, std::ssize(ids)}}, {bytes, bytes + ids.size() * 4}});
  }
  const NamedTensor result = predictor.run("logits", inputs, {"logits"}).at(0);
  std::vector<float> values;
  for (int64_t i = 0; i < result.type.elements(); ++i)
    values.push_back(static_cast<float>(load_element(result.bytes.data(), result.type.dtype, i)));
  return values;
}

float rounded_to(float value, DType dtype) {
  std::byte bytes[4];
  store_element(bytes, dtype, 0, value);
  return static_cast<float>(load_element(bytes, dtype, 0));
}

TEST(Decoder, HasTheLogitsOfTheWholeSequenceAtEveryPositionToTheBit) {
  for (const std::string precision : {"f32", "bf16"}) {
    SCOPED_TRACE(precision);
    const Recipe recipe = small_gpt2(precision);
    // The graph that evaluates gives logits in the recipe's precision, decoding in f32.
    const DType type = precision_from_name(precision).compute;
    const std::vector<int32_t> ids = prompts_of({kRoom})[0];
    const std::vector<float> whole = whole_logits(recipe, ids);
    for (const size_t prompt : {size_t{1}, size_t{3}, size_t{7}, size_t{20}, size_t{kRoom}})
      for (const std::string layout : {"", "p=2 t=2"}) {
        SCOPED_TRACE(std::to_string(prompt) + " " + layout);
        const auto decoder = make_decoder(recipe, 2, layout);
        const auto expect_row = [&](std::span<const float> logits, size_t position) {
          for (size_t i = 0; i < kVocabulary; ++i)
            ASSERT_EQ(rounded_to(logits[i], type), whole[position * kVocabulary + i])
                << "position " << position << ", token " << i;
        };
        const std::vector<std::vector<int32_t>> prompts = {
            {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt)}};
        expect_row(decoder->begin(prompts), prompt - 1);
        for (size_t position = prompt; position < ids.size(); ++position)
          expect_row(decoder->next(std::span(ids).subspan(position, 1)), position);
      }
  }
}

using Texts = std::vector<std::vector<int32_t>>;

Texts tokens_of(const std::vector<Continuation>& continuations) {
  Texts texts;
  for (const Continuation& each : continuations) texts.push_back(each.tokens);
  return texts;
}

const DecodeOptions kDraws{
    .tokens = 9,
    .sampling = {.temperature = 1.5, .top_k = 50, .top_p = 0.95, .repetition_penalty = 1.2, .seed = 3},
    .end_tokens = {7}};

TEST(Decoder, GivesTheSameTextsOnAnyLayoutAndInAnyBatch) {
  for (const std::string precision : {"f32", "bf16"}) {
    const Recipe recipe = small_gpt2(precision);
    const Texts prompts = prompts_of({4, 1, 13, 2, 20, 6, 1, 5, 9});
    const Texts wanted = tokens_of(make_decoder(recipe, 3)->generate(prompts, kDraws));
    EXPECT_NE(wanted[1], wanted[6]);  // texts differ, so that the comparison means something
    for (const int64_t samples : {1, 8})
      EXPECT_EQ(tokens_of(make_decoder(recipe, samples)->generate(prompts, kDraws)), wanted) << samples;
    for (const char* layout :
         {"p=2", "t=2", "p=2 t=2", "r=2", "t=1x2", "p=4", "phases=2 offload=weights", "t=2 sequence=true"}) {
      SCOPED_TRACE(layout);
      EXPECT_EQ(tokens_of(make_decoder(recipe, 3, layout)->generate(prompts, kDraws)), wanted);
    }
    // Nor do the room or the widths of programs matter.
    EXPECT_EQ(tokens_of(make_decoder(recipe, 8, "", kRoom, {1})->generate(prompts, kDraws)), wanted);
  }
}

TEST(Decoder, ForgetsEarlierTexts) {
  const Recipe recipe = small_gpt2();
  const auto decoder = make_decoder(recipe, 2);
  const Texts prompts = prompts_of({3, 5});
  const Texts first = tokens_of(decoder->generate(prompts, kDraws));
  decoder->generate(prompts_of({20, 11}), kDraws);
  EXPECT_EQ(tokens_of(decoder->generate(prompts, kDraws)), first);
}

TEST(Decoder, EndsTextsForTheReasonThatComesFirst) {
  const Recipe recipe = small_gpt2();
  const auto decoder = make_decoder(recipe, 2);
  const Texts prompts = prompts_of({3, 20});
  const std::vector<Continuation> plain = decoder->generate(prompts, {.tokens = 6});
  EXPECT_EQ(plain[0].tokens.size(), 6u);
  EXPECT_EQ(plain[0].end, TextEnd::kTokens);
  EXPECT_EQ(plain[1].tokens.size(), 5u);  // positions 20 to 23, and the token behind the last
  EXPECT_EQ(plain[1].end, TextEnd::kRoom);
  // An end token is not part of the text.
  const int32_t third = plain[0].tokens[2];
  const auto first = std::find(plain[0].tokens.begin(), plain[0].tokens.end(), third) - plain[0].tokens.begin();
  const std::vector<Continuation> ended = decoder->generate(prompts, {.tokens = 6, .end_tokens = {third}});
  EXPECT_EQ(std::ssize(ended[0].tokens), first);
  EXPECT_EQ(ended[0].end, TextEnd::kToken);
  const std::vector<Continuation> stopped =
      decoder->generate(prompts, {.tokens = 6}, [](int64_t prompt, int32_t) { return prompt != 0; });
  EXPECT_EQ(stopped[0].tokens.size(), 1u);
  EXPECT_EQ(stopped[0].end, TextEnd::kCaller);
  EXPECT_EQ(stopped[1].tokens, plain[1].tokens);
  const std::vector<Continuation> few = decoder->generate(prompts, {.tokens = 6, .vocabulary = 3});
  for (const int32_t token : few[0].tokens) EXPECT_LT(token, 3);
}

TEST(Decoder, TakesFewProgramsForAPrompt) {
  const Decoding decoding{.widths = {1, 16, 128}};
  EXPECT_EQ(decode_widths(decoding, 1), (std::vector<int64_t>{1}));
  EXPECT_EQ(decode_widths(decoding, 9), (std::vector<int64_t>{16}));
  EXPECT_EQ(decode_widths(decoding, 64), (std::vector<int64_t>{16, 16, 16, 16}));
  EXPECT_EQ(decode_widths(decoding, 65), (std::vector<int64_t>{128}));
  EXPECT_EQ(decode_widths(decoding, 130), (std::vector<int64_t>{128, 1, 1}));
}

TEST(Decoder, RefusesWhatItCannotContinue) {
  const Recipe recipe = small_gpt2();
  const auto decoder = make_decoder(recipe, 1);
  const auto refused = [&](const Texts& prompts, const DecodeOptions& options = {}) {
    return error_of([&] { decoder->generate(prompts, options); });
  };
  EXPECT_THAT(refused({{1, 2}, {}}), HasSubstr("prompt 1: the prompt is empty"));
  EXPECT_THAT(
      refused(prompts_of({kRoom + 1})),
      HasSubstr(
          "prompt 0: the prompt is too long; found 25 tokens; expected at most 24, the positions that the model has"));
  EXPECT_THAT(refused({{1, 96}}), HasSubstr("a token that the model does not know; found 96; expected 0 to 95"));
  EXPECT_THAT(refused({{1}}, {.tokens = 0}), HasSubstr("no tokens are asked for"));
  EXPECT_THAT(refused({{1}}, {.sampling = {.top_p = 2}}), HasSubstr("top_p"));
  EXPECT_THAT(error_of([&] { make_decoder(recipe, 1, "", kRoom + 1); }),
              HasSubstr("the sequence does not fit the table of positions"));
  EXPECT_THAT(error_of([&] { decoder->begin(prompts_of({1, 1})); }), HasSubstr("more prompts than texts"));
  decoder->begin(prompts_of({kRoom}));
  EXPECT_THAT(error_of([&] { decoder->next(std::vector<int32_t>{1}); }), HasSubstr("the text has no room left"));
  const Recipe bert = SmallTraining("bert", {}).preparation.recipe;
  EXPECT_THAT(error_of([&] { build_decoding_model(bert, 1, 0); }), HasSubstr("the model does not continue texts"));
}

}  // namespace
}  // namespace ramet::tests
