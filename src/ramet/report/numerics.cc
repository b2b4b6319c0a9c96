#include "ramet/report/numerics.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace ramet::report {
namespace {

using Kind = NumericsRow::Kind;

std::string percent(double share) {
  char text[32];
  if (share == 0) return "0";
  std::snprintf(text, sizeof text, share < 1e-4 ? "%.1e" : "%.2f%%", share < 1e-4 ? share : 100 * share);
  return text;
}

/// "2^-12 to 2^3", the exponents between which all that is not 0 lies.
std::string reach(const NumericsRecord& record) {
  int low = -1, high = -1;
  for (int bin = 1; bin < kInfinityBin; ++bin)
    if (record.bins[static_cast<size_t>(bin)] > 0) low = low < 0 ? bin : low, high = bin;
  if (low < 0) return "nothing but 0";
  return "2^" + std::to_string(low - 150) + " to 2^" + std::to_string(high - 150);
}

std::string describe(const NumericsFinding& finding) {
  const NumericsRow& row = finding.record.row;
  const std::string what =
      row.kind == Kind::kActivation ? row.op + " '" + row.name + "'" : std::string(name_of(row.kind)) + " '" + row.name + "'";
  return what + ": " + percent(finding.overflow) + " overflow and " + percent(finding.underflow) + " underflow " +
         finding.range.type + "; " + reach(finding.record);
}

/// Lines of cells in columns; all but the first two align right.
std::string aligned(const std::vector<std::array<std::string, 7>>& rows) {
  std::array<size_t, 7> widths{};
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += (i ? "  " : "  ") + (i >= 2 && i < 6 ? space + row[i] : row[i] + space);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::string text_of(const NumericsReport& report, size_t most) {
  std::string text = "numerics of step " + std::to_string(report.step) + ", " +
                     std::to_string(report.findings.size()) + " tensors, precision " + report.precision + "\n";
  const NumericsFinding* first = report.first_out_of_range();
  text += first ? "first out of range: " + describe(*first) + "\n" : std::string("all within range\n");
  std::vector<const NumericsFinding*> worst;
  for (const NumericsFinding& finding : report.findings) worst.push_back(&finding);
  const auto badness = [](const NumericsFinding& finding) {
    return std::array{finding.overflow, finding.underflow, finding.subnormal, finding.compute_overflow,
                      finding.compute_underflow};
  };
  std::stable_sort(worst.begin(), worst.end(),
                   [&](const auto* a, const auto* b) { return badness(*a) > badness(*b); });
  if (worst.size() > most) worst.resize(most);
  std::vector<std::array<std::string, 7>> rows = {
      {"tensor", "type", "zeros", "overflow", "underflow", "subnormal", "not 0"}};
  for (const NumericsFinding* finding : worst) {
    const NumericsRow& row = finding->record.row;
    const double zeros = static_cast<double>(finding->zeros) /
                         static_cast<double>(std::max<int64_t>(1, finding->elements));
    const std::string type(name_of(row.type.dtype));
    rows.push_back({std::string(row.kind == Kind::kActivation ? row.op : name_of(row.kind)) + " " + row.name,
                    type == finding->range.type ? type : type + " as " + finding->range.type, percent(zeros),
                    percent(finding->overflow), percent(finding->underflow), percent(finding->subnormal),
                    reach(finding->record)});
  }
  return text + aligned(rows);
}

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

}  // namespace ramet::report
