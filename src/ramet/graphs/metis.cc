// The only file that knows METIS.

#include <metis.h>

#include "ramet/base/error.h"
#include "ramet/graphs/transform.h"

namespace ramet::graphs {

static_assert(sizeof(idx_t) == 4, "METIS with indices of 32 bits, as Debian builds it");

bool has_metis() { return true; }

std::vector<int32_t> metis_parts(const std::vector<int32_t>& ptr, const std::vector<int32_t>& neighbours,
                                 int64_t parts) {
  auto nodes = static_cast<idx_t>(ptr.size() - 1), balanced = idx_t{1}, count = static_cast<idx_t>(parts),
       cut = idx_t{0};
  std::vector<int32_t> part(static_cast<size_t>(nodes));
  if (parts < 2 || nodes == 0) return part;
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_SEED] = 0;
  // The library's functions take pointers to mutable data that they do not change.
  auto* const rows = const_cast<idx_t*>(ptr.data());
  auto* const columns = const_cast<idx_t*>(neighbours.data());
  const int status = METIS_PartGraphKway(&nodes, &balanced, rows, columns, nullptr, nullptr, nullptr, &count, nullptr,
                                         nullptr, options, &cut, part.data());
  if (status != METIS_OK)
    throw Error({.what = "METIS could not partition the graph", .found = "status " + std::to_string(status)},
                ErrorKind::kFailure);
  return part;
}

}  // namespace ramet::graphs
