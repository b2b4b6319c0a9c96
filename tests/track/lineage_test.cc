#include "ramet/track/lineage.h"

#include <gtest/gtest.h>

#include "ramet/base/file.h"
#include "support/temporary.h"
#include "track/made_run.h"

namespace ramet::tests {
namespace {

namespace fs = std::filesystem;

TEST(Lineage, KnowsTheRunTheCheckpointAndItsWeights) {
  const TemporaryFolder runs;
  const fs::path checkpoint = make_folder(runs.path(), "parent") / "checkpoints" / "step-00000004";
  fs::create_directories(checkpoint);
  write_file_atomic(checkpoint / "manifest.json", R"({"format":"ramet-checkpoint","weights_hash":"0123abcd"})");
  write_file_atomic(checkpoint / "weight-00001-of-00001.safetensors", "x");
  for (const fs::path& at : {checkpoint, checkpoint / "weight-00001-of-00001.safetensors"}) {
    const auto origin = origin_of(at, "forked");
    ASSERT_TRUE(origin) << at;
    EXPECT_EQ(origin->run, "parent");
    EXPECT_EQ(origin->checkpoint, "step-00000004");
    EXPECT_EQ(origin->weights_hash, "0123abcd");
  }
  for (const char* damaged : {"", "{", "[]", R"({"weights_hash":3})"}) {
    write_file_atomic(checkpoint / "manifest.json", damaged);
    EXPECT_EQ(origin_of(checkpoint, "resumed")->weights_hash, "") << damaged;
  }
  EXPECT_FALSE(origin_of(runs.path() / "nowhere", "resumed"));
  EXPECT_FALSE(origin_of(runs.path(), "resumed"));
}

}  // namespace
}  // namespace ramet::tests
