#pragma once

#include <ramet/error.h>

#include <string>

namespace ramet::tests {

/// The text of the Error that an act throws, or "no error".
template <typename Act>
std::string error_of(const Act& act) {
  try {
    act();
  } catch (const v0::Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace ramet::tests
