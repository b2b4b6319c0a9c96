#include "ramet/base/thread_team.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/base/work_shares.h"

namespace ramet::tests {
namespace {

TEST(ThreadTeam, RunsEveryRankOnceInEveryRound) {
  for (int threads = 1; threads <= 8; ++threads) {
    ThreadTeam team(threads);
    ASSERT_EQ(team.size(), threads);
    std::vector<int> rounds(static_cast<size_t>(threads), 0);  // plain ints: each rank has its own
    for (int round = 0; round < 500; ++round) {
      team.run([&](int rank) { ++rounds[static_cast<size_t>(rank)]; });
      for (const int count : rounds) ASSERT_EQ(count, round + 1);
    }
  }
}

TEST(ThreadTeam, WorkersSeeWhatTheCallerWroteAndTheOtherWay) {
  ThreadTeam team(4);
  std::vector<int64_t> values(64, 1);
  for (int round = 0; round < 300; ++round) {
    team.run([&](int rank) {
      for (size_t i = static_cast<size_t>(rank) * 16; i < static_cast<size_t>(rank + 1) * 16; ++i) values[i] += round;
    });
    for (auto& value : values) value *= 1 + round % 2;
    for (auto& value : values) ASSERT_EQ(value, values[0]);
    for (auto& value : values) value %= 1000;
  }
}

TEST(ThreadTeam, SplitCoversEveryIndexOnceAtMultiplesOfTheGrain) {
  std::mt19937 random(1);
  for (int threads = 1; threads <= 8; ++threads) {
    ThreadTeam team(threads);
    for (int round = 0; round < 200; ++round) {
      const int64_t count = round < 20 ? round : random() % 2000;
      const int64_t grain = 1 + random() % (round % 3 ? 8 : 700);
      std::vector<int> touched(static_cast<size_t>(count), 0);
      std::vector<int64_t> sizes(static_cast<size_t>(threads), 0);
      team.split(count, grain, [&](int64_t begin, int64_t end, int rank) {
        EXPECT_LT(begin, end);
        EXPECT_EQ(begin % grain, 0);
        EXPECT_TRUE(end % grain == 0 || end == count);
        sizes[static_cast<size_t>(rank)] += end - begin;
        for (int64_t i = begin; i < end; ++i) ++touched[static_cast<size_t>(i)];
      });
      for (const int times : touched) ASSERT_EQ(times, 1) << count << " by " << grain << " on " << threads;
      // No thread has more than its share by over one block.
      const int64_t blocks = count ? (count - 1) / grain + 1 : 0;
      for (const int64_t size : sizes) ASSERT_LE(size, (blocks / threads + 1) * grain);
    }
  }
}

TEST(ThreadTeam, SplitTakesAnySizes) {
  ThreadTeam team(3);
  int calls = 0;
  team.split(0, 1, [&](int64_t, int64_t, int) { ++calls; });
  team.split(-5, 1, [&](int64_t, int64_t, int) { ++calls; });
  EXPECT_EQ(calls, 0);
  int64_t seen = 0;
  team.split(10, INT64_MAX, [&](int64_t begin, int64_t end, int) { seen += end - begin; });
  team.split(10, 0, [&](int64_t begin, int64_t end, int rank) {
    if (rank == 0) seen += begin + end;
  });
  EXPECT_EQ(seen, 10 + 3);
}

TEST(ThreadTeam, AnExceptionReachesTheCallerAfterAllHaveEnded) {
  for (int threads = 1; threads <= 8; ++threads) {
    ThreadTeam team(threads);
    for (int round = 0; round < 100; ++round) {
      const int thrower = round % threads;
      std::vector<int> ended(static_cast<size_t>(threads), 0);
      try {
        team.run([&](int rank) {
          if (rank == thrower) throw Error({.what = "round " + std::to_string(round)});
          ended[static_cast<size_t>(rank)] = 1;
        });
        FAIL() << "no exception";
      } catch (const Error& error) {
        ASSERT_EQ(error.what(), "round " + std::to_string(round));
      }
      ASSERT_EQ(std::accumulate(ended.begin(), ended.end(), 0), threads - 1);
      // The team goes on, and the old exception does not come back.
      std::atomic<int> ran{0};
      team.run([&](int) { ++ran; });
      ASSERT_EQ(ran, threads);
    }
  }
}

TEST(ThreadTeam, OneOfManyExceptionsArrives) {
  ThreadTeam team(8);
  for (int round = 0; round < 100; ++round)
    EXPECT_THROW(team.run([](int rank) { throw std::runtime_error(std::to_string(rank)); }), std::runtime_error);
}

TEST(ThreadTeam, SleepersWake) {
  ThreadTeam team(3);
  std::atomic<int> ran{0};
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 4));  // past the spinning, or not
    team.run([&](int) { ++ran; });
  }
  EXPECT_EQ(ran, 60);
}

TEST(ThreadTeam, TeamsComeAndGo) {
  for (int round = 0; round < 200; ++round) {
    ThreadTeam team(1 + round % 8);
    if (round % 3 == 0) continue;  // never used
    std::atomic<int> ran{0};
    team.run([&](int) { ++ran; });
    ASSERT_EQ(ran, team.size());
  }
}

TEST(ThreadTeam, TwoTeamsWorkSideBySide) {
  std::atomic<int> ran{0};
  const auto use = [&] {
    ThreadTeam team(2);
    for (int round = 0; round < 500; ++round) team.run([&](int) { ++ran; });
  };
  std::thread other(use);
  use();
  other.join();
  EXPECT_EQ(ran, 2000);
}

TEST(ThreadTeam, RefusesATaskWithinATask) {
  for (const int threads : {1, 2}) {
    ThreadTeam team(threads);
    try {
      team.run([&](int) { team.run([](int) {}); });
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).substr(0, 90),
                "ThreadTeam::run: internal error: a team was given a task before the last one had ended. Th");
    }
    std::atomic<int> ran{0};
    team.run([&](int) { ++ran; });
    EXPECT_EQ(ran, threads);
  }
}

TEST(ThreadTeam, RefusesWrongSizes) {
  for (const int threads : {0, -1, 4097, 1 << 30}) {
    try {
      ThreadTeam team(threads);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(),
                "a thread team of a wrong size; found " + std::to_string(threads) + " threads; expected 1 to 4096");
    }
  }
}

TEST(WorkShares, GiveEveryUnitOnce) {
  for (int threads = 1; threads <= 5; ++threads)
    for (const int64_t count : {0, 1, 3, 64, 1001}) {
      ThreadTeam team(threads);
      WorkShares shares(count, threads);
      std::vector<std::atomic<int>> taken(static_cast<size_t>(count));
      team.run([&](int rank) {
        for (int64_t unit; (unit = shares.take(rank)) >= 0;) ++taken[static_cast<size_t>(unit)];
      });
      for (const auto& times : taken) EXPECT_EQ(times, 1) << threads << " " << count;
    }
}

TEST(WorkShares, OneThreadTakesItsOwnFirstAndThenWhatOthersLeft) {
  WorkShares shares(7, 3);  // 0 1, 2 3, 4 5 6
  std::vector<int64_t> order;
  for (int64_t unit; (unit = shares.take(1)) >= 0;) order.push_back(unit);
  EXPECT_EQ(order, (std::vector<int64_t>{2, 3, 4, 5, 6, 0, 1}));
  EXPECT_EQ(shares.take(0), -1);
}

TEST(AvailableProcessors, RespectsAffinity) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(available_processors(), 1);
  EXPECT_LE(available_processors(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(available_processors(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace ramet::tests
