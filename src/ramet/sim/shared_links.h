#pragma once

#include <cstdint>
#include <vector>

#include "ramet/base/house.h"

namespace ramet::sim {

/// Bytes that one move brings over a link.
struct LinkBytes {
  int32_t link = 0;
  double bytes = 0;
};

/// Moves of bytes that share links: as time goes on, some begin and some end, and meanwhile each link divides its
/// bandwidth. Every move has after its latency a throughput, that over its own slowest link, and the links it needs
/// pass in proportion; throughputs are max-min fair (Bertsekas and Gallager, Data Networks, 6.5): none can grow but at
/// the cost of one that is not larger. Two messages over one link have half of it each.
class SharedLinks {
 public:
  /// Bandwidths in bytes a second.
  explicit SharedLinks(std::vector<double> bandwidths);

  /// Declares a kind of move; returns its number. Several moves that always go at the same time in equal places are one
  /// kind: `loads` are then those of all of them on one link of each sort, and `own_bytes` what one of them alone
  /// brings over its slowest link (0: that of `loads`). `seconds`: the least time of a move after its latency, however
  /// fast its links are. All kinds come before the first move.
  int add_kind(double latency, std::vector<LinkBytes> loads, double own_bytes = 0, double seconds = 0);
  /// Seconds of a move of a kind that has its links for itself.
  double seconds_alone(int kind, double amount = 1) const;

  /// Begins a move of `amount` times a kind's bytes at `now`; returns its number. The number is used again after the
  /// `advance` that follows the one which reported the end of the move.
  int start(int kind, double now, double amount = 1);
  /// When the next move ends, or leaves its latency behind, if none begins before: infinity when there is none.
  double next() const { return next_; }
  /// Lets time pass to `now`, which is at most `next()`, and names moves that end there.
  void advance(double now, std::vector<int>& ended);
  /// Amounts a second of each kind that move at this time, and the kinds that do.
  const std::vector<double>& rates() const { return kind_rates_; }
  const std::vector<int>& active() const { return active_; }

 private:
  struct Kind {
    double latency = 0;
    double alone = 0;  ///< amounts a second, without others; 0: takes its latency alone
    double all = 0;    ///< the same as far as its links go, for all moves of the kind together
    double own = 1;    ///< bytes over its slowest link of an amount of 1
    double most = 0;   ///< most amounts a second of one move, however fast its links are; infinity: no bound
    std::vector<LinkBytes> loads;  ///< after `prepare`: those that may ever bind
    int under_way = 0;             ///< moves past their latency
    double rate = 0;               ///< of each of them, amounts a second
    bool listed = false;           ///< in active_
  };
  struct Move {
    int kind = -1;
    double begins = 0;  ///< after its latency
    double left = 0;    ///< amount
    double ends = 0;    ///< at the present rate
    bool flows = false;
  };
  void prepare();
  void set_rates(double now);
  void share();
  void raise();
  void find_next();

  std::vector<double> bandwidths_;
  std::vector<Kind> kinds_;
  std::vector<Move> moves_;
  std::vector<int> live_, free_, released_;
  std::vector<double> kind_rates_;
  double now_ = 0, next_ = 0;
  bool prepared_ = false;
  std::vector<int> active_;            // kinds with moves under way
  std::vector<double> room_, weight_;  // of share(), by link
  std::vector<int> users_, touched_, rising_;
};

}  // namespace ramet::sim
