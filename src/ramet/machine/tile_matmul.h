#pragma once

#include "ramet/ir/op.h"
#include "ramet/machine/tile_figures.h"

namespace ramet::machine {

/// Cycles that a device of tiles spends on an operation. Tiles wait for the slowest tile.
struct TileCycles {
  double compute = 0, exchange = 0, sync = 0;
  int64_t temporary_bytes = 0;  ///< most that one tile needs meanwhile, beside operands and results
  double messages = 0;          ///< that a tile receives; its exchange code grows with them
  int64_t tiles = 0;            ///< that hold the result

  double total() const { return compute + exchange + sync; }
  TileCycles& operator+=(const TileCycles& other);
};

/// How a matrix product is cut over tiles. The operand whose rows pass through the matrix units is [rows, sums], the
/// one loaded into them [sums, columns]; which of a and b is which is a choice, too.
struct ProductSplit {
  int64_t batches = 1, rows = 1, sums = 1, columns = 1;  ///< parts; their product is at most the number of tiles
  enum class Serial : uint8_t { kNone, kBatches, kRows, kColumns } serial = Serial::kNone;
  int64_t rounds = 1;    ///< into which `serial` is cut, one after another, when memory is short
  bool swapped = false;  ///< b's columns pass, a is loaded
  int64_t pieces = 1;    ///< equal parts of the whole product, each split as above, where rounds are not enough
};

struct ProductChoice {
  ProductSplit split;
  TileCycles cycles;
};

/// Cycles of one tile's product of `rows` rows, where a block of weights is already in its memory, as the
/// microbenchmark of one vertex measures it.
double matrix_unit_cycles(const TileFigures& figures, int64_t rows, int64_t inputs, int64_t outputs, DType operands);

/// The cheapest way found, over all splits and serialisations, to compute a product on one device. Operands lie
/// anywhere, spread evenly: each tile first receives what it needs, at twice the rate where its neighbour needs the
/// same; the passing operand is then arranged in rows; parts of a sum are exchanged and added.
ProductChoice choose_product(const TileFigures& figures, const MatrixProduct& product);

}  // namespace ramet::machine
