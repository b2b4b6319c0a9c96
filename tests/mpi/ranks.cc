// One rank of an MPI job, started under mpirun by the tests of tests/transport:
//   test_mpi CHECK [DEVICES_PER_RANK [PRETENDED_HOSTS]]    the conformance checks of the transport
//   test_mpi training|tensors LAYOUT                       a training, the tensors of a program
//   test_mpi fault LAYOUT WHAT [RANK]                      a training with a fault on a rank, or on all
// The second and the third run in one process too, without mpirun. Without arguments there are no tests.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "mpi/training.h"
#include "ramet/base/error.h"
#include "ramet/transport/mpi_transport.h"
#include "support/collectives_checks.h"

namespace ramet::tests {
namespace {

using Check = std::function<void(Transport&, bool hosts)>;

std::string label_text(int device, int label) {
  return fmt::format("layer {} forward of stage {}, all-gather", label, device);
}

/// Supersteps of one all-reduce each; in superstep 20 the device 1 does what `fault` does.
void faulty_run(Transport& transport, const std::function<void()>& fault) {
  Collectives all(transport, Group::all(transport.devices()));
  checks::Buffer buffer(transport, 4096 * 4, true);
  auto* data = reinterpret_cast<float*>(buffer.data());
  std::fill(data, data + 4096, 1.0f);
  for (uint64_t superstep = 0; superstep < 1000; ++superstep) {
    if (superstep == 20 && transport.device() == 1) fault();
    all.all_reduce(data, data, 4096, DType::kF32, Reduction::kMax);
    transport.finish_superstep(superstep, 7);
  }
}

const std::map<std::string, Check>& known_checks() {
  static const std::map<std::string, Check> known{
      {"collectives",
       [](Transport& transport, bool hosts) {
         checks::Plan plan{{Algorithm::kAuto, Algorithm::kHalving}, true, true};
         if (!hosts) plan.algorithms = {Algorithm::kShared, Algorithm::kHalving};
         checks::check_collectives(transport, plan);
       }},
      {"own-memory",  // buffers that peers cannot reach
       [](Transport& transport, bool) { checks::check_collectives(transport, {{Algorithm::kAuto}, false, true}); }},
      {"messages",
       [](Transport& transport, bool) {
         checks::check_messages(transport, true);
         checks::check_messages(transport, false);
       }},
      {"many",
       [](Transport& transport, bool hosts) { checks::check_back_to_back(transport, hosts ? 200 : 2000, true); }},
      {"killed", [](Transport& transport, bool) { faulty_run(transport, [] { raise(SIGKILL); }); }},
      {"halted", [](Transport& transport, bool) { faulty_run(transport, [] { raise(SIGSTOP); }); }},
      {"stopped",
       [](Transport& transport, bool) { faulty_run(transport, [&] { transport.stop("the disk is full"); }); }},
      {"silent", [](Transport& transport,
                    bool) { faulty_run(transport, [] { std::this_thread::sleep_for(std::chrono::seconds(4)); }); }},
  };
  return known;
}

int run(const std::string& name, int devices_per_rank, int pretend_hosts) {
  const auto found = known_checks().find(name);
  if (found == known_checks().end()) {
    std::fprintf(stderr, "test_mpi: no check '%s'\n", name.c_str());
    return 2;
  }
  TransportOptions options;
  const bool faulty = name == "killed" || name == "halted" || name == "silent" || name == "stopped";
  options.time_limit = std::chrono::milliseconds(faulty ? 2000 : 60'000);
  options.label_text = label_text;
  MpiSession session;
  Transports endpoints = session.make_transports(devices_per_rank, options, pretend_hosts);
  std::vector<std::thread> threads;
  std::vector<std::string> errors(endpoints.size());
  for (size_t i = 0; i < endpoints.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        found->second(*endpoints[i], pretend_hosts > 1);
      } catch (const std::exception& error) {
        errors[i] = error.what();
        endpoints[i]->stop(errors[i]);
      }
    });
  for (auto& thread : threads) thread.join();
  bool failed = false;
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i].empty()) continue;
    failed = true;
    std::printf("%s: %s\n", endpoints[i]->text_of(endpoints[i]->device()).c_str(), errors[i].c_str());
  }
  endpoints.clear();
  const bool orderly = session.leave();
  if (!orderly || failed) exit_after_fault(3);
  if (session.rank() == 0) std::printf("all right: %s among %d ranks\n", name.c_str(), session.ranks());
  return 0;
}

bool is_of_training(const std::string& name) { return name == "training" || name == "tensors" || name == "fault"; }

/// `words`: the arguments behind the check's name.
int run_training(const std::string& name, const std::vector<std::string>& words) {
  const std::string layout = words.at(0);
  std::optional<MpiSession> session;
  if (started_by_mpi()) session.emplace();
  MpiSession* const mpi = session ? &*session : nullptr;
  bool failed = false;
  try {
    if (name == "training") check_training(mpi, layout);
    if (name == "tensors") check_tensors(mpi, layout);
    if (name == "fault") check_fault(mpi, layout, words.at(1), words.size() > 2 ? std::stoi(words[2]) : -1);
  } catch (const std::exception& error) {
    failed = true;
    std::printf("rank %d: %s\n", mpi ? mpi->rank() : 0, error.what());
    std::fflush(stdout);
  }
  const bool orderly = !mpi || mpi->leave();
  if (!orderly || failed) exit_after_fault(3);
  return 0;
}

}  // namespace
}  // namespace ramet::tests

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc < 2) return RUN_ALL_TESTS();
  try {
    if (ramet::tests::is_of_training(argv[1])) return ramet::tests::run_training(argv[1], {argv + 2, argv + argc});
    return ramet::tests::run(argv[1], argc > 2 ? std::atoi(argv[2]) : 1, argc > 3 ? std::atoi(argv[3]) : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "test_mpi: %s\n", error.what());
    return 1;
  }
}
