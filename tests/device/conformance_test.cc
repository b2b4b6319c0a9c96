#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "device/test_kernels.h"
#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/device/cpu_device.h"
#include "ramet/device/cuda/cuda_device.h"
#include "ramet/device/loopback_device.h"
#include "ramet/transport/collectives_kernels.h"
#include "support/test_card.h"

// What device.h says of every device, held against each. A new back end adds a line to the table at the end.

namespace ramet::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Make = std::unique_ptr<Device> (*)(int threads);
using Calls = std::vector<std::function<void()>>;

struct Kind {
  const char* name;
  Make make;
  std::unique_ptr<TestKernels> (*kernels)();
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

constexpr int64_t kBytes = kCount * 4;

std::vector<float> numbers(float first) {
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::string text_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

class DeviceTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (std::string(GetParam().name) == "cuda")
      if (const std::string why = choose_test_card(); !why.empty()) GTEST_SKIP() << why;
    kernels_ = GetParam().kernels();
    device_ = GetParam().make(2);
    queue_ = device_->make_queue();
    twice_plus_one_ = kernels_->twice_plus_one(), slow_ = kernels_->slow(), bad_ = kernels_->bad();
  }
  DeviceMemory take(int64_t bytes) { return device_->take(bytes, Memory::kDevice, "a test"); }
  DeviceMemory take_pinned(int64_t bytes) { return device_->take(bytes, Memory::kPinned, "a test"); }
  DeviceMemory device_floats(const std::vector<float>& values) {
    DeviceMemory memory = take(static_cast<int64_t>(values.size() * 4));
    queue_->copy_in(memory.data(), values.data(), memory.bytes());
    return memory;
  }
  std::vector<float> floats_at(const std::byte* address, int64_t count = kCount) {
    std::vector<float> values(static_cast<size_t>(count));
    queue_->copy_out(values.data(), address, count * 4);
    return values;
  }
  /// The lists may change as soon as the call has returned, so they do.
  static void launch(Queue& queue, const Kernel& kernel, std::vector<const void*> inputs, std::vector<void*> outputs,
                     void* scratch = nullptr) {
    queue.launch(kernel, {inputs, outputs, scratch});
    std::fill(inputs.begin(), inputs.end(), nullptr);
    std::fill(outputs.begin(), outputs.end(), nullptr);
  }

  std::unique_ptr<TestKernels> kernels_;
  std::unique_ptr<Kernel> twice_plus_one_, slow_, bad_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_;
};

TEST_P(DeviceTest, SaysWhatItIs) {
  EXPECT_EQ(device_->name(), GetParam().name);
  EXPECT_EQ(device_->threads(), 2);
}

TEST_P(DeviceTest, MemoryIsZeroAlignedAndCounted) {
  for (const Memory kind : {Memory::kDevice, Memory::kPinned}) {
    DeviceMemory memory = device_->take(12345, kind, "a test");
    EXPECT_EQ(memory.bytes(), 12345);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 4096, 0u);
    EXPECT_EQ(device_->taken(kind), 12345);
    std::vector<char> found(12345, 'x');
    if (kind == Memory::kDevice)
      queue_->copy_out(found.data(), memory.data(), 12345);
    else
      std::memcpy(found.data(), memory.data(), 12345);
    EXPECT_EQ(found, std::vector<char>(12345, 0));
    DeviceMemory moved = std::move(memory);
    EXPECT_EQ(device_->taken(kind), 12345);
    moved.reset();
    EXPECT_EQ(device_->taken(kind), 0);
  }
  EXPECT_NE(take(0).data(), nullptr);
}

TEST_P(DeviceTest, HiddenMemoryFaultsWhenTheHostReadsIt) {
  if (device_->addressable()) GTEST_SKIP() << "the host may read this device's memory";
  const DeviceMemory memory = take(64);
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH({ (void)*const_cast<volatile std::byte*>(memory.data()); }, "");
}

TEST_P(DeviceTest, ManyAllocationsKeepTheirContents) {
  std::vector<DeviceMemory> blocks;
  const auto bytes_of = [](int i) { return int64_t{1} + i * 7; };
  int64_t bytes = 0;
  for (int i = 0; i < 200; ++i) {
    blocks.push_back(take(bytes_of(i)));
    queue_->fill(blocks.back().data(), static_cast<uint8_t>(i), blocks.back().bytes());
    if (i % 3 != 0) {
      bytes += bytes_of(i);
      continue;
    }
    // Every third goes at once, and its place may be given again.
    queue_->wait();
    blocks.back().reset();
  }
  for (int i = 0; i < 200; ++i) {
    if (i % 3 == 0) continue;
    std::vector<uint8_t> found(static_cast<size_t>(bytes_of(i)));
    queue_->copy_out(found.data(), blocks[static_cast<size_t>(i)].data(), bytes_of(i));
    EXPECT_EQ(found, std::vector<uint8_t>(found.size(), static_cast<uint8_t>(i))) << i;
  }
  EXPECT_EQ(device_->taken(Memory::kDevice), bytes);
}

TEST_P(DeviceTest, CopiesInWithinAndOut) {
  const DeviceMemory a = device_floats(numbers(1)), b = take(kBytes);
  queue_->copy(b.data() + 40, a.data(), kBytes - 40);
  queue_->copy(a.data(), a.data(), kBytes);  // the same range
  std::vector<float> expected(10, 0);
  for (int i = 0; i < kCount - 10; ++i) expected.push_back(static_cast<float>(i + 1));
  EXPECT_EQ(floats_at(b.data()), expected);
  EXPECT_EQ(floats_at(a.data()), numbers(1));
  queue_->copy_in(b.data(), nullptr, 0);  // nothing at all
  EXPECT_EQ(floats_at(b.data()), expected);
}

TEST_P(DeviceTest, PlainMemoryMayChangeWhenCopyInReturns) {
  const DeviceMemory a = take(kBytes);
  launch(*queue_, *slow_, {}, {a.data()});
  std::vector<float> values = numbers(5);
  queue_->copy_in(a.data(), values.data(), kBytes);
  values.assign(kCount, -1);
  EXPECT_EQ(floats_at(a.data()), numbers(5));
}

TEST_P(DeviceTest, PinnedMemoryIsThereAfterAWait) {
  const DeviceMemory pinned = take_pinned(kBytes), back = take_pinned(kBytes), a = take(kBytes);
  const std::vector<float> values = numbers(3);
  std::memcpy(pinned.data(), values.data(), kBytes);
  queue_->copy_in(a.data(), pinned.data(), kBytes);
  launch(*queue_, *twice_plus_one_, {a.data()}, {a.data()});
  const Event event = queue_->read(back.data(), a.data(), kBytes);
  queue_->wait(event);
  EXPECT_TRUE(queue_->done(event));
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(reinterpret_cast<const float*>(back.data())[i], values[i] * 2 + 1);
}

TEST_P(DeviceTest, CopiesFromEveryKindOfDevice) {
  for (const Make make : {&make_cpu_device, &make_loopback_device}) {
    const auto other = make(1);
    const DeviceMemory theirs = other->take(kBytes, Memory::kDevice, "a test"), mine = take(kBytes);
    const auto their_queue = other->make_queue();
    their_queue->copy_in(theirs.data(), numbers(9).data(), kBytes);
    their_queue->wait();
    queue_->copy_from(mine.data(), *other, theirs.data(), kBytes);
    EXPECT_EQ(floats_at(mine.data()), numbers(9)) << other->name();
  }
}

TEST_P(DeviceTest, Fills) {
  const DeviceMemory a = device_floats(numbers(1));
  queue_->fill(a.data() + 4, 0, 8);
  queue_->fill(a.data() + 16, 0x41, 4);
  EXPECT_EQ(floats_at(a.data(), 6), (std::vector<float>{1, 0, 0, 4, std::bit_cast<float>(0x41414141u), 6}));
  // More than a team's share.
  const DeviceMemory large = take(1 << 20);
  queue_->fill(large.data(), 7, large.bytes());
  std::vector<uint8_t> all(1 << 20);
  queue_->copy_out(all.data(), large.data(), large.bytes());
  EXPECT_EQ(all, std::vector<uint8_t>(1 << 20, 7));
}

TEST_P(DeviceTest, TransposesRuns) {
  const DeviceMemory a = device_floats(numbers(0)), b = take(kBytes);
  queue_->transpose(b.data(), a.data(), 5, 10, 20 * 4);
  std::vector<float> expected;
  for (int column = 0; column < 10; ++column)
    for (int row = 0; row < 5; ++row)
      for (int i = 0; i < 20; ++i) expected.push_back(static_cast<float>((row * 10 + column) * 20 + i));
  EXPECT_EQ(floats_at(b.data()), expected);
  queue_->transpose(a.data(), b.data(), 10, 5, 20 * 4);
  EXPECT_EQ(floats_at(a.data()), numbers(0));
}

/// Lanes are summed by devices and replicas by collectives, and both must give the same bits.
TEST_P(DeviceTest, SumsAreThoseOfCollectives) {
  const RandomStream random(1, RandomPurpose::kTest, 0, 1);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kI64}) {
    const int64_t count = 40'003, bytes = count * static_cast<int64_t>(size_of(dtype));
    std::vector<std::byte> a(static_cast<size_t>(bytes)), b(a.size());
    uint64_t draw = 0;
    for (auto* operand : {&a, &b}) {
      for (std::byte& byte : *operand) byte = static_cast<std::byte>(random.uniform(draw++) * 256);
      // No NaN goes in: of two, the hardware chooses the one that is kept.
      for (int64_t i = 0; i < count; ++i)
        if (is_floating(dtype) && std::isnan(load_element(operand->data(), dtype, i)))
          store_element(operand->data(), dtype, i, i % 2 ? INFINITY : 1e-40);
    }
    std::vector<std::byte> expected = a, found(a.size());
    const std::byte* operands[] = {a.data(), b.data()};
    std::byte* out = expected.data();
    reduce_elements({.in = operands, .inputs = 2, .out = &out, .outputs = 1, .in_type = dtype, .out_type = dtype}, 0, 0,
                    count);
    const DeviceMemory to = take(bytes), from = take(bytes);
    queue_->copy_in(to.data(), a.data(), bytes);
    queue_->copy_in(from.data(), b.data(), bytes);
    queue_->add(to.data(), from.data(), dtype, count);
    queue_->copy_out(found.data(), to.data(), bytes);
    for (int64_t i = 0; i < count; ++i) {
      if (is_floating(dtype) && std::isnan(load_element(expected.data(), dtype, i))) {
        ASSERT_TRUE(std::isnan(load_element(found.data(), dtype, i))) << name_of(dtype) << " " << i;
        continue;
      }
      const size_t at = static_cast<size_t>(i) * size_of(dtype);
      ASSERT_EQ(std::memcmp(&found[at], &expected[at], size_of(dtype)), 0) << name_of(dtype) << " " << i;
    }
  }
  const DeviceMemory memory = take(64);
  EXPECT_THAT(text_of([&] { queue_->add(memory.data(), memory.data(), DType::kBool, 1); }),
              HasSubstr("a type that devices do not sum; found bool"));
}

TEST_P(DeviceTest, WorkIsDoneInOrder) {
  const DeviceMemory a = device_floats(std::vector<float>(kCount, 1));
  float expected = 1;
  for (int i = 0; i < 20; ++i) {
    launch(*queue_, *twice_plus_one_, {a.data()}, {a.data()});
    queue_->add(a.data(), a.data(), DType::kF32, kCount);
    expected = (expected * 2 + 1) * 2;
  }
  EXPECT_EQ(floats_at(a.data()), std::vector<float>(kCount, expected));
}

TEST_P(DeviceTest, KernelsGetTheirOperandsAndScratch) {
  const DeviceMemory memory = device_floats(numbers(0)), out = take(kBytes), scratch = take(kBytes);
  const auto kernel = kernels_->add_by_scratch();
  // Addresses within a block.
  launch(*queue_, *kernel, {memory.data(), memory.data() + 400}, {out.data(), out.data() + 400}, scratch.data() + 64);
  const std::vector<float> found = floats_at(out.data());
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(found[i], static_cast<float>(i + i + 100));
  EXPECT_EQ(found[100], 118.0f);
}

TEST_P(DeviceTest, QueuesWaitForEachOthersEvents) {
  const auto second = device_->make_queue();
  const DeviceMemory a = take(kBytes), b = take(kBytes);
  const auto slow_add = kernels_->slow_add();
  for (int round = 1; round <= 5; ++round) {
    launch(*queue_, *slow_add, {}, {a.data()});
    second->wait_for(queue_->record());
    second->copy(b.data(), a.data(), kBytes);
    queue_->wait_for(second->record());
    queue_->wait_for(Event{});  // nothing to wait for
    second->wait();
    ASSERT_EQ(floats_at(b.data()), std::vector<float>(kCount, static_cast<float>(round)));
  }
}

/// A launch on one queue and a copy and a launch on another go on at the same time: each launch waits for the other.
TEST_P(DeviceTest, QueuesOfAnAsynchronousDeviceOverlap) {
  if (device_->addressable()) GTEST_SKIP() << "this device does its work before a call returns";
  const auto meet = kernels_->meet();
  if (!meet) GTEST_SKIP() << "this card does one launch at a time";
  const auto second = device_->make_queue();
  const DeviceMemory came = take(64), a = take(64);
  launch(*queue_, *meet, {}, {came.data()});
  const Event event = queue_->record();
  EXPECT_FALSE(queue_->done(event));  // the call has not waited
  second->fill(a.data(), 1, 64);
  launch(*second, *meet, {}, {came.data()});
  second->wait();
  queue_->wait(event);
  int32_t found = 0;
  queue_->copy_out(&found, came.data(), 4);
  EXPECT_EQ(found, 2);
}

TEST_P(DeviceTest, CallsOfAnAsynchronousDeviceDoNotWait) {
  if (device_->addressable()) GTEST_SKIP() << "this device does its work before a call returns";
  const DeviceMemory a = take(64);
  launch(*queue_, *slow_, {}, {a.data()});
  queue_->fill(a.data(), 1, 64);
  const Event event = queue_->record();
  EXPECT_FALSE(queue_->done(event));
  queue_->wait(event);
  EXPECT_TRUE(queue_->done(event));
}

TEST_P(DeviceTest, StampsTellTimes) {
  const DeviceMemory a = take(64);
  double before = 0, between = 0, after = 0;
  queue_->stamp(&before);
  launch(*queue_, *slow_, {}, {a.data()});
  queue_->stamp(&between);
  queue_->stamp(&after);
  queue_->wait();
  EXPECT_GE(between - before, 0.02);
  EXPECT_GE(after, between);
  EXPECT_LT(after - before, 60);
}

TEST_P(DeviceTest, CapturedProgramsReplay) {
  const DeviceMemory a = device_floats(std::vector<float>(kCount, 1)), b = take(kBytes), pinned = take_pinned(kBytes),
                     back = take_pinned(kBytes);
  queue_->begin_capture();
  queue_->copy_in(b.data(), pinned.data(), kBytes);
  launch(*queue_, *twice_plus_one_, {a.data()}, {a.data()});
  queue_->add(a.data(), b.data(), DType::kF32, kCount);
  queue_->fill(b.data(), 0, kBytes);
  queue_->copy(b.data(), a.data(), kBytes / 2);
  queue_->copy_out(back.data(), b.data(), kBytes);
  const auto program = queue_->end_capture();
  EXPECT_EQ(floats_at(a.data(), 1), (std::vector<float>{1}));  // nothing has run
  float expected = 1;
  const auto second = device_->make_queue();
  for (int round = 0; round < 4; ++round) {
    // Pinned memory is read when the program runs.
    for (size_t i = 0; i < kCount; ++i) reinterpret_cast<float*>(pinned.data())[i] = static_cast<float>(round);
    Queue& queue = round % 2 ? *second : *queue_;
    queue.replay(*program);
    queue.wait();
    expected = expected * 2 + 1 + static_cast<float>(round);
    ASSERT_EQ(reinterpret_cast<const float*>(back.data())[0], expected);
    ASSERT_EQ(reinterpret_cast<const float*>(back.data())[kCount - 1], 0.0f);
  }
  EXPECT_EQ(floats_at(a.data()), std::vector<float>(kCount, expected));  // the queue works as before
}

TEST_P(DeviceTest, WhatCannotBeRecordedIsRefused) {
  const DeviceMemory a = take(64);
  float plain = 0;
  double seconds = 0;
  queue_->begin_capture();
  for (const auto& call :
       Calls{[&] { queue_->copy_in(a.data(), &plain, 4); }, [&] { queue_->copy_out(&plain, a.data(), 4); },
             [&] { queue_->copy_from(a.data(), *device_, a.data(), 4); }, [&] { queue_->stamp(&seconds); },
             [&] { queue_->wait_for(Event{}); }, [&] { queue_->wait(); }, [&] { queue_->begin_capture(); }})
    EXPECT_THAT(text_of(call), HasSubstr("recorded"));
  queue_->end_capture();
  EXPECT_THROW(queue_->end_capture(), Error);
}

TEST_P(DeviceTest, BadRangesAreNamed) {
  const DeviceMemory a = take(64), next = take(64);
  std::vector<std::byte> host(256);
  EXPECT_THAT(text_of([&] { queue_->copy_in(a.data() + 60, host.data(), 8); }),
              AllOf(HasSubstr(std::string(device_->name()) + " device, copy_in"),
                    HasSubstr("not within one block of the device's memory; found 8 bytes at")));
  for (const auto& call :
       Calls{[&] { queue_->copy_out(host.data(), a.data() - 1, 8); }, [&] { queue_->copy(a.data(), host.data(), 8); },
             [&] { queue_->copy(host.data(), a.data(), 8); }, [&] { queue_->fill(a.data(), 0, 65); },
             [&] { queue_->fill(a.data(), 0, -1); }, [&] { queue_->fill(nullptr, 0, 1); },
             [&] { queue_->transpose(a.data(), next.data(), 3, 3, 8); },
             [&] { queue_->add(a.data(), next.data(), DType::kF32, 17); }})
    EXPECT_THAT(text_of(call), HasSubstr("not within one block of the device's memory"));
  if (!device_->addressable()) {
    EXPECT_THAT(text_of([&] { launch(*queue_, *twice_plus_one_, {host.data()}, {a.data()}); }),
                HasSubstr("device, launch: an address is not in the device's memory"));
  }
}

TEST_P(DeviceTest, TooMuchMemoryIsRefusedAndNothingIsLost) {
  const DeviceMemory a = device_floats(numbers(2));
  for (const Memory kind : {Memory::kDevice, Memory::kPinned})
    EXPECT_THAT(text_of([&] { (void)device_->take(int64_t{1} << 60, kind, "the test's memory"); }),
                AllOf(HasSubstr("the test's memory: not enough memory"), HasSubstr("expected")));
  EXPECT_EQ(device_->taken(Memory::kDevice), kBytes);
  EXPECT_EQ(device_->taken(Memory::kPinned), 0);
  EXPECT_EQ(floats_at(a.data()), numbers(2));
}

TEST_P(DeviceTest, AKernelThatThrowsReachesTheWaiter) {
  const DeviceMemory a = device_floats(numbers(0));
  const Event before = queue_->record();
  EXPECT_EQ(text_of([&] {
              launch(*queue_, *bad_, {}, {a.data()});
              queue_->fill(a.data(), 0, kBytes);  // dropped
              queue_->wait(before);               // what came before is not at fault
              queue_->wait();
            }),
            "gather: an index is out of range");
  // The queue works again, and what stood behind the failure was never done.
  if (kernels_->drops_work()) EXPECT_EQ(floats_at(a.data()), numbers(0));
  queue_->copy_in(a.data(), numbers(0).data(), kBytes);
  queue_->add(a.data(), a.data(), DType::kF32, kCount);
  EXPECT_EQ(floats_at(a.data(), 3), (std::vector<float>{0, 2, 4}));
}

TEST_P(DeviceTest, AFailureReachesQueuesThatWaitForIt) {
  const DeviceMemory a = device_floats(numbers(0));
  const auto second = device_->make_queue();
  queue_->wait();
  Event failed;
  EXPECT_EQ(text_of([&] {
              launch(*queue_, *bad_, {}, {a.data()});
              failed = queue_->record();
              second->wait_for(failed);
              second->fill(a.data(), 0, kBytes);  // dropped
              second->wait();
            }),
            "gather: an index is out of range");
  if (!device_->addressable()) {
    // The failing queue's next wait throws the error as well, and so does a queue that waits for the event later.
    EXPECT_EQ(text_of([&] { queue_->wait(); }), "gather: an index is out of range");
    second->wait_for(failed);
    EXPECT_THAT(text_of([&] { second->wait(); }), HasSubstr("work that this queue waited for has failed"));
  }
  if (kernels_->drops_work()) EXPECT_EQ(floats_at(a.data()), numbers(0));
  second->fill(a.data(), 0, kBytes);
  second->wait();
  EXPECT_EQ(floats_at(a.data()), std::vector<float>(kCount, 0));
}

TEST_P(DeviceTest, AQueueMayGoWithWorkUndone) {
  const DeviceMemory a = take(64);
  for (int i = 0; i < 5; ++i) {
    const auto queue = device_->make_queue(), other = device_->make_queue();
    for (int k = 0; k < 3; ++k) launch(*queue, *slow_, {}, {a.data()});
    other->wait_for(queue->record());
    other->fill(a.data(), 1, 64);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceTest,
                         testing::Values(Kind{"cpu", &make_cpu_device, &host_test_kernels},
                                         Kind{"loopback", &make_loopback_device, &host_test_kernels},
                                         Kind{"cuda", &make_cuda_device, &cuda_test_kernels}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CpuDevice, AdoptsMemoryThatOthersAllocated) {
  const auto device = make_cpu_device(1);
  const auto queue = device->make_queue();
  std::vector<std::byte> host(128);
  {
    const DeviceMemory memory = device->adopt(host.data(), 128);
    queue->fill(memory.data(), 5, 128);
    EXPECT_EQ(device->taken(Memory::kDevice), 128);
  }
  EXPECT_EQ(device->taken(Memory::kDevice), 0);
  EXPECT_EQ(host, std::vector<std::byte>(128, std::byte{5}));
}

}  // namespace
}  // namespace ramet::tests
