// The conformance checks and the faults between MPI ranks: runs tests/mpi/ranks.cc under mpirun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ramet/base/error.h"
#include "ramet/transport/mpi_transport.h"
#include "support/mpi_ranks.h"

namespace ramet::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_mpi(); !why.empty()) GTEST_SKIP() << why;
  }
  /// `what`: "CHECK [DEVICES_PER_RANK [PRETENDED_HOSTS]]"
  static RanksOutcome ranks(int count, const std::string& what, const std::string& more = "") {
    return run_ranks(count, what, more);
  }
  static void expect_right(int count, const std::string& what) {
    const RanksOutcome outcome = ranks(count, what);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("all right")) << what << " among " << count;
  }
};

TEST_F(Mpi, CollectivesGiveTheBitsOfTheTree) {
  for (const int ranks : {1, 2, 3, 5, 8}) expect_right(ranks, "collectives");
}
TEST_F(Mpi, CollectivesOfMemoryThatPeersCannotReach) {
  for (const int ranks : {2, 3, 4}) expect_right(ranks, "own-memory");
}
TEST_F(Mpi, SeveralDevicesARank) {
  expect_right(2, "collectives 2");
  expect_right(2, "messages 3");
  expect_right(1, "collectives 3");
}
TEST_F(Mpi, BetweenHosts) {
  expect_right(4, "collectives 1 2");
  expect_right(3, "collectives 1 3");
  expect_right(2, "collectives 2 2");
  expect_right(4, "messages 1 2");
  expect_right(4, "many 1 2");
}
TEST_F(Mpi, Messages) { expect_right(4, "messages"); }
TEST_F(Mpi, ManyCallsBackToBack) { expect_right(4, "many"); }

// What is said of rank 1, which stops after it has finished superstep 19.
constexpr char kWhoHoldsUpWhom[] =
    "rank 1 last finished superstep 19 (layer 7 forward of stage 1, all-gather); others wait in 20";

TEST_F(Mpi, ARankThatIsKilledEndsTheOthersAtOnce) {
  const RanksOutcome outcome = ranks(4, "killed", "--enable-recovery");
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 has ended (process "));
  EXPECT_THAT(outcome.output, HasSubstr(kWhoHoldsUpWhom));
  EXPECT_THAT(outcome.output, HasSubstr("the run was stopped by rank"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("all right")));
  EXPECT_LT(outcome.seconds, 30);
}
TEST_F(Mpi, ARankThatIsHaltedEndsTheOthersByTheTimeLimit) {
  for (const std::string more : {"", "--enable-recovery"}) {
    const RanksOutcome outcome = ranks(4, "halted", more);
    EXPECT_THAT(outcome.output, HasSubstr("all-reduce of 4096 f32 by max among ranks 0..3"));
    EXPECT_THAT(outcome.output, HasSubstr("no answer within 2 s"));
    EXPECT_THAT(outcome.output, HasSubstr(kWhoHoldsUpWhom));
    EXPECT_LT(outcome.seconds, 30);
  }
}
TEST_F(Mpi, ARankThatIsSilentEndsTheOthersByTheTimeLimit) {
  const RanksOutcome outcome = ranks(4, "silent", "--enable-recovery");
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("no answer within 2 s; found rank 1"), HasSubstr(kWhoHoldsUpWhom)));
  EXPECT_LT(outcome.seconds, 30);
}
TEST_F(Mpi, StoppingReachesOtherHosts) {
  for (const std::string what : {"stopped", "stopped 1 2"}) {
    const RanksOutcome outcome = ranks(4, what, "--enable-recovery");
    EXPECT_THAT(outcome.output, HasSubstr("the run was stopped by rank 1; found the disk is full")) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("rank 3: the run was stopped by rank 1"));
    EXPECT_LT(outcome.seconds, 30);
  }
}
TEST_F(Mpi, AFaultEndsOtherHostsToo) {
  const RanksOutcome outcome = ranks(4, "killed 1 2", "--enable-recovery");
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 has ended (process "));
  EXPECT_THAT(outcome.output, HasSubstr("on rank 3: the run was stopped by rank 0")) << outcome.output;
  EXPECT_LT(outcome.seconds, 30);
}

TEST(NoMpi, SaysHowToGetIt) {
  if (mpi_built()) GTEST_SKIP() << "this build has MPI";
  try {
    MpiSession session;
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("this build of Ramet has no MPI"));
    EXPECT_THAT(error.what(), HasSubstr("Install libopenmpi-dev and openmpi-bin"));
  }
}

}  // namespace
}  // namespace ramet::tests
