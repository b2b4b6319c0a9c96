#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/graphs/graph_set.h"

namespace ramet::graphs {

// Readers of public formats. Each throws FormatError that names the file, and the line or the entry, when the data are
// damaged or of a form that is not read. Labels become categories 0, 1, 2, ..., in ascending order of what the files
// have; Field::values keeps that.

/// The files of a Planetoid set (Yang et al., arXiv 1603.08861), as bytes: pickles, which are read and never run.
struct PlanetoidFiles {
  std::string_view tx, allx, y, ty, ally, graph, test_index;
};
/// One graph with fields x f32, y (a category; -1 for nodes without a label) and split u8: train are the first nodes,
/// as many as `y` has, validation the 500 behind them (as far as there are), test those of `test_index`, and others
/// "none". Self loops and duplicates of edges are dropped, as all published results do.
GraphTables parse_planetoid(const PlanetoidFiles& files, const std::string& source);
/// Of the files FOLDER/ind.NAME.*.
GraphTables read_planetoid(const std::filesystem::path& folder, const std::string& name);

/// The text files of a TUDataset (Morris et al., arXiv 2007.08663), as bytes; absent ones are empty.
struct TuFiles {
  std::string_view edges, graph_indicator, graph_labels, graph_attributes, node_labels, node_attributes, edge_labels,
      edge_attributes;
};
/// Fields: y (a category), or f32 of graph attributes; node "label" and "attributes"; edge "label" and "attributes".
GraphTables parse_tu(const TuFiles& files, const std::string& source);
/// Of the files FOLDER/NAME_*.txt.
GraphTables read_tu(const std::filesystem::path& folder, const std::string& name);
/// Adds the folds of a JSON list of {"test": [...], "model_selection": [{"train": [...], "validation": [...]}]},
/// numbers of graphs from 0: a field "split_K" u8 of graphs for each.
void add_folds(GraphTables& tables, std::string_view json, const std::string& source);

/// One graph of a .npz: an adjacency matrix (adj_matrix, a pickled SciPy matrix, or adj_data, adj_indices, adj_indptr,
/// adj_shape) or edge_index [2,E]; features node_attr, attr_matrix (either form) or x; labels node_label, labels or y.
/// Entries of the matrix, where one is not 1, or edge_weight [E], become edge "weight"; edge_attr [E,...] becomes edge
/// "attributes"; train_mask, val_mask and test_mask [nodes] become node "split". A note names all other entries.
GraphTables read_npz(const std::filesystem::path& path);

/// Part of a knowledge graph: lines "head<TAB>relation<TAB>tail".
struct TriplePart {
  std::string name;  ///< "train", "validation", "test"
  std::string_view text;
  std::string source;
};
/// One graph. Entities and relations are numbered in the order in which they appear first; names hold the entities.
/// Edge fields: relation i32, and split u8 where there are several parts.
GraphTables parse_triples(const std::vector<TriplePart>& parts);

/// QM9 as a folder of NumPy arrays: z u8 [atoms] from 1 to 118, pos f32 [atoms,3], ptr [molecules+1], y f64
/// [molecules,targets], and index where it is there. Graphs without edges.
GraphTables read_qm9(const std::filesystem::path& folder);

/// Molecules of an XYZ file: a line with the number of atoms, a line of comment, and a line "SYMBOL x y z" an atom.
/// Fields z u8 and pos f32 [3]; no edges.
GraphTables parse_xyz(std::string_view text, const std::string& source);

/// Molecules of an SDF file (V2000): fields z u8, pos f32 [3], charge i8; bonds in both directions with the field bond
/// u8; and each data item that is a number in every molecule as a field f64 of graphs.
GraphTables parse_sdf(std::string_view text, const std::string& source);

/// Tables of comma-separated values, as bytes; absent ones are empty.
struct CsvFiles {
  std::string_view edges, nodes, graphs;
  std::vector<std::string> categories{};  ///< names of columns whose cells are words, even where they look like numbers
};
/// `edges` has the columns source and target; `nodes` has node; both may have graph, and `graphs` must. Names are
/// numbered in the order in which they appear first (graphs and nodes: in `nodes` when it is there, which then must
/// name all). All other columns are fields: f64 where every cell is a number, categories where none is. An empty cell
/// is a missing value. A column with both numbers and words is refused, and so is a value that is not finite, unless
/// `categories` names the column.
GraphTables parse_csv_graphs(const CsvFiles& files, const std::string& source);

/// Events of one graph: a line "source target time" each, with blanks or commas between (SNAP's temporal networks), and
/// perhaps numbers of a message behind it. Or a table of comma-separated values with the columns source, target and
/// time; or JODIE's, with user_id, item_id and timestamp, where users and items are two kinds of nodes. Lines may be in
/// any order. Nodes are numbered in the order in which they appear first. Edge fields: time f64; event i32, the number
/// of an event in order of time, of equal times in order of lines; message f32 [...] and label i32 where there are
/// some.
GraphTables parse_events(std::string_view text, const std::string& source);

/// Number of a chemical element, from 1; 0 for no symbol of one.
int element_of_symbol(std::string_view symbol);

}  // namespace ramet::graphs
