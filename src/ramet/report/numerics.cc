#include "ramet/report/numerics.h"

#include <algorithm>
#include <array>
#include <cstdio>

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

}  // namespace ramet::report
