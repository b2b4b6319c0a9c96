#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ramet/ops/map_program.h"

namespace ramet::ops {

/// Whether an operand that no table reads has the edges of the space, or (false) is the same for all of them; nothing
/// where it is neither. The first `lead` dimensions of the space number edges.
std::optional<bool> has_edges(const Shape& operand, const Shape& space, int lead);

/// A map over the features of edges (op `edge_map`), which reads rows through tables of numbers and ends in sums over
/// rows: messages that exist only a tile at a time. Its space is [B, E, ...], or [E, ...] without samples.
///
/// A table says which row an edge has: row indices [B, E], or pointers i32 [B, N + 1] of rows to their edges, which are
/// sorted by row then (ops/neighbors.h). Places behind the last edge read zeros by pointers, and no such sum counts
/// them; indices are numbers of rows at every place. A sum is one chain from +0 in f32, in ascending order of the
/// edges.
struct EdgeMapForm {
  struct Table {
    bool pointers = false;
    int64_t rows = 0;  ///< N of pointers; of indices the least number of rows that a reader or a sum has
  };
  /// An input of the program.
  struct Read {
    int table = -1;      ///< -1: the operand has the edges themselves, or is the same for all of them
    int64_t rows = 0;    ///< of a sample, in the operand
    bool edges = false;  ///< the operand has the edges
    Shape features;      ///< of a row, broadcast to those of the space
  };
  /// An output.
  struct Give {
    int table = -1;     ///< -1: each edge's own value
    int64_t rows = 0;   ///< of a sample, of a sum
    bool mean = false;  ///< divided by the number of edges, where there are any; by pointers only
  };
  MapProgram program;
  Shape space;
  int lead = 0;  ///< dimensions of the space that number edges: 1 or 2
  int64_t samples = 1, edges = 0, width = 1;
  Shape features;             ///< of an edge
  std::vector<Table> tables;  ///< the node's first inputs
  std::vector<Read> reads;    ///< its further inputs
  std::vector<Give> gives;

  /// Throws Error naming the node when its operands do not fit.
  explicit EdgeMapForm(const NodeSignature& node);
};

}  // namespace ramet::ops
