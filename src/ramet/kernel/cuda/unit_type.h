#pragma once

#include <cstdint>
#include <string>

namespace ramet::kernel::cuda {

/// The unsigned type that device code moves units of 1 to 16 bytes by.
inline std::string unit_type(int64_t bytes) {
  switch (bytes) {
    case 1: return "unsigned char";
    case 2: return "unsigned short";
    case 4: return "unsigned";
    case 8: return "unsigned long long";
    default: return "uint4";
  }
}

}  // namespace ramet::kernel::cuda
