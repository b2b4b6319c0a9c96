#include "ramet/data/word_cache.h"

#include <atomic>

namespace ramet {

uint32_t WordCache::new_owner() {
  static std::atomic<uint32_t> last{0};
  return ++last;
}

}  // namespace ramet
