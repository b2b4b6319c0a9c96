#include "ramet/machine/tile_matmul.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "ramet/base/error.h"

namespace ramet::machine {
namespace {

using Serial = ProductSplit::Serial;
constexpr int64_t kMostRounds = 4096;

double real(int64_t value) { return static_cast<double>(value); }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How the matrix units take operands of a type.
struct MatrixUnit {
  double element_bytes, sum_bytes;
  int64_t inputs;     ///< of a block of weights
  double row_cycles;  ///< of one row of it
};

MatrixUnit unit_of(const TileFigures& figures, DType operands) {
  const bool narrow = size_of(operands) < 4, half_sums = narrow && figures.half_sum_bits == 16;
  const double bytes = narrow ? 2 : 4;
  const double macs = !narrow ? figures.float_macs : half_sums ? figures.half_macs : figures.half_float_macs;
  MatrixUnit unit{.element_bytes = bytes,
                  .sum_bytes = half_sums ? 2.0 : 4.0,
                  .inputs = std::max<int64_t>(1, static_cast<int64_t>(real(figures.block_bytes) / bytes)),
                  .row_cycles = 0};
  unit.row_cycles = real(unit.inputs * figures.block_outputs) / macs + (half_sums ? 0 : figures.float_sum_cycles);
  return unit;
}

double unit_cycles(const TileFigures& figures, const MatrixUnit& unit, double rows, double input_groups,
                   double output_groups) {
  const double passing = unit.row_cycles * std::max(rows, figures.workers * figures.least_rows);
  const double block = figures.block_cycles +
                       real(figures.block_outputs * figures.block_bytes) / figures.coefficient_bytes +
                       figures.workers * figures.worker_cycles + passing;
  return figures.product_cycles + input_groups * figures.input_cycles + output_groups * figures.output_cycles +
         input_groups * output_groups * block;
}

/// Parts of `extent` that make a difference: those in which the largest is smaller than with one part less.
template <typename Visit>
void for_each_cut(int64_t extent, int64_t most_parts, Visit visit) {
  for (int64_t part = std::max<int64_t>(1, ceil_div(extent, std::max<int64_t>(1, most_parts)));;) {
    const int64_t parts = ceil_div(extent, part);
    visit(parts, part);
    if (parts <= 1) return;
    part = ceil_div(extent, parts - 1);
  }
}

/// The search: all splits of one orientation of the product.
class ProductSearch {
 public:
  ProductSearch(const TileFigures& figures, const MatrixProduct& product)
      : figures_(figures), unit_(unit_of(figures, product.operands)), product_(product) {
    // What the product itself reads and makes lies there too, whatever else does.
    const double m = real(product.m), k = real(product.k), n = real(product.n);
    const double own = real(product.batch) * ((m * k + k * n) * unit_.element_bytes + m * n * unit_.sum_bytes);
    const double free = real(figures.memory - figures.runtime_bytes) - own / real(figures.tiles);
    room_ = std::min(figures.temporary_share * real(figures.memory), std::max(free, 0.0));
  }

  /// Nothing when even the most serial split needs too much memory.
  std::optional<ProductChoice> run() {
    for (const bool swapped : {false, true}) {
      rows_ = swapped ? product_.n : product_.m;
      columns_ = swapped ? product_.m : product_.n;
      for (const Serial serial : {Serial::kNone, Serial::kBatches, Serial::kRows, Serial::kColumns})
        for (int64_t rounds = serial == Serial::kNone ? 1 : 2; rounds <= most_rounds(serial); rounds *= 2)
          search({.serial = serial, .rounds = rounds, .swapped = swapped});
    }
    return best_.cycles.total() < kNever ? std::optional(best_) : std::nullopt;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  int64_t column_groups() const { return ceil_div(columns_, figures_.block_outputs); }

  int64_t most_rounds(Serial serial) const {
    switch (serial) {
      case Serial::kNone: return 1;
      case Serial::kBatches: return std::min(kMostRounds, product_.batch);
      case Serial::kRows: return std::min(kMostRounds, rows_);
      case Serial::kColumns: return std::min(kMostRounds, column_groups());
    }
    return 1;
  }

  /// All cuts of one round, in whole blocks of weights.
  void search(ProductSplit split) {
    const auto round_of = [&](int64_t extent, Serial serial) {
      return split.serial == serial ? ceil_div(extent, split.rounds) : extent;
    };
    const int64_t batch = round_of(product_.batch, Serial::kBatches), rows = round_of(rows_, Serial::kRows);
    const int64_t columns = round_of(column_groups(), Serial::kColumns), sums = ceil_div(product_.k, unit_.inputs);
    int64_t tried = 0;
    for_each_cut(batch, figures_.tiles, [&](int64_t batches, int64_t batch_part) {
      if (++tried > 4) return;  // fewer groups of more tiles never win by more than rounding
      const int64_t tiles = figures_.tiles / batches;
      for_each_cut(columns, tiles, [&](int64_t column_parts, int64_t column_part) {
        for_each_cut(sums, tiles / column_parts, [&](int64_t sum_parts, int64_t sum_part) {
          const int64_t most = std::min(rows, tiles / (column_parts * sum_parts));
          const int64_t even = std::max<int64_t>(1, most - most % figures_.exchange_pair);
          for (const int64_t parts : {most, even}) {
            split.batches = batches;
            split.columns = column_parts;
            split.sums = sum_parts;
            split.rows = ceil_div(rows, ceil_div(rows, parts));
            consider(split, batch_part, ceil_div(rows, split.rows), sum_part, column_part);
          }
        });
      });
    });
  }

  void consider(const ProductSplit& split, int64_t batch, int64_t rows, int64_t sum_groups, int64_t column_groups) {
    const double b = real(batch), r = real(rows), k = real(sum_groups * unit_.inputs),
                 n = real(column_groups * figures_.block_outputs), rounds = real(split.rounds);
    TileCycles cycles;
    cycles.compute = rounds * b * unit_cycles(figures_, unit_, r, real(sum_groups), real(column_groups));
    const double bound = best_.cycles.total();
    if (cycles.compute >= bound) return;

    const double passing = b * r * k * unit_.element_bytes, loaded = b * k * n * unit_.element_bytes,
                 partial = b * r * n * unit_.sum_bytes;
    // What does not change from round to round is received and arranged once.
    const double passes = split.serial == Serial::kColumns ? 1 : rounds,
                 loads = split.serial == Serial::kRows ? 1 : rounds;
    const double receive_passing = passes * passing / figures_.exchange_bytes,
                 receive_loaded = loads * loaded / figures_.exchange_bytes;
    const double shared = 1 - 1 / real(figures_.exchange_pair);
    double saved = 0;  // neighbours share one operand at most
    if (split.columns % figures_.exchange_pair == 0) saved = shared * receive_passing;
    if (split.rows % figures_.exchange_pair == 0) saved = std::max(saved, shared * receive_loaded);
    cycles.exchange = receive_passing + receive_loaded - saved;
    cycles.compute += passes * passing / figures_.copy_bytes;
    cycles.sync = rounds * figures_.phase_cycles;
    cycles.messages = split.rows + split.columns;
    if (split.sums > 1) {
      const double reduced = std::ceil(b * r * n / real(split.sums)), parts = real(split.sums);
      cycles.exchange += rounds * reduced * (parts - 1) * unit_.sum_bytes / figures_.exchange_bytes;
      cycles.compute +=
          rounds * (figures_.vertex_cycles / 3 + reduced * parts * unit_.sum_bytes / figures_.data_path_bytes);
      cycles.sync += rounds * figures_.phase_cycles;
      cycles.messages += parts;
    }
    const double bytes = passing + loaded + partial * (split.sums > 1 ? 2 : 1);
    cycles.temporary_bytes = static_cast<int64_t>(bytes);
    cycles.tiles = split.batches * split.rows * split.columns * split.sums;
    if (bytes <= room_ && cycles.total() < bound) best_ = {split, cycles};
  }

  const TileFigures& figures_;
  MatrixUnit unit_;
  MatrixProduct product_;
  int64_t rows_ = 0, columns_ = 0;
  double room_ = 0;  ///< bytes of a tile that the product may fill
  ProductChoice best_{.split = {}, .cycles = {.compute = kNever}};
};

}  // namespace

TileCycles& TileCycles::operator+=(const TileCycles& other) {
  compute += other.compute;
  exchange += other.exchange;
  sync += other.sync;
  temporary_bytes = std::max(temporary_bytes, other.temporary_bytes);
  messages += other.messages;
  tiles = std::max(tiles, other.tiles);
  return *this;
}

double matrix_unit_cycles(const TileFigures& figures, int64_t rows, int64_t inputs, int64_t outputs, DType operands) {
  const MatrixUnit unit = unit_of(figures, operands);
  return unit_cycles(figures, unit, real(rows), real(ceil_div(inputs, unit.inputs)),
                     real(ceil_div(outputs, figures.block_outputs)));
}

namespace {

ProductChoice search_product(const TileFigures& figures, const MatrixProduct& product) {
  std::optional<ProductChoice> best = ProductSearch(figures, product).run();
  if (best) return *best;
  // Pieces, halved in turn along the longest dimension, as long as one round of halving makes the whole cheaper.
  MatrixProduct piece = product;
  int worse = 0;
  for (int64_t pieces = 2; worse < 3; pieces *= 2) {
    int64_t& longest = *std::max({&piece.m, &piece.n, &piece.k}, [](auto* a, auto* b) { return *a < *b; });
    if (longest == 1) break;
    longest = ceil_div(longest, 2);
    std::optional<ProductChoice> choice = ProductSearch(figures, piece).run();
    if (!choice) continue;
    choice->split.pieces = pieces;
    choice->cycles.compute *= real(pieces);
    choice->cycles.exchange *= real(pieces);
    choice->cycles.sync *= real(pieces);
    worse = best && choice->cycles.total() >= best->cycles.total() ? worse + 1 : 0;
    if (worse == 0) best = choice;
  }
  if (best) return *best;
  throw Error({.what = "a tile is too small for any matrix product",
               .where = "machine",
               .found = std::to_string(figures.memory) + " bytes a tile",
               .expected = "room for one block of weights and its rows",
               .remedy = "Correct the memory of the tiles in the machine file"});
}

/// Plans found before, for the figures that were asked for last: programs ask for the same products again and again.
struct KnownProducts {
  std::mutex mutex;
  TileFigures figures;
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, DType>, ProductChoice> products;
};

}  // namespace

ProductChoice choose_product(const TileFigures& figures, const MatrixProduct& product) {
  if (product.batch < 1 || product.m < 1 || product.k < 1 || product.n < 1) return {};
  constexpr size_t kMostKnown = 1 << 16;
  static KnownProducts known;
  const auto key = std::tuple(product.batch, product.m, product.k, product.n, product.operands);
  {
    const std::lock_guard lock(known.mutex);
    if (known.figures != figures || known.products.size() > kMostKnown) known.products.clear();
    known.figures = figures;
    if (const auto found = known.products.find(key); found != known.products.end()) return found->second;
  }
  const ProductChoice choice = search_product(figures, product);
  const std::lock_guard lock(known.mutex);
  if (known.figures == figures) known.products.emplace(key, choice);
  return choice;
}

}  // namespace ramet::machine
