#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/model/presets.h"

namespace ramet::model {

/// The names of a family's weights, and the only place that has them. Names are those of Hugging Face's files, except
/// that query, key and value are one weight ("qkv"; kJoinedWeights lists its pieces). Each is a name without its
/// ".weight" or ".bias"; those of a layer follow `layer` + number.
struct BertNames {
  std::string prefix;  ///< of the encoder, with its dot; files of encoders alone leave it out
  std::string words, positions, types, embedding_norm;
  std::string layer;  ///< "bert.encoder.layer."
  std::string qkv, attention_out, attention_norm, wide, narrow, output_norm;
  std::string pooler;                                  ///< empty: the family has none
  std::string masked_dense, masked_norm, masked_bias;  ///< the masked-word head; the last is the whole name
  /// Heads of tasks. Between a first dense layer and the last stands tanh, or relu of kDistilBert.
  std::string classifier_dense;  ///< before the last, on the first token; empty: it is the pooler
  std::string classifier, token_classifier, span;
};
const BertNames& bert_names(BertFamily family);

/// A weight that files have in parts, one below the other.
struct JoinedWeight {
  std::string_view whole;
  std::array<std::string_view, 3> parts;
};
inline constexpr std::array<JoinedWeight, 2> kJoinedWeights = {
    JoinedWeight{".self.qkv.", {".self.query.", ".self.key.", ".self.value."}},
    JoinedWeight{".attention.qkv_lin.", {".attention.q_lin.", ".attention.k_lin.", ".attention.v_lin."}}};

}  // namespace ramet::model
