#include "ramet/graphs/molecules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ramet/base/error_types.h"
#include "ramet/graphs/transform.h"

namespace ramet::graphs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Knows three molecules. What chemistry says of them was worked out by hand.
class KnownMolecules final : public SmilesReader {
 public:
  KnownMolecules() {
    // Ethanol: C, C, O in a chain.
    MoleculeAtom carbon{.element = 6, .hybridization = kSp3, .degree = 4, .hydrogens = 3, .valence = 4};
    MoleculeAtom middle = carbon,
                 oxygen{.element = 8, .hybridization = kSp3, .degree = 2, .hydrogens = 1, .valence = 2};
    middle.hydrogens = 2;
    known_["CCO"] = {{carbon, middle, oxygen}, {{.from = 0, .to = 1}, {.from = 1, .to = 2}}, ""};
    // The ammonium ion, without bonds between heavy atoms.
    known_["[NH4+]"] = {
        {{.element = 7, .hybridization = kSp3, .degree = 4, .charge = 1, .hydrogens = 4, .valence = 4}}, {}, ""};
    // Cyclopropene: a ring with one double bond.
    MoleculeAtom ring{.element = 6, .hybridization = kSp2, .degree = 3, .hydrogens = 1, .valence = 4, .ring = true};
    MoleculeAtom top{.element = 6, .hybridization = kSp3, .degree = 4, .hydrogens = 2, .valence = 4, .ring = true};
    known_["C1=CC1"] = {{ring, ring, top},
                        {{.from = 0, .to = 1, .kind = kDouble, .stereo = kStereoZ, .conjugated = true, .ring = true},
                         {.from = 1, .to = 2, .ring = true},
                         {.from = 2, .to = 0, .ring = true}},
                        "C1=CC1"};
  }
  std::string library() const override { return "three molecules"; }
  std::string read(const std::string& smiles, Molecule& molecule) const override {
    const auto found = known_.find(smiles);
    if (found == known_.end()) return "unknown";
    molecule = found->second;
    return "";
  }

 private:
  std::map<std::string, Molecule> known_;
};

constexpr const char* kTable =
    "name,smiles,a,b,class\n"
    "ethanol, CCO ,1.5,,yes\n"
    "nonsense,C1CC,2,3,no\n"
    "ammonium,[NH4+],-1,4,no\n"
    "nothing,,0,0,no\n"
    "ring,C1=CC1,2.5,5,\n";

GraphSet set_of(const MoleculeOptions& options, std::vector<RefusedMolecule>* refused = nullptr) {
  ReadMolecules read = read_molecules(kTable, "table.csv", options, KnownMolecules());
  if (refused) *refused = read.refused;
  return GraphSet(std::move(read.tables), "table.csv");
}

std::vector<double> values_of(const GraphSet& set, const std::string& key) {
  const size_t at = set.field(key);
  const Field& field = set.fields()[at];
  std::vector<double> values;
  for (size_t i = 0; i < set.bytes(at).size() / size_of(field.dtype); ++i)
    values.push_back(field_number(field, set.bytes(at), static_cast<int64_t>(i)));
  return values;
}

TEST(Molecules, BondsAreEdgesInBothDirections) {
  const GraphSet set = set_of({});
  EXPECT_EQ(set.graphs(), 3);
  EXPECT_THAT(set.node_ptr(0), ElementsAre(0, 3, 4, 7));
  EXPECT_THAT(set.edge_ptr(0), ElementsAre(0, 4, 4, 10));
  EXPECT_THAT(set.targets(0), ElementsAre(0, 1, 1, 2, 0, 0, 1, 1, 2, 2));
  EXPECT_THAT(set.sources(0), ElementsAre(1, 0, 2, 1, 1, 2, 0, 2, 0, 1));
}

TEST(Molecules, FeaturesOfTheOpenGraphBenchmark) {
  const GraphSet set = set_of({});
  EXPECT_THAT(values_of(set, "node.element"), ElementsAre(5, 5, 7, 6, 5, 5, 5));
  EXPECT_THAT(values_of(set, "node.degree"), ElementsAre(4, 4, 2, 4, 3, 3, 4));
  EXPECT_THAT(values_of(set, "node.charge"), ElementsAre(5, 5, 5, 6, 5, 5, 5));
  EXPECT_THAT(values_of(set, "node.hydrogens"), ElementsAre(3, 2, 1, 4, 1, 1, 2));
  EXPECT_THAT(values_of(set, "node.hybridization"), ElementsAre(2, 2, 2, 2, 1, 1, 2));
  EXPECT_THAT(values_of(set, "node.ring"), ElementsAre(0, 0, 0, 0, 1, 1, 1));
  // The double bond of the ring, by target and source: 0-1, 0-2, 1-0, 1-2, 2-0, 2-1.
  EXPECT_THAT(values_of(set, "edge.kind"), ElementsAre(0, 0, 0, 0, 1, 0, 1, 0, 0, 0));
  EXPECT_THAT(values_of(set, "edge.stereo"), ElementsAre(0, 0, 0, 0, 1, 0, 1, 0, 0, 0));
  EXPECT_THAT(values_of(set, "edge.conjugated"), ElementsAre(0, 0, 0, 0, 1, 0, 1, 0, 0, 0));
  EXPECT_EQ(set.fields()[set.field("node.element")].values.size(), 119u);
}

TEST(Molecules, FeaturesOfGraphium) {
  const GraphSet set = set_of({.features = MoleculeFeatures::kGraphium});
  EXPECT_THAT(values_of(set, "node.group"), ElementsAre(14, 14, 16, 15, 14, 14, 14));
  EXPECT_THAT(values_of(set, "node.period"), ElementsAre(2, 2, 2, 2, 2, 2, 2));
  EXPECT_THAT(values_of(set, "node.valence"), ElementsAre(4, 4, 2, 4, 4, 4, 4));
  const std::vector<double> numbers = values_of(set, "node.numbers");
  EXPECT_THAT(std::vector<double>(numbers.begin() + 15, numbers.begin() + 25),
              ElementsAre(4, 1, 0, 0, 0, 3, 0, 0, 0, 1));
  EXPECT_TRUE(set.has("edge.ring"));
  EXPECT_FALSE(set.has("node.chirality"));
}

TEST(Molecules, GroupsAndPeriodsOfElements) {
  const std::map<int, std::pair<int, int>> expected{
      {1, {1, 1}},   {2, {18, 1}},  {3, {1, 2}},   {5, {13, 2}},  {12, {2, 3}},   {17, {17, 3}}, {21, {3, 4}},
      {30, {12, 4}}, {35, {17, 4}}, {54, {18, 5}}, {57, {3, 6}},  {58, {0, 6}},   {71, {0, 6}},  {72, {4, 6}},
      {80, {12, 6}}, {86, {18, 6}}, {92, {0, 7}},  {104, {4, 7}}, {118, {18, 7}}, {0, {0, 0}}};
  class OneAtom final : public SmilesReader {
   public:
    std::string library() const override { return ""; }
    std::string read(const std::string& smiles, Molecule& molecule) const override {
      molecule.atoms = {{.element = std::stoi(smiles)}};
      return "";
    }
  };
  std::string table = "smiles\n";
  for (const auto& [element, place] : expected) table += std::to_string(element) + "\n";
  const GraphSet set(read_molecules(table, "t", {.features = MoleculeFeatures::kGraphium}, OneAtom()).tables, "t");
  const std::vector<double> groups = values_of(set, "node.group"), periods = values_of(set, "node.period");
  size_t i = 0;
  for (const auto& [element, place] : expected) {
    EXPECT_EQ(std::pair(static_cast<int>(groups[i]), static_cast<int>(periods[i])), place) << element;
    ++i;
  }
}

TEST(Molecules, TargetsLabelsAndLines) {
  const GraphSet set = set_of({.targets = {"a", "b"}, .label = "class"});
  const std::vector<double> y = values_of(set, "graph.y");
  EXPECT_THAT(std::vector<double>(y.begin() + 2, y.end()), ElementsAre(-1, 4, 2.5, 5));
  EXPECT_EQ(y[0], 1.5);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_THAT(values_of(set, "graph.label"), ElementsAre(1, 0, -1));
  EXPECT_THAT(set.fields()[set.field("graph.label")].values, ElementsAre("no", "yes"));
  EXPECT_THAT(values_of(set, "graph.line"), ElementsAre(2, 4, 6));
  EXPECT_THAT(values_of(set, "graph.scaffold"), ElementsAre(0, 0, 1));
  EXPECT_THAT(set.fields()[set.field("graph.scaffold")].values, ElementsAre("", "C1=CC1"));
}

TEST(Molecules, RowsThatAreNoMoleculesAreListed) {
  std::vector<RefusedMolecule> refused;
  set_of({}, &refused);
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[0].line, 3);
  EXPECT_EQ(refused[0].smiles, "C1CC");
  EXPECT_EQ(refused[0].reason, "unknown");
  EXPECT_EQ(refused[1].line, 5);
  EXPECT_EQ(refused[1].reason, "the cell is empty");
}

std::string message_of(const std::string& table, const MoleculeOptions& options) {
  try {
    require_molecules(read_molecules(table, "table.csv", options, KnownMolecules()), "table.csv", "refused.csv");
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Molecules, BadTablesAreRefused) {
  EXPECT_THAT(message_of(kTable, {.smiles = "formula"}), HasSubstr("formula"));
  EXPECT_THAT(message_of(kTable, {.targets = {"c"}}), HasSubstr("'c'"));
  EXPECT_THAT(message_of(kTable, {.targets = {"name"}}), HasSubstr("table.csv:2, name: a number is none"));
  EXPECT_THAT(message_of("smiles,y\nCCO,NA\n", {.targets = {"y"}}), HasSubstr("Leave the cell"));
  EXPECT_THAT(message_of("smiles\n\nX\nY\n", {}),
              AllOf(HasSubstr("2 of 2 rows are no molecules; found in line 3 'X': unknown"),
                    HasSubstr("listed in refused.csv")));
  EXPECT_THAT(message_of("smiles\n", {}), HasSubstr("no molecules"));
}

TEST(Molecules, AModuleThatIsNoneIsRefused) {
  EXPECT_THROW(load_smiles_reader("/nowhere/ramet_rdkit.so"), Error);
  EXPECT_THROW(load_smiles_reader(std::string(RAMET_SOURCE_DIR) + "/README.md"), Error);
}

/// Eleven graphs of one node in categories of 4, 3, 2, 1 and 1 graphs; graph 0 is of no category.
GraphTables grouped() {
  GraphTables tables = homogeneous_tables();
  tables.graphs = 12;
  for (int64_t i = 1; i <= 12; ++i) tables.nodes[0].ptr.push_back(i), tables.edges[0].ptr.push_back(0);
  tables.set_field({.name = "kind",
                    .per = Per::kGraph,
                    .dtype = DType::kI32,
                    .missing = true,
                    .values = {"four", "three", "two", "one", "another"}},
                   std::vector<int32_t>{-1, 0, 1, 2, 0, 1, 2, 0, 1, 3, 0, 4});
  return tables;
}

std::vector<double> split_of(GraphTables tables, const std::string& transform) {
  apply_transform(tables, transform, "edge");
  return values_of(GraphSet(std::move(tables), "t"), "graph.split");
}

TEST(SplitBy, LargestCategoriesComeFirst) {
  // 7 to train, 2 to validate: four and three; then two; the graphs alone are tested.
  EXPECT_THAT(split_of(grouped(), "split-by=kind:60:20:20"), ElementsAre(2, 0, 0, 1, 0, 0, 1, 0, 0, 2, 0, 2));
}

TEST(SplitBy, SeedsShuffleAndKeepCategoriesTogether) {
  std::vector<std::vector<double>> seen;
  for (int seed = 0; seed < 8; ++seed) {
    const std::vector<double> split = split_of(grouped(), "split-by=graph.kind:50:25:25:" + std::to_string(seed));
    EXPECT_TRUE(split[1] == split[4] && split[4] == split[7] && split[7] == split[10]);
    EXPECT_TRUE(split[2] == split[5] && split[5] == split[8]);
    EXPECT_EQ(split[3], split[6]);
    EXPECT_EQ(split, split_of(grouped(), "split-by=graph.kind:50:25:25:" + std::to_string(seed)));
    EXPECT_LE(std::count(split.begin(), split.end(), 0), 6);
    EXPECT_LE(std::count(split.begin(), split.end(), 1), 3);
    seen.push_back(split);
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_GT(std::unique(seen.begin(), seen.end()) - seen.begin(), 1);
}

TEST(SplitBy, BadArgumentsAreRefused) {
  EXPECT_THROW(split_of(grouped(), "split-by=colour:80:10:10"), Error);
  EXPECT_THROW(split_of(grouped(), "split-by=kind:80:10"), Error);
  EXPECT_THROW(split_of(grouped(), "split-by=kind:0:0:0"), Error);
  EXPECT_THROW(split_of(grouped(), "split-by=kind"), Error);
}

}  // namespace
}  // namespace ramet::graphs
