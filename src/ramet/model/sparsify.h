#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/model/evolve.h"
#include "ramet/model/model.h"
#include "ramet/ops/sparse.h"

namespace ramet::model {

/// Which weights become block-sparse, and how (docs/sparse.md).
struct SparsifyOptions {
  /// Names, or patterns: * stands for any text, ? for one character. What matches a pattern that begins with ! stays
  /// dense.
  std::vector<std::string> weights{};
  double density = 0.1;  ///< share of the blocks that are stored
  int64_t block_rows = 1, block_columns = 1;
  int64_t cells = 1;                     ///< along each dimension that layouts cut over t1
  int64_t cells_t2 = 1;                  ///< and over t2
  std::string distribution = "uniform";  ///< or "erk", "global"
  /// Densities of those weights whose names match a pattern, in place of what `density` and the distribution give
  /// them; the last pattern that matches counts. With any of them the distribution "global" is "uniform" for the
  /// others.
  std::vector<std::pair<std::string, double>> densities{};
  std::string pattern = "random";  ///< or "magnitude"
  uint64_t seed = 0;               ///< of random patterns
  /// The density that patterns begin with, where it is another than `density`, to which they then change; cells have
  /// slots for the greater one.
  std::optional<double> first_density{};
  EvolveOptions evolve{};
};

/// What is wrong with SparsifyOptions.
class SparsifyError : public Error {
 public:
  SparsifyError(std::string option, ErrorParts parts) : Error(std::move(parts)), option_(std::move(option)) {}
  /// The option, by the name that it has in the table [sparse] of a recipe.
  const std::string& option() const { return option_; }

 private:
  std::string option_;
};

/// Gives the first numbers of a dense weight, or nothing where they are drawn.
using FirstNumbers = std::function<std::vector<float>(const StateTensor& weight)>;

/// The model with sparse products by the weights that the options name. Their values and patterns are states
/// (transform/sparsify.h). `first`, if not null, replaces the first numbers that the model itself has. Throws
/// SparsifyError, naming the weights, where weights cannot be sparse as the options say.
Model sparsify(Model model, const SparsifyOptions& options, const FirstNumbers& first = {});

/// The densities with which the weights that the options name keep, of all their blocks together, those with the
/// greatest sums of absolute values in the first numbers: options.density of them. At least as many blocks of each cell
/// as a cell must store. What the distribution "global" is; for a model that begins elsewhere these are
/// SparsifyOptions::densities. Throws Error as sparsify does, and where the first numbers are drawn.
std::map<std::string, double> global_densities(const Model& model, const SparsifyOptions& options,
                                               const FirstNumbers& first = {});

/// A block-sparse weight of a model.
struct SparseWeight {
  std::string name;  ///< of the dense weight
  StateTensor values, index;
  SparseGrid grid;
};
/// Those of the model's sparse products whose values are a weight NAME.values, in the order of weights.
std::vector<SparseWeight> sparse_weights(const Model& model);

/// By name of the dense weight.
std::map<std::string, SparseGrid> grids_of(const std::vector<SparseWeight>& weights);

/// Model::published with each sparse weight in its dense form, as files of other programs have it.
std::vector<StateTensor> dense_published(const Model& model);

/// Fills a buffer with a state's bytes, weights as f32.
using ReadBytes = std::function<void(const std::string& name, std::span<std::byte> bytes)>;
/// Reads the states of `dense_published`, given what reads weights, statistics and patterns.
ReadBytes dense_reader(const Model& model, ReadBytes read);

/// Writes the states of Model::published as safetensors, each sparse weight as what torch.sparse_bsr_tensor (of single
/// elements: torch.sparse_csr_tensor) takes: NAME.crow_indices and NAME.col_indices (i64, in blocks), NAME.values f32
/// [blocks, block rows, block columns] ([elements]), and NAME.shape i64 [2]. A joined weight is one triple for each of
/// its parts where the blocks of none lie in two parts.
void export_sparse_weights(const std::filesystem::path& path, const Model& model, const ReadBytes& read);

/// An index of `slots` slots a cell of one whose cells have `used`: the others are unused.
std::vector<int32_t> with_unused_slots(const std::vector<int32_t>& index, int64_t used, int64_t slots);
/// In each cell `slots` of its blocks, each set of blocks equally likely: what an index holds.
std::vector<int32_t> random_pattern(const SparseGrid& grid, uint64_t seed, const std::string& name);
/// The sum of absolute values of each block, cell by cell; 0 for a block with a NaN.
std::vector<double> block_sums(const SparseGrid& grid, std::span<const float> dense);
/// In each cell the `slots` blocks with the greatest sums of absolute values; of equal sums the lower block.
std::vector<int32_t> magnitude_pattern(const SparseGrid& grid, std::span<const float> dense);

/// The numbers of a dense matrix at the stored blocks, and the other way round with zeros elsewhere.
std::vector<float> gather_stored(const SparseGrid& grid, std::span<const int32_t> index, std::span<const float> dense);
std::vector<float> scatter_stored(const SparseGrid& grid, std::span<const int32_t> index,
                                  std::span<const float> values);

}  // namespace ramet::model
