#include "ramet/device/host_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "ramet/device/host_reserve.h"

namespace ramet::tests {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20, kPage = 4096;

int64_t resident_pages(std::byte* data, int64_t bytes) {
  std::vector<unsigned char> pages(static_cast<size_t>((bytes + kPage - 1) / kPage));
  if (mincore(data, static_cast<size_t>(bytes), pages.data()) != 0) return -1;
  return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
}

void expect_whole(const HostMemory& memory) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % (2 * kMiB), 0u);
  EXPECT_EQ(resident_pages(memory.data(), memory.bytes()), (memory.bytes() + kPage - 1) / kPage);
  EXPECT_TRUE(
      std::all_of(memory.data(), memory.data() + memory.bytes(), [](std::byte b) { return b == std::byte{0}; }));
  std::fill_n(memory.data(), memory.bytes(), std::byte{1});
}

TEST(HostMemory, IsWholeZeroedAndAligned) {
  ThreadTeam team(2);
  expect_whole(HostMemory(5 * kMiB + 100, team));
  expect_whole(HostMemory(1, team));
}

TEST(HostMemory, BeginsWithTheReserve) {
  ThreadTeam team(2);
  for (const int64_t bytes : {4 * kMiB, 5 * kMiB + 1, 8 * kMiB, 8 * kMiB + 1, 13 * kMiB + 4097}) {
    HostReserve reserve(8 * kMiB);
    EXPECT_FALSE(reserve.empty());
    {
      const HostMemory small(4 * kMiB - 1, team);
      EXPECT_FALSE(reserve.empty());
      expect_whole(small);
    }
    const HostMemory memory(bytes, team);
    EXPECT_TRUE(reserve.empty());
    expect_whole(memory);
    expect_whole(HostMemory(bytes, team));  // of its own
  }
}

TEST(HostMemory, AReserveIsTouchedMeanwhile) {
  HostReserve reserve(6 * kMiB + 5);
  const HostMapping memory = [&] {
    for (int i = 0; i < 2000 && HostReserve::touched() < 6 * kMiB + 5; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return HostReserve::claim(6 * kMiB + 5);
  }();
  ASSERT_NE(memory.mapping, nullptr);
  EXPECT_EQ(memory.touched, 6 * kMiB + 5);
  EXPECT_EQ(resident_pages(memory.data, memory.touched), 6 * 256 + 1);
  munmap(memory.mapping, memory.mapped);
}

TEST(HostMemory, AReserveGrows) {
  HostReserve reserve(3 * kMiB + 5);
  reserve.grow(kMiB + 4096);
  HostReserve::expect(2 * kMiB);          // it has more
  HostReserve::expect(int64_t{1} << 60);  // there is not so much
  reserve.grow(int64_t{1} << 60);
  HostReserve::expect(6 * kMiB + 7);
  for (int i = 0; i < 2000 && HostReserve::touched() < 6 * kMiB + 7; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(HostReserve::touched(), 6 * kMiB + 7);
  const HostMapping memory = HostReserve::claim(9 * kMiB);
  ASSERT_NE(memory.mapping, nullptr);
  EXPECT_EQ(memory.touched, 6 * kMiB + 7);
  EXPECT_EQ(resident_pages(memory.data, memory.touched), 6 * 256 + 1);
  munmap(memory.mapping, memory.mapped);
  reserve.grow(kMiB);  // it is gone
  EXPECT_TRUE(reserve.empty());
}

TEST(HostMemory, OneReserveAtATime) {
  {
    const HostReserve first(kMiB), second(kMiB), none(0);
    EXPECT_FALSE(first.empty());
    EXPECT_TRUE(second.empty());
    EXPECT_TRUE(none.empty());
    HostReserve::drop();
    EXPECT_TRUE(first.empty());
    HostReserve::drop();
    EXPECT_EQ(HostReserve::claim(4 * kMiB).mapping, nullptr);
  }
  EXPECT_FALSE(HostReserve(kMiB).empty());
  EXPECT_EQ(HostReserve::claim(4 * kMiB).mapping, nullptr);  // gone with its reserve
}

TEST(HostMemory, AReserveOfMoreThanThereIsTakesNothing) {
  if (available_memory() > int64_t{1} << 50) GTEST_SKIP() << "this system does not tell what it has";
  EXPECT_TRUE(HostReserve(available_memory() * 2).empty());
}

}  // namespace
}  // namespace ramet::tests
