#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/graphs/graph_set.h"
#include "ramet/graphs/smiles.h"

namespace ramet::graphs {

/// What is known of atoms and bonds in a set of molecules.
enum class MoleculeFeatures {
  /// The nine features of atoms and three of bonds of the Open Graph Benchmark (Hu et al., arXiv 2005.00687), each a
  /// category: element, chirality, degree, charge, hydrogens, radicals, hybridization, aromatic, ring; kind, stereo,
  /// conjugated.
  kOgb,
  /// Those that Graphium's data sets use (Beaini et al., arXiv 2310.04292): categories element, group, period and
  /// valence, and `numbers` f32 [5], which are degree, charge, radicals, aromatic and ring; kind, stereo, ring.
  kGraphium,
};

struct MoleculeOptions {
  std::string smiles = "smiles";       ///< the column of SMILES
  std::vector<std::string> targets{};  ///< columns of numbers: field "graph.y" f64, NaN where a cell is empty
  std::string label{};                 ///< column of categories: field "graph.label" i32, -1 where a cell is empty
  MoleculeFeatures features = MoleculeFeatures::kOgb;
};

/// A row whose molecule is left out.
struct RefusedMolecule {
  int64_t line = 0;
  std::string smiles, reason;
};

struct ReadMolecules {
  GraphTables tables;
  std::vector<RefusedMolecule> refused;
};

/// Graphs of the molecules of a table of comma-separated values, in its order. Bonds are edges in both directions.
/// Fields of graphs: "scaffold", a category; "line" i32, on which the row begins; and those that the options ask for.
/// A text that is no SMILES is listed, and left out; where no molecule is left, the tables are empty. Throws Error for
/// columns that are not there, and for cells that should be numbers and are none. `progress` is told how many rows have
/// been read.
ReadMolecules read_molecules(std::string_view csv, const std::string& source, const MoleculeOptions& options,
                             const SmilesReader& reader, const std::function<void(int64_t, int64_t)>& progress = {});

/// Throws Error where no molecule is left. `list`: the file that lists the rows which were left out.
void require_molecules(const ReadMolecules& read, const std::string& source, const std::string& list);

}  // namespace ramet::graphs
