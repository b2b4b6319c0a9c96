#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "ramet/machine/machine.h"
#include "ramet/program/executable.h"
#include "ramet/sim/shared_links.h"

namespace ramet::ops {
struct CollectiveForm;
}  // namespace ramet::ops

namespace ramet::machine {
class Network;
}  // namespace ramet::machine

namespace ramet::sim {

/// Links of one sort, which a report shows together: a level of the machine's links, or one way of a memory.
struct Channel {
  std::string name;      ///< "NVLink", "streaming memory, read"
  double bandwidth = 0;  ///< bytes a second of one link
  int64_t links = 0;
};

/// Bytes that go together between devices, or between a device and a memory beside it.
struct Move {
  int32_t what = 0;  ///< number of the kind of move; equal moves of different devices share it
  std::vector<int32_t> members;
  double latency = 0;            ///< seconds before the first byte
  double seconds = 0;            ///< that the bytes take on an idle machine
  std::vector<LinkBytes> loads;  ///< these and `seconds`: of the whole of a collective, one byte of a message or stream
  bool by_device = false;        ///< a message that the second of its two devices copies: they share host memory
};

/// All moves that the training programs of a layout make on a machine, on all devices: what moves where, over which
/// links. Device d of the layout's mesh is device d of the machine.
class Moves {
 public:
  /// Throws Error when the machine has too few devices, or no memory that programs can stream to.
  Moves(std::span<const Executable> stages, const Machine& machine, bool streams_to_files);

  const std::vector<Channel>& channels() const { return channels_; }
  const std::vector<double>& bandwidths() const { return bandwidths_; }   ///< by link
  const std::vector<int32_t>& channel_of() const { return channel_of_; }  ///< by link
  const std::vector<Move>& moves() const { return moves_; }
  int devices() const { return devices_; }
  int stage_of(int device) const { return device / (devices_ / stages_); }

  /// The kind of move of a stage's call, of a message from one stage to another, of a stage's streaming in one
  /// direction; -1 when nothing moves.
  int what_of_call(size_t stage, int32_t call) const;
  int what_of_message(int from, int to) const;
  int what_of_stream(size_t stage, bool load) const { return streams_[stage][load ? 0 : 1]; }
  /// The move in which a device takes part, or -1.
  int move_of(int what, int device) const { return of_device_[static_cast<size_t>(what)][static_cast<size_t>(device)]; }
  /// Whether devices do nothing else while they stream: they copy host memory themselves.
  bool streams_alone() const { return streams_alone_; }

 private:
  using CollectiveKey = std::array<int64_t, 7>;
  void add_collectives(const Network& network, size_t stage, const Executable& exe);
  void add_collective(const Network& network, int what, size_t stage, const Mesh& mesh, const CollectiveForm& form);
  void add_messages(const Network& network, size_t stage, const Executable& exe);
  void add_streams(std::span<const Executable> stages, bool to_files);
  int new_what();
  void add_move(Move move);
  int32_t add_link(int32_t channel, double bandwidth);

  const Machine& machine_;
  int devices_, stages_;
  std::vector<Channel> channels_;
  std::vector<double> bandwidths_;
  std::vector<int32_t> channel_of_;
  std::vector<Move> moves_;
  std::vector<std::vector<int32_t>> of_device_;  // by what, by device
  std::vector<std::map<int32_t, int>> calls_;    // by stage: call to what
  std::map<std::pair<int, int>, int> messages_;
  std::vector<std::array<int, 2>> streams_;
  std::map<CollectiveKey, int> collectives_;
  bool streams_alone_ = false;
};

}  // namespace ramet::sim
