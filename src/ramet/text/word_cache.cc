#include "ramet/text/word_cache.h"

#include <atomic>

namespace ramet::text {

uint32_t WordCache::new_owner() {
  static std::atomic<uint32_t> last{0};
  return ++last;
}

}  // namespace ramet::text
