#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "ramet/base/file.h"
#include "support/npy_file.h"
#include "support/temporary.h"

namespace ramet::tests {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class GraphCommands : public ::testing::Test {
 protected:
  Outcome ramet(const std::vector<std::string>& arguments) { return Process(arguments, folder_.path()).wait(); }
  /// Rings of two to five nodes, each with a category, and edges with a number: set.safetensors.
  void make_rings(int count) {
    std::string edges = "graph,source,target,length\n", nodes = "graph,node,kind\n", graphs = "graph,y,part\n";
    for (int g = 0; g < count; ++g) {
      const int size = 2 + g % 4;
      for (int i = 0; i < size; ++i) {
        nodes += std::to_string(g) + "," + std::to_string(i) + "," + (i % 2 ? "b" : "a") + "\n";
        edges += std::to_string(g) + "," + std::to_string(i) + "," + std::to_string((i + 1) % size) + "," +
                 std::to_string(0.25 * (i + 1)) + "\n";
      }
      const char* part = g % 3 < 2 ? "train" : g % 2 ? "test" : "validation";
      graphs += std::to_string(g) + "," + (size > 3 ? "large" : "small") + "," + part + "\n";
    }
    write_file_atomic(folder_ / "edges.csv", edges);
    write_file_atomic(folder_ / "nodes.csv", nodes);
    write_file_atomic(folder_ / "graphs.csv", graphs);
    ASSERT_EQ(ramet({"graphs", "prepare", "csv", "edges.csv", "--nodes", "nodes.csv", "--graphs", "graphs.csv", "--out",
                     "set.safetensors", "--apply", "returns=2"})
                  .status,
              0);
  }
  TemporaryFolder folder_;
};

TEST_F(GraphCommands, PrepareAndDescribe) {
  write_file_atomic(folder_ / "m.xyz", "3\nbent\nO 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n1\nalone\nHe 0 0 0\n");
  const std::vector<std::string> prepare = {"graphs", "prepare", "xyz", "m.xyz", "--out", "m.safetensors"};
  std::vector<std::string> connected = prepare;
  connected.insert(connected.end(), {"--apply", "radius=1,degree", "--json"});
  const Outcome prepared = ramet(connected);
  ASSERT_EQ(prepared.status, 0) << prepared.err;
  const json found = json::parse(prepared.last_line());
  EXPECT_EQ(found["graphs"], 2);
  EXPECT_EQ(found["node.nodes"], 4);
  EXPECT_EQ(found["node.isolated"], 1);
  EXPECT_EQ(found["edge.edges"], 4);  // the two hydrogens are further apart
  EXPECT_EQ(found["edge.symmetric"], true);
  EXPECT_EQ(json::parse(ramet({"graphs", "describe", "m.safetensors", "--json"}).last_line()), found);
  const Outcome text = ramet({"graphs", "describe", "m.safetensors"});
  EXPECT_THAT(text.out, HasSubstr("2 graphs"));
  EXPECT_THAT(text.out, HasSubstr("node.pos"));
  EXPECT_THAT(text.out, HasSubstr("Angstrom"));

  std::vector<std::string> unknown = prepare;
  unknown.insert(unknown.end(), {"--apply", "radios=1"});
  EXPECT_THAT(ramet(unknown).err, HasSubstr("unknown transform; found 'radios'"));
  write_file_atomic(folder_ / "m.xyz", "3\nbent\nO 0 0 0\n");
  const Outcome cut = ramet(prepare);
  EXPECT_EQ(cut.status, 2);
  EXPECT_THAT(cut.err, HasSubstr("m.xyz:3: a molecule is not whole"));
  EXPECT_EQ(ramet({"graphs", "describe", "m.safetensors"}).status, 0);  // the set from before is still whole
}

TEST_F(GraphCommands, PrepareSaysWhatItDoesNotRead) {
  write_file_atomic(folder_ / "g.npz", npz_file({{"edge_index", npy_of<int64_t>("<i8", "(2, 1)", {0, 1})},
                                                 {"x", npy_of<float>("<f4", "(2, 1)", {5, 6})},
                                                 {"train_mask", npy_of<uint8_t>("|b1", "(2,)", {1, 0})},
                                                 {"class_names", npy_of<uint8_t>("|u1", "(1,)", {7})}}));
  const Outcome npz = ramet({"graphs", "prepare", "npz", "g.npz", "--out", "g.safetensors"});
  ASSERT_EQ(npz.status, 0) << npz.err;
  EXPECT_THAT(npz.err, HasSubstr("ramet: note: g.npz: entries that are not read: class_names\n"));
  EXPECT_THAT(npz.out, HasSubstr("node.split"));

  write_file_atomic(folder_ / "e.csv", "source,target,kind\n0,1,7\n1,0,7b\n");
  std::vector<std::string> csv = {"graphs", "prepare", "csv", "e.csv", "--out", "e.safetensors"};
  EXPECT_THAT(ramet(csv).err, HasSubstr("e.csv (edges):3: column 'kind' has both numbers and other words; found '7b'"));
  csv.insert(csv.end(), {"--categories", "kind"});
  EXPECT_THAT(ramet(csv).out, HasSubstr("2 categories"));
}

TEST_F(GraphCommands, TrainResumeAndExport) {
  make_rings(12);
  write_file_atomic(folder_ / "r.toml",
                    "[model]\nkind = \"gin\"\n[model.graph]\nhidden = 4\n[data]\nkind = \"graphs\"\n[data.graphs]\n"
                    "set = \"set.safetensors\"\nfeatures = \"node.kind\"\nlabel = \"graph.y\"\nbatch = \"count:4\"\n"
                    "[train]\nsteps = 6\nmicro_batch = 1\nprecision = \"f32\"\n[train.evaluation]\nbatches = 0\n");
  const Outcome whole = ramet({"train", "r.toml", "--json", "--threads", "1"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  // What a plan says of batches is no warning.
  EXPECT_THAT(whole.err, HasSubstr("ramet: note: batches of graphs: room for 4 graphs, "));
  EXPECT_THAT(whole.err, HasSubstr("3 packs in the first epoch"));
  EXPECT_THAT(whole.err, testing::Not(HasSubstr("warning")));
  const Outcome half = ramet({"train", "r.toml", "--json", "--threads", "1", "--steps", "3"});
  ASSERT_EQ(half.status, 0) << half.err;
  const std::string run = json::parse(half.last_line())["run_directory"];
  const Outcome resumed = ramet({"train", "--resume", run, "--json", "--threads", "2", "--steps", "6"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(json::parse(resumed.last_line())["weights_hash"], json::parse(whole.last_line())["weights_hash"]);
  const Outcome exported = ramet({"export", run, "--out", "weights.safetensors"});
  EXPECT_EQ(exported.status, 0) << exported.err;
}

// Settings are chosen by the validation part; the test part is then measured once, with the weights of the run.
TEST_F(GraphCommands, ARunIsMeasuredOnAnotherPart) {
  make_rings(24);
  write_file_atomic(folder_ / "r.toml",
                    "[model]\nkind = \"gin\"\n[model.graph]\nhidden = 4\n[data]\nkind = \"graphs\"\n[data.graphs]\n"
                    "set = \"set.safetensors\"\nfeatures = \"node.kind\"\nlabel = \"graph.y\"\nbatch = \"count:4\"\n"
                    "split = \"graph.part\"\nheld_out = \"validation\"\n[train]\nsteps = 6\nmicro_batch = 1\n"
                    "precision = \"f32\"\n");
  const auto end_of = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = ramet(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.last_line(), nullptr, false);
  };
  const json run = end_of({"train", "r.toml", "--json", "--threads", "1", "--run", "runs/chosen"});
  const json test = end_of({"eval", "runs/chosen", "--json", "--set", "data.graphs.held_out=test"});
  const json whole = end_of({"train", "r.toml", "--json", "--threads", "1", "--set", "data.graphs.held_out=test"});
  EXPECT_EQ(test["weights_hash"], run["weights_hash"]);
  EXPECT_EQ(whole["weights_hash"], run["weights_hash"]) << "what is measured decides no bit of the weights";
  EXPECT_EQ(test["held_out_loss"], whole["held_out_loss"]);
  EXPECT_NE(test["held_out_loss"], run["held_out_loss"]);
}

/// Twelve graphs are three packs an epoch, of which a step takes two: steps 5 and 10 end in the middle of one.
TEST_F(GraphCommands, AKilledRunOfSeveralProblemsGoesOnInTheMiddleOfAnEpochWithTheSameBits) {
  make_rings(12);
  write_file_atomic(
      folder_ / "r.toml",
      "[model]\nkind = \"gps\"\n[model.graph]\nlayers = 2\nhidden = 8\nheads = 2\nposition_size = 3\n"
      "drop_path = 0.2\nnode_noise = 0.1\n[data]\nkind = \"graphs\"\n[data.graphs]\nset = \"set.safetensors\"\n"
      "features = \"node.kind\"\nedge_features = \"edge.length\"\npositions = \"node.returns\"\nhops = 2\n"
      "tasks = \"size graph.y classes, kind node.kind classes 0.5\"\nbatch = \"count:4\"\n[train]\nsteps = 60\n"
      "micro_batch = 1\naccumulation = 2\nprecision = \"f32\"\n[train.evaluation]\nbatches = 0\n"
      "[train.checkpoint]\nevery = 5\n");
  const Outcome whole = ramet({"train", "r.toml", "--json", "--threads", "1", "--run", "runs/whole"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  bool killed = false;
  for (int round = 0; round < 5 && !killed; ++round) {  // again if the run ended before the signal came
    std::filesystem::remove_all(folder_ / "runs" / "killed");
    Process first({"train", "r.toml", "--json", "--threads", "1", "--run", "runs/killed"}, folder_.path());
    first.wait_for("\"step\":14,");
    first.signal(SIGKILL);
    killed = first.wait().status == -1;
  }
  ASSERT_TRUE(killed);
  const Outcome resumed = ramet({"train", "--resume", "runs/killed", "--json", "--layout", "p=2"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(json::parse(resumed.last_line())["weights_hash"], json::parse(whole.last_line())["weights_hash"]);
}

}  // namespace
}  // namespace ramet::tests
