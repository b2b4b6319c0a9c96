#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ramet/machine/machine.h"

namespace ramet::machine {

/// One message among others that move at the same time.
struct Message {
  int from = 0, to = 0;
  double bytes = 0;
};

/// Messages that move together, and how often that happens one after the other.
struct NetworkStep {
  std::vector<Message> messages;
  int64_t times = 1;
};

/// What some exchange takes while nothing else moves.
struct Traffic {
  double seconds = 0;
  double latency = 0;              ///< of it: the part that remains when there are almost no bytes to move
  std::vector<double> link_bytes;  ///< that each link carries, by its number in Network
  std::string way;                 ///< of a collective: "ring", "direct", "halving", "direct + ring" by levels, ...
  std::vector<NetworkStep> steps;  ///< of a collective: its messages
  double meeting = 0;              ///< of a collective: the least latency, where a meeting of all was measured
};

/// The links of a machine as one graph: every directed link between two units, and those to switches and gateways, has
/// a number. Parallel links between two units are one here, of their joint bandwidth. Devices are numbered so that
/// those of one unit follow each other. Immutable.
class Network {
 public:
  explicit Network(const Machine& machine);

  int64_t links() const { return static_cast<int64_t>(level_of_.size()); }
  /// Bytes a second of a link: those of its parallel links, times what messages get of them.
  double bandwidth(int64_t link) const;
  /// Which of Machine::links it belongs to.
  int level(int64_t link) const { return level_of_[static_cast<size_t>(link)]; }
  /// "IPU-Links of a pair 3>4"
  std::string name(int64_t link) const;

  /// The links that a message passes, in order: the shortest way at the innermost level that joins the two devices.
  /// Empty between a device and itself. Ways within a unit to where its outer links begin cost nothing here.
  std::vector<int64_t> route(int from, int to) const;
  /// Seconds of latency of that way.
  double latency(int from, int to) const;
  /// Bytes a second that one device alone gets out of the links between units of `level`: its share of them, and one
  /// link at least.
  double alone(int level) const;
  /// Seconds in which all units of a level meet, where that was measured; else 0.
  double meeting(int level) const;

  /// One message on an idle machine: the latency of its way, and its bytes over the narrowest of its links.
  Traffic send(int from, int to, double bytes) const;
  /// Messages that share links fairly; a step begins when the one before it has ended everywhere.
  Traffic run(std::span<const NetworkStep> steps) const;

 private:
  struct Level {
    LinkLevel figures;
    int64_t first = 0;    ///< number of its first link
    int64_t slots = 0;    ///< links of one unit
    int64_t unit = 1;     ///< devices in one unit that it joins
    int64_t columns = 1;  ///< of a torus
  };
  int meeting_level(int from, int to) const;
  void walk(const Level& level, int64_t base, int64_t from, int64_t to, std::vector<int64_t>& links) const;
  void walk_line(const Level& level, int64_t first_unit, int64_t stride, int64_t size, int64_t from, int64_t to,
                 bool closed, int64_t slot, std::vector<int64_t>& links) const;
  void check(int device) const;

  std::string machine_;
  int devices_ = 1;
  std::vector<Level> levels_;
  std::vector<int> level_of_;
};

/// A collective that each of `groups` performs at the same time. `bytes` are those of the whole tensor: every member
/// has it before an all-reduce, reduce-scatter or all-to-all, and after an all-gather. The algorithm is the fastest of:
/// a ring, two rings in both directions, halving and doubling, directly; over all members at once, or level by level
/// (within units first, then between them with the share that each member then has). Groups have equally many members,
/// no device stands in two of them. The time of the additions is not in it.
Traffic collective(const Network& network, Exchange exchange, double bytes, std::span<const std::vector<int>> groups);

}  // namespace ramet::machine
