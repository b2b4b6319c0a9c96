#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "ramet/transport/process.h"
#include "ramet/transport/transport_balance.h"

namespace ramet::tests {
namespace {

TEST(Balance, WhoStandsInLineElsewhereIsMovedToAProcessorThatWouldBeIdle) {
  const std::vector<CrowdedDevice> neighbours = {{.processor = 1, .at_work = true},
                                             {.processor = 1, .at_work = false},
                                             {.processor = 1, .at_work = true, .in_line = true}};
  EXPECT_EQ(to_be_moved(neighbours, 0), 2);
}

TEST(Balance, WithNobodyKnownToStandInLineOneOfTwoIsMoved) {
  const std::vector<CrowdedDevice> neighbours = {
      {.processor = 2, .at_work = true}, {.processor = 1, .at_work = true}, {.processor = 1, .at_work = true}};
  EXPECT_EQ(to_be_moved(neighbours, 0), 1);
}

TEST(Balance, NobodyIsMovedWhereThatGainsNothing) {
  const CrowdedDevice here{.processor = 0, .at_work = true}, there{.processor = 1, .at_work = true}, asleep{.processor = 1},
      unknown{.processor = -1, .at_work = true};
  EXPECT_EQ(to_be_moved({}, 0), -1);
  EXPECT_EQ(to_be_moved(std::vector{there, asleep, asleep}, 0), -1) << "one alone goes on where it is";
  EXPECT_EQ(to_be_moved(std::vector{here, there, there}, 0), -1) << "this processor has work";
  EXPECT_EQ(to_be_moved(std::vector{unknown, unknown, there}, 0), -1) << "where they are is not known";
}

/// Where a thread that may run on one processor only is, the system says.
TEST(Balance, KnowsWhereAThreadIs) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const auto thread = static_cast<int>(syscall(SYS_gettid));
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(static_cast<size_t>(processor), &before)) continue;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(processor), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(processor_of_thread(getpid(), thread), processor);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(processor_of_thread(getpid(), -5), -1);
}

}  // namespace
}  // namespace ramet::tests
