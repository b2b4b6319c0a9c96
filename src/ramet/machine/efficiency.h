#pragma once

#include <string>
#include <vector>

#include "ramet/machine/machine.h"

namespace ramet::machine {

/// The words that Efficiency::op and Efficiency::shape may be.
const std::vector<std::string>& efficiency_classes();
const std::vector<std::string>& product_shapes();

/// "batched" of several at once; "deep" of a sum eight times as long as rows and columns are many; "flat" of eight
/// times more rows than columns or the other way; else "square".
std::string product_shape(const MatrixProduct& product);

/// Share of the peak that work of a class reaches: interpolated over log(size) between the points of the entries that
/// fit best (this shape before "any", this dtype before "any"), that of the nearest point beyond them, 1 without any.
double share_of_peak(const DeviceKind& device, const std::string& op, const std::string& dtype,
                     const std::string& shape, double size);

}  // namespace ramet::machine
