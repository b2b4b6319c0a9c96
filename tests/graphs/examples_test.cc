// Every recipe of examples/ that reads graphs is read, built and trained for a step, on a small set of its form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "graphs/made_graphs.h"
#include "ramet/graphs/read.h"
#include "ramet/recipe/prepare.h"
#include "support/trained_recipe.h"

namespace ramet::tests {
namespace {

/// A recipe, the set that stands for its own, and what of the recipe is too large for that set.
struct Example {
  std::string name, key, set;
  Settings settings{};
};

const std::vector<Example> kExamples = {
    {"gcn-cora", "data.graphs.set", "one"},
    {"gin-nci1", "data.graphs.set", "classes"},
    {"gine-esol", "data.graphs.set", "molecules"},
    {"gps-esol", "data.graphs.set", "molecules"},
    {"gps-plus-qm9", "data.graphs.set", "molecules"},
    {"gps-tox21-qm9", "data.graphs.set", "molecules"},
    {"schnet-qm9", "data.graphs.set", "molecules"},
    {"complex-fb15k237", "data.triples.set", "triples", {"data.triples.group=10"}},
    {"rotate-wn18rr", "data.triples.set", "triples", {"data.triples.group=8", "data.triples.negatives=8"}},
    {"nbfnet-fb15k237-v1", "data.triples.set", "triples", {"data.triples.group=4", "data.triples.negatives=4"}},
    {"node2vec-cora", "data.walks.set", "one", {"data.walks.group=16"}},
    {"tgn-collegemsg", "data.events.set", "events", {"data.events.batch=10"}}};

class GraphExamples : public GraphNets {
 protected:
  void SetUp() override {
    GraphNets::SetUp();
    GraphTables one = GraphSet::open(folder_ / "one.safetensors").tables();
    rename_field(one, "node.kind", "y");
    save("one", std::move(one));
    GraphTables classes = made_graphs(40);
    rename_field(classes, "node.kind", "label");
    set_split(classes, "split_0");
    save("classes", std::move(classes));
    save("molecules", molecules());
    std::string triples, events;
    for (int i = 0; i < 60; ++i) {
      triples += "e" + std::to_string(i % 40) + "\tto\te" + std::to_string((i * 7 + 1) % 40) + "\n";
      events += "n" + std::to_string(i % 9) + " n" + std::to_string(i * 5 % 11) + " " + std::to_string(i) + "\n";
    }
    save("triples", graphs::parse_triples(
                        {{"train", triples, "a"}, {"validation", "e0\tto\te5\n", "b"}, {"test", "e1\tto\te9\n", "c"}}));
    GraphTables times = graphs::parse_events(events, "events.txt");
    apply_transform(times, "split-by-time=60:20:20", "edge");
    save("events", std::move(times));
  }

  void save(const std::string& name, GraphTables tables) {
    GraphSet(std::move(tables), name).save(folder_ / (name + ".safetensors"));
  }

  static void set_split(GraphTables& tables, const std::string& name) {
    std::vector<uint8_t> part(static_cast<size_t>(tables.graphs));
    for (size_t g = 0; g < part.size(); ++g) part[g] = static_cast<uint8_t>(g % 3);
    Field field{.name = name, .per = Per::kGraph, .dtype = DType::kU8, .values = {"train", "validation", "test"}};
    tables.set_field(std::move(field), part);
  }

  /// Points with every field that the recipes of molecules name.
  static GraphTables molecules() {
    GraphTables tables = made_points(40);
    const auto add = [&](Per per, const std::string& name, uint8_t categories) {
      const bool of_node = per == Per::kNode;
      const auto count = static_cast<size_t>(of_node ? tables.nodes[0].ptr.back() : tables.edges[0].ptr.back());
      std::vector<uint8_t> values(count);
      for (size_t i = 0; i < count; ++i) values[i] = static_cast<uint8_t>(i % categories);
      tables.set_field({.name = name, .per = per, .of = of_node ? "node" : "edge", .dtype = DType::kU8}, values);
    };
    for (const char* name : {"element", "chirality", "degree", "charge", "hydrogens", "radicals", "hybridization",
                             "aromatic", "ring", "z"})
      add(Per::kNode, name, 4);
    for (const char* name : {"kind", "stereo", "conjugated"}) add(Per::kEdge, name, 3);
    std::vector<double> numbers(static_cast<size_t>(tables.graphs) * 5);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.01 * static_cast<double>(i % 17);
    tables.set_field({.name = "y", .per = Per::kGraph, .dtype = DType::kF64, .shape = Shape{5}}, numbers);
    set_split(tables, "split");
    rename_field(tables, "graph.tasks", "tox21");
    rename_field(tables, "graph.size", "qm9");
    return tables;
  }
};

TEST_F(GraphExamples, AreReadBuiltAndTrained) {
  for (const Example& example : kExamples) {
    SCOPED_TRACE(example.name);
    Settings settings{example.key + "=" + (folder_ / (example.set + ".safetensors")).string()};
    settings.insert(settings.end(), example.settings.begin(), example.settings.end());
    Training training = make_training(
        prepare(load_recipe(RAMET_SOURCE_DIR "/examples/" + example.name + ".toml", settings)), {.threads = 2});
    training.initialize();
    EXPECT_TRUE(std::isfinite(number_of(training.step(), "loss")));
  }
}

/// No recipe of graphs is left out above.
TEST(GraphExampleList, IsWhole) {
  std::set<std::string> listed, found;
  for (const Example& example : kExamples) listed.insert(example.name);
  for (const auto& entry : std::filesystem::directory_iterator(RAMET_SOURCE_DIR "/examples")) {
    if (entry.path().extension() != ".toml") continue;
    const std::string kind = load_recipe(entry.path().string()).data.kind;
    if (kind == "graphs" || kind == "triples" || kind == "walks" || kind == "events") found.insert(entry.path().stem());
  }
  EXPECT_EQ(listed, found);
}

}  // namespace
}  // namespace ramet::tests
