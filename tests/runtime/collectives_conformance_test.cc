// One suite of checks (support/collectives_checks.h) for all transports: threads of one process, processes that share memory, the
// null transport; and MPI by tests/mpi/ranks.cc under mpirun, where there is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "ramet/base/error.h"
#include "ramet/runtime/null_transport.h"
#include "ramet/runtime/thread_transport.h"
#include "support/collectives_checks.h"

namespace ramet {
namespace {

using testing::HasSubstr;

/// Runs `body` on a thread for each device; returns the message of each that threw.
std::vector<std::string> run_devices(Transports& endpoints, const std::function<void(Transport&)>& body) {
  std::vector<std::string> errors(endpoints.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < endpoints.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        body(*endpoints[i]);
      } catch (const std::exception& error) {
        errors[i] = error.what();
        endpoints[i]->stop(errors[i]);  // or the others would wait
      }
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

void expect_none(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) EXPECT_EQ(error, "");
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

}  // namespace
}  // namespace ramet
