#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/graphs/graph_set.h"

namespace ramet::graphs {

// Changes of a graph set under construction. All work on each graph alone, on any number of graphs. `edges` is the key
// of a type of edges between nodes of one type; Error otherwise.

/// The edges of that key. Throws Error where they go between nodes of two types.
EdgeTable& edges_within(GraphTables& tables, const std::string& key);

void remove_self_loops(GraphTables& tables, const std::string& edges);
/// Keeps the first of the edges that have one source and one target.
void remove_duplicates(GraphTables& tables, const std::string& edges);
/// Gives every node that has none an edge to itself. Fields of these edges are 0; a field "weight" is 1.
void add_self_loops(GraphTables& tables, const std::string& edges);
/// Adds the reverse of every edge whose reverse is not there, with equal fields.
void make_undirected(GraphTables& tables, const std::string& edges);
/// Sets the edge field "weight" f32 to w / sqrt(d_source d_target), where w is the weight so far (1 without the field)
/// and d the sum of the weights of the edges that end in a node (Kipf and Welling, arXiv 1609.02907). Nodes without
/// edges have no weight to set. Throws Error for a negative weight.
void gcn_normalise(GraphTables& tables, const std::string& edges);
/// Sets the node field "degree" i32: how many edges end in the node.
void add_degree(GraphTables& tables, const std::string& edges);
/// Scales the rows of a float field of nodes so that their absolute values add up to 1; rows of zeros stay.
void normalise_rows(GraphTables& tables, const std::string& field);
/// Replaces the edges by those between any two different nodes whose distance by the field "pos" is at most `radius`,
/// and sets the edge field "distance" f32. Distances are computed in double from the positions as they are stored: the
/// set of edges is exact. All are kept, however many a node has.
void radius_edges(GraphTables& tables, const std::string& edges, double radius);
/// Replaces the edges by those from the k nearest other nodes to each node (from all, where there are fewer). Of equal
/// distances the node of the lower number is nearer. Sets "distance" likewise.
void nearest_edges(GraphTables& tables, const std::string& edges, int64_t k);

/// Sets the node field "laplacian" f32 [count]: the eigenvectors of the normalised Laplacian 1 - D^-1/2 A D^-1/2 of
/// each graph without loops and duplicates, in ascending order of their eigenvalues, but for the first (Dwivedi et al.,
/// arXiv 2003.00982). Each has length 1, and its first element above 1e-6 is positive. A graph of fewer nodes has zeros
/// in the last columns. Throws Error for an edge without its reverse, and for a graph of more than 1,000 nodes.
void add_laplacian(GraphTables& tables, const std::string& edges, int64_t count);
/// Sets the node field "returns" f32 [steps]: how likely a random walk from the node is back after 1, 2, ... steps
/// (Dwivedi et al., arXiv 2110.07875). Throws Error for a graph of more than 1,000 nodes.
void add_returns(GraphTables& tables, const std::string& edges, int64_t steps);

enum class Partition { kMetis, kRandom, kContiguous };
/// Sets the node field "part" i32 of a set of one graph to `parts` parts: of METIS (Karypis and Kumar 1998, k-way, on
/// the undirected graph without loops), drawn at random in equal sizes, or runs of equal length. METIS draws random
/// numbers of its library, so a partition is data: it is made once and stored.
void partition_nodes(GraphTables& tables, const std::string& edges, Partition kind, int64_t parts);
/// The same from a file: a line with the number of the part for each node, as METIS writes it.
void read_partition(GraphTables& tables, const std::string& edges, std::string_view text, const std::string& source);

/// Adds the graphs of another set behind those of this one. A field that only one set has is not known in the graphs of
/// the other: NaN, or category -1. Categories of a field get the numbers of this set; new ones follow. Names of nodes
/// are left out. Throws Error for a field of two types, and for one of plain whole numbers that only one set has.
void append_graphs(GraphTables& tables, const GraphTables& more);
/// Gives the field of that key another name. Throws Error where there is none, or one of that name.
void rename_field(GraphTables& tables, const std::string& key, const std::string& name);

/// Keeps `count` graphs, drawn from `seed`, in their order. Throws Error for more than there are.
void sample_graphs(GraphTables& tables, int64_t count, uint64_t seed);
/// Sets the field "split" of the graphs of a set (of its nodes, where there is one graph): of an order drawn from
/// `seed`, the first are "train", the next "validation", the next "test", and the rest "unused". Throws Error for more
/// than there are.
void draw_split(GraphTables& tables, int64_t train, int64_t validation, int64_t test, uint64_t seed);

/// Sets the field "split" of graphs by a field of categories, as scaffolds of molecules: graphs of one category stay
/// together. The parts have shares of `train` : `validation` : `test`. Without a seed the largest categories come
/// first, of equal ones that whose first graph has the higher number (Wu et al., arXiv 1703.00564); with one, those of
/// more than half of the validation or the test part come first, and each of the two lists is shuffled. A category goes
/// to the first part that it fits into, and otherwise to the test part. Throws Error for a field that is none of
/// categories of graphs.
void split_by(GraphTables& tables, const std::string& field, const std::vector<int64_t>& shares,
              std::optional<uint64_t> seed);

/// Sets the field "split" of edges by their field "time", in shares of `train` : `validation` : `test`: the first part
/// ends with the time below which its share of all edges lies (a quantile, by linear interpolation), the second
/// likewise, so edges of one time stay together. Throws Error for edges without a time.
void split_by_time(GraphTables& tables, const std::string& edges, const std::vector<int64_t>& shares);

/// Sets the field "split" of edges in shares of `train` : `validation` : `test`. Two nodes and all edges between them
/// are a link, which is in one part whole. Links are taken in an order drawn from `seed`; one that joins two parts of
/// the graph that were apart so far is one to train on, as loops are, so the links to train on join whatever all links
/// join (Grover and Leskovec, arXiv 1607.00653, section 4.4). Throws Error where the others are too few.
void split_links(GraphTables& tables, const std::string& edges, const std::vector<int64_t>& shares, uint64_t seed);

/// Whether this build has METIS.
bool has_metis();
/// The parts of a graph in METIS's form: neighbours of node i are `neighbours[ptr[i]]`.. without loops and duplicates,
/// both directions. Throws Error in a build without METIS.
std::vector<int32_t> metis_parts(const std::vector<int32_t>& ptr, const std::vector<int32_t>& neighbours,
                                 int64_t parts);

/// A transform as a word of the command line: "self-loops", "radius=5".
struct TransformEntry {
  std::string_view name, argument, doc;  ///< `argument`: what stands behind "=", "" for none
};
const std::vector<TransformEntry>& transform_table();
/// Applies one to the type of edges `edges`. Throws Error naming the transforms there are.
void apply_transform(GraphTables& tables, const std::string& text, const std::string& edges);

}  // namespace ramet::graphs
