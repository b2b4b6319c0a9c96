#include "ramet/model/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/model/model_text.h"
#include "support/errors.h"
#include "support/small_model.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Each function names every field of its type, so that a field that is added and not compared here does not compile.

void expect_equal(const LogicalAxis& a, const LogicalAxis& b) {
  const auto& [name, blocks, padding] = a;
  EXPECT_EQ(name, b.name);
  EXPECT_EQ(blocks, b.blocks);
  EXPECT_EQ(padding, b.padding);
}

void expect_equal(const StateInit& a, const StateInit& b) {
  const auto& [kind, first, second, of_element, function, data] = a;
  EXPECT_EQ(kind, b.kind);
  EXPECT_EQ(first, b.a);
  EXPECT_EQ(second, b.b);
  EXPECT_EQ(static_cast<bool>(of_element), static_cast<bool>(b.of_element));
  EXPECT_EQ(function, b.function);
  EXPECT_EQ(data.has_value(), b.data.has_value());
  if (data && b.data) {
    EXPECT_EQ(data->tensor(), b.data->tensor());
  }
}

void expect_equal(const StateTensor& a, const StateTensor& b) {
  SCOPED_TRACE(a.name);
  const auto& [name, type, kind, init, group, axes, of, role, part, external_name, low_half, fold] = a;
  EXPECT_EQ(name, b.name);
  EXPECT_EQ(type, b.type);
  EXPECT_EQ(kind, b.kind);
  expect_equal(init, b.init);
  EXPECT_EQ(group, b.group);
  ASSERT_EQ(axes.size(), b.axes.size());
  for (size_t i = 0; i < axes.size(); ++i) expect_equal(axes[i], b.axes[i]);
  EXPECT_EQ(of, b.of);
  EXPECT_EQ(role, b.role);
  EXPECT_EQ(part, b.part);
  EXPECT_EQ(external_name, b.external_name);
  EXPECT_EQ(low_half, b.low_half);
  const auto& [by, momentum] = fold;
  EXPECT_EQ(by, b.fold.by);
  EXPECT_EQ(momentum, b.fold.momentum);
}

void expect_equal(const InputSpec& a, const InputSpec& b) {
  const auto& [name, type, axes, low, high] = a;
  EXPECT_EQ(name, b.name);
  EXPECT_EQ(type, b.type);
  EXPECT_EQ(axes, b.axes);
  EXPECT_EQ(low, b.low);
  EXPECT_EQ(high, b.high);
}

void expect_equal(const Metric& a, const Metric& b) {
  const auto& [name, numerator, denominator, how, numerator_is_mean, parts, most_items, held_out_only] = a;
  EXPECT_EQ(name, b.name);
  EXPECT_EQ(numerator, b.numerator);
  EXPECT_EQ(denominator, b.denominator);
  EXPECT_EQ(how, b.how);
  EXPECT_EQ(numerator_is_mean, b.numerator_is_mean);
  EXPECT_EQ(parts, b.parts);
  EXPECT_EQ(most_items, b.most_items);
  EXPECT_EQ(held_out_only, b.held_out_only);
}

void expect_equal(const NamedGraph& a, const NamedGraph& b) {
  const auto& [name, graph, when] = a;
  EXPECT_EQ(name, b.name);
  EXPECT_EQ(print(graph), print(b.graph));
  const auto& [kind, every, micro] = when;
  EXPECT_EQ(kind, b.when.kind);
  EXPECT_EQ(every, b.when.every);
  EXPECT_EQ(micro, b.when.micro);
}

template <typename T>
void expect_all_equal(const std::vector<T>& a, const std::vector<T>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) expect_equal(a[i], b[i]);
}

void expect_equal(const Model& a, const Model& b) {
  const auto& [name, forward, evaluate, programs, weights, states, deviations, axes, inputs, metrics, passes,
               packed_rows, guards, units_of_axes, flops_per_token, tokens_per_micro_batch] = a;
  EXPECT_EQ(name, b.name);
  EXPECT_EQ(print(forward), print(b.forward));
  EXPECT_EQ(print(evaluate), print(b.evaluate));
  expect_all_equal(programs, b.programs);
  expect_all_equal(weights, b.weights);
  expect_all_equal(states, b.states);
  EXPECT_EQ(deviations, b.deviations);
  EXPECT_EQ(axes, b.axes);
  expect_all_equal(inputs, b.inputs);
  expect_all_equal(metrics, b.metrics);
  EXPECT_EQ(passes, b.passes);
  EXPECT_EQ(packed_rows, b.packed_rows);
  EXPECT_EQ(guards, b.guards);
  EXPECT_EQ(units_of_axes, b.units_of_axes);
  EXPECT_EQ(flops_per_token, b.flops_per_token);
  EXPECT_EQ(tokens_per_micro_batch, b.tokens_per_micro_batch);
  EXPECT_EQ(a.identity(), b.identity());
}

/// A model in which every field is another than its default somewhere, with texts that are hard to write.
Model odd_model() {
  Model model = small_model();
  for (StateTensor& weight : model.weights)
    if (weight.name == "gain") weight.init = {};
  model.name = "odd \"name\"\nof two lines \\ # no comment";
  model.deviations = {{"first.weight", 0.1}, {"gain", 1e-300}};
  model.axes = {{"heads", 2}, {"a \"b\"", 1}, {"embed", 2}, {"mlp", 1}};
  model.units_of_axes = {{"heads", 12}};
  model.passes = {"unit scaling"};
  model.packed_rows = true;
  model.flops_per_token = 123456.789;
  model.tokens_per_micro_batch = 4096;
  StateTensor& weight = model.weights[0];
  weight.axes = {{"heads", 2, 4}, {"", 1, 0}};
  weight.group = "mine", weight.external_name = "encoder.first", weight.role = "weight", weight.part = "@1";
  std::vector<double> values(100);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25 * static_cast<double>(i);
  const StateInit long_data = StateInit::from(TensorData(HostTensor::of(DType::kBF16, {100}, values)));
  model.states.push_back({"table", {DType::kBF16, {100}}, StateKind::kConstant, long_data, ""});
  model.states.push_back({"same", {DType::kBF16, {100}}, StateKind::kConstant, long_data, ""});
  model.states.push_back({"few",
                          {DType::kI64, {2}},
                          StateKind::kConstant,
                          StateInit::from(TensorData(HostTensor::of(DType::kI64, {2}, {-5, 1e15}))),
                          ""});
  model.states.push_back({"chain", {DType::kF32, {2, 2}}, StateKind::kChained, {StateInit::Kind::kUniform, -1, 2}, ""});
  model.states.push_back({"low", {DType::kF16, {16}}, StateKind::kKept, {StateInit::Kind::kIota, 2, -0.5}, ""});
  model.states.back().of = "gain", model.states.back().role = "low half", model.states.back().low_half = true;
  model.states[0].fold = {.by = "max", .momentum = 0.75};
  model.metrics.push_back({.name = "perplexity",
                           .numerator = "loss",
                           .how = Metric::How::kExp,
                           .parts = {"loss", "accuracy"},
                           .most_items = 7,
                           .held_out_only = true});
  model.metrics.push_back({.name = "sum", .numerator = "correct", .how = Metric::How::kSum});
  model.metrics.push_back({.name = "mean", .numerator = "correct", .how = Metric::How::kMean});
  model.metrics.push_back({.name = "average", .numerator = "", .how = Metric::How::kAverage, .parts = {"sum", "mean"}});
  Graph each("each"), late("late");
  {
    GraphBuilder build(each), build_late(late);
    build.output("twice", scale(build.input("rows", DType::kF32, {kSmallBatch, kSmallWidth}), 2));
    build_late.output("half", scale(build_late.input("rows", DType::kF32, {kSmallBatch, kSmallWidth}), 0.5));
  }
  model.programs.push_back({"each", std::move(each), When::each_micro_batch()});
  model.programs.push_back({"late", std::move(late), When::each_step(100, 3)});
  return model;
}

TEST(ModelFile, KeepsEveryFieldOfAModel) {
  const TemporaryFolder folder;
  const Model model = odd_model();
  const Units units{.name = "rows \"x\"", .per_sample = 3, .mask = "labels"};
  save_model(folder / "odd.ramet", model, units);
  const auto [loaded, loaded_units] = load_model(folder / "odd.ramet");
  expect_equal(loaded, model);
  const auto& [name, per_sample, mask] = loaded_units;
  EXPECT_EQ(name, units.name);
  EXPECT_EQ(per_sample, units.per_sample);
  EXPECT_EQ(mask, units.mask);
  save_model(folder / "again.ramet", loaded, loaded_units);
  EXPECT_EQ(read_file(folder / "again.ramet"), read_file(folder / "odd.ramet"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2) << "nothing is left beside them";
}

TEST(ModelFile, IsATextThatAPersonReads) {
  const TemporaryFolder folder;
  save_model(folder / "small.ramet", small_model());
  const std::string file = read_file(folder / "small.ramet");
  const std::string text = file.substr(0, file.find("\nchecksum"));
  EXPECT_THAT(text, HasSubstr("ramet model 1\nmodel \"small\"\n"));
  EXPECT_THAT(text, HasSubstr("input \"labels\" : i32[4] [\"batch\"] {high=3.0, low=0.0}\n"));
  EXPECT_THAT(text, HasSubstr("weight \"layer.0.up.weight\" : f32[32,16] [\"mlp\",\"embed\"] "
                              "{b=0.2, first=\"normal\", group=\"decay\"}\n"));
  EXPECT_THAT(text, HasSubstr("state \"mean\" : f32[16] {kind=\"deferred\", momentum=0.25}\n"));
  EXPECT_THAT(text, HasSubstr("metric \"accuracy\" {denominator=\"rows_counted\", numerator=\"correct\"}\n"));
  EXPECT_THAT(text, HasSubstr("program \"turn\" {every=2, when=\"steps\"}\ngraph \"turn\" {\n"));
  EXPECT_THAT(text, HasSubstr("small_model.h:")) << "where the model says what";
  EXPECT_THAT(text, Not(HasSubstr("base64")));
}

TEST(ModelFile, WhatAFunctionGivesIsSavedAsData) {
  const TemporaryFolder folder;
  const Model model = small_model();
  save_model(folder / "small.ramet", model);
  const Model loaded = load_model(folder / "small.ramet").first;
  EXPECT_EQ(loaded.identity(), model.identity());
  const auto gain = std::find_if(loaded.weights.begin(), loaded.weights.end(),
                                 [](const StateTensor& weight) { return weight.name == "gain"; });
  ASSERT_EQ(gain->init.kind, StateInit::Kind::kData);
  for (int64_t i = 0; i < kSmallHidden; ++i)
    EXPECT_EQ(gain->init.data->tensor().get(i), static_cast<float>(1 + 0.1 * std::sin(static_cast<double>(i))));
  Model broken = small_model();
  for (StateTensor& weight : broken.weights) weight.init.of_element = nullptr;
  EXPECT_THAT(error_of([&] { save_model(folder / "small.ramet", broken); }),
              HasSubstr("state 'gain': the function that gives a state's first values is missing; found 'waves'"));
  EXPECT_EQ(load_model(folder / "small.ramet").first.identity(), model.identity()) << "the old file is still there";
}

/// The text of a file with one piece put for another and no checksum.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = print_model(odd_model());
  const size_t at = text.find(from);
  if (at == std::string::npos) return "the text has no '" + from + "'";
  return text.replace(at, from.size(), to);
}

std::string error_of_text(const std::string& text) {
  const Model model = odd_model();
  const auto tensor = [&](const std::string& hash) -> const TensorData* {
    for (const StateTensor& state : model.states)
      if (state.init.data && state.init.data->hash().hex() == hash) return &*state.init.data;
    for (const Node& node : model.forward.nodes())
      for (const auto& [name, value] : node.attributes)
        if (const auto* data = std::get_if<TensorData>(&value); data && data->hash().hex() == hash) return data;
    return nullptr;
  };
  return error_of([&] { parse_model_text(text, "m.ramet", tensor); });
}

TEST(ModelFile, ErrorsSayWhereInTheFileAndWhat) {
  EXPECT_EQ(error_of_text(print_model(odd_model())), "no error");
  const std::pair<std::pair<const char*, const char*>, const char*> cases[] = {
      {{"ramet model 1", "ramet model 2"},
       "m.ramet:1:13: the file of the model has a form that this version does not know; found '2'; expected 1"},
      {{"\nguard", "\nguards"},
       "an unknown declaration; found 'guards \"loss\"'; expected axis, axis_units, checksum, "},
      {{"low=-9.0", "lowest=-9.0"}, "unknown attribute 'lowest'; expected perhaps 'low'"},
      {{"low=-9.0", "low=\"nine\""}, "attribute 'low' is of the wrong kind; found \"nine\"; expected a number"},
      {{"low=-9.0", "high=-9.0"}, "a second attribute of this name"},
      {{"first=\"normal\"", "first=\"norm\""}, "unknown first; found 'norm'; expected zeros, constant, normal, "},
      {{"kind=\"pattern\"", "kind=\"deferred\""}, "deferred state 'places': a deferred state is f32; found i32[16]"},
      {{"kind=\"pattern\"", "kind=\"derived?\""}, "unknown kind"},
      {{"first=\"iota\"", "first=\"function\""}, "the function that gives a state's first values is missing"},
      {{"padding=[4,0]", "padding=[4]"}, "blocks and padding are one number an axis"},
      {{"padding=[4,0]", "padding=[40,0]"}, "only a part of the first dimension can be padding"},
      {{"blocks=[2,1]", "blocks=[3,1]"}, "the blocks of logical axis 'heads' do not divide its dimension"},
      {{"axis \"a \\\"b\\\"\" {shard=1}", "axis \"a\" {shard=3}"}, "tensor shards have the axes 1 and 2 alone"},
      {{"axis_units \"heads\" {count=12}", "axis_units \"heads\" {}"}, "a number is missing"},
      {{"{every=2, when=\"steps\"}", "{every=0, when=\"steps\"}"}, "a program runs at an impossible time"},
      {{"\nforward\n", "\nevaluate\n"}, "a second declaration of this kind; found 'evaluate'"},
      {{"numerator=\"correct\"", "numerator=\"correkt\""},
       "metric 'accuracy' is of an output that no graph has; found 'correkt'"},
      {{"state \"mean\" : f32[16]", "state \"mean\" : f32[15]"},
       "state 'mean' is of another type in graph 'forward'; found f32[16]; expected f32[15]"},
      {{"state \"mean\"", "state \"means\""}, "has a state that the model does not declare; found 'mean'"},
      {{"state \"same\"", "state \"table\""}, "two states of one name; found 'table'"},
      {{"input \"labels\" : i32[4]", "input \"labels\" : i64[4]"}, "input 'labels' is declared as another type"},
      {{"data=tensor(bf16[100], \"", "data=tensor(bf16[100], \"0"}, "no tensor of this hash and type is there"},
      {{"tensor(i64[2], [-5,", "tensor(i64[2], ["}, "not as many elements as the tensor's type has"},
  };
  for (const auto& [change, expected] : cases) {
    SCOPED_TRACE(change.second);
    const std::string text = changed(change.first, change.second);
    ASSERT_THAT(text, HasSubstr("ramet model")) << text;
    EXPECT_THAT(error_of_text(text), HasSubstr(expected));
  }
}

TEST(ModelFile, ANodeThatIsRefusedIsNamedByTheLineThatMadeIt) {
  const std::string text = print_model(odd_model());
  const size_t at = text.find(" = argmax(");
  ASSERT_NE(at, std::string::npos);
  const std::string bad = std::string(text).replace(at + 3, 6, "nosuch");
  EXPECT_THAT(error_of_text(bad), HasSubstr("nosuch"));
  const size_t axis = text.find("argmax(", at), brace = text.find("axis=1", axis);
  ASSERT_NE(brace, std::string::npos);
  const std::string message = error_of_text(std::string(text).replace(brace, 6, "axis=7"));
  EXPECT_THAT(message, ::testing::ContainsRegex("^m.ramet:[0-9]+:[0-9]+: the node of .*small_model.h:[0-9]+: "));
}

TEST(ModelFile, DamagedFilesAreErrors) {
  const TemporaryFolder folder;
  save_model(folder / "odd.ramet", odd_model());
  const std::string file = read_file(folder / "odd.ramet");
  const auto error = [&](const std::string& bytes) { return error_of([&] { parse_model(bytes, "m.ramet"); }); };
  EXPECT_EQ(error(file), "no error");
  EXPECT_THAT(error("PK\3\4"),
              HasSubstr("m.ramet: this is no file of a model; found another beginning; expected 'ramet model 1'"));
  EXPECT_THAT(error(""), HasSubstr("this is no file of a model"));
  EXPECT_THAT(error(file.substr(0, file.size() - 1)), HasSubstr("the tensors of the file are cut short or damaged"));
  EXPECT_THAT(error(file.substr(0, file.find("\ntensors") + 1)), HasSubstr("no tensor of this hash and type is there"));
  EXPECT_THAT(error("ramet model 1\nmodel \"m\"\n"),
              HasSubstr("the model lacks a declaration; found the end of the text; expected 'forward'"));
  std::string bad = file;
  bad.back() ^= 1;
  EXPECT_THAT(error(bad), HasSubstr("m.ramet, its tensors: the bytes of a tensor are damaged"));
  bad = file;
  bad.replace(bad.find("most_items=7.0"), 14, "most_items=8.0");
  EXPECT_THAT(error(bad), HasSubstr("the text before this checksum is not what was saved"));
  const size_t checksum = bad.find("\nchecksum") + 1;
  EXPECT_EQ(error(bad.erase(checksum, bad.find('\n', checksum) + 1 - checksum)), "no error") << "changed by hand";
  EXPECT_THAT(error_of([&] { load_model(folder / "none.ramet"); }), HasSubstr("none.ramet: cannot open the file"));
}

}  // namespace
}  // namespace ramet::tests
