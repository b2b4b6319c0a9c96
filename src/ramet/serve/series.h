#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ramet/serve/api.h"

namespace ramet::serve {

/// What POST /api/v1/series asks for.
struct SeriesQuestion {
  std::vector<SeriesRequest> requests;
};
/// Reads its body:
///
///     {"requests": [{"run": id, "metric": name}, ...], "x": "step", "from": null, "to": null, "buckets": 600}
///
/// At most 256 requests, 1 to 20,000 buckets. Throws HttpFailure.
SeriesQuestion parse_series_question(const HttpRequest& request);

/// One answer as bytes, little-endian: u32 n, u32 flags (1: raw; 2: x is time although steps were asked for), f64 x[n],
/// then f64 min[n], max[n] unless raw, f64 last[n], and unless raw u32 count[n] and four zero bytes when n is odd.
void append_series(std::string& to, const Series& series, bool by_time);

HttpResponse answer_series(ApiCall& call);

}  // namespace ramet::serve
