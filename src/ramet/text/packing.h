#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::text {

// Packing of sequences (Krell, Kosec, Perez, Fitzgibbon: "Efficient Sequence Packing without Cross-contamination",
// arXiv 2107.02027): several sequences share one row, so that less of it is padding. The problem is solved for the
// histogram of lengths, which is small, however many sequences there are.

/// How many sequences there are of each length: `counts[l]` of l tokens; `counts[0]` is 0. A row has room for
/// `row()` tokens.
struct LengthHistogram {
  std::vector<int64_t> counts;
  int64_t row() const { return static_cast<int64_t>(counts.size()) - 1; }
  int64_t sequences() const;
  int64_t tokens() const;
};

/// A text of lines "LENGTH COUNT" (blanks or tabs between), lengths rising; a first line that does not begin with a
/// digit is a heading, and empty lines say nothing. The row is as long as the last length. Throws Error with
/// SOURCE:LINE.
LengthHistogram parse_histogram(std::string_view text, const std::string& source);
LengthHistogram load_histogram(const std::filesystem::path& path);
/// Of these lengths in rows of `row` tokens. Throws Error naming a length that is 0 or does not fit.
LengthHistogram histogram_of(std::span<const int32_t> lengths, int64_t row);

enum class PackingAlgorithm {
  kSpfhp,  ///< shortest pack first: longest sequences first, each to the pack with most room
  kLpfhp,  ///< longest pack first: longest sequences first, each to the pack with least room that it fits (best fit)
  kNnlshp  ///< each full pack as often as non-negative least squares say; remaining sequences by longest pack first
};
/// "spfhp", "lpfhp" or "nnlshp"; Error naming them.
PackingAlgorithm packing_algorithm(const std::string& name);
const char* name_of(PackingAlgorithm algorithm);

/// Packs of one content.
struct PackKind {
  std::vector<int32_t> lengths;  ///< longest first
  int64_t packs = 0;
};

/// Every sequence of a histogram in exactly one pack, none of which has more than `row` tokens.
struct Packing {
  int64_t row = 0;
  std::vector<PackKind> kinds;

  int64_t packs() const;
  int64_t sequences() const;
  int64_t tokens() const;
  int64_t deepest() const;  ///< most sequences of a pack
  /// Tokens over slots; 1 is no padding. 0 for no packs.
  double efficiency() const;
  /// Sequences a row: how many times fewer rows than with one sequence in each.
  double factor() const;
};

/// Packs a histogram into packs of at most `depth` sequences (0: no limit). The result depends on the arguments alone.
/// Throws Error for a depth below 0, for an empty histogram, and for kNnlshp when there are too many full packs of that
/// depth to choose from (depth 3 is the published one).
Packing pack_histogram(const LengthHistogram& histogram, PackingAlgorithm algorithm, int64_t depth);

/// Packs sequences of these lengths into rows of `row` tokens: numbers of sequences, rising in each pack; packs in the
/// order of their first. Of sequences of one length the first goes to the pack that needs one first. Throws Error as
/// above, and for a length that is 0 or does not fit the row.
std::vector<std::vector<int64_t>> pack_sequences(std::span<const int32_t> lengths, int64_t row,
                                                 PackingAlgorithm algorithm, int64_t depth);

/// The x >= 0 that makes |A x - b| least, by the active-set method of Lawson and Hanson (Solving Least Squares
/// Problems, chapter 23) on a Cholesky factor that is updated. Column j of A has `value` at `row` for each of
/// columns[j]. Used by kNnlshp; here for its tests.
struct SparseEntry {
  int32_t row;
  double value;
};
std::vector<double> nonnegative_least_squares(const std::vector<std::vector<SparseEntry>>& columns,
                                              const std::vector<double>& b);

}  // namespace ramet::text
