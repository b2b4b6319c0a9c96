#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::text {

/// Words of lower-case text by the conventions of the Penn Treebank, as NLTK's word_tokenize gives them for one
/// sentence: punctuation apart, contractions in two ("do n't"), a period apart only at the end, quotation marks as `` or ''.
std::vector<std::u32string> treebank_words(std::u32string_view text);

}  // namespace ramet::text
