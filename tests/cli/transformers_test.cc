#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace ramet::tests {
namespace {

/// A Python with transformers: RAMET_PEER_PYTHON, or that of scripts/setup.sh --peers.
std::string python() {
  const char* const given = std::getenv("RAMET_PEER_PYTHON");
  const std::string path = given ? given : std::string(RAMET_SOURCE_DIR) + "/.venv/bin/python";
  if (!std::filesystem::exists(path)) return "";
  return std::system(("'" + path + "' -c 'import transformers, torch' 2>/dev/null").c_str()) == 0 ? path : "";
}

TEST(Transformers, ReadsWhatIsExportedAndWritesWhatIsImported) {
  const std::string peer = python();
  if (peer.empty()) GTEST_SKIP() << "no Python with transformers: scripts/setup.sh --peers, or set RAMET_PEER_PYTHON";
  const std::string command = "'" + peer + "' '" + RAMET_SOURCE_DIR + "/scripts/weights.py' --ramet '" +
                              RAMET_BINARY_DIR + "/ramet'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace ramet::tests
