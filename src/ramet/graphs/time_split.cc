#include <algorithm>
#include <cmath>

#include "ramet/base/error.h"
#include "ramet/graphs/categories.h"
#include "ramet/graphs/transform.h"

namespace ramet::graphs {
namespace {

/// The value below which a share of sorted numbers lies, between two of them by linear interpolation (NumPy's default).
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace

void split_by_time(GraphTables& tables, const std::string& edges, const std::vector<int64_t>& shares) {
  const FieldTable* const table = tables.find(edges + ".time");
  if (!table)
    throw Error({.what = "a split by time needs edges that have a time",
                 .where = "split-by-time",
                 .found = "no field " + edges + ".time",
                 .remedy = "Read the events with `ramet graphs prepare events`"});
  const double total = static_cast<double>(shares[0] + shares[1] + shares[2]);
  if (!(total > 0))
    throw Error({.what = "the parts of a split are empty", .where = "split-by-time", .found = edges + ".time"});
  std::vector<double> times;
  for (int64_t i = 0; i < tables.count(table->field); ++i) times.push_back(field_number(table->field, table->bytes, i));
  if (times.empty()) throw Error({.what = "there are no edges to split", .where = "split-by-time"});
  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  const double first = quantile(sorted, static_cast<double>(shares[0]) / total),
               second = quantile(sorted, static_cast<double>(shares[0] + shares[1]) / total);
  std::vector<uint8_t> part;
  for (const double time : times) part.push_back(time <= first ? kTrain : time <= second ? kValidation : kTest);
  tables.set_field({.name = "split", .per = Per::kEdge, .of = edges, .dtype = DType::kU8, .values = split_names()},
                   part);
}

}  // namespace ramet::graphs
