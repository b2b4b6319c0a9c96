// Attention of ONNX files that is written out, with rotary positions and shared heads, as the exporters of Llama's
// family write it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ramet/front/onnx_model.h"
#include "ramet/front/onnx_program.h"
#include "ramet/front/onnx_weights.h"
#include "ramet/train/onnx_case.h"
#include "support/onnx_file.h"

namespace ramet::tests {
namespace {

using namespace onnx;
using front::OnnxFeeds;

constexpr int64_t kHeads = 4, kKeyHeads = 2, kPositions = 3, kSize = 4;

int64_t count_of(const ir::Graph& graph, const std::string& op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [&](const ir::Node& node) { return node.op->name == op; });
}

/// What the written attention may lack, or have otherwise.
struct Written {
  bool tables_known = true;  ///< tables of positions are initializers; else they are computed from an input
  bool angles_twice = true;  ///< each angle stands twice in a row of the tables
  bool guarded = true;       ///< Where(IsNaN(p), 0, p)
  bool probabilities_out = false;
  bool swapped = false;    ///< tables are the left operands of the products
  bool flat_keys = false;  ///< keys are transposed as [heads, positions, size], as PyTorch's exporter has it
};

/// The nodes of one attention of q [1, heads, positions, size], and k and v with fewer heads.
class WrittenAttention {
 public:
  explicit WrittenAttention(const Written& written) : written_(written) {
    graph_.inputs = {value("q", 1, {1, kHeads, kPositions, kSize}), value("k", 1, {1, kKeyHeads, kPositions, kSize}),
                     value("v", 1, {1, kKeyHeads, kPositions, kSize})};
    constant("zero", {}, {0}), constant("factor", {}, {std::sqrt(0.5F)});
    longs_of("start", {0}), longs_of("half", {kSize / 2}), longs_of("end", {kSize}), longs_of("last", {3});
    longs_of("two", {2}), longs_of("wide", {1, kKeyHeads, kHeads / kKeyHeads, kPositions, kSize});
    longs_of("joined", {1, kHeads, kPositions, kSize}), longs_of("one", {1});
    make_tables();
    rotate("q"), rotate("k");
    repeat("k_turned", "keys"), repeat("v", "values");
    attend();
    graph_.outputs = {value("y", 1, {1, kHeads, kPositions, kSize})};
    if (written_.probabilities_out) graph_.outputs.push_back(value("p", 1, {1, kHeads, kPositions, kPositions}));
  }

  std::string bytes() const { return model(graph_); }

 private:
  void add(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
           const std::vector<ProtoMessage>& attributes = {}) {
    graph_.nodes.push_back(node(op, inputs, {output}, attributes));
  }
  void constant(const std::string& name, const std::vector<int64_t>& dims, const std::vector<float>& values) {
    graph_.initializers.push_back(floats(name, dims, values));
  }
  void longs_of(const std::string& name, const std::vector<int64_t>& values) {
    graph_.initializers.push_back(longs(name, {std::ssize(values)}, values));
  }

  void make_tables() {
    const std::vector<float> frequencies = {1, written_.angles_twice ? 0.25F : 0.5F};
    if (!written_.tables_known) {
      graph_.inputs.push_back(value("positions", 1, {1, kPositions, 1}));
      constant("frequencies", {1, 1, 2}, frequencies), constant("others", {1, 1, 2}, {1, 0.25F});
      add("MatMul", {"positions", "frequencies"}, "angles"), add("MatMul", {"positions", "others"}, "more");
      add("Concat", {"angles", written_.angles_twice ? "angles" : "more"}, "all", {integer("axis", -1)});
      for (const char* name : {"cos", "sin"}) {
        add(name[0] == 'c' ? "Cos" : "Sin", {"all"}, std::string(name) + "_rows");
        add("Unsqueeze", {std::string(name) + "_rows", "one"}, name);
      }
      return;
    }
    std::vector<float> cosine, sine;
    for (int position = 0; position < kPositions; ++position)
      for (const float frequency : {frequencies[0], frequencies[1], 1.0F, 0.25F}) {
        cosine.push_back(std::cos(static_cast<float>(position) * frequency));
        sine.push_back(std::sin(static_cast<float>(position) * frequency));
      }
    constant("cos", {1, 1, kPositions, kSize}, cosine), constant("sin", {1, 1, kPositions, kSize}, sine);
  }
  void multiply(const std::string& a, const std::string& table, const std::string& output) {
    add("Mul", written_.swapped ? std::vector{table, a} : std::vector{a, table}, output);
  }
  void rotate(const std::string& x) {
    add("Slice", {x, "start", "half", "last"}, x + "_low"), add("Slice", {x, "half", "end", "last"}, x + "_high");
    add("Neg", {x + "_high"}, x + "_minus");
    add("Concat", {x + "_minus", x + "_low"}, x + "_crossed", {integer("axis", -1)});
    multiply(x, "cos", x + "_straight"), multiply(x + "_crossed", "sin", x + "_sine");
    add("Add", {x + "_straight", x + "_sine"}, x + "_turned");
  }
  void repeat(const std::string& from, const std::string& to) {
    add("Unsqueeze", {from, "two"}, to + "_raised"), add("Expand", {to + "_raised", "wide"}, to + "_wide");
    add("Reshape", {to + "_wide", "joined"}, to);
  }
  void attend() {
    const float hidden = -std::numeric_limits<float>::infinity();
    constant("mask", {1, 1, kPositions, kPositions}, {0, hidden, hidden, 0, 0, hidden, 0, 0, 0});
    if (written_.flat_keys) {
      longs_of("flat", {-1, kPositions, kSize}), longs_of("columns_of_heads", {1, kHeads, kSize, kPositions});
      add("Reshape", {"keys_wide", "flat"}, "rows"), add("Transpose", {"rows"}, "turned", {ints("perm", {0, 2, 1})});
      add("Reshape", {"turned", "columns_of_heads"}, "columns");
    } else {
      add("Transpose", {"keys"}, "columns", {ints("perm", {0, 1, 3, 2})});
    }
    add("Mul", {"q_turned", "factor"}, "q_scaled"), add("Mul", {"columns", "factor"}, "k_scaled");
    add("MatMul", {"q_scaled", "k_scaled"}, "scores"), add("Add", {"scores", "mask"}, "masked");
    add("Softmax", {"masked"}, "p", {integer("axis", -1)});
    if (written_.guarded) add("IsNaN", {"p"}, "nan"), add("Where", {"nan", "zero", "p"}, "guarded");
    add("MatMul", {written_.guarded ? "guarded" : "p", "values"}, "y");
  }

  Written written_;
  Graph graph_{};
};

OnnxFeeds feeds_of(const Written& written) {
  OnnxFeeds feeds;
  const auto feed = [&](const std::string& name, const Shape& shape, double first) {
    HostTensor values({DType::kF32, shape});
    for (int64_t i = 0; i < values.elements(); ++i)
      values.set(i, first + 0.31 * static_cast<double>(i % 7) - 0.17 * static_cast<double>(i % 5));
    feeds[name] = {.tensors = {std::move(values)}};
  };
  feed("q", {1, kHeads, kPositions, kSize}, -0.5), feed("k", {1, kKeyHeads, kPositions, kSize}, 0.2);
  feed("v", {1, kKeyHeads, kPositions, kSize}, 1);
  if (!written.tables_known) feed("positions", {1, kPositions, 1}, 0.1);
  return feeds;
}

/// The program, whose values are those of the file's own nodes: a file that Ramet wrote keeps these.
ir::Graph checked_program(const Written& written) {
  const std::string bytes = WrittenAttention(written).bytes();
  const OnnxFeeds feeds = feeds_of(written);
  std::vector<std::vector<double>> results[2];
  ir::Graph fused;
  for (const bool keeps : {false, true}) {
    const std::string file = bytes + (keeps ? ProtoMessage().bytes(2, "ramet").data() : "");
    const front::OnnxModel model = front::parse_onnx(file, "test.onnx");
    const front::OnnxProgram program = front::import_onnx_program(model, feeds, {.source = "test.onnx"});
    for (const front::OnnxFeed& each : train::run_onnx(program, feeds, {}))
      results[keeps].push_back(each.tensors.at(0).values());
    if (!keeps) fused = program.graph;
  }
  EXPECT_EQ(results[0].size(), results[1].size());
  for (size_t i = 0; i < results[0].size(); ++i)
    for (size_t at = 0; at < results[1][i].size(); ++at) EXPECT_NEAR(results[0][i][at], results[1][i][at], 2e-6) << at;
  return fused;
}

TEST(OnnxFuse, LlamasAttentionIsThreeOps) {
  for (const bool known : {true, false})
    for (const bool swapped : {false, true}) {
      const ir::Graph graph = checked_program({.tables_known = known, .swapped = swapped, .flat_keys = swapped});
      EXPECT_EQ(count_of(graph, "rotary"), 2) << known << swapped;
      EXPECT_EQ(count_of(graph, "attention"), 1) << known << swapped;
      for (const char* op : {"softmax", "is_nan", "negate"}) EXPECT_EQ(count_of(graph, op), 0) << op;
      for (const char* op : {"matmul", "concat"}) EXPECT_EQ(count_of(graph, op), known ? 0 : 1) << op << " of tables";
      for (const ir::Node& node : graph.nodes())
        if (node.op->name == "attention") {
          EXPECT_EQ(graph.type(node.inputs[1]).shape, (Shape{1, kPositions, kKeyHeads, kSize})) << "keys are shared";
          EXPECT_EQ(graph.type(node.inputs[2]).shape, (Shape{1, kPositions, kKeyHeads, kSize}));
        }
    }
}

TEST(OnnxFuse, AttentionWithoutAGuardIsOneOp) {
  EXPECT_EQ(count_of(checked_program({.guarded = false}), "attention"), 1);
}

TEST(OnnxFuse, TablesOfOtherFormsStay) {
  for (const bool known : {true, false}) {
    const ir::Graph graph = checked_program({.tables_known = known, .angles_twice = false});
    EXPECT_EQ(count_of(graph, "rotary"), 0) << known;
    EXPECT_EQ(count_of(graph, "attention"), 1) << known;
  }
}

TEST(OnnxFuse, ProbabilitiesThatAreAResultStay) {
  const ir::Graph graph = checked_program({.probabilities_out = true});
  EXPECT_EQ(count_of(graph, "attention"), 0);
  EXPECT_EQ(count_of(graph, "rotary"), 2);
}

/// Tables of positions stand where weights stand, and are none.
TEST(OnnxFuse, TablesOfAModelAreNoWeights) {
  const std::string bytes = WrittenAttention({}).bytes();
  const front::OnnxModel file = front::parse_onnx(bytes, "test.onnx");
  const model::Model made = front::import_onnx_model(file, "test", {}, {}).model;
  EXPECT_EQ(count_of(made.programs.at(0).graph, "rotary"), 2);
  EXPECT_EQ(count_of(made.programs.at(0).graph, "attention"), 1);
  EXPECT_TRUE(made.weights.empty()) << "nor is the mask one: " << made.weights[0].name;
}

TEST(OnnxFuse, OnlyCosinesAndSinesAreTablesOfPositions) {
  const HostTensor cosine = HostTensor::of(DType::kF32, {2, 2}, {1, 1, 0.6, 0.6}),
                   sine = HostTensor::of(DType::kF32, {2, 2}, {0, 0, 0.8, 0.8}),
                   ones = HostTensor::of(DType::kF32, {2, 2}, {1, 1, 1, 1}), zeros({DType::kF32, {2, 2}}),
                   other = HostTensor::of(DType::kF32, {2, 2}, {0, 0, 0.7, 0.7});
  using Named = std::vector<std::pair<std::string, const HostTensor*>>;
  const auto found = [](const Named& tensors) { return front::find_angle_tables(tensors); };
  EXPECT_EQ(found({{"a", &cosine}, {"g", &ones}, {"b", &sine}}), (std::set<std::string>{"a", "b"}));
  EXPECT_TRUE(found({{"gain", &ones}, {"bias", &zeros}}).empty());
  EXPECT_TRUE(found({{"a", &cosine}, {"b", &other}}).empty());
}

}  // namespace
}  // namespace ramet::tests
