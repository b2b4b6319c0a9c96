#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ramet/model.h"

namespace ramet::v0 {

/// Rows and columns of the blocks of a sparse matrix. {1, 1}: elements one by one.
struct BlockSize {
  int64_t rows = 1, columns = 1;
  friend bool operator==(const BlockSize&, const BlockSize&) = default;
};

// The formats that other libraries use. All numbers are f32; rows and columns are those of the whole matrix.

/// Stored elements one by one, in order of rows, then columns.
struct CooMatrix {
  int64_t rows = 0, columns = 0;
  std::vector<int64_t> row, column;
  std::vector<float> values;
};
/// Stored elements of row i: first[i] to first[i + 1].
struct CsrMatrix {
  int64_t rows = 0, columns = 0;
  std::vector<int64_t> first, column;
  std::vector<float> values;
};
/// Stored elements of column j: first[j] to first[j + 1].
struct CscMatrix {
  int64_t rows = 0, columns = 0;
  std::vector<int64_t> first, row;
  std::vector<float> values;
};
/// CSR of blocks; `column` counts blocks, and each block's values are row-major (torch.sparse_bsr_tensor).
struct BsrMatrix {
  int64_t rows = 0, columns = 0;
  BlockSize block{};
  std::vector<int64_t> first, column;
  std::vector<float> values;
};
/// COO of blocks; `row` and `column` count blocks (the triplets of Graphcore's ipu_sparse_ops).
struct SparseTriplets {
  int64_t rows = 0, columns = 0;
  BlockSize block{};
  std::vector<int64_t> row, column;
  std::vector<float> values;
};
/// The operands of `sparse_matmul`: the matrix as a grid of equal cells, each of which stores the same number of
/// blocks.
struct SparseCells {
  int64_t cells_down = 1, cells_across = 1;
  int64_t cell_rows = 0, cell_columns = 0;
  BlockSize block{};
  int64_t slots = 0;           ///< stored blocks of a cell
  std::vector<int32_t> index;  ///< [cells_down, cells_across, slots]: numbers of blocks in their cell, ascending; -1
                               ///< in unused slots
  std::vector<float> values;   ///< [cells_down, cells_across, slots, block.rows, block.columns]
};

/// A block-sparse matrix, f32. Its stored blocks are in order, row of blocks by row of blocks. Two matrices of the same
/// block size that store the same blocks are equal, whatever format they came from. Immutable.
///
/// The functions that read another format throw ShapeError where sizes do not fit, and FormatError for a place outside
/// of the matrix or stored twice; both name the entry. Entries may come in any order.
class RAMET_API SparseMatrix {
 public:
  /// The blocks that have an element other than 0. `numbers` is row-major.
  static SparseMatrix from_dense(int64_t rows, int64_t columns, std::span<const float> numbers, BlockSize block = {});
  static SparseMatrix from(const CooMatrix& matrix);
  static SparseMatrix from(const CsrMatrix& matrix);
  static SparseMatrix from(const CscMatrix& matrix);
  static SparseMatrix from(const BsrMatrix& matrix);
  static SparseMatrix from(const SparseTriplets& matrix);
  static SparseMatrix from(const SparseCells& matrix);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  BlockSize block() const { return block_; }
  /// Number of stored blocks, and the share of the matrix that they cover.
  int64_t stored_blocks() const { return static_cast<int64_t>(numbers_.size()); }
  double density() const;

  std::vector<float> dense() const;  ///< row-major
  CooMatrix coo() const;             ///< all elements of the stored blocks, zeros too
  CsrMatrix csr() const;
  CscMatrix csc() const;
  BsrMatrix bsr() const;
  SparseTriplets triplets() const;
  /// Throws ShapeError, with the counts, unless the cells divide the matrix into whole blocks and store equally many.
  SparseCells cells(int64_t cells_down = 1, int64_t cells_across = 1) const;
  /// The same matrix in blocks of another size: those that hold a stored element. Smaller blocks that divide this
  /// size lose nothing and add nothing.
  SparseMatrix with_block(BlockSize block) const;

  friend bool operator==(const SparseMatrix&, const SparseMatrix&) = default;

 private:
  SparseMatrix(int64_t rows, int64_t columns, BlockSize block);
  static SparseMatrix sorted(int64_t rows, int64_t columns, BlockSize block, std::vector<int64_t> numbers,
                             std::span<const float> values);
  int64_t blocks_across() const { return columns_ / block_.columns; }
  int64_t block_elements() const { return block_.rows * block_.columns; }
  int64_t rows_ = 0, columns_ = 0;
  BlockSize block_{};
  std::vector<int64_t> numbers_{};  // of the stored blocks, ascending
  std::vector<float> values_{};
};

struct SparseLayerOptions {
  double density = 0.1;  ///< share of each cell's blocks that are stored: rounded to a whole number, at least one
  BlockSize block{};
  int64_t cells_down = 1, cells_across = 1;  ///< layouts with tensor shards deal whole cells to devices
  uint64_t seed = 0;                         ///< of the pattern
  Init init = Init::normal(0.02);            ///< of the stored values
  bool bias = true;                          ///< whether there is the weight "NAME.bias"
  WeightAxis rows{}, columns{};              ///< meaning of the two dimensions of cells
};
/// A linear layer [..., in] -> [..., out] whose weight [out, in] is block-sparse with a fixed random pattern: in each
/// cell as many blocks, each set of blocks equally likely. It declares the weight "NAME.values" (a SparseCells' values)
/// and the constant "NAME.index". Throws ShapeError where cells or blocks do not divide the weight.
RAMET_API Tensor sparse_linear_layer(Builder& builder, Operand a, const std::string& name, int64_t out,
                                     const SparseLayerOptions& options = {});

/// How the patterns of sparse weights change while they train (docs/sparse.md): after every `every`-th step, each cell
/// loses the stored blocks with the least scores, and as many others take their places, beginning at 0. All that the
/// optimizer keeps of a block follows it. Training::results("evolve") has the numbers of a change.
struct Evolve {
  int64_t every = 0;                      ///< 0: patterns never change
  int64_t steps = 1000;                   ///< of the whole run: those of TrainOptions, else Training throws Error
  double prune_ratio = 0.5;               ///< share of its stored blocks that a cell loses
  std::string prune_schedule = "cosine";  ///< how the ratio falls to 0: "cosine", "linear"; "constant": it does not
  double until = 1;                       ///< share of all steps after which nothing is pruned
  /// Of a block: "l1", "l2" (sums of absolute values, of squares) or "max", also of gradients; or "fisher": sums of
  /// squares, each times the optimizer's mean of squared gradients.
  std::string score = "l1";
  std::string regrow = "random";  ///< or "gradient": the greatest in the step's first micro-batch, after the update
  bool regrow_pruned = false;     ///< whether random blocks may be such as were just pruned, which go on as they were
  /// By whose number of steps Adam corrects moments: of the block ("own") or of all ("shared"); "auto": own where the
  /// optimizer has such corrections.
  std::string age = "auto";
  double ramp_from = 0.25, ramp_until = 0.75;  ///< shares of all steps between which a first density changes
};

struct SparsifyOptions {
  /// Names, or patterns: * stands for any text, ? for one character. What matches a pattern that begins with ! stays
  /// dense. Weights of one dimension stay dense, unless they are named in full, which is an Error.
  std::vector<std::string> weights{};
  double density = 0.1;  ///< share of all their blocks that is stored
  BlockSize block{};
  int64_t cells = 1;     ///< along each dimension that layouts cut for t=2, or over the first number of t=2x1
  int64_t cells_t2 = 1;  ///< the same, over the second number of t=1x2
  /// "uniform": all weights have this density. "erk" (Erdos-Renyi kernel): densities are in proportion to (rows +
  /// columns) / (rows x columns), so that small weights lose less. "global": one threshold for all blocks.
  std::string distribution = "uniform";
  /// Densities of those sparse weights whose names match a pattern, in place of what `density` and the distribution
  /// give them; the last pattern that matches counts. With any of them "global" is "uniform" for the others.
  std::vector<std::pair<std::string, double>> densities{};
  /// "random": in each cell, each set of blocks is equally likely. "magnitude": the blocks with the greatest sums of
  /// absolute values; the model's weights must then begin with given numbers, not drawn ones.
  std::string pattern = "random";
  uint64_t seed = 0;  ///< of random patterns
  /// The density at the beginning, where it is another: it becomes `density` by a cubic curve. Cells have slots for the
  /// greater one; the index of an unused slot is -1.
  std::optional<double> first_density{};
  Evolve evolve{};
};
/// The model with block-sparse weights in place of dense ones, for any model. Weights must be matrices of products
/// (matmul, linear) or filters of convolutions of 1 x 1, and be read in no other way. Each becomes the weight
/// "NAME.values" and the pattern "NAME.index". Throws Error, naming the weight and what to do, for a pattern that no
/// weight matches, for weights that are read otherwise (as a tied embedding is), for cells and blocks that do not
/// divide the weight, and for cells that would store less than 8 blocks.
RAMET_API Model sparsify(const Model& model, const SparsifyOptions& options);

}  // namespace ramet::v0
