#include "ramet/measure/survey_links.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "ramet/base/clock.h"
#include "ramet/transport/collectives.h"
#include "ramet/transport/thread_transport.h"

namespace ramet::measure {
namespace {

constexpr int kTag = 1;
constexpr size_t kLarge = size_t{32} << 20;  // more than caches hold, as most gradients are

/// Rounds of one experiment. All devices must do equally many, so the leader counts them first and sends the number.
int64_t agreed_rounds(Collectives& all, int leader, double one, double seconds) {
  auto rounds = static_cast<int64_t>(std::min(seconds / std::max(one, 1e-7), 2000.0));
  rounds = std::max<int64_t>(rounds, 3);
  all.broadcast(&rounds, 1, DType::kI64, leader);
  return rounds;
}

/// Seconds of each round of `body`, which all devices of the experiment do together.
Timing repeat(Collectives& all, int leader, double seconds, const std::function<void()>& body) {
  std::vector<double> taken;
  const auto once = [&] {
    const auto start = Clock::now();
    body();
    return seconds_since(start);
  };
  once();
  const int64_t rounds = agreed_rounds(all, leader, once(), seconds);
  for (int64_t i = 0; i < rounds; ++i) taken.push_back(once());
  return timing_of(std::move(taken));
}

}  // namespace

Timing sample(double seconds, const std::function<void()>& body) {
  std::vector<double> taken;
  double total = 0;
  body();
  while (taken.size() < 3 || (total < seconds && taken.size() < 2000)) {
    const auto start = Clock::now();
    body();
    taken.push_back(seconds_since(start));
    total += taken.back();
  }
  return timing_of(std::move(taken));
}

LinkTiming time_pair(Transport& transport, int a, int b, double seconds) {
  Collectives all(transport, Group::all(transport.devices()));
  const int here = transport.device();
  std::byte* memory = transport.allocate(kLarge);
  const auto ping = [&](size_t bytes) {
    if (here == a) {
      transport.send(b, kTag, memory, bytes);
      transport.receive(b, kTag, memory, bytes);
    } else if (here == b) {
      transport.receive(a, kTag, memory, bytes);
      transport.send(a, kTag, memory, bytes);
    }
  };
  const Timing meeting = repeat(all, a, seconds / 3, [&] { all.barrier(); });
  const Timing small = repeat(all, a, seconds / 3, [&] { ping(8); });
  all.barrier();
  const Timing large = repeat(all, a, seconds / 3, [&] { ping(kLarge); });
  const double way = std::max(large.seconds - small.seconds, large.seconds / 10) / 2;
  double figures[] = {small.seconds / 2, small.spread,    static_cast<double>(kLarge) / way,
                      large.spread,      meeting.seconds, meeting.spread};
  all.broadcast(figures, sizeof figures / 8, DType::kI64, a);  // bits are bits
  transport.release(memory);
  return {figures[0], figures[1], figures[2], figures[3], figures[4], figures[5]};
}

LinkTiming time_threads(int devices, double seconds) {
  Transports endpoints = make_thread_transports(devices);
  LinkTiming timing;
  std::exception_ptr fault;
  std::vector<std::thread> threads;
  for (int device = 0; device < devices; ++device)
    threads.emplace_back([&, device] {
      Transport& own = *endpoints[static_cast<size_t>(device)];
      try {
        const LinkTiming found = time_pair(own, 0, 1, seconds);
        if (device == 0) timing = found;
      } catch (const std::exception& error) {
        own.stop(error.what());
        if (device == 0) fault = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (fault) std::rethrow_exception(fault);
  return timing;
}

}  // namespace ramet::measure
