#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/data/checked.h"
#include "ramet/data/source.h"
#include "ramet/model/model.h"
#include "ramet/runtime/cluster.h"

namespace ramet::train {

/// A program on request as a function of any number of samples. Samples are cut in batches of the compiled size; the
/// last batch is filled up with its last sample.
class SampleProgram {
 public:
  /// `limits`: the inputs that the model declares, for the values that they may have. The graph's input axes say which
  /// dimension of an input is its samples; the first, where the model does not say.
  SampleProgram(const Graph& graph, std::string name, const std::vector<InputSpec>& limits);

  const std::string& name() const { return name_; }
  Signature inputs() const;  ///< data inputs, of a batch
  std::vector<std::string> results() const;
  /// Whether a result has the samples as a dimension; any other (a loss) belongs to a whole batch.
  bool is_by_sample(const std::string& result) const;
  /// Samples of a compiled batch; 0 when no input has samples.
  int64_t batch() const;
  int64_t batches_of(int64_t samples) const { return batch() == 0 ? 1 : (samples + batch() - 1) / batch(); }

  /// How many samples these inputs hold; 0 where none has samples. Throws Error naming an input that is missing,
  /// unknown, of another type, of another number of samples, or with a value beyond its limits.
  int64_t samples_of(std::span<const TensorView> inputs) const;
  /// Gives the batches of such inputs, which outlive the feed, as this object does.
  ClusterFeed feed_of(std::span<const TensorView> inputs, int64_t samples) const;

  /// Runs so many batches that a feed gives, on all ranks: the results of each.
  using Run = std::function<std::vector<ResultTensors>(int64_t batches, int64_t samples, const ClusterFeed& feed,
                                                       const Wanted& wanted)>;
  /// The results for these inputs, in the order of the program: those by sample have the given samples there; one of a
  /// whole batch is refused unless the samples fill batches, and of several batches it has one more dimension in front.
  /// `wanted`: only these results; empty: all. Throws Error as samples_of does, and for a result that there is not.
  std::vector<NamedTensor> run(std::span<const TensorView> inputs, std::vector<std::string> wanted,
                               const Run& run) const;
  /// What all batches of some samples gave, as one tensor a result: those by sample have the given samples there, any
  /// other has an entry for each whole batch.
  std::vector<NamedTensor> join(const std::vector<ResultTensors>& batches, int64_t samples) const;

 private:
  /// A tensor of the program, and the dimension that runs along samples (-1: none).
  struct Operand {
    std::string name;
    TensorType type;
    int batch_dim = -1;
    ExpectedTensor limits{};
    int64_t batch() const { return type.shape[batch_dim]; }
  };
  const Operand* find(const std::vector<Operand>& operands, std::string_view wanted) const;
  void check_wanted(const std::vector<std::string>& wanted, int64_t samples) const;
  NamedTensor join_samples(const Operand& result, const std::vector<const ResultTensor*>& parts, int64_t samples) const;

  std::string name_;
  std::vector<Operand> inputs_, results_;
};

/// Tensors as views of them; Error for one with another number of bytes than its type has.
std::vector<TensorView> views_of(std::span<const NamedTensor> tensors);

}  // namespace ramet::train
