#include "ramet/train/numerics.h"

#include <algorithm>
#include <numeric>

#include "ramet/base/error.h"

namespace ramet::train {
namespace {

using Kind = NumericsRow::Kind;

double share(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole));
}

struct Shares {
  double overflow = 0, underflow = 0, subnormal = 0;
};
Shares shares_of(const int64_t* bins, const NumericRange& range) {
  const int64_t all = counted(bins);
  return {share(counted_from(bins, range.most + 1), all), share(counted_below(bins, range.least), all),
          share(counted_below(bins, range.normal) - counted_below(bins, range.least), all)};
}

/// What a tensor of this kind meets on its way through the model.
std::string compute_type(Kind kind, const std::string& precision) {
  if (precision != "f8") return precision;
  // Products read weights in f8; their gradients are made in f16.
  return kind == Kind::kWeight ? "f8e4m3" : "f16";
}

}  // namespace

NumericRange numeric_range(const std::string& type) {
  if (type == "f32") return {type, 127, -126, -149};
  if (type == "bf16") return {type, 127, -126, -133};
  if (type == "f16") return {type, 15, -14, -24};
  if (type == "f8e4m3") return {type, 8, -6, -9};
  if (type == "f8e5m2") return {type, 15, -14, -16};
  internal_error("numeric_range", "no floating type '" + type + "'");
}

bool NumericsFinding::out_of_range() const { return overflow > 0 || underflow > kMostUnderflow; }

const NumericsFinding* NumericsReport::first_out_of_range() const {
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [](const NumericsFinding& finding) { return finding.out_of_range(); });
  return found == findings.end() ? nullptr : &*found;
}

NumericsReport judge_numerics(std::vector<NumericsRecord> records, const TrainOptions& options, int64_t step) {
  NumericsReport report{.step = step, .precision = options.precision, .findings = {}};
  for (NumericsRecord& record : records) {
    NumericsFinding finding;
    const Kind kind = record.row.kind;
    const NumericRange compute = numeric_range(compute_type(kind, options.precision));
    const bool computed = kind == Kind::kWeight || kind == Kind::kGradient;
    finding.range = computed ? compute : numeric_range(std::string(name_of(record.row.type.dtype)));
    const int64_t* bins = record.bins.data();
    finding.zeros = bins[kZeroBin];
    finding.elements = counted(bins) + finding.zeros;
    const Shares own = shares_of(bins, finding.range), other = shares_of(bins, compute);
    finding.overflow = own.overflow, finding.underflow = own.underflow, finding.subnormal = own.subnormal;
    finding.compute_overflow = other.overflow, finding.compute_underflow = other.underflow;
    finding.record = std::move(record);
    report.findings.push_back(std::move(finding));
  }
  return report;
}

}  // namespace ramet::train
