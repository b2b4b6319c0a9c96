// The commands on a model that a program built with the library and saved: the same numbers as the program's, and the
// program's lines in what they tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "support/mpi.h"
#include "support/small_arrays.h"
#include "support/temporary.h"
// Behind the engine's headers, which have names of their own.
#include <ramet/ramet.h>

namespace ramet::tests {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int64_t kSamples = 128, kSeed = 3, kSteps = 6;

/// "cli/library_model_test.cc:12"
std::string line_text(int line) { return "cli/library_model_test.cc:" + std::to_string(line); }

/// The lines of some ops below.
struct Lines {
  int product = 0, logarithm = 0, statistic = 0;
};

v0::Model own_model(Lines& lines) {
  v0::ModelBuilder m("own");
  v0::Tensor x = m.input("rows", DType::kF32, {kSamples, kSmallWidth}, {.low = -9, .high = 9});
  const v0::Tensor labels = m.input("labels", DType::kI32, {kSamples}, {.low = 0, .high = kSmallClasses - 1});
  m.state("mean", {DType::kF32, {kSmallWidth}}, v0::StateRole::kDeferred);
  lines.statistic = __LINE__ + 1;
  const v0::Tensor mean = reduce_mean(x, {0});
  m.set_state("mean", mean);
  x = x - by_use(mean, m.state("mean"));
  for (int i = 0; i < 4; ++i) {
    const v0::PartScope part(m, "layer", i);
    const std::string name = "layer" + std::to_string(i);
    const v0::Tensor up = m.weight(name + ".up", {128, kSmallWidth}, v0::Init::fan_in(), {.axes = {"mlp", "embed"}});
    const v0::Tensor down = m.weight(name + ".down", {kSmallWidth, 128},
                                     v0::Init::by("waves", [](int64_t i) { return 0.01 * static_cast<double>(i % 7); }),
                                     {.axes = {"embed", "mlp"}});
    lines.product = __LINE__ + 1;
    const v0::Tensor wide = matmul(x, up, false, true);
    x = x + dropout(matmul(tanh(wide), down, false, true), 0.1);
  }
  const v0::Tensor logits = matmul(x, m.weight("head", {kSmallClasses, kSmallWidth}, v0::Init::fan_in()), false, true);
  const v0::CrossEntropy measured = cross_entropy(logits, labels);
  lines.logarithm = __LINE__ + 1;
  const v0::Tensor risky = log(reduce_sum(x * x) + 1.0);
  m.loss(measured.loss + 0.001 * risky);
  m.metric("accuracy", v0::Ratio{measured.correct, measured.count});
  m.output("logits", logits);
  m.program("norm", v0::When::on_request(), [](v0::ProgramBuilder& p) {
    const v0::Tensor head = p.state("head");
    p.output("norm", sqrt(reduce_sum(head * head)));
  });
  return m.build();
}

class LibraryModel : public ::testing::Test {
 protected:
  LibraryModel() : model_(own_model(lines_)) {
    model_.save(folder_ / "own.ramet");
    save_samples(folder_ / "train.npz", 1024);
    save_samples(folder_ / "test.npz", 300, 2);
    write_file_atomic(folder_ / "own.toml", R"([model]
file = "own.ramet"
[data]
kind = "arrays"
train = "train.npz"
held_out = "test.npz"
[train]
steps = 6
accumulation = 2
lanes = 2
chunks = 2
seed = 3
precision = "f32"
clip_norm = 0
[train.optimizer]
epsilon = 1e-8
[train.schedule]
kind = "constant"
learning_rate = 0.01
[train.checkpoint]
every = 2
)");
  }
  static v0::TrainOptions options() {
    return {.schedule = {.learning_rate = 0.01},
            .steps = kSteps,
            .micro_batches = 2,
            .lanes = 2,
            .chunks = 2,
            .seed = kSeed,
            .threads = 2};
  }
  v0::Training training(const v0::Model& model) {
    return {model, options(), v0::Data::file(folder_ / "train.npz", {.seed = kSeed}),
            v0::Data::file(folder_ / "test.npz", {.shuffle = false})};
  }
  Outcome ramet(const std::vector<std::string>& arguments) { return Process(arguments, folder_.path()).wait(); }
  /// Expects success; the lines as JSON.
  std::vector<json> told(std::vector<std::string> arguments) {
    arguments.push_back("--json");
    const Outcome outcome = ramet(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::vector<json> lines;
    std::istringstream text(outcome.out);
    for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line, nullptr, false));
    if (lines.empty()) lines.push_back(json::object());
    return lines;
  }

  TemporaryFolder folder_;
  Lines lines_;
  v0::Model model_;
};

TEST_F(LibraryModel, TheCommandsTrainItToTheLibrarysLossesAndHash) {
  v0::Training own = training(model_);
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) losses.push_back(own.step().loss);
  for (const char* layout : {"", "p=2", "r=2 rts=optimizer", "t=2", "p=2 phases=2 offload=optimizer"}) {
    SCOPED_TRACE(layout);
    std::vector<std::string> command = {"train", "own.toml", "--threads", "2"};
    if (*layout) command.insert(command.end(), {"--layout", layout});
    const std::vector<json> lines = told(command);
    std::vector<double> found;
    for (const json& line : lines)
      if (line["event"] == "step") found.push_back(line["loss"]);
    ASSERT_EQ(found.size(), losses.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_DOUBLE_EQ(found[i], losses[i]);
    EXPECT_EQ(lines.back()["weights_hash"], own.weights_hash());
  }
}

TEST_F(LibraryModel, AFileGivesTheModelBack) {
  const v0::Model loaded = v0::Model::load(folder_ / "own.ramet");
  EXPECT_EQ(loaded.text(), model_.text()) << "with the program's lines";
  EXPECT_EQ(loaded.micro_batch(), kSamples);
  loaded.save(folder_ / "again.ramet");
  EXPECT_TRUE(read_file(folder_ / "again.ramet") == read_file(folder_ / "own.ramet"));
  v0::Training own = training(model_), other = training(loaded);
  own.step(), other.step();
  EXPECT_EQ(own.weights_hash(), other.weights_hash());
  EXPECT_EQ(own.run("norm")["norm"].at(0), other.run("norm")["norm"].at(0));
  const SmallSamples samples(5, 7);
  EXPECT_EQ(own.predict({{"rows", samples.rows}})["logits"].floats(),
            other.predict({{"rows", samples.rows}})["logits"].floats());
  write_file_atomic(folder_ / "bad.ramet", "ramet model 1\nmodel \"x\"\nsurprise\n");
  try {
    v0::Model::load(folder_ / "bad.ramet");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("bad.ramet:3:1"));
  }
}

TEST_F(LibraryModel, RunsAreListedShownResumedAndGoOnInTheLibrary) {
  const std::string hash = told({"train", "own.toml"}).back()["weights_hash"];
  told({"train", "own.toml", "--run", "run", "--steps", "4"});
  EXPECT_THAT(ramet({"runs", "list"}).out, ContainsRegex("run .*done"));
  const json shown = told({"runs", "show", "run"}).back();
  EXPECT_EQ(shown["name"], "own");
  EXPECT_FALSE(shown["checkpoints"].empty());
  const auto newest = [&] {
    std::vector<std::filesystem::path> all;
    for (const auto& each : std::filesystem::directory_iterator(folder_ / "run" / "checkpoints")) all.push_back(each);
    return *std::max_element(all.begin(), all.end());
  };
  EXPECT_THAT(ramet({"inspect", "checkpoint", newest().string()}).out, HasSubstr("layer0.up"));
  // A program of one's own goes on from the run's checkpoint, and the commands from the program's.
  v0::Training own = training(model_);
  EXPECT_EQ(own.restore(newest().string()), "");
  EXPECT_EQ(own.steps_done(), 4);
  while (own.steps_done() < kSteps) own.step();
  EXPECT_EQ(own.weights_hash(), hash);
}

TEST_F(LibraryModel, PlansSimulatesPredictsAndInspects) {
  EXPECT_GT(told({"plan", "own.toml", "--no-time", "--layout", "p=2"}).back()["planned_bytes"].get<int64_t>(), 0);
  EXPECT_GT(told({"simulate", "own.ramet", "--machine", "bow-pod16"}).back()["samples_per_second"].get<double>(), 0);
  EXPECT_EQ(told({"inspect", "model", "own.ramet"}).back()["programs"], json({"predict", "norm"}));
  v0::Training own = training(model_);
  own.step();
  const std::string saved = own.save(folder_ / "saved");
  const SmallSamples samples(300, 2);
  const std::vector<float> logits = own.predict({{"rows", samples.rows}})["logits"].floats();
  const std::vector<std::string> settings = {"--set", "train.precision=f32", "--set", "train.chunks=2"};
  const bool ranks = why_no_mpi().empty();
  for (const std::string layout : {"", "p=2", "t=2", "r=2", "two ranks: p=2 r=2"}) {
    SCOPED_TRACE(layout);
    const bool two = layout.starts_with("two ranks: ");
    if (two && !ranks) continue;
    std::vector<std::string> command = {"predict", "own.ramet",   "--in",      "test.npz",
                                        "--out",   "results.npz", "--weights", saved};
    command.insert(command.end(), settings.begin(), settings.end());
    if (!layout.empty()) command.insert(command.end(), {"--layout", two ? layout.substr(11) : layout});
    command.push_back("--json");
    const Outcome outcome = Process(command, folder_.path(), two ? mpi_launcher(2) : std::vector<std::string>()).wait();
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(json::parse(outcome.last_line(), nullptr, false)["results"], json({"logits"}))
        << "the program of the outputs";
    const auto columns = open_npz(folder_ / "results.npz");
    ASSERT_EQ(columns.size(), 1u);
    ASSERT_EQ(columns[0].shape, (Shape{300, kSmallClasses}));
    std::vector<float> found(logits.size());
    std::memcpy(found.data(), columns[0].data, found.size() * sizeof(float));
    EXPECT_EQ(found, logits);
  }
}

TEST_F(LibraryModel, BenchTimesBatchesOfAnySize) {
  const std::vector<json> lines = told({"bench", "own.ramet", "--batch", "1,40", "--seconds", "0"});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["batch"], 1);
  EXPECT_EQ(lines[1]["batch"], 40);
  for (const json& line : lines) {
    EXPECT_GE(line["calls"], 5);
    EXPECT_GT(line["samples_per_second"], 0.0);
  }
}

TEST_F(LibraryModel, InspectAndPlanNameTheProgramsLines) {
  EXPECT_THAT(ramet({"inspect", "own.ramet"}).out, AllOf(HasSubstr("from \"" + line_text(lines_.product) + "\""),
                                                         HasSubstr("from \"" + line_text(lines_.logarithm) + "\""),
                                                         HasSubstr("from \"" + line_text(lines_.statistic) + "\"")));
  EXPECT_THAT(ramet({"inspect", "executable", "own.toml", "--instructions"}).out,
              HasSubstr(line_text(lines_.logarithm)));
  const Outcome plan = ramet({"plan", "own.toml", "--no-time"});
  EXPECT_THAT(plan.out, ContainsRegex("most is live at .* of cli/library_model_test.cc:[0-9]+"));
  EXPECT_THAT(plan.out, ContainsRegex("activations +[^\n]* of " + line_text(lines_.product)));
}

TEST_F(LibraryModel, ErrorsNameTheProgramsLines) {
  EXPECT_THAT(ramet({"plan", "own.toml", "--no-time", "--device-memory", "64KiB"}).err,
              ContainsRegex("does not fit into device memory.*most bytes are live at .* of "
                            "cli/library_model_test.cc:[0-9]+"));
  std::string text = read_file(folder_ / "own.ramet");
  // An op that is refused names the line of the file, and the line of the program that made it.
  const size_t node = text.find(" = log(");
  ASSERT_NE(node, std::string::npos);
  text.replace(node, 7, " = gather(");
  text.erase(text.find("checksum"), text.find('\n', text.find("checksum")) + 1 - text.find("checksum"));
  write_file_atomic(folder_ / "bad.ramet", text);
  EXPECT_THAT(ramet({"inspect", "bad.ramet"}).err,
              AllOf(ContainsRegex("bad.ramet:[0-9]+:[0-9]+"), HasSubstr("of " + line_text(lines_.logarithm))));
}

}  // namespace
}  // namespace ramet::tests
