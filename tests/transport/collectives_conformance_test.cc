// One suite of checks (support/collectives_checks.h) for all transports: threads of one process and the null transport
// here, MPI in collectives_mpi_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "ramet/base/error.h"
#include "ramet/transport/null_transport.h"
#include "ramet/transport/thread_transport.h"
#include "support/collectives_checks.h"
#include "support/devices.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

using testing::HasSubstr;

std::vector<std::string> run_devices(Transports& endpoints, const std::function<void(Transport&)>& body) {
  return on_devices(endpoints, [&](size_t device) { body(*endpoints[device]); });
}

class Threads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Conformance, Threads, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9));

TEST_P(Threads, CollectivesGiveTheBitsOfTheTree) {
  Transports endpoints = make_thread_transports(GetParam());
  const bool odd = GetParam() % 2 == 1;
  expect_none(run_devices(endpoints, [&](Transport& transport) {
    checks::check_collectives(transport, {{Algorithm::kShared, Algorithm::kHalving}, odd, GetParam() > 4});
  }));
}

TEST_P(Threads, Messages) {
  Transports endpoints = make_thread_transports(GetParam());
  expect_none(run_devices(endpoints, [](Transport& transport) { checks::check_messages(transport, false); }));
}

TEST_P(Threads, ManyCallsBackToBack) {
  Transports endpoints = make_thread_transports(GetParam());
  expect_none(run_devices(endpoints, [](Transport& transport) { checks::check_back_to_back(transport, 2000, false); }));
}

/// A receiver may want a message that was sent after many others.
TEST(ThreadMessages, HoldAsManyMessagesAsTheyWereMadeFor) {
  for (const int held : {1, 3, 64, 200}) {
    SCOPED_TRACE(held);
    Transports endpoints = make_thread_transports(2, {.time_limit = std::chrono::seconds(10), .messages = held});
    expect_none(run_devices(endpoints, [&](Transport& transport) {
      std::vector<int64_t> values(static_cast<size_t>(held));
      std::vector<Ticket> tickets;
      for (int i = 0; i < held; ++i) {
        const int tag = transport.device() == 0 ? i : held - 1 - i;
        int64_t& value = values[static_cast<size_t>(tag)];
        if (transport.device() == 0) value = 7 * tag;
        tickets.push_back(transport.device() == 0 ? transport.start_send(1, tag, &value, sizeof value)
                                                  : transport.start_receive(0, tag, &value, sizeof value));
        if (transport.device() == 1) transport.wait(tickets.back());
      }
      if (transport.device() == 0)
        for (const Ticket ticket : tickets) transport.wait(ticket);
      for (int i = 0; i < held; ++i)
        if (values[static_cast<size_t>(i)] != 7 * i) throw std::runtime_error(fmt::format("message {}", i));
    }));
  }
}

TEST(NullTransport, Conforms) {
  Transports endpoints = make_null_transport();
  expect_none(run_devices(endpoints, [](Transport& transport) {
    checks::check_collectives(transport, {{Algorithm::kAuto}, true, true});
    checks::check_messages(transport, false);
    checks::check_back_to_back(transport, 100, false);
  }));
}

TEST(NullTransport, AMessageWithoutItsOtherSideFailsAtOnce) {
  Transports endpoints = make_null_transport();
  int value = 0;
  const Ticket ticket = endpoints[0]->start_receive(0, 3, &value, 4);
  try {
    endpoints[0]->wait(ticket);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("receive of 4 bytes on device 0 itself: its other side was never started"));
  }
  EXPECT_TRUE(endpoints[0]->stopped());
}

// ---- Faults between threads

TransportOptions quick_options() {
  TransportOptions options;
  options.time_limit = std::chrono::milliseconds(300);
  options.label_text = [](int, int label) { return fmt::format("layer {} forward, all-gather", label); };
  return options;
}

TEST(ThreadFaults, WhoDoesNotComeIsNamed) {
  Transports endpoints = make_thread_transports(4, quick_options());
  std::atomic<int> done{0};
  const auto errors = run_devices(endpoints, [&](Transport& transport) {
    Collectives all(transport, Group::all(4));
    float value = 1;
    for (uint64_t superstep = 0;; ++superstep) {
      if (transport.device() == 2 && superstep == 813) {
        while (done < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return;
      }
      try {
        all.all_reduce(&value, &value, 1, DType::kF32, Reduction::kMax);
      } catch (...) {
        ++done;
        throw;
      }
      transport.finish_superstep(superstep, 7);
    }
  });
  EXPECT_EQ(errors[2], "");
  int first = 0;
  for (const int device : {0, 1, 3}) {
    const std::string& error = errors[static_cast<size_t>(device)];
    first += !testing::Value(error, HasSubstr("the run was stopped by device"));
    EXPECT_THAT(error, HasSubstr("all-reduce of 1 f32 by max among devices 0..3, on device"));
    EXPECT_THAT(
        error,
        HasSubstr("no answer within 0.3 s; found device 2 last finished superstep 812 (layer 7 forward, all-gather); "
                  "others wait in 813. See what holds that device up, then resume from the last checkpoint"));
  }
  EXPECT_GE(first, 1);
}

TEST(ThreadFaults, AMessageThatNeverComes) {
  Transports endpoints = make_thread_transports(2, quick_options());
  const auto errors = run_devices(endpoints, [&](Transport& transport) {
    char byte = 0;
    if (transport.device() == 0) transport.receive(1, 9, &byte, 1);
  });
  EXPECT_THAT(
      errors[0],
      HasSubstr("receive of 1 bytes from device 1 (tag 9), on device 0: no answer within 0.3 s; found device 1 has "
                "finished no superstep yet"));
}

// Device 0 waits for 1, which came later and waits for 2: the one that holds up both.
TEST(ThreadFaults, WhoHoldsUpWhoIsAwaitedIsNamed) {
  Transports endpoints = make_thread_transports(3, quick_options());
  const auto errors = run_devices(endpoints, [&](Transport& transport) {
    char byte = 0;
    if (transport.device() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(150));
    if (transport.device() < 2) transport.receive(transport.device() + 1, 9, &byte, 1);
  });
  EXPECT_THAT(errors[0], HasSubstr("receive of 1 bytes from device 1 (tag 9), on device 0: no answer within 0.3 s; "
                                   "found device 2 has finished no superstep yet"));
}

TEST(ThreadFaults, SizesThatDiffer) {
  Transports endpoints = make_thread_transports(2, quick_options());
  const auto errors = run_devices(endpoints, [&](Transport& transport) {
    char bytes[8] = {};
    if (transport.device() == 0)
      transport.send(1, 1, bytes, 8);
    else
      transport.receive(0, 1, bytes, 4);
  });
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("message from device 0 to device 1 (tag 1)"));
  EXPECT_THAT(errors[0] + errors[1], HasSubstr("sizes differ; found 8 bytes sent, 4 bytes to be received"));
}

TEST(ThreadFaults, CallsThatDiffer) {
  Transports endpoints = make_thread_transports(3, quick_options());
  const auto errors = run_devices(endpoints, [&](Transport& transport) {
    Collectives all(transport, Group::all(3));
    std::vector<float> data(100);
    all.all_reduce(data.data(), data.data(), transport.device() == 2 ? 96 : 100, DType::kF32);
  });
  for (const std::string& error : errors)
    EXPECT_THAT(
        error,
        HasSubstr(
            "members' calls differ; found device 0 calls all-reduce of 100 f32 by sum, device 2 calls all-reduce of "
            "96 f32 by sum"));
}

TEST(ThreadFaults, StoppingEndsEveryWait) {
  Transports endpoints = make_thread_transports(4);
  const auto errors = run_devices(endpoints, [&](Transport& transport) {
    Collectives all(transport, Group::all(4));
    char byte = 0;
    switch (transport.device()) {
      case 0: all.barrier(); break;
      case 1: transport.receive(3, 1, &byte, 1); break;
      case 2: transport.send(3, 1, &byte, 1); break;
      default:
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        transport.stop("the disk is full");
        transport.stop("a second reason");
        transport.check();
    }
  });
  EXPECT_THAT(
      errors[0],
      HasSubstr("barrier among devices 0..3, on device 0: the run was stopped by device 3; found the disk is full"));
  EXPECT_THAT(errors[1],
              HasSubstr("receive of 1 bytes from device 3 (tag 1), on device 1: the run was stopped by device 3"));
  EXPECT_THAT(errors[2],
              HasSubstr("send of 1 bytes to device 3 (tag 1), on device 2: the run was stopped by device 3"));
  EXPECT_THAT(errors[3], HasSubstr("device 3: the run was stopped by device 3; found the disk is full"));
  EXPECT_THROW(endpoints[0]->start_send(1, 1, "", 1), Error);
}

// ---- Wrong use

TEST(WrongUse, IsRefusedWithWords) {
  Transports endpoints = make_thread_transports(4);
  Transport& transport = *endpoints[0];
  EXPECT_THAT(error_of([] { make_thread_transports(0); }),
              HasSubstr("wrong number of devices; found 0; expected 1 to 1024"));
  EXPECT_THAT(error_of([&] { Collectives(transport, Group{{1, 2}}); }),
              HasSubstr("the device is not in the group; found device 0"));
  EXPECT_THAT(error_of([&] { Collectives(transport, Group{{0, 1, 1}}); }),
              HasSubstr("stands twice in the group; found 0, 1, 1"));
  EXPECT_THAT(error_of([&] { Collectives(transport, Group{{0, 9}}); }),
              HasSubstr("that there is not; found 0, 9; expected 0 to 3"));
  EXPECT_THAT(
      error_of([&] { Collectives(transport, Group::all(4), {ExactBits::kExact, Algorithm::kRing}); }),
      HasSubstr("a ring adds in an order of its own; found ring with exact bits; expected halving, or fast bits"));
  EXPECT_THAT(error_of([&] { transport.start_send(4, 0, nullptr, 0); }),
              HasSubstr("send to a device that there is not; found device 4"));
  EXPECT_THAT(error_of([&] { transport.start_receive(1, -1, nullptr, 0); }), HasSubstr("negative tag; found -1"));
  Collectives alone(transport, Group{{0}});
  float data[8] = {};
  EXPECT_THAT(error_of([&] { alone.all_reduce(data, data, -1, DType::kF32); }),
              HasSubstr("negative count for all-reduce; found -1"));
  EXPECT_THAT(error_of([&] { alone.all_reduce(data, data, 1, DType::kU8); }),
              HasSubstr("all-reduce of a type that is not added; found u8; expected f32, bf16, f16, i32 or i64"));
  EXPECT_THAT(error_of([&] { alone.broadcast(data, 1, DType::kF32, 1); }),
              HasSubstr("broadcast with a root that there is not; found 1"));
  EXPECT_THAT(error_of([&] { alone.all_reduce(data, data + 1, 4, DType::kF32); }),
              HasSubstr("buffers of all-reduce overlap"));
  EXPECT_THAT(error_of([&] { alone.all_reduce(nullptr, data, 4, DType::kF32); }),
              HasSubstr("no buffer given to all-reduce"));
  EXPECT_THAT(error_of([&] { alone.all_reduce(reinterpret_cast<char*>(data) + 1, data, 1, DType::kF32); }),
              HasSubstr("is not aligned to its elements"));
  EXPECT_THAT(error_of([&] { transport.wait(Ticket{77}); }), HasSubstr("ticket 77 is not under way on device 0"));
}

TEST(Groups, AreTheOnesOfTheLayout) {
  EXPECT_EQ(Group::all(3).members, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(Group::consecutive(5, 4).members, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(Group::strided(5, 2, 2).members, (std::vector<int>{5, 7}));
  EXPECT_EQ(Group::strided(6, 2, 2).members, (std::vector<int>{4, 6}));
  EXPECT_EQ(Group::orthogonal(5, 4, 12).members, (std::vector<int>{1, 5, 9}));
  EXPECT_EQ(Group::all(8).text(), "0..7");
  EXPECT_EQ(Group::strided(0, 3, 2).text(), "0, 2, 4");
  EXPECT_THAT(error_of([] { Group::orthogonal(0, 3, 8); }),
              HasSubstr("groups that do not divide the devices; found 8 devices in groups of 3"));
  EXPECT_THAT(error_of([] { Group::strided(0, 0, 1); }), HasSubstr("found device 0, 0 parts, stride 1"));
}

TEST(Parts, CoverTheWholeInOrder) {
  for (const int64_t count : {0, 1, 7, 8, 100})
    for (int parts = 1; parts < 10; ++parts) {
      int64_t end = 0;
      for (int part = 0; part < parts; ++part) {
        const PartRange range = part_range(count, parts, part);
        EXPECT_EQ(range.begin, end);
        EXPECT_LE(range.count() - count / parts, 1);
        end = range.end;
      }
      EXPECT_EQ(end, count);
    }
}

}  // namespace
}  // namespace ramet::tests
