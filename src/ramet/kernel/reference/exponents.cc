#include "ramet/ops/exponents.h"

#include <algorithm>

#include "ramet/kernel/reference/reference.h"

namespace ramet::kernel {
namespace {

void run_histogram(const ReferenceOperands& operands) {
  int64_t counts[kExponentBins] = {};
  for (int64_t i = 0; i < operands.input_type(0).elements(); ++i)
    ++counts[exponent_bin(static_cast<float>(operands.get(0, i)))];
  for (int bin = 0; bin < kExponentBins; ++bin) operands.set_int(0, bin, counts[bin]);
}

void run_sum(const ReferenceOperands& operands) {
  for (int bin = 0; bin < kExponentBins; ++bin) {
    int64_t sum = 0;
    for (int i = 0; i < operands.inputs(); ++i) sum += operands.get_int(i, bin);
    operands.set_int(0, bin, sum);
  }
}

void run_share(const ReferenceOperands& operands) {
  const auto* histogram = static_cast<const int64_t*>(operands.input_bytes(0));
  const int exponent = static_cast<int>(operands.attributes().get_int("exponent"));
  const bool below = operands.attributes().get_bool_or("below", false);
  const int64_t share = below ? counted_below(histogram, exponent) : counted_from(histogram, exponent);
  operands.set(0, 0, static_cast<double>(share) / static_cast<double>(std::max<int64_t>(1, counted(histogram))));
}

}  // namespace

void add_reference_exponents(Backend& backend) {
  add_reference(backend, "exponent_histogram", run_histogram);
  add_reference(backend, "histogram_sum", run_sum);
  add_reference(backend, "histogram_share", run_share);
}

}  // namespace ramet::kernel
