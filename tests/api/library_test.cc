// The library as a user sees it: nothing here includes a header of src/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ramet/ramet.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/errors.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 4, kWidth = 8;

/// Two parts on rows of numbers, with dropout.
Model rows_model(double rate = 0.1, const std::function<void(ModelBuilder&)>& more = {}) {
  ModelBuilder m("rows");
  Tensor x = m.input("rows", DType::kF32, {kBatch, kWidth}, {.low = -9, .high = 9});
  const Tensor wanted = m.input("wanted", DType::kF32, {kBatch});
  for (int i = 0; i < 2; ++i) {
    PartScope part(m, "layer", i);
    const std::string name = "layer" + std::to_string(i);
    const Tensor up = m.weight(name + ".up", {16, kWidth}, Init::fan_in(), {.axes = {"mlp", "embed"}});
    const Tensor down = m.weight(name + ".down", {kWidth, 16}, Init::fan_in(), {.axes = {"embed", "mlp"}});
    x = x + dropout(matmul(gelu(matmul(x, up, false, true)), down, false, true), rate);
  }
  const Tensor predicted =
      reshape(linear(x, m.weight("last", {1, kWidth}, Init::normal(0.2)), m.weight("bias", {1})), {kBatch});
  const Tensor off = predicted - wanted;
  m.loss(reduce_mean(off * off));
  m.metric("near", Ratio{reduce_sum(cast(less(off * off, m.full(DType::kF32, {}, 1)), DType::kF32)),
                         m.full(DType::kF32, {}, kBatch)});
  m.metric("e_loss", ExpOf{"loss"});
  m.output("predicted", predicted);
  if (more) more(m);
  return m.build();
}

/// Samples whose numbers are functions of their index.
struct Samples {
  std::vector<float> rows, wanted;
  explicit Samples(int64_t count, int64_t first = 0) {
    for (int64_t i = first * kWidth; i < (first + count) * kWidth; ++i)
      rows.push_back(static_cast<float>(std::sin(static_cast<double>(i) * 1.7)));
    for (int64_t i = 0; i < count; ++i)
      wanted.push_back(rows[static_cast<size_t>(i * kWidth)] + rows[static_cast<size_t>(i * kWidth + 1)]);
  }
  NamedViews views() const { return {{"rows", rows}, {"wanted", wanted}}; }
};

TrainOptions options(const std::string& layout = "") {
  return {
      .schedule = {.learning_rate = 0.01}, .micro_batches = 4, .lanes = 4, .chunks = 4, .layout = layout, .threads = 2};
}

TEST(Library, StatesOfATrainingContinueInAnother) {
  const Samples samples(4 * kBatch);
  const auto step = [&](Training& training) { return training.step(samples.views(), {.rate = 1e-2}); };
  Training first(rows_model(), options()), second(rows_model(), options());
  step(first), step(first);
  std::vector<Array> arrays;
  NamedViews views;
  for (const std::string& name : first.states()) arrays.push_back(first.state(name));
  for (const Array& array : arrays)
    views.emplace_back(array.name(), ArrayView(array.type().dtype, array.bytes().data(), array.elements()));
  EXPECT_THAT(first.states(), testing::IsSupersetOf({"last", "optimizer.m.last", "optimizer.v.last"}));
  second.set_states(views);
  EXPECT_EQ(second.weights_hash(), first.weights_hash());
  second.set_steps_done(first.steps_done());
  EXPECT_EQ(step(second).loss, step(first).loss);
  EXPECT_EQ(second.weights_hash(), first.weights_hash());
  EXPECT_EQ(second.steps_done(), 3);
  EXPECT_THAT(error_of([&] { second.state("none"); }), HasSubstr("no state of this name; found 'none'"));
  const std::vector<float> few(3);
  EXPECT_THAT(error_of([&] { second.set_states({{"last", few}}); }),
              HasSubstr("'last': numbers that are not those of the state; found 3 of f32; expected f32[1,8]"));
  EXPECT_THAT(error_of([&] { second.set_steps_done(-1); }), HasSubstr("a negative number of steps; found -1"));
}

TEST(Library, StepsOnArraysGiveTheSameBitsOnAnyLayout) {
  std::string hash;
  std::vector<double> losses;
  for (const char* layout :
       {"", "p=2", "r=2 rts=optimizer", "t=2", "p=2 phases=1 offload=optimizer", "recompute=layer"}) {
    SCOPED_TRACE(layout);
    Training training(rows_model(), options(layout));
    EXPECT_EQ(training.samples_per_step(), 16);
    std::vector<double> now;
    for (int64_t step = 0; step < 3; ++step) {
      const Samples samples(16, step * 16);
      const StepResult result = training.step(samples.views());
      EXPECT_EQ(result.step, step + 1);
      EXPECT_GT(result.gradient_norm, 0);
      now.push_back(result.loss);
    }
    const Metrics evaluated = training.evaluate(Samples(8).views());
    EXPECT_NEAR(evaluated["e_loss"], std::exp(evaluated["loss"]), 1e-9);
    now.push_back(evaluated["near"]);
    for (const float predicted : training.predict({{"rows", Samples(6).rows}})["predicted"].floats())
      now.push_back(predicted);
    if (hash.empty()) hash = training.weights_hash(), losses = now;
    EXPECT_EQ(training.weights_hash(), hash);
    EXPECT_EQ(now, losses);
  }
  EXPECT_NE(losses[0], losses[1]);
}

/// Images of two channels through a strided convolution, one of each channel by itself, and a transposed one.
TEST(Library, ConvolutionsGiveTheSameBitsOnAnyLayout) {
  const auto model = [] {
    ModelBuilder m("images");
    const Tensor images = m.input("images", DType::kF32, {kBatch, 2, 6, 6});
    const auto filter = [&](const std::string& name, Shape shape) {
      return m.weight(name, std::move(shape), Init::normal(0.3), {.axes = {"mlp", "", "", ""}});
    };
    Tensor x =
        convolution(images, filter("in", {8, 2, 3, 3}), m.weight("bias", {8}, Init::constant(0.1), {.axes = {"mlp"}}),
                    {.strides = {2, 2}, .low = {1, 1}, .high = {1, 1}});
    x = relu(convolution(x, filter("each", {8, 1, 3, 3}), Tensor(), {.low = {1, 1}, .high = {1, 1}, .groups = 8}));
    x = convolution_transposed(x, filter("out", {8, 2, 2, 2}), Tensor(), {.strides = {2, 2}});
    m.loss(reduce_mean((x - images) * (x - images)));
    return m.build();
  };
  std::vector<float> images(kBatch * 4 * 2 * 36);
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.7));
  std::string expected;
  for (const char* layout : {"", "t=2", "t=4", "r=2"}) {
    Training training(model(), options(layout));
    for (int step = 0; step < 2; ++step) training.step({{"images", images}});
    const std::string hash = training.weights_hash();
    if (expected.empty()) expected = hash;
    EXPECT_EQ(hash, expected) << layout;
  }
}

TEST(Library, DropoutIsOfTrainingAloneAndFollowsTheSeed) {
  const auto first = [](double rate, uint64_t seed) {
    TrainOptions how = options();
    how.seed = seed;
    Training training(rows_model(rate), how);
    // The same weights for all.
    for (const std::string& name : training.model().weights()) {
      const std::vector<float> numbers(static_cast<size_t>(training.model().type_of(name).elements()), 0.1f);
      training.set_weight(name, numbers);
    }
    const double evaluated = training.evaluate(Samples(16).views())["loss"];
    return std::pair(training.step(Samples(16).views()).loss, evaluated);
  };
  const auto none = first(0, 1), some = first(0.5, 1), other = first(0.5, 2);
  EXPECT_EQ(none.second, some.second);
  EXPECT_EQ(none.second, other.second);
  EXPECT_NE(none.first, some.first);
  EXPECT_NE(some.first, other.first);
}

// clang-format off: the lines below are counted
TEST(Library, ErrorsOfAModelNameTheUsersLine) {
  ModelBuilder m("bad"), other("other");
  const Tensor x = m.input("x", DType::kF32, {2, 3}), y = other.input("y", DType::kF32, {2, 3});
  const Tensor w = m.weight("w", {4, 5});
  // Each act begins on the line behind its number.
  struct Case {
    int before;
    std::function<void()> act;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {__LINE__,
       [&] { matmul(x, w); },
       {"matmul"}},
      {__LINE__,
       [&] { x + w; },
       {"add"}},
      {__LINE__,
       [&] { Scope scope(m, "inner"), reshaped(m, "deep"); reshape(x, {7}); },
       {"reshape 'inner/deep'"}},
      {__LINE__,
       [&] { m.weight("w", {4, 6}); },
       {"'w' of model 'bad' at ", "found f32[4,6]; expected f32[4,5]"}},
      {__LINE__,
       [&] { relu(Tensor()); },
       {": a tensor that was never made"}},
      {__LINE__,
       [&] { m.input("x", DType::kF32, {2, 3}); },
       {"two inputs of one name"}},
      {__LINE__,
       [&] { m.input("z", DType::kF32, {2, 3}, {.axes = {"", "batch"}}); },
       {"input 'z' of model 'bad' at ", "the first dimension of an input must be the samples of a micro-batch"}},
      {__LINE__,
       [&] { m.state("none"); },
       {"the model has no weight or state of this name; found 'none'"}},
      {__LINE__,
       [&] { m.weight("v", {2, 2}, Init::zeros(), {.axes = {"mlp"}}); },
       {"another number of axes than dimensions"}},
      {__LINE__,
       [&] { add(x, y); },
       {"tensors of two models or programs in one op"}},
      {__LINE__,
       [&] { dropout(x, 1); },
       {"an impossible rate of dropout"}},
      {__LINE__,
       [&] { m.loss(x); },
       {"'loss' of model 'bad' at ", "a loss, a metric or a guard must be one number of a micro-batch; found f32[2,3]"}},
      {__LINE__,
       [&] { m.metric("w", Sum{reduce_sum(w)}); m.metric("w", Mean{reduce_sum(w)}); },
       {"two outputs of one name"}},
      {__LINE__,
       [&] { index(x, {m.input("mask", DType::kBool, {2, 3})}); },
       {"the size of the result of 'index by a mask' depends on data"}},
      {__LINE__,
       [&] { m.constant({3}, std::vector<float>{1, 2}); },
       {"first numbers that are not those of the state"}},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.before);
    const std::string text = error_of(each.act);
    EXPECT_THAT(text, HasSubstr("api/library_test.cc:" + std::to_string(each.before + 1)));
    for (const std::string& part : each.parts) EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(error_of([&] { m.build(); }), HasSubstr("model 'bad': a model without a loss"));
}

// clang-format on

TEST(Library, ElementsByIndexAndInOrder) {
  ModelBuilder m("by_index");
  const Tensor x = m.input("rows", DType::kF32, {kBatch, kWidth});
  const Tensor weighed = sort(x * m.weight("w", {kWidth}, Init::normal(0.2)), -1, true).first;
  m.loss(reduce_mean(weighed * weighed));
  const auto [least, at] = top_k(x, 2, 1, false);
  m.output("least", least);
  m.output("again", gather_elements(x, at, 1));
  m.output("columns", index(x, {Tensor(), select_index(at, 0, 0)}));
  m.output("without", scatter_elements(x, at, least * 0, 1, "mul"));
  m.output("rolled", roll(x, {1}, {1}));
  m.output("norm", vector_norm(x, 1, {1}));
  m.output("any", cast(any(less(x, x * 0), {1}), DType::kI32));
  Training training(m.build(), options());
  const std::vector<float> rows = Samples(kBatch).rows;
  Arrays found = training.predict({{"rows", rows}});
  const auto row = [&](int64_t i) {
    return std::vector<float>(rows.begin() + i * kWidth, rows.begin() + (i + 1) * kWidth);
  };
  EXPECT_EQ(found["again"].floats(), found["least"].floats());
  for (int64_t i = 0; i < kBatch; ++i) {
    const std::vector<float> given = row(i);
    std::vector<float> sorted = given, zeroed = given, rolled = given;
    std::sort(sorted.begin(), sorted.end());
    for (float& value : zeroed)
      if (value <= sorted[1]) value = 0;
    std::rotate(rolled.begin(), rolled.end() - 1, rolled.end());
    float norm = 0;
    for (const float value : given) norm += std::fabs(value);
    for (int64_t k = 0; k < 2; ++k)
      EXPECT_EQ(found["least"].floats()[static_cast<size_t>(2 * i + k)], sorted[static_cast<size_t>(k)]);
    for (int64_t k = 0; k < kWidth; ++k) {
      EXPECT_EQ(found["without"].floats()[static_cast<size_t>(i * kWidth + k)], zeroed[static_cast<size_t>(k)]);
      EXPECT_EQ(found["rolled"].floats()[static_cast<size_t>(i * kWidth + k)], rolled[static_cast<size_t>(k)]);
    }
    EXPECT_NEAR(found["norm"].floats()[static_cast<size_t>(i)], norm, 1e-5);
    EXPECT_EQ(found["any"].floats()[static_cast<size_t>(i)], 1);
  }
  EXPECT_EQ(found["columns"].floats()[0], found["least"].floats()[0]);
  EXPECT_GT(training.step({{"rows", Samples(16).rows}}).gradient_norm, 0);
}

TEST(Library, AnInputOfAProgramHasOneType) {
  const auto program = [](ProgramBuilder& p) {
    const Tensor own = p.input("own", DType::kF32, {2, 3});
    p.output("sum", own + p.input("own", DType::kF32, {2, 4}));
  };
  EXPECT_THAT(error_of([&] { rows_model(0, [&](ModelBuilder& m) { m.program("odd", When::on_request(), program); }); }),
              AllOf(HasSubstr("an input is used with two types"), HasSubstr("found f32[2,4]; expected f32[2,3]")));
}

TEST(Library, TheModelsTextAndThePlanNameTheUsersLines) {
  int line = 0;
  const Model model = rows_model(0.1, [&](ModelBuilder& m) {
    const Tensor rows = m.input("more", DType::kF32, {kBatch, 4096});
    line = __LINE__ + 1;
    const Tensor wide = sqrt(rows * rows + 1.0);
    m.metric("mean", Mean{reduce_mean(wide)});
  });
  const std::string place = "api/library_test.cc:" + std::to_string(line);
  EXPECT_THAT(model.text(), HasSubstr("from \"" + place + "\""));
  const std::string text = plan(model, options(), {.time = false}).text;
  EXPECT_THAT(text, HasSubstr("most is live at"));
  EXPECT_THAT(text, HasSubstr(" of api/library_test.cc:"));
}

TEST(Library, ArraysThatAreNotTheModelsAreRefusedAndChangeNothing) {
  Training training(rows_model(), options());
  const std::string before = training.weights_hash();
  const Samples good(16), few(12);
  const std::vector<int32_t> integers(16);
  EXPECT_THAT(error_of([&] { training.step({{"rows", good.rows}}); }),
              HasSubstr("step 1: arrays that are not what the model reads; found 'wanted' is missing"));
  EXPECT_THAT(error_of([&] { training.step({{"rows", good.rows}, {"wanted", integers}}); }),
              HasSubstr("'wanted' has numbers of i32"));
  EXPECT_THAT(error_of([&] { training.step({{"rows", good.rows}, {"wanted", few.wanted}}); }),
              HasSubstr("'wanted' has 12 samples, others 16"));
  EXPECT_THAT(error_of([&] { training.step({{"rows", good.rows}, {"wanted", good.wanted}, {"x", good.wanted}}); }),
              HasSubstr("'x' is no input"));
  EXPECT_THAT(error_of([&] { training.step(few.views()); }),
              HasSubstr("found 12 samples; expected 16: 4 of a micro-batch x 4 micro-batches"));
  Samples beyond(16);
  beyond.rows[9 * kWidth + 3] = 10;
  EXPECT_THAT(
      error_of([&] { training.step(beyond.views()); }),
      HasSubstr("'rows' of sample 9, element 3: a value of the data is outside what the model takes; found 10"));
  EXPECT_EQ(training.weights_hash(), before);
  EXPECT_EQ(training.steps_done(), 0);
  EXPECT_GT(training.step(good.views()).loss, 0) << "and it goes on";
  EXPECT_THAT(error_of([&] { training.step(); }), HasSubstr("a training without data of its own"));
  EXPECT_THAT(error_of([&] { training.evaluate(); }), HasSubstr("without held-out data"));
  EXPECT_THAT(error_of([&] { training.evaluate(Samples(7).views()); }),
              HasSubstr("found 7 samples; expected a multiple of 4"));
  EXPECT_THAT(error_of([&] { training.run("none"); }), HasSubstr("no program of this name on request"));
  EXPECT_THAT(error_of([&] { training.step(good.views(), {.group_rates = {{"none", 1.0}}}); }), HasSubstr("none"));
}

TEST(Library, AStepThatIsNotFiniteNamesTheNodeAndChangesNothing) {
  int line = 0;
  ModelBuilder m("log");
  const Tensor x = m.input("x", DType::kF32, {2, 2});
  const Tensor y = x * m.weight("w", {2, 2}, Init::ones());
  {
    Scope scope(m, "entropy");
    line = __LINE__ + 1;
    const Tensor logarithm = log(y);
    m.loss(reduce_mean(logarithm));
  }
  Training training(m.build(), {});
  const std::string before = training.weights_hash();
  const std::vector<float> bad = {1, 2, -3, 4}, good = {1, 2, 3, 4};
  EXPECT_THAT(error_of([&] { training.step({{"x", bad}}); }),
              AllOf(HasSubstr("'loss' is not finite"), HasSubstr("entropy"),
                    HasSubstr(" of api/library_test.cc:" + std::to_string(line))));
  EXPECT_EQ(training.weights_hash(), before);
  EXPECT_EQ(training.step({{"x", good}}).step, 1);
}

TEST(Library, ACheckpointGoesOnOnAnotherLayout) {
  const TemporaryFolder folder;
  Training whole(rows_model(), options("p=2")), first(rows_model(), options("t=2"));
  for (int64_t step = 0; step < 4; ++step) whole.step(Samples(16, step * 16).views());
  for (int64_t step = 0; step < 2; ++step) first.step(Samples(16, step * 16).views());
  const std::string saved = first.save((folder / "checkpoints").string());
  Training second(rows_model(), options("r=2 rts=optimizer"));
  EXPECT_EQ(second.restore((folder / "checkpoints").string()), "");
  EXPECT_EQ(second.steps_done(), 2);
  EXPECT_EQ(second.weights_hash(), first.weights_hash());
  for (int64_t step = 2; step < 4; ++step) second.step(Samples(16, step * 16).views());
  EXPECT_EQ(second.weights_hash(), whole.weights_hash());
  EXPECT_EQ(second.restore(saved), "");
  EXPECT_EQ(second.steps_done(), 2);
  Training other(rows_model(0.2), options());
  EXPECT_THAT(error_of([&] { other.restore(saved); }), HasSubstr("made of another model"));
}

TEST(Library, WeightsGoOutAndIn) {
  const TemporaryFolder folder;
  Training training(rows_model(), options());
  training.step(Samples(16).views());
  training.save_weights((folder / "w.safetensors").string());
  Training other(rows_model(), {.seed = 5});
  EXPECT_NE(other.weights_hash(), training.weights_hash());
  other.load_weights((folder / "w.safetensors").string());
  EXPECT_EQ(other.weights_hash(), training.weights_hash());
  std::vector<float> numbers = other.weight("last");
  ASSERT_EQ(numbers.size(), static_cast<size_t>(kWidth));
  EXPECT_EQ(numbers, training.weight("last"));
  numbers[3] = 7;
  other.set_weight("last", numbers);
  EXPECT_EQ(other.weight("last"), numbers);
  EXPECT_NE(other.weights_hash(), training.weights_hash());
  EXPECT_THAT(error_of([&] { other.set_weight("last", {}); }), HasSubstr("found 0; expected 8"));
  EXPECT_THAT(error_of([&] { other.weight("lst"); }), HasSubstr("no weight of this name"));
}

TEST(Library, APredictorGivesWhatTrainingGives) {
  const TemporaryFolder folder;
  Training training(rows_model(), options());
  training.step(Samples(16).views());
  training.save_weights((folder / "w.safetensors").string());
  const std::string saved = training.save((folder / "checkpoints").string());
  const std::vector<float> expected = training.predict({{"rows", Samples(7).rows}})["predicted"].floats();
  EXPECT_EQ(expected.size(), 7u);
  for (const char* layout : {"", "p=2", "t=2", "r=2", "p=2 t=2"})
    for (const std::string& weights : {(folder / "w.safetensors").string(), saved}) {
      SCOPED_TRACE(layout + (" " + weights));
      Predictor predictor(rows_model(), weights, {.chunks = 4, .layout = layout, .threads = 2});
      EXPECT_EQ(predictor.predict({{"rows", Samples(7).rows}})["predicted"].floats(), expected);
      EXPECT_EQ(predictor.predict({{"rows", Samples(1).rows}})["predicted"].floats(), std::vector<float>{expected[0]});
    }
  Predictor predictor(rows_model(), saved, {.chunks = 4});
  EXPECT_EQ(predictor.weights_hash(), training.weights_hash());
  EXPECT_THAT(error_of([&] { predictor.run("none"); }), HasSubstr("no program of this name; found 'none'"));
  EXPECT_THAT(error_of([&] { Predictor(rows_model(), saved, {.programs = {"none"}}); }),
              HasSubstr("no program of this name on request; found 'none'; expected predict"));
  EXPECT_THAT(error_of([&] { predictor.predict({{"rows", Samples(1).rows}})["x"]; }),
              HasSubstr("no array of this name; found 'x'; expected predicted"));
  EXPECT_THAT(error_of([&] { predictor.predict({}); }), HasSubstr("'rows' is missing"));
}

TEST(Library, APredictorRunsSeveralProgramsAndTellsHowLongItTook) {
  const Model model = rows_model(0, [](ModelBuilder& m) {
    m.program("norm", When::on_request(), [](ProgramBuilder& p) {
      const Tensor last = p.state("last");
      p.output("norm", sqrt(reduce_sum(last * last)));
    });
    m.program("first", When::on_request(), [](ProgramBuilder& p) {
      p.output("first", reduce_sum(p.input("rows") * p.full(DType::kF32, {}, 2), {1}));
    });
  });
  Training training(model, options());
  for (const char* layout : {"", "p=2", "t=2", "r=2"}) {
    SCOPED_TRACE(layout);
    // The first values of the same seed.
    Predictor predictor(model, "", {.chunks = 4, .programs = {"predict", "norm", "first"}, .layout = layout});
    EXPECT_EQ(predictor.run("norm")["norm"].at(0), training.run("norm")["norm"].at(0));
    const Samples samples(8);
    EXPECT_EQ(predictor.run("first", {{"rows", samples.rows}})["first"].floats(),
              training.run("first", {{"rows", samples.rows}})["first"].floats());
    EXPECT_EQ(predictor.predict({{"rows", Samples(3).rows}})["predicted"].floats(),
              training.predict({{"rows", Samples(3).rows}})["predicted"].floats());
    EXPECT_THAT(error_of([&] { predictor.run("first", {{"rows", Samples(3).rows}}); }),
                HasSubstr("found 3 samples; expected a multiple of 4"));
    Samples beyond(8);
    beyond.rows[6 * kWidth + 2] = 10;
    EXPECT_THAT(error_of([&] { predictor.predict({{"rows", beyond.rows}}); }),
                HasSubstr("'rows' of sample 6, element 2: a value of the data is outside what the model takes"));
    const CallTimes times = predictor.times();
    EXPECT_EQ(times.calls, 3);
    EXPECT_EQ(times.samples, 8 + 3);
    EXPECT_GT(times.median, 0);
    EXPECT_GE(times.p99, times.p90);
    EXPECT_GE(times.p90, times.median);
    EXPECT_GE(times.seconds, times.p99);
  }
}

/// The samples of Samples, as a source; throws at one of them.
class Rows final : public Source {
 public:
  explicit Rows(int64_t bad = -1) : bad_(bad) {}
  void fill(int64_t first, int64_t count, std::span<const Place> places) const override {
    if (bad_ >= first && bad_ < first + count) throw std::runtime_error("sample 20 is lost");
    const Samples samples(count, first);
    std::copy(samples.rows.begin(), samples.rows.end(), places[0].as<float>().begin());
    std::copy(samples.wanted.begin(), samples.wanted.end(), places[1].as<float>().begin());
  }
  int64_t samples() const override { return 64; }
  std::string identity() const override { return "rows"; }

 private:
  const int64_t bad_;
};

TEST(Library, FitStepsEvaluatesSavesAndStops) {
  const TemporaryFolder folder;
  TrainOptions how = options();
  how.steps = 6, how.evaluate_every = 2, how.evaluation_batches = 2, how.save_every = 3;
  Training training(rows_model(), how, Data::source(std::make_shared<Rows>()), Data::source(std::make_shared<Rows>()));
  std::vector<int64_t> steps, evaluations;
  std::stop_source stop;
  FitOptions fit{.checkpoints = (folder / "checkpoints").string(), .stop = stop.get_token()};
  fit.on_step = [&](const StepResult& result) {
    steps.push_back(result.step);
    if (result.step == 4) stop.request_stop();
  };
  fit.on_evaluation = [&](int64_t step, const Metrics& numbers) {
    evaluations.push_back(step);
    EXPECT_GT(numbers["loss"], 0);
  };
  const FitResult result = training.fit(fit);
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.steps, 4);
  EXPECT_THAT(steps, ::testing::ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(evaluations, ::testing::ElementsAre(0, 2, 4));
  Training again(rows_model(), how, Data::source(std::make_shared<Rows>()));
  again.restore(result.checkpoint);
  const FitResult rest = again.fit();
  EXPECT_EQ(rest.steps, 6);
  EXPECT_FALSE(rest.stopped);
  EXPECT_EQ(rest.checkpoint, "") << "nobody asked for one";
  Training at_once(rows_model(), how);
  for (int64_t step = 0; step < 6; ++step) at_once.step(Samples(16, step * 16).views());
  EXPECT_EQ(at_once.weights_hash(), again.weights_hash())
      << "the samples are the same, whether a source or the caller gives them";
}

TEST(Library, WhatAUsersFunctionThrowsReachesTheUser) {
  TrainOptions how = options();
  how.steps = 6;
  Training training(rows_model(), how, Data::source(std::make_shared<Rows>(20)));
  training.step();
  const std::string before = training.weights_hash();
  EXPECT_THROW(training.step(), std::runtime_error);
  EXPECT_EQ(training.weights_hash(), before);
  Training other(rows_model(), how, Data::source(std::make_shared<Rows>()));
  FitOptions fit;
  fit.on_step = [](const StepResult& result) {
    if (result.step == 2) throw std::out_of_range("enough");
  };
  EXPECT_THROW(other.fit(fit), std::out_of_range);
  EXPECT_EQ(other.steps_done(), 2);
}

TEST(Library, DataOfArraysIsShuffledAndHeldOut) {
  const Samples all(40);
  const ArrayOptions how{.seed = 3, .held_out = 0.2};
  const Data data = Data::arrays(all.views(), how);
  Training training(rows_model(), options(), data, data.held_out());
  EXPECT_GT(training.step().loss, 0);
  EXPECT_GT(training.evaluate()["loss"], 0);
  const Data whole = Data::arrays(all.views());
  EXPECT_THAT(error_of([&] { Training(rows_model(), options(), whole, whole.held_out()); }),
              HasSubstr("the data holds nothing out; found ArrayOptions::held_out of 0"));
  const Data wrong = Data::arrays({{"rows", all.rows}});
  EXPECT_THAT(
      error_of([&] { Training(rows_model(), options(), wrong); }),
      HasSubstr("the data of model 'rows': arrays that are not what the model reads; found 'wanted' is missing"));
  EXPECT_THAT(error_of([&] { training.step(all.views()); }),
              HasSubstr("samples for a training that has data of its own"));
}

TEST(Library, GroupsRatesAndOptimizers) {
  TrainOptions how = options();
  how.groups = {{.name = "still", .weights = {"layer0.*"}, .frozen = true}, {.name = "slow", .weights = {"last"}}};
  for (const Optimizer& optimizer :
       std::vector<Optimizer>{AdamW{}, Adam{}, Sgd{.momentum = 0.9}, Lamb{}, Lars{}, Lion{}, Adafactor{},
                              Rmsprop{.momentum = 0.5, .centered = true}, Adagrad{.rate_decay = 0.1}}) {
    how.optimizer = optimizer;
    Training training(rows_model(), how);
    const auto up = training.weight("layer0.up"), last = training.weight("last"), down = training.weight("layer1.down");
    const StepResult result = training.step(Samples(16).views(), {.rate = 0.5, .group_rates = {{"slow", 0}}});
    EXPECT_EQ(result.learning_rate, 0.5);
    EXPECT_EQ(training.weight("layer0.up"), up);
    EXPECT_EQ(training.weight("last"), last);
    EXPECT_NE(training.weight("layer1.down"), down);
  }
  how.groups[0].weights = {"nothing*"};
  EXPECT_THAT(error_of([&] { Training(rows_model(), how); }), HasSubstr("nothing*"));
}

TEST(Library, ProgramsInStepsAndOnRequest) {
  const auto model = [](const When& when) {
    return rows_model(0, [&](ModelBuilder& m) {
      m.program("halve", when, [](ProgramBuilder& p) {
        const Tensor bias = p.state("bias");
        p.set_state("bias", bias * 0.5 + 1.0);
        p.output("was", reduce_sum(bias));
      });
    });
  };
  Training training(model(When::each_steps(2)), options());
  training.step(Samples(16).views());
  EXPECT_TRUE(training.results("halve").empty());
  const float one = training.weight("bias")[0];
  training.step(Samples(16).views(), {.rate = 0});
  EXPECT_FLOAT_EQ(static_cast<float>(training.results("halve")["was"]), one);
  EXPECT_FLOAT_EQ(training.weight("bias")[0], one * 0.5f + 1);
  Training asked(model(When::on_request()), options("p=2"));
  EXPECT_EQ(asked.run("halve")["was"].at(0), 0);
  EXPECT_EQ(asked.run("halve")["was"].at(0), 1);
  EXPECT_EQ(asked.weight("bias")[0], 1.5f);
  EXPECT_THAT(error_of([&] {
                rows_model(0, [](ModelBuilder& m) {
                  m.program("bad", When::on_request(), [](ProgramBuilder& p) { p.weight("none", {3}); });
                });
              }),
              HasSubstr("a program reads a weight that the model does not have; found 'none' f32[3]"));
}

TEST(Library, APlanSaysWhatItTakesAndRefusesWhatDoesNotFit) {
  const Plan whole = plan(rows_model(), options(), {.time = false});
  ASSERT_EQ(whole.device_bytes.size(), 1u);
  EXPECT_GT(whole.device_bytes[0], 0);
  EXPECT_THAT(whole.text, HasSubstr("weights"));
  const Plan two = plan(rows_model(), options("p=2 phases=1 offload=optimizer"), {.machine = "dgx-h100"});
  EXPECT_EQ(two.device_bytes.size(), 2u);
  EXPECT_GT(two.streaming_bytes, 0);
  EXPECT_GT(two.step_seconds, 0);
  EXPECT_THAT(error_of([&] { plan(rows_model(), options("p=3"), {.time = false}); }),
              HasSubstr("TrainOptions::layout"));
  TrainOptions small = options();
  small.device_memory = 1024;
  EXPECT_THAT(error_of([&] { Training(rows_model(), small); }), HasSubstr("expected at most 1.00 KiB"));
  EXPECT_THAT(Training(rows_model(), options()).plan(), HasSubstr("weights"));
}

TEST(Library, VersionIsThatOfTheHeaders) {
  EXPECT_EQ(version(), std::to_string(RAMET_VERSION_MAJOR) + "." + std::to_string(RAMET_VERSION_MINOR) + "." +
                           std::to_string(RAMET_VERSION_PATCH));
}

}  // namespace
}  // namespace ramet::tests
