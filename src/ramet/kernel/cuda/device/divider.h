#pragma once

// Division of indices by numbers that a launch knows: kernels divide by a product where indices are below 2^31.

namespace ramet_device {

struct Divider {
  long long divisor;
  unsigned magic, shift;  ///< n / divisor = (n magic >> 32) >> shift of n in [0, 2^31); magic 0: the divisor is 1
};

#ifndef __CUDACC__  // for the host alone
inline Divider divider_of(long long divisor) {
  Divider made{divisor, 0, 0};
  if (divisor < 2 || divisor >= 0x80000000ll) return made;
  unsigned bits = 1;  // of divisor - 1
  while (1ll << bits < divisor) ++bits;
  made.magic = static_cast<unsigned>(((1ull << (31 + bits)) + static_cast<unsigned long long>(divisor) - 1) /
                                     static_cast<unsigned long long>(divisor));
  made.shift = bits - 1;
  return made;
}
#endif

}  // namespace ramet_device
