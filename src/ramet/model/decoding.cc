#include "ramet/model/decoding.h"

#include <algorithm>

namespace ramet::model {

std::string decode_program(int64_t width) { return "decode " + std::to_string(width); }

std::vector<int64_t> decode_widths(const Decoding& decoding, int64_t tokens) {
  std::vector<int64_t> widths;
  while (tokens > 0) {
    // The widest of which more than half is used; the narrowest is always used whole.
    int64_t width = decoding.widths.front();
    for (const int64_t candidate : decoding.widths)
      if (2 * tokens > candidate) width = candidate;
    widths.push_back(width);
    tokens -= std::min(tokens, width);
  }
  return widths;
}

}  // namespace ramet::model
