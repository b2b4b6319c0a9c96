// Exact and fast collectives of Ramet, between MPI ranks (by shared memory, and by messages as between hosts) and
// between threads, beside Open MPI's own, in one job that does what it is told, a batch of calls at a time, so that
// bench/collectives.py can take turns with other libraries:
//   mpirun -n N build/bench/collectives MOST_BYTES
// Lines of standard input: "LIBRARY KIND BYTES CALLS" (BYTES of the whole, f32). For each it prints the seconds of a
// call, those of the slowest rank, after a barrier and one call before. All of them work on the same memory, all-reduce
// in place, the others from one buffer to another; what waits for its turn sleeps.
#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "bench_tools.h"
#include "ramet/base/error.h"
#include "ramet/transport/collectives.h"
#include "ramet/transport/mpi_transport.h"
#include "ramet/transport/thread_transport.h"

namespace {

using namespace ramet::bench;
using Call = std::function<void()>;

enum class Kind { kAllReduce, kReduceScatter, kAllGather };
constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather};
constexpr const char* kKindNames[] = {"all-reduce", "reduce-scatter", "all-gather"};

enum class Library { kOpenMpi, kRanksExact, kRanksFast, kMessagesExact, kMessagesFast, kThreadsExact, kThreadsFast };
constexpr const char* kLibraryNames[] = {"open_mpi",      "ranks_exact",   "ranks_fast",  "messages_exact",
                                         "messages_fast", "threads_exact", "threads_fast"};

/// One device's buffers: `whole` of all elements, `part` of its own.
struct Buffers {
  std::byte *whole, *part;
  Buffers(Transport& transport, int64_t bytes, int devices) {
    const auto take = [&](int64_t size) {
      std::byte* data = transport.allocate(static_cast<size_t>(size));
      std::memset(data, 0, static_cast<size_t>(size));  // its pages are there from now on
      return data;
    };
    whole = take(bytes);
    part = take((bytes / 4 + devices - 1) / devices * 4);
  }
};

Call our_call(Collectives& group, const Buffers& at, Kind kind, int64_t bytes) {
  const int64_t count = bytes / 4;
  switch (kind) {
    case Kind::kAllReduce: return [&group, at, count] { group.all_reduce(at.whole, at.whole, count, DType::kF32); };
    case Kind::kReduceScatter:
      return [&group, at, count] { group.reduce_scatter(at.whole, at.part, count, DType::kF32); };
    case Kind::kAllGather: return [&group, at, count] { group.all_gather(at.part, at.whole, count, DType::kF32); };
  }
  return {};
}

Call mpi_call(int ranks, const Buffers& at, Kind kind, int64_t bytes) {
  const int count = static_cast<int>(bytes / 4), part = count / ranks;
  switch (kind) {
    case Kind::kAllReduce:
      return [=] { MPI_Allreduce(MPI_IN_PLACE, at.whole, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
    case Kind::kReduceScatter:
      return [=, parts = std::vector<int>(static_cast<size_t>(ranks), part)] {
        MPI_Reduce_scatter(at.whole, at.part, parts.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      };
    case Kind::kAllGather:
      return [=] { MPI_Allgather(at.part, part, MPI_FLOAT, at.whole, part, MPI_FLOAT, MPI_COMM_WORLD); };
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
  ThreadDevices(int devices, int64_t most) : team_(devices), endpoints_(make_thread_transports(devices)) {
    for (auto& endpoint : endpoints_) {
      buffers_.emplace_back(*endpoint, most, devices);
      for (const ExactBits bits : {ExactBits::kExact, ExactBits::kFast})
        groups_.push_back(
            std::make_unique<Collectives>(*endpoint, Group::all(devices), CollectiveOptions{bits, Algorithm::kAuto}));
    }
  }
  double batch(ExactBits bits, Kind kind, int64_t bytes, int calls) {
    const AllProcessors everywhere;
    std::vector<double> took(buffers_.size());
    team_.run([&](int rank) {
      const auto i = static_cast<size_t>(rank);
      Collectives& group = *groups_[2 * i + (bits == ExactBits::kFast)];
      const Call call = our_call(group, buffers_[i], kind, bytes);
      call();
      group.barrier();
      took[i] = timed(call, calls);
    });
    return *std::max_element(took.begin(), took.end());
  }

 private:
  ThreadTeam team_;
  Transports endpoints_;
  std::vector<Buffers> buffers_;
  std::vector<std::unique_ptr<Collectives>> groups_;
};

/// What rank 0 is told to do next.
struct Order {
  Library library = Library::kOpenMpi;
  Kind kind = Kind::kAllReduce;
  int64_t bytes = 0, calls = 0;  ///< 0 calls: the end
};

template <size_t N>
size_t index_of(const char* const (&names)[N], const std::string& name) {
  for (size_t i = 0; i < N; ++i)
    if (name == names[i]) return i;
  throw Error(
      {.what = "unknown name", .where = "order", .found = name, .expected = fmt::format("{}", fmt::join(names, ", "))});
}

Order next_order(int64_t most) {
  std::string library, kind;
  Order order;
  if (!(std::cin >> library >> kind >> order.bytes >> order.calls)) return {};
  order.library = static_cast<Library>(index_of(kLibraryNames, library));
  order.kind = static_cast<Kind>(index_of(kKindNames, kind));
  if (order.bytes > most || order.bytes < 0 || order.calls < 1)
    throw Error({.what = "bytes or calls out of range",
                 .where = "order",
                 .found = fmt::format("{} {}", order.bytes, order.calls)});
  return order;
}

void serve_rank(MpiSession& session, Transport& transport, int64_t most) {
  const int ranks = session.ranks();
  Collectives exact(transport, Group::all(ranks));
  Collectives fast(transport, Group::all(ranks), {ExactBits::kFast, Algorithm::kAuto});
  Collectives halving(transport, Group::all(ranks), {ExactBits::kExact, Algorithm::kHalving});
  Collectives ring(transport, Group::all(ranks), {ExactBits::kFast, Algorithm::kRing});
  Collectives* const by_library[] = {nullptr, &exact, &fast, &halving, &ring};
  const Buffers buffers(transport, most, ranks);
  std::unique_ptr<ThreadDevices> threads;
  if (session.rank() == 0) {
    const AllProcessors everywhere;
    threads = std::make_unique<ThreadDevices>(ranks, most);
  }
  for (;;) {
    Order order;
    if (session.rank() == 0) order = next_order(most);
    exact.broadcast(&order, sizeof(order), DType::kU8, 0);
    if (order.calls == 0) return;
    const auto calls = static_cast<int>(order.calls);
    double took = 0;
    if (order.library == Library::kThreadsExact || order.library == Library::kThreadsFast) {
      const ExactBits bits = order.library == Library::kThreadsFast ? ExactBits::kFast : ExactBits::kExact;
      if (threads) took = threads->batch(bits, order.kind, order.bytes, calls);
    } else {
      const Call call = order.library == Library::kOpenMpi ? mpi_call(ranks, buffers, order.kind, order.bytes)
                                                           : our_call(*by_library[static_cast<size_t>(order.library)],
                                                                      buffers, order.kind, order.bytes);
      call();
      exact.barrier();
      auto nanoseconds = static_cast<int64_t>(timed(call, calls) * 1e9);
      exact.all_reduce(&nanoseconds, &nanoseconds, 1, DType::kI64, Reduction::kMax);
      took = static_cast<double>(nanoseconds) * 1e-9;
    }
    if (session.rank() == 0) {
      fmt::print("{:.9f}\n", took);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t most = argc > 1 ? std::atoll(argv[1]) : int64_t{256} << 20;
  try {
    MpiSession session;
    {
      TransportOptions options;
      options.time_limit = std::chrono::minutes(10);  // others take their turns
      const Transports endpoints = session.make_transports(1, options);
      serve_rank(session, *endpoints[0], most);
    }
    session.leave();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "collectives: %s\n", error.what());
    exit_after_fault(1);
  }
  return 0;
}
