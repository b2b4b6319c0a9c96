#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace ramet::tests {

/// Which card tests of the device `cuda` have: the machine's where the environment variable RAMET_TEST_CARD is 1, else
/// the fake one of tests/fake_cuda/. To be called before anything asks the driver. Returns why there is neither, or "".
inline std::string choose_test_card() {
#ifndef RAMET_CUDA
  return "this build has no device cuda";
#else
  const char* real = std::getenv("RAMET_TEST_CARD");
  if (real && std::string(real) == "1") return "";
  const std::filesystem::path fake = std::filesystem::path(RAMET_BINARY_DIR) / "tests" / "libfake_cuda.so";
  if (!std::filesystem::exists(fake)) return "neither RAMET_TEST_CARD=1 nor " + fake.string() + " is there";
  for (const char* name : {"RAMET_CUDA_DRIVER", "RAMET_NVRTC"}) ::setenv(name, fake.c_str(), 1);
  return "";
#endif
}

/// Whether those tests run on a card of this machine.
inline bool has_real_card() {
  const char* real = std::getenv("RAMET_TEST_CARD");
  return real && std::string(real) == "1";
}

}  // namespace ramet::tests
