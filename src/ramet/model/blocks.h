#pragma once

#include <string>
#include <vector>

#include "ramet/model/model.h"
#include "ramet/ops/build.h"

namespace ramet::model {

// Meanings of weights' dimensions, named as MaxText does.
inline const LogicalAxis kEmbed{"embed"}, kHeads{"heads"}, kJointHeads{"heads", 3}, kMlp{"mlp"}, kVocab{"vocab"},
    kNoAxis{};

// Meanings of data inputs' dimensions: tokens of samples; sequences of packed rows; masked positions of samples.
inline const std::vector<std::string> kTokenAxes{"batch", "positions"}, kSequenceAxes{"batch", "sequences"},
    kPredictionAxes{"batch", "predictions"}, kSampleAxes{"batch"};

/// Collects the weights that a model declares while it is built, and offers the blocks that all models share. An
/// example of how a user writes a model: everything here is ops/build.h.
class ModelBuilder {
 public:
  /// `weights` may be null: then the graph alone is wanted (a second graph of the same model).
  ModelBuilder(Graph& graph, std::vector<StateTensor>* weights, double init_range, bool training, int64_t seed);

  GraphBuilder& build() { return build_; }
  /// A matrix: normal(0, deviation or the model's init range), in the group that decays. `axes` give the meaning of its
  /// dimensions.
  Tensor matrix(const std::string& name, Shape shape, std::vector<LogicalAxis> axes, double deviation = 0);
  /// A vector (bias, gain): constant, in the group that does not decay.
  Tensor vector(const std::string& name, int64_t size, LogicalAxis axis, double value);

  /// x W^T + b with weights "NAME.weight" [out, in] and "NAME.bias"; what the dimensions mean, in that order.
  Tensor dense(Tensor x, const std::string& name, int64_t out, const LogicalAxis& out_axis, const LogicalAxis& in_axis);
  /// x W + b with weights "NAME.weight" [in, out] and "NAME.bias".
  Tensor projection(Tensor x, const std::string& name, int64_t out, const LogicalAxis& out_axis,
                    const LogicalAxis& in_axis, double deviation = 0);
  /// Layer norm over the hidden size.
  Tensor norm(Tensor x, const std::string& name, double epsilon);
  Tensor drop(Tensor x, double rate, const std::string& name);
  /// Self-attention of qkv [B,S,3*hidden] -> [B,S,hidden]; mask may be invalid, or with `segments` number the sequences
  /// of a row, which then do not see each other.
  Tensor self_attention(Tensor qkv, Tensor mask, int64_t heads, double dropout_rate, bool causal,
                        const std::string& name, bool segments = false);
  Tensor counter();

 private:
  Tensor weight(const std::string& name, Shape shape, StateInit init, const std::string& group,
                std::vector<LogicalAxis> axes);

  GraphBuilder build_;
  std::vector<StateTensor>* weights_;
  double init_range_;
  bool training_;
  int64_t seed_;
};

/// Rows of the table of words and their logical axis: the vocabulary, padded to a multiple of `pad` (Shoeybi et al.
/// 2019, section 5.1, pad theirs for the same reason).
struct VocabularyRows {
  int64_t classes = 0, rows = 0;
  LogicalAxis axis;
  VocabularyRows(int64_t vocabulary, int64_t pad);
};

/// Declares the data inputs of the forward graph: samples first, then, where a dimension is as long as the sequence,
/// positions.
void declare_inputs(Model& model, int64_t sequence);
/// Sets the least and the greatest value of a declared input; of one that the model does not read nothing.
void limit_input(Model& model, std::string_view name, double low, double high);

/// Throws Error unless `hidden` is a multiple of `heads` and all sizes are positive.
void check_sizes(const std::string& model, int64_t layers, int64_t hidden, int64_t heads, int64_t vocabulary);
/// Throws Error when a sequence is longer than the table of positions.
void check_sequence(const std::string& model, int64_t sequence, int64_t positions);

}  // namespace ramet::model
