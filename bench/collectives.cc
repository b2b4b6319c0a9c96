// Exact collectives of Ramet, between MPI ranks and between threads, beside Open MPI's own, in one job:
//   mpirun -n N build/bench/collectives [--most BYTES] [--seconds S]
// All of them on the same memory, f32 sums; all-reduce in place, the others from one buffer to another; sizes are those
// of the whole. Each line is a JSON object with the median seconds of a call. bench/collectives.py runs it for 2, 4 and
// 8 ranks, and Gloo beside.
#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "bench_tools.h"
#include "ramet/base/error.h"
#include "ramet/runtime/collectives.h"
#include "ramet/runtime/mpi_transport.h"
#include "ramet/runtime/thread_transport.h"

namespace {

using namespace ramet;
using Call = std::function<void()>;

enum class Kind { kAllReduce, kReduceScatter, kAllGather };
constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather};
constexpr const char* kKindNames[] = {"all-reduce", "reduce-scatter", "all-gather"};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// One device's buffers: `whole` and `other` of the largest size.
struct Buffers {
  std::byte *whole, *other;
  Buffers(Transport& transport, int64_t bytes)
      : whole(transport.allocate(static_cast<size_t>(bytes))), other(transport.allocate(static_cast<size_t>(bytes))) {
    for (std::byte* data : {whole, other})
      std::memset(data, 0, static_cast<size_t>(bytes));  // its pages are there from now on
  }
};

Call our_call(Collectives& group, const Buffers& at, Kind kind, int64_t bytes) {
  const int64_t count = bytes / 4;
  const PartRange part = part_range(count, group.size(), group.position());
  switch (kind) {
    case Kind::kAllReduce: return [&group, at, count] { group.all_reduce(at.whole, at.whole, count, DType::kF32); };
    case Kind::kReduceScatter:
      return [&group, at, count] { group.reduce_scatter(at.whole, at.other, count, DType::kF32); };
    case Kind::kAllGather:
      return [&group, at, count, part] { group.all_gather(at.other + part.begin * 4, at.whole, count, DType::kF32); };
  }
  return {};
}

Call mpi_call(int ranks, int rank, const Buffers& at, Kind kind, int64_t bytes) {
  const int count = static_cast<int>(bytes / 4), part = count / ranks;
  switch (kind) {
    case Kind::kAllReduce:
      return [=] { MPI_Allreduce(MPI_IN_PLACE, at.whole, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
    case Kind::kReduceScatter:
      return [=] { MPI_Reduce_scatter_block(at.whole, at.other, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
    case Kind::kAllGather:
      return [=] {
        MPI_Allgather(at.other + static_cast<int64_t>(rank) * part * 4, part, MPI_FLOAT, at.whole, part, MPI_FLOAT,
                      MPI_COMM_WORLD);
      };
  }
  return {};
}

/// Seconds a call, over `calls` of them one after another.
double timed(const Call& call, int calls) {
  const double began = bench::seconds();
  for (int i = 0; i < calls; ++i) call();
  return (bench::seconds() - began) / calls;
}

/// While it lives, the thread may run on every processor: mpirun ties ranks to processors of their own, threads of one
/// process are not.
class AllProcessors {
 public:
  AllProcessors() {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t all;
    CPU_ZERO(&all);
    for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); ++cpu) CPU_SET(static_cast<size_t>(cpu), &all);
    sched_setaffinity(0, sizeof(all), &all);
  }
  ~AllProcessors() { sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_;
};

/// Threads of rank 0, one a device, which do one batch of calls at a time.
class ThreadDevices {
 public:
  ThreadDevices(int devices, int64_t most)
      : team_(devices), endpoints_(make_thread_transports(devices)), results_(static_cast<size_t>(devices)) {
    for (auto& endpoint : endpoints_) {
      buffers_.emplace_back(*endpoint, most);
      groups_.push_back(std::make_unique<Collectives>(*endpoint, Group::all(devices)));
    }
  }
  double batch(Kind kind, int64_t bytes, int calls) {
    const AllProcessors everywhere;
    team_.run([&](int rank) {
      const auto i = static_cast<size_t>(rank);
      const Call call = our_call(*groups_[i], buffers_[i], kind, bytes);
      call();
      results_[i] = timed(call, calls);
    });
    return *std::max_element(results_.begin(), results_.end());
  }

 private:
  ThreadTeam team_;
  Transports endpoints_;
  std::vector<Buffers> buffers_;
  std::vector<std::unique_ptr<Collectives>> groups_;
  std::vector<double> results_;
};

struct Settings {
  int64_t most = int64_t{256} << 20;
  double seconds = 1.5;
};

void measure(MpiSession& session, Transport& transport, const Settings& settings) {
  const int ranks = session.ranks(), rank = session.rank();
  Collectives exact(transport, Group::all(ranks));
  Collectives fast(transport, Group::all(ranks), {ExactBits::kFast, Algorithm::kAuto});
  const Buffers buffers(transport, settings.most);
  std::unique_ptr<ThreadDevices> threads;
  if (rank == 0) {
    const AllProcessors everywhere;
    threads = std::make_unique<ThreadDevices>(ranks, settings.most);
  }
  for (int64_t bytes = 64 << 10; bytes <= settings.most; bytes *= 16)
    for (const Kind kind : kKinds) {
      const Call calls[] = {mpi_call(ranks, rank, buffers, kind, bytes), our_call(exact, buffers, kind, bytes),
                            our_call(fast, buffers, kind, bytes)};
      std::vector<double> samples[4];
      const int batch = static_cast<int>(std::max<int64_t>(1, (int64_t{8} << 20) / bytes / 2));
      int64_t more = 1;
      const double began = bench::seconds();
      for (int round = 0; more; ++round) {
        for (int i = 0; i < 3; ++i) {
          exact.barrier();
          calls[i]();
          samples[i].push_back(timed(calls[i], batch));
        }
        exact.barrier();  // the other ranks sleep in the next one
        if (rank == 0) samples[3].push_back(threads->batch(kind, bytes, batch));
        exact.barrier();
        // Rank 0 says when it is enough.
        more = round < 4 || (bench::seconds() - began < settings.seconds && round < 200);
        exact.broadcast(&more, 1, DType::kI64, 0);
      }
      if (rank != 0) continue;
      fmt::print(
          "{{\"ranks\": {}, \"kind\": \"{}\", \"bytes\": {}, \"open_mpi\": {:.9f}, \"ranks_exact\": {:.9f}, "
          "\"ranks_fast\": {:.9f}, "
          "\"threads_exact\": {:.9f}, \"rounds\": {}}}\n",
          ranks, kKindNames[static_cast<int>(kind)], bytes, median(samples[0]), median(samples[1]), median(samples[2]),
          median(samples[3]), samples[0].size());
      std::fflush(stdout);
    }
  exact.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--most") == 0) settings.most = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--seconds") == 0) settings.seconds = std::atof(argv[i + 1]);
  }
  try {
    MpiSession session;
    {
      const Transports endpoints = session.make_transports(1);
      measure(session, *endpoints[0], settings);
    }
    session.leave();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "collectives: %s\n", error.what());
    exit_after_fault(1);
  }
  return 0;
}
