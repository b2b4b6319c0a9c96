#include <nlohmann/json.hpp>

#include "ramet/train/numerics.h"

namespace ramet::train {

std::string json_of(const NumericsReport& report) {
  using nlohmann::ordered_json;
  const auto name = [](const NumericsFinding& finding) {
    return std::string(name_of(finding.record.row.kind)) + " " + finding.record.row.name;
  };
  const NumericsFinding* first = report.first_out_of_range();
  ordered_json json = {{"step", report.step},
                       {"precision", report.precision},
                       {"first_out_of_range", first ? ordered_json(name(*first)) : ordered_json(nullptr)}};
  ordered_json tensors = ordered_json::array();
  for (const NumericsFinding& finding : report.findings) {
    const NumericsRow& row = finding.record.row;
    ordered_json exponents = ordered_json::object();
    for (int bin = 1; bin < kInfinityBin; ++bin)
      if (const int64_t count = finding.record.bins[static_cast<size_t>(bin)]) exponents[std::to_string(bin - 150)] = count;
    tensors.push_back({{"name", row.name},
                       {"kind", name_of(row.kind)},
                       {"op", row.op},
                       {"stage", row.stage},
                       {"type", name_of(row.type.dtype)},
                       {"elements", finding.elements},
                       {"zeros", finding.zeros},
                       {"range", finding.range.type},
                       {"overflow", finding.overflow},
                       {"underflow", finding.underflow},
                       {"subnormal", finding.subnormal},
                       {"compute_overflow", finding.compute_overflow},
                       {"compute_underflow", finding.compute_underflow},
                       {"infinities", finding.record.bins[kInfinityBin]},
                       {"nans", finding.record.bins[kNanBin]},
                       {"exponents", std::move(exponents)}});
  }
  json["tensors"] = std::move(tensors);
  return json.dump();
}

}  // namespace ramet::train
