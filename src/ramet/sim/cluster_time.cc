#include "ramet/sim/cluster_time.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "ramet/base/error.h"
#include "ramet/ops/collective.h"
#include "ramet/program/match.h"
#include "ramet/sim/work_time.h"

namespace ramet {
namespace {

using Kind = ProgramStep::Kind;

/// All stages' programs over time. A stage goes on until it has to wait for what another has not come to yet.
class ClusterRun {
 public:
  ClusterRun(std::span<const Executable> stages, const Machine& machine, bool streams_to_files)
      : executables_(stages), bandwidth_(machine.bandwidth()), beside_(streams_to_files) {
    for (const Executable& exe : stages) {
      State state(WorkTimes(exe, machine));
      state.ended.assign(exe.train.size(), 0);
      for (const Segment& segment : exe.segments) state.meetings.push_back(meetings_of(exe, segment));
      states_.push_back(std::move(state));
    }
  }

  ClusterTime run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < states_.size(); ++s)
        while (advance(s)) moved = true;
    }
    return outcome();
  }

 private:
  /// A collective between stages: groups of `parts` at distance `stride`.
  struct Meeting {
    int64_t parts, stride;
  };
  struct State {
    explicit State(WorkTimes times) : work(std::move(times)) {}
    WorkTimes work;
    std::vector<double> ended;                   ///< when what a step started has ended
    std::vector<std::vector<Meeting>> meetings;  ///< by segment
    std::vector<Meeting> coming;                 ///< of the run at hand
    size_t next = 0, met = 0;                    ///< step; meetings of the run that are over
    bool arrived = false, agreed = false;        ///< at the run at hand; that weights may change
    double now = 0, stream_free = 0;
    StageTime time{};
  };
  using Way = std::tuple<int, int, int32_t>;  ///< from, to, tag
  /// The k-th message of a way; each side's time of coming to it, or -1.
  struct Message {
    double sent = -1, received = -1;
  };

  static std::vector<Meeting> meetings_of(const Executable& exe, const Segment& segment) {
    std::vector<Meeting> found;
    for (const Instruction* instruction : stage_collectives(exe, segment)) {
      const CollectiveForm form = collective_form(exe.tasks[static_cast<size_t>(instruction->task)].node);
      found.push_back({form.parts, form.stride});
    }
    return found;
  }

  bool advance(size_t stage) {
    State& state = states_[stage];
    const auto& program = executables_[stage].train;
    if (state.next == program.size()) return false;
    const ProgramStep& step = program[state.next];
    switch (step.kind) {
      case Kind::kRun:
        if (!run_segment(stage, step)) return false;
        break;
      case Kind::kZero:
      case Kind::kCombine: state.now += state.work.add(step, state.time.work); break;
      case Kind::kSend:
      case Kind::kReceive: post(stage, step); break;
      case Kind::kLoad:
      case Kind::kStore: stream(stage, step); break;
      case Kind::kWait:
        if (!wait(stage, program[static_cast<size_t>(step.subject)], static_cast<size_t>(step.subject))) return false;
        break;
    }
    ++state.next;
    return true;
  }

  const Transfer& transfer_of(size_t stage, const ProgramStep& step) const {
    return executables_[stage].transfers[static_cast<size_t>(step.subject)];
  }

  Message& message_of(size_t stage, const ProgramStep& step, size_t number) {
    const Transfer& transfer = transfer_of(stage, step);
    const int here = static_cast<int>(stage);
    auto& messages = messages_[step.kind == Kind::kSend ? Way(here, transfer.peer, transfer.tag)
                                                        : Way(transfer.peer, here, transfer.tag)];
    if (messages.size() <= number) messages.resize(number + 1);
    return messages[number];
  }

  void post(size_t stage, const ProgramStep& step) {
    State& state = states_[stage];
    const size_t number = counts_[{stage, step.subject}]++;
    numbers_[{stage, state.next}] = number;
    Message& message = message_of(stage, step, number);
    (step.kind == Kind::kSend ? message.sent : message.received) = state.now;
  }

  /// One transfer at a time, in order.
  void stream(size_t stage, const ProgramStep& step) {
    State& state = states_[stage];
    const double takes = 2 * static_cast<double>(transfer_of(stage, step).type.bytes()) / bandwidth_;
    state.stream_free = std::max(state.now, state.stream_free) + takes;
    state.ended[state.next] = state.stream_free;
    if (beside_) return;
    state.now += takes;
    state.time.streaming += takes;
  }

  bool wait(size_t stage, const ProgramStep& started, size_t index) {
    State& state = states_[stage];
    if (started.kind == Kind::kLoad || started.kind == Kind::kStore) {
      state.time.streaming += std::max(0.0, state.ended[index] - state.now);
      state.now = std::max(state.now, state.ended[index]);
      return true;
    }
    const Message message = message_of(stage, started, numbers_.at({stage, index}));
    if (message.sent < 0 || message.received < 0) return false;
    const double moved = std::max(message.sent, message.received) +
                         2 * static_cast<double>(transfer_of(stage, started).type.bytes()) / bandwidth_;
    state.time.waiting += std::max(0.0, moved - state.now);
    state.now = std::max(state.now, moved);
    return true;
  }

  /// Stages meet in the collectives between them, here at the beginning of a segment's work, and before weights change.
  bool run_segment(size_t stage, const ProgramStep& step) {
    State& state = states_[stage];
    const auto id = static_cast<size_t>(step.subject);
    if (!state.arrived) {
      state.arrived = true;
      state.coming = state.meetings[id];
      if (executables_[stage].segments[id].kind == PieceKind::kUpdate && !state.agreed) {
        state.agreed = true;
        state.coming.insert(state.coming.begin(), Meeting{static_cast<int64_t>(states_.size()), 1});
      }
    }
    while (state.met < state.coming.size())
      if (!meet(stage)) return false;
    state.arrived = false;
    state.met = 0;
    state.now += state.work.add(step, state.time.work);
    return true;
  }

  bool meet(size_t stage) {
    const Meeting meeting = states_[stage].coming[states_[stage].met];
    const auto parts = static_cast<size_t>(meeting.parts), stride = static_cast<size_t>(meeting.stride);
    const size_t base = stage - stage / stride % parts * stride;
    double latest = 0;
    for (size_t k = 0; k < parts; ++k) {
      const State& member = states_[base + k * stride];
      if (!member.arrived || member.met == member.coming.size()) return false;
      latest = std::max(latest, member.now);
    }
    for (size_t k = 0; k < parts; ++k) {
      State& member = states_[base + k * stride];
      member.time.waiting += latest - member.now;
      member.now = latest;
      ++member.met;
    }
    return true;
  }

  ClusterTime outcome() const {
    ClusterTime time;
    for (size_t s = 0; s < states_.size(); ++s) {
      if (states_[s].next != executables_[s].train.size())
        throw Error({.what = "stages wait for each other for ever",
                     .where = "stage " + std::to_string(s),
                     .remedy = "Compile the layout again; if it stays so, it is a fault of Ramet"},
                    ErrorKind::kFailure);
      time.seconds = std::max(time.seconds, states_[s].now);
    }
    double waiting = 0;
    for (const State& state : states_) {
      time.stages.push_back(state.time);
      StageTime& stage = time.stages.back();
      stage.work = state.work.finish(state.time.work);
      stage.waiting += time.seconds - state.now;
      waiting += stage.waiting;
    }
    if (time.seconds > 0) time.bubble = waiting / (time.seconds * static_cast<double>(states_.size()));
    return time;
  }

  std::span<const Executable> executables_;
  double bandwidth_;
  bool beside_;  ///< streaming memory moves beside the work
  std::vector<State> states_;
  std::map<Way, std::vector<Message>> messages_;
  std::map<std::pair<size_t, int32_t>, size_t> counts_;  // messages of a transfer so far
  std::map<std::pair<size_t, size_t>, size_t> numbers_;  // of the message that a step started
};

}  // namespace

ClusterTime predict_step(std::span<const Executable> stages, const Machine& machine, bool streams_to_files) {
  return ClusterRun(stages, machine, streams_to_files).run();
}

}  // namespace ramet
