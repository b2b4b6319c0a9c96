#pragma once

#include <string>
#include <vector>

#include "ramet/model/model.h"
#include "ramet/model/presets.h"

namespace ramet::model {

/// Sizes of a language model of LSTM layers (Zaremba, Sutskever and Vinyals, arXiv 1409.2329). Defaults are those of
/// their medium one.
struct LstmConfig {
  int64_t layers = 2, hidden = 650;
  int64_t vocabulary = 10000;
  int64_t pad_vocabulary = 1;  ///< as Gpt2Config's
  double dropout = 0.5;        ///< on embeddings and on the output of each layer
  bool tied = false;           ///< the head shares the embeddings' table (Press and Wolf, arXiv 1608.05859)
  /// Each micro-batch begins with the states that the micro-batch before it left: truncated back-propagation through
  /// time over a text that goes on. Otherwise each begins with zeros, as evaluations do.
  bool carry = false;
  double init_range = 0.05;  ///< weights have the deviation of a uniform draw from -init_range to init_range
};

/// "mini" (for tests and demonstrations), and Zaremba et al.'s "small", "medium" and "large" (section 4.1); throws
/// Error naming them.
LstmConfig lstm_preset(const std::string& name);
std::vector<std::string> lstm_preset_names();

/// Inputs input_ids, labels i32[B,S] (labels below 0 do not count) -> loss, correct, count. Weights have the names of
/// PyTorch's example of a word language model: "encoder.weight" [V,H]; "rnn.weight_ih_l0" and "rnn.weight_hh_l0"
/// [4H,H], "rnn.bias_ih_l0" and "rnn.bias_hh_l0" [4H] of each layer; "decoder.weight" [V,H] where it is not tied, and
/// "decoder.bias" [V]. With `carry` there are the chained states "rnn.hidden_l0" and "rnn.cell_l0" f32[B,H] of each
/// layer. Throws Error when a size is not positive.
Model build_lstm(const LstmConfig& config, const BatchShape& batch);

}  // namespace ramet::model
