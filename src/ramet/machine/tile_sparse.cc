#include "ramet/machine/tile_sparse.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ramet/base/error.h"

namespace ramet::machine {
namespace {

// Cycles of the vendor's vertices for sparse products, from its library's estimators; docs/tiles.md names them.
constexpr double kElementCycles = 3;       // of a worker, for one stored element and a vector of tokens
constexpr double kVectorBytes = 16;        // such a vector
constexpr double kBlockCycles = 15;        // of the supervisor, for one block
constexpr double kBlockWorker = 20;        // of every worker, for one block
constexpr double kRowWorker = 26;          // of every worker, for one row of blocks
constexpr double kBucketCycles = 242;      // of the supervisor, for a bucket and its parts
constexpr double kPackCycles = 4;          // for an element of a dense operand or result, where the pattern is fixed
constexpr double kIndexedCycles = 10;      // the same, where it changes
constexpr double kDescription = 6;         // bytes that describe a block of several elements
constexpr double kElementDescription = 2;  // and a block of one
constexpr double kBucketRoom = 1.3;        // a bucket of a pattern that changes, by its mean share
constexpr double kDeviations = 3;  // of a random pattern's share, by which the fullest tile differs from the mean

double real(int64_t value) { return static_cast<double>(value); }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Multiply-adds a cycle in blocks whose shorter side is `side`: the matrix units take 16 x 16 of them, and less of
/// smaller blocks.
double block_macs(const TileFigures& figures, int64_t side, bool narrow, bool wide_sums) {
  if (side >= figures.block_outputs)
    return !narrow ? figures.float_macs : wide_sums ? figures.half_float_macs : figures.half_macs;
  const double half = side >= 8 ? 16 : 8;
  return narrow ? half : half / 2;
}

class SparseSearch {
 public:
  SparseSearch(const TileFigures& figures, const ops::SparseWork& work)
      : figures_(figures),
        work_(work),
        rows_(work.grid.rows()),
        columns_(work.grid.columns()),
        narrow_(size_of(work.operands) < 4),
        bytes_(narrow_ ? 2 : 4),
        sum_bytes_(work.fixed && narrow_ && figures.half_sum_bits == 16 ? 2 : 4),
        blocks_(real(work.grid.cells() * work.grid.slots)) {}

  SparseChoice run() {
    for (int64_t rows = 1; rows * work_.grid.block_rows <= rows_ && rows <= figures_.tiles; rows *= 2)
      for (int64_t columns = 1; columns * work_.grid.block_columns <= columns_ && rows * columns <= figures_.tiles;
           columns *= 2) {
        const int64_t most = std::min(work_.tokens, figures_.tiles / (rows * columns));
        // The sums over tokens of a sampled product are exchanged, so fewer parts may be better.
        for (int64_t tokens = std::max<int64_t>(1, most); tokens >= 1; tokens /= 2) consider({rows, columns, tokens});
      }
    return best_;
  }
  bool found() const { return best_.cycles.compute < kNever; }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// One stored block and `tokens` tokens of a tile, which the workers share.
  double block_cycles(int64_t tokens) const {
    const ops::SparseGrid& grid = work_.grid;
    const auto share = real(ceil_div(tokens, figures_.workers));
    const double elements = real(grid.block_elements());
    if (std::min(grid.block_rows, grid.block_columns) < 4)
      return elements * kElementCycles * figures_.workers *
             std::ceil(real(tokens) / figures_.workers / (kVectorBytes / bytes_));
    const double macs =
        block_macs(figures_, std::min(grid.block_rows, grid.block_columns), narrow_, sum_bytes_ == 4 && narrow_);
    const double loading = elements / (narrow_ ? 4 : 2);
    return loading + kBlockCycles + figures_.workers * (kBlockWorker + share * elements / macs);
  }

  void consider(const SparseSplit& split) {
    const ops::SparseGrid& grid = work_.grid;
    const int64_t tokens = ceil_div(work_.tokens, split.tokens);
    const double cuts = real(split.rows * split.columns), mean = blocks_ / cuts;
    const double fullest = work_.fixed || cuts == 1 ? mean : mean + kDeviations * std::sqrt(mean);
    const double described =
        real(grid.block_elements()) * bytes_ + (grid.block_elements() == 1 ? kElementDescription : kDescription);
    const double bucket = (work_.fixed ? mean : mean * kBucketRoom) * described;
    const double in = real(ceil_div(columns_, split.columns)) * real(tokens) * bytes_;
    const double out_elements = real(ceil_div(rows_, split.rows)) * real(tokens), out = out_elements * sum_bytes_;
    TileCycles cycles;
    const double rounds = work_.fixed || cuts == 1 ? 1 : 2;
    cycles.compute = rounds * kBucketCycles + fullest * block_cycles(tokens) +
                     real(ceil_div(rows_, split.rows * grid.block_rows)) * figures_.workers * kRowWorker;
    cycles.compute += (work_.fixed ? kPackCycles : kIndexedCycles) * real(rows_ + columns_) * real(work_.tokens) /
                      real(figures_.tiles);
    cycles.exchange = in / figures_.exchange_bytes;
    cycles.sync = rounds * figures_.phase_cycles;
    cycles.messages = real(split.rows + split.columns);
    double sums = 0;  // bytes of partial sums of a tile, and in how many parts they are
    int64_t parts = 1;
    if (work_.sampled) {
      cycles.exchange += out_elements * bytes_ / figures_.exchange_bytes;
      sums = mean * real(grid.block_elements()) * 4, parts = split.tokens;
    } else {
      if (split.tokens > 1 || !work_.fixed) cycles.exchange += rounds * bucket / figures_.exchange_bytes;
      sums = out, parts = split.columns;
    }
    if (parts > 1) {
      cycles.exchange += sums * (1 - 1 / real(parts)) / figures_.exchange_bytes;
      cycles.sync += figures_.phase_cycles;
      cycles.messages += real(parts);
    }
    if (parts > 1 || !work_.fixed) cycles.compute += figures_.vertex_cycles + sums / figures_.data_path_bytes;
    const double held = in + out * (parts > 1 && !work_.sampled ? 2 : 1) + bucket * (work_.fixed ? 1 : 2) +
                        (work_.sampled ? sums * (parts > 1 ? 2 : 1) : 0);
    cycles.temporary_bytes = static_cast<int64_t>(held);
    cycles.tiles = std::min(figures_.tiles, split.rows * split.columns * split.tokens);
    if (held <= figures_.temporary_share * real(figures_.memory) && cycles.total() < best_.cycles.total())
      best_ = {split, cycles};
  }

  const TileFigures& figures_;
  const ops::SparseWork& work_;
  int64_t rows_, columns_;
  bool narrow_;
  double bytes_, sum_bytes_, blocks_;
  SparseChoice best_{.split = {}, .cycles = {.compute = kNever}};
};

}  // namespace

SparseChoice choose_sparse_product(const TileFigures& figures, const ops::SparseWork& work) {
  if (work.tokens < 1 || work.groups < 1) return {};
  // Tokens that do not fit at once follow one another.
  ops::SparseWork part = work;
  for (int64_t pieces = 1; part.tokens >= 1; pieces *= 2, part.tokens = ceil_div(work.tokens, pieces)) {
    SparseSearch search(figures, part);
    SparseChoice choice = search.run();
    if (search.found()) {
      const double times = real(pieces * work.groups);
      choice.cycles.compute *= times, choice.cycles.exchange *= times, choice.cycles.sync *= times;
      return choice;
    }
    if (part.tokens == 1) break;
  }
  throw Error({.what = "the tiles are too small for a product with a sparse matrix",
               .where = "machine",
               .found = std::to_string(work.grid.stored_elements()) + " stored elements of a matrix " +
                        std::to_string(work.grid.rows()) + " x " + std::to_string(work.grid.columns()) + ", " +
                        std::to_string(figures.memory) + " bytes a tile",
               .expected = "room for a share of the stored blocks and one token",
               .remedy = "Cut the matrix in more shards, or lower its density"});
}

}  // namespace ramet::machine
