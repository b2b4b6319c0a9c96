#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "ramet/base/error.h"
#include "ramet/kernel/devices.h"
#include "ramet/runtime/device_store.h"
#include "ramet/runtime/staging.h"
#include "support/temporary.h"

// Bytes on their way between device memory and what takes the host's, for every kind of device.

namespace ramet::tests {
namespace {

struct Case {
  std::string device;
  bool file;
};

class DeviceStoreTest : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<StreamingStore> make_store(int64_t bytes) {
    if (GetParam().file) return make_file_store(bytes, {.folder = folder_.path()});
    return make_ram_store(bytes, device_.get());
  }
  void write(std::byte* to, const std::vector<uint8_t>& values) {
    queue_->copy_in(to, values.data(), static_cast<int64_t>(values.size()));
  }
  std::vector<uint8_t> read(const std::byte* from, int64_t bytes) {
    std::vector<uint8_t> values(static_cast<size_t>(bytes));
    queue_->copy_out(values.data(), from, bytes);
    return values;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Device> device_ = find_device(GetParam().device).make(2);
  DeviceMemory memory_ = device_->take(1 << 20, Memory::kDevice, "a test");
  std::unique_ptr<Queue> queue_ = device_->make_queue();
  Staging staging_{*device_, *queue_};
};

constexpr int64_t kBytes = 200'000;

std::vector<uint8_t> pattern(int seed, int64_t bytes = kBytes) {
  std::vector<uint8_t> values(static_cast<size_t>(bytes));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * 7 + i / 251 + static_cast<size_t>(seed));
  return values;
}

TEST_P(DeviceStoreTest, WhatIsStoredIsLoaded) {
  DeviceStore store(make_store(1 << 20), *device_, *queue_, staging_);
  std::byte* const a = memory_.data();
  std::byte* const b = memory_.data() + (1 << 19);
  write(a, pattern(1));
  const Ticket out = store.start_store(4096, a, kBytes);
  store.wait(out);
  queue_->fill(a, 0, kBytes);  // the program goes on when the transfer has been waited for
  const Ticket in = store.start_load(4096, b, kBytes);
  store.wait(in);
  EXPECT_EQ(read(b, kBytes), pattern(1));
  EXPECT_EQ(read(a, kBytes), std::vector<uint8_t>(kBytes, 0));
}

/// Transfers are started before those of the same range are waited for, as double buffers do.
TEST_P(DeviceStoreTest, TransfersOfOneRangeKeepTheirOrder) {
  DeviceStore store(make_store(1 << 20), *device_, *queue_, staging_);
  std::byte* const a = memory_.data();
  std::byte* const b = memory_.data() + (1 << 19);
  for (int round = 0; round < 6; ++round) {
    write(a, pattern(round));
    const Ticket out = store.start_store(0, a, kBytes);
    const Ticket in = store.start_load(100, b, kBytes - 100);  // overlaps
    const Ticket beside = store.start_load(1 << 19, b + (1 << 18), 5000);
    store.wait(beside);
    store.wait(in);
    store.wait(out);
    const std::vector<uint8_t> wanted = pattern(round);
    ASSERT_EQ(read(b, kBytes - 100), std::vector<uint8_t>(wanted.begin() + 100, wanted.end())) << round;
    ASSERT_EQ(read(b + (1 << 18), 5000), std::vector<uint8_t>(5000, 0));
  }
}

TEST_P(DeviceStoreTest, TheHostReadsAndWritesAfterTransfers) {
  DeviceStore store(make_store(1 << 20), *device_, *queue_, staging_);
  write(memory_.data(), pattern(3));
  store.wait(store.start_store(8192, memory_.data(), kBytes));
  std::vector<uint8_t> host(kBytes);
  store.load(8192, host.data(), kBytes);
  EXPECT_EQ(host, pattern(3));
  store.store(8192, pattern(4).data(), kBytes);
  store.wait(store.start_load(8192, memory_.data(), kBytes));
  EXPECT_EQ(read(memory_.data(), kBytes), pattern(4));
}

TEST_P(DeviceStoreTest, BadRangesAndTicketsAreInternalErrors) {
  DeviceStore store(make_store(8192), *device_, *queue_, staging_);
  EXPECT_THROW(store.start_load(4096, memory_.data(), 4097), Error);
  EXPECT_THROW(store.start_store(-1, memory_.data(), 1), Error);
  EXPECT_THROW(store.wait(Ticket{99}), Error);
}

TEST_P(DeviceStoreTest, StagingKeepsItsBlocks) {
  write(memory_.data(), pattern(5));
  int64_t first = 0;
  for (int round = 0; round < 5; ++round) {
    std::byte* const out = staging_.outgoing(memory_.data(), kBytes);
    EXPECT_EQ(std::memcmp(out, pattern(5).data(), kBytes), 0);
    std::byte* const place = memory_.data() + (1 << 19);
    std::byte* const in = staging_.incoming(place, kBytes);
    std::memcpy(in, out, kBytes);
    staging_.release(out);
    staging_.deliver(place, in, kBytes);
    EXPECT_EQ(read(place, kBytes), pattern(5));
    if (round == 0) first = staging_.bytes();
  }
  EXPECT_EQ(staging_.bytes(), first);
  EXPECT_EQ(first, device_->addressable() ? 0 : 2 * kBytes);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceStoreTest,
                         testing::Values(Case{"cpu", false}, Case{"cpu", true}, Case{"loopback", false},
                                         Case{"loopback", true}),
                         [](const auto& info) { return info.param.device + (info.param.file ? "_file" : "_ram"); });

}  // namespace
}  // namespace ramet::tests
