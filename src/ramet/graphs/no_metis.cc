// Takes the place of metis.cc in a build without METIS.

#include "ramet/base/error.h"
#include "ramet/graphs/transform.h"

namespace ramet::graphs {

bool has_metis() { return false; }

std::vector<int32_t> metis_parts(const std::vector<int32_t>&, const std::vector<int32_t>&, int64_t) {
  throw Error({.what = "this build of Ramet has no METIS",
               .remedy = "Build Ramet where libmetis-dev is installed, or read a partition from a file "
                         "(parts=FILE)"});
}

}  // namespace ramet::graphs
