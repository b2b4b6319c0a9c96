#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/base/dtype.h"
#include "ramet/base/house.h"

namespace ramet::model {

/// How a model continues sequences with caches of keys and values. For each of `widths` the model has a program
/// decode_program(width) on request, which reads so many more tokens of each sample:
///   input_ids i32[samples, width], first i32[samples] (the position of the first of them), last i32[samples] (which
///   of them, from 0, is the last real one) -> "logits" f32[samples, vocabulary] for the token behind that one.
/// It writes the keys and values of all `width` positions to kept states, in place, and reads those of earlier ones.
/// Entries behind the last real token are written again by the next call before any real token reads them. A new text
/// begins with first = 0 and needs no other reset.
struct Decoding {
  int64_t samples = 1;  ///< texts at once
  int64_t room = 0;     ///< positions of a text
  int64_t vocabulary = 0;
  std::vector<int64_t> widths = {1, 16, 128};  ///< ascending, the first 1
  DType cache = DType::kF32;                   ///< type of the caches
};

/// "decode 16"
std::string decode_program(int64_t width);

/// The widths of the programs that take `tokens` tokens further, one after another: as few calls as do not compute more
/// than twice the tokens that there are.
std::vector<int64_t> decode_widths(const Decoding& decoding, int64_t tokens);

}  // namespace ramet::model
