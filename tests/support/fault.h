#pragma once

#include <functional>
#include <string>

#include "ramet/base/error.h"

namespace ramet::tests {

/// The message of the Error that `run` throws, or "".
inline std::string fault_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace ramet::tests
