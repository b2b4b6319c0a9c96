#include "ramet/sim/simulate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "ramet/base/error.h"
#include "ramet/sim/fold.h"
#include "ramet/sim/moves.h"
#include "ramet/sim/stage_code.h"

namespace ramet::sim {
namespace {

using Kind = ProgramStep::Kind;
constexpr double kNever = std::numeric_limits<double>::infinity();

SharedLinks links_of(const Moves& moves, const DeviceClasses& fold) {
  SharedLinks links(moves.bandwidths());
  for (const DeviceClasses::Kind& kind : fold.kinds)
    links.add_kind(moves.moves()[static_cast<size_t>(kind.move)].latency, kind.loads, kind.own_bytes,
                   moves.moves()[static_cast<size_t>(kind.move)].seconds);
  return links;
}

/// Processors that all devices share, `processors` devices' worth: work is what moves, over the one link that they are.
std::optional<SharedLinks> processors_of(const DeviceClasses& fold, double processors, int devices) {
  if (processors <= 0 || processors >= devices) return std::nullopt;
  SharedLinks shared({processors});
  for (const DeviceClasses::Class& alike : fold.classes)
    shared.add_kind(0, {{0, static_cast<double>(alike.devices)}}, 1, 1);
  return shared;
}

/// Mean of the largest of n draws from the standard normal distribution.
double expected_maximum(size_t n) {
  constexpr double kEnd = 9, kStep = 1.0 / 64;
  const auto below = [&](double x) { return std::pow(std::erfc(-x / std::sqrt(2.0)) / 2, static_cast<double>(n)); };
  double mean = 0;
  for (double x = -kEnd; x < kEnd; x += kStep) mean += (x + kStep / 2) * (below(x + kStep) - below(x));
  return mean;
}

/// The programs of one device of each class, in the order of events. A device goes on until it computes, or must wait
/// for an event.
class Run {
 public:
  Run(std::span<const Executable> stages, const Machine& machine, const SimulationOptions& options)
      : executables_(stages),
        options_(options),
        moves_(stages, machine, options.streams_to_files),
        fold_(fold(moves_, options.fold)),
        links_(links_of(moves_, fold_)),
        processors_(
            processors_of(fold_, static_cast<double>(machine.processors) / stages[0].threads, moves_.devices())),
        jitter_(machine.device.jitter),
        meetings_(fold_.kinds.size()),
        link_bytes_(moves_.bandwidths().size(), 0) {
    for (size_t s = 0; s < stages.size(); ++s) codes_.emplace_back(stages[s], machine, moves_, s, labels_);
    for (const DeviceClasses::Class& alike : fold_.classes) {
      State state;
      state.exe = &stages[static_cast<size_t>(alike.stage)];
      state.code = &codes_[static_cast<size_t>(alike.stage)];
      state.ended.assign(state.exe->train().steps.size(), 0);
      state.sent.assign(state.exe->transfers.size(), 0);
      states_.push_back(std::move(state));
      timelines_.push_back(
          {.stage = alike.stage, .devices = {}, .work = {}, .runs = {}, .messages = {}, .streams = {}});
    }
    rates_.resize(moves_.channels().size());
  }

  Simulation run() {
    for (size_t c = 0; c < states_.size(); ++c) wake(c, 0);
    std::vector<int> ended;
    while (true) {
      const double ready = ready_.empty() ? kNever : std::get<0>(ready_.top()), moved = links_.next();
      const double worked = processors_ ? processors_->next() : kNever;
      if (ready == kNever && moved == kNever && worked == kNever) break;
      ++events_;
      if (worked <= std::min(ready, moved)) {
        processors_->advance(worked, ended);
        for (const int work : ended) end_work(static_cast<size_t>(working_[static_cast<size_t>(work)]), worked);
        continue;
      }
      if (moved <= ready) {
        links_.advance(moved, ended);
        note_rates(moved);
        for (const int move : ended) end(moving_[static_cast<size_t>(move)], moved);
        continue;
      }
      const auto c = static_cast<size_t>(std::get<1>(ready_.top()));
      ready_.pop();
      states_[c].now = ready;
      go_on(c);
    }
    return outcome();
  }

 private:
  struct State {
    const Executable* exe = nullptr;
    const StageCode* code = nullptr;
    size_t next = 0, item = 0;  ///< step; within the run at hand
    bool in_run = false, agreed = false, finished = false;
    double now = 0, run_began = 0;
    double met = 0;   ///< end of its last collective
    double owed = 0;  ///< seconds of a collective that has begun and that it does itself
    int32_t owed_label = 0;
    int32_t copies = -1;        ///< message that it copies
    double would_end = 0;       ///< when its work would, with a processor of its own
    int waits_for = -1;         ///< step whose end it waits for
    double since = 0;           ///< when it began to wait
    std::vector<char> ended;    ///< by step: whether the work that it started has ended
    std::vector<size_t> sent;   ///< by transfer: messages so far
    std::vector<int32_t> open;  ///< steps that started something and were not waited for
    struct Job {
      int32_t step = 0;
      double begin = 0;
    };
    std::array<std::deque<Job>, 2> jobs;  ///< loads, stores: the first is under way
    StageTime time{};
    double known = 0, at_peak = 0;
  };
  /// The k-th message of a connection; the step with which each side reached it, or -1.
  struct Message {
    std::array<int32_t, 2> step{-1, -1};  ///< of the sender, of the receiver
    std::array<int32_t, 2> of{-1, -1};    ///< classes
    double begin = 0;
  };
  using Way = std::tuple<int32_t, int32_t, int32_t>;  ///< class that sends, class that receives, tag
  struct Meeting {
    std::vector<std::pair<int32_t, double>> arrived;  ///< class, when
    double begin = 0;
    int32_t label = 0;
  };
  /// What a move under way belongs to.
  struct Moving {
    enum class Of : uint8_t { kMeeting, kMessage, kJob } of = Of::kMeeting;
    int32_t a = 0, b = 0;  ///< kind; number of the message; class and direction
  };
  using Ready = std::tuple<double, int32_t>;

  // Time -------------------------------------------------------------------------------------------------------------

  void wake(size_t c, double at) { ready_.push({at, static_cast<int32_t>(c)}); }

  /// Whether a device may go on at once after `seconds` of work: nothing happens anywhere before.
  bool work_for(size_t c, double seconds) {
    State& state = states_[c];
    if (processors_) {
      const auto number = static_cast<size_t>(processors_->start(static_cast<int>(c), state.now, seconds));
      if (working_.size() <= number) working_.resize(number + 1);
      working_[number] = static_cast<int32_t>(c);
      state.would_end = state.now + seconds;
      return false;
    }
    state.now += seconds;
    const double next = std::min(links_.next(), ready_.empty() ? kNever : std::get<0>(ready_.top()));
    if (state.now < next) return true;
    wake(c, state.now);
    return false;
  }

  void end_work(size_t c, double now) {
    State& state = states_[c];
    state.time.waiting += std::max(0.0, now - state.would_end);
    note_work(c, Activity::kWait, state.would_end, now, processor_label_);
    state.now = now;
    go_on(c);
  }

  void go_on(size_t c) {
    State& state = states_[c];
    const auto& program = state.exe->train().steps;
    while (state.next < program.size())
      if (!do_step(c, program[state.next])) return;
    // Transfers still under way belong to the step.
    while (!state.open.empty()) {
      const int32_t step = state.open.back();
      if (!state.ended[static_cast<size_t>(step)]) return wait_for(c, step);
      state.open.pop_back();
    }
    state.finished = true;
  }

  /// Does a step, or a part of it; false when the device has to be woken again.
  bool do_step(size_t c, const ProgramStep& step) {
    State& state = states_[c];
    switch (step.kind) {
      case Kind::kRun: return run_segment(c, step);
      case Kind::kZero:
      case Kind::kCombine: {
        const double seconds = state.code->lanes[state.next++];
        state.time.work.lanes += seconds;
        note_work(c, Activity::kCompute, state.now, state.now + seconds, lanes_label_);
        return work_for(c, seconds);
      }
      case Kind::kSend:
      case Kind::kReceive:
        if (state.copies < 0 && !post(c, step)) return false;
        if (state.copies >= 0) end_message(std::exchange(state.copies, -1), state.now);
        break;
      case Kind::kLoad:
      case Kind::kStore: {
        const auto at = static_cast<int32_t>(state.next);
        if (processors_ && moves_.streams_alone()) return copy(c, step);
        queue(c, step);
        if (!moves_.streams_alone()) break;
        ++state.next;
        wait_for(c, at);
        return false;
      }
      case Kind::kWait:
        std::erase(state.open, step.subject);
        if (!state.ended[static_cast<size_t>(step.subject)]) {
          ++state.next;
          wait_for(c, step.subject);
          return false;
        }
        break;
    }
    ++state.next;
    return true;
  }

  // Work and collectives ---------------------------------------------------------------------------------------------

  bool run_segment(size_t c, const ProgramStep& step) {
    State& state = states_[c];
    const auto id = static_cast<size_t>(step.subject);
    const Segment& segment = state.exe->segments[id];
    const StageCode::Segment& code = state.code->segments[id];
    if (!state.in_run) {
      // Before weights change, all devices tell each other whether they may.
      if (segment.kind == PieceKind::kUpdate && !state.agreed) {
        state.agreed = true;
        if (!agree(c)) return false;
      }
      state.in_run = true;
      state.item = 0;
      state.run_began = state.now;
      state.known += code.known;
      state.at_peak += code.at_peak;
    }
    if (state.owed > 0 && !exchange(c)) return false;
    while (state.item < code.items.size()) {
      const StageCode::Item& item = code.items[state.item++];
      if (item.what >= 0) {
        arrive(c, item);
        return false;
      }
      state.time.work.part_of(segment.kind) += item.seconds;
      note_parts(c, code, item);
      if (!work_for(c, item.seconds)) return false;
    }
    state.in_run = false;
    note_run(c, segment, step);
    ++state.next;
    return true;
  }

  bool agree(size_t c) {
    State& state = states_[c];
    agreed_.arrived.emplace_back(static_cast<int32_t>(c), state.now);
    if (agreed_.arrived.size() < states_.size()) return false;
    for (const auto& [other, arrived] : agreed_.arrived) {
      const auto o = static_cast<size_t>(other);
      states_[o].time.waiting += state.now - arrived;
      note_work(o, Activity::kWait, arrived, state.now, agreement_label_);
      if (o != c) wake(o, state.now);
    }
    return true;
  }

  void arrive(size_t c, const StageCode::Item& item) {
    const int32_t kind = kind_of(item.what, c);
    Meeting& meeting = meetings_[static_cast<size_t>(kind)];
    meeting.arrived.emplace_back(static_cast<int32_t>(c), states_[c].now);
    if (meeting.arrived.size() < fold_.kinds[static_cast<size_t>(kind)].classes.size()) return;
    meeting.begin = states_[c].now;
    meeting.label = item.label;
    if (processors_) return share_out(kind);
    move(kind, meeting.begin, 1, {Moving::Of::kMeeting, kind, 0});
  }

  /// Devices that share processors do what a collective moves themselves: others cannot work there meanwhile.
  void share_out(int32_t kind) {
    const Meeting meeting = std::exchange(meetings_[static_cast<size_t>(kind)], {});
    const Move& move = moves_.moves()[static_cast<size_t>(fold_.kinds[static_cast<size_t>(kind)].move)];
    const double begin = meeting.begin + move.latency + lateness(kind, meeting);
    count_bytes(kind, 1);
    for (const auto& [member, arrived] : meeting.arrived) {
      const auto c = static_cast<size_t>(member);
      states_[c].time.waiting += begin - arrived;
      note_work(c, Activity::kWait, arrived, begin, meeting.label);
      states_[c].owed = move.seconds;
      states_[c].owed_label = meeting.label;
      states_[c].met = begin + move.seconds;
      wake(c, begin);
    }
  }

  /// A device's part in a collective; false when it has to be woken again.
  bool exchange(size_t c) {
    State& state = states_[c];
    return work_on_exchange(c, std::exchange(state.owed, 0), state.owed_label);
  }

  /// What a device moves itself; false when it has to be woken again.
  bool work_on_exchange(size_t c, double seconds, int32_t label) {
    State& state = states_[c];
    state.time.exchanging += seconds;
    note_work(c, Activity::kExchange, state.now, state.now + seconds, label);
    return work_for(c, seconds);
  }

  void end_meeting(int32_t kind, double now) {
    const Meeting meeting = std::exchange(meetings_[static_cast<size_t>(kind)], {});
    const double late = lateness(kind, meeting);
    for (const auto& [member, arrived] : meeting.arrived) {
      const auto c = static_cast<size_t>(member);
      StageTime& time = states_[c].time;
      time.waiting += meeting.begin - arrived + late;
      time.exchanging += now - meeting.begin;
      note_work(c, Activity::kWait, arrived, meeting.begin, meeting.label);
      note_work(c, Activity::kExchange, meeting.begin, now, meeting.label);
      note_work(c, Activity::kWait, now, now + late, meeting.label);
      states_[c].met = now + late;
      wake(c, now + late);
    }
  }

  /// How much later than the mean the last of a collective's members comes, where work does not always take equally
  /// long: what the members differ in already is not added.
  double lateness(int32_t kind, const Meeting& meeting) {
    if (jitter_ <= 0) return 0;
    double first = kNever, met = 0;
    for (const auto& [member, arrived] : meeting.arrived) {
      first = std::min(first, arrived);
      met = std::max(met, states_[static_cast<size_t>(member)].met);
    }
    const size_t members =
        moves_.moves()[static_cast<size_t>(fold_.kinds[static_cast<size_t>(kind)].move)].members.size();
    const auto [known, fresh] = maxima_.try_emplace(members, 0);
    if (fresh) known->second = expected_maximum(members);
    const double spread = jitter_ * std::sqrt(std::max(meeting.begin - met, 0.0));
    return std::max(0.0, known->second * spread - (meeting.begin - first));
  }

  // Messages and streams ---------------------------------------------------------------------------------------------

  const Transfer& transfer_of(size_t c, int32_t step) const {
    const Executable& exe = *states_[c].exe;
    return exe.transfers[static_cast<size_t>(exe.train().steps[static_cast<size_t>(step)].subject)];
  }
  int32_t label_of(size_t c, int32_t step) const {
    const State& state = states_[c];
    return state.code
        ->transfer_labels[static_cast<size_t>(state.exe->train().steps[static_cast<size_t>(step)].subject)];
  }
  int32_t kind_of(int what, size_t c) const {
    const int move = moves_.move_of(what, fold_.classes[c].device);
    return fold_.kind_of[static_cast<size_t>(move)];
  }
  static double bytes_of(const Transfer& transfer) { return static_cast<double>(transfer.type.bytes()); }

  /// A side of a message comes; false when it copies the message first, and has to be woken again.
  bool post(size_t c, const ProgramStep& step) {
    State& state = states_[c];
    const auto at = static_cast<int32_t>(state.next);
    const Transfer& transfer = transfer_of(c, at);
    const int stage = fold_.classes[c].stage;
    const bool sends = step.kind == Kind::kSend;
    const int from = sends ? stage : transfer.peer, to = sends ? transfer.peer : stage;
    const int32_t kind = kind_of(moves_.what_of_message(from, to), c);
    const Move& move_here = moves_.moves()[static_cast<size_t>(fold_.kinds[static_cast<size_t>(kind)].move)];
    const Way way{class_of(move_here.members[0]), class_of(move_here.members[1]), transfer.tag};
    std::vector<int32_t>& numbers = ways_[way];
    const size_t number = state.sent[static_cast<size_t>(step.subject)]++;
    while (numbers.size() <= number) {
      numbers.push_back(static_cast<int32_t>(messages_.size()));
      messages_.emplace_back();
    }
    Message& message = messages_[static_cast<size_t>(numbers[number])];
    const size_t side = sends ? 0 : 1;
    message.step[side] = at;
    message.of[side] = static_cast<int32_t>(c);
    state.open.push_back(at);
    if (message.step[1 - side] < 0) return true;
    message.begin = state.now;
    if (move_here.by_device) {
      state.copies = numbers[number];
      count_bytes(kind, bytes_of(transfer));
      return work_on_exchange(c, links_.seconds_alone(kind, bytes_of(transfer)), label_of(c, at));
    }
    move(kind, state.now, bytes_of(transfer), {Moving::Of::kMessage, numbers[number], 0});
    return true;
  }

  void queue(size_t c, const ProgramStep& step) {
    State& state = states_[c];
    auto& jobs = state.jobs[step.kind == Kind::kLoad ? 0 : 1];
    jobs.push_back({static_cast<int32_t>(state.next), state.now});
    state.open.push_back(static_cast<int32_t>(state.next));
    if (jobs.size() == 1) begin_job(c, step.kind == Kind::kLoad, state.now);
  }

  /// A load or store that the device does itself, on a processor that it shares.
  bool copy(size_t c, const ProgramStep& step) {
    State& state = states_[c];
    const auto at = static_cast<int32_t>(state.next++);
    const int what = moves_.what_of_stream(static_cast<size_t>(fold_.classes[c].stage), step.kind == Kind::kLoad);
    const double bytes = bytes_of(transfer_of(c, at)), seconds = links_.seconds_alone(kind_of(what, c), bytes);
    count_bytes(kind_of(what, c), bytes);
    state.ended[static_cast<size_t>(at)] = 1;
    state.time.streaming += seconds;
    note_work(c, Activity::kStreaming, state.now, state.now + seconds, label_of(c, at));
    return work_for(c, seconds);
  }

  void begin_job(size_t c, bool load, double now) {
    State::Job& job = states_[c].jobs[load ? 0 : 1].front();
    job.begin = now;
    const int what = moves_.what_of_stream(static_cast<size_t>(fold_.classes[c].stage), load);
    move(kind_of(what, c), now, bytes_of(transfer_of(c, job.step)),
         {Moving::Of::kJob, static_cast<int32_t>(c), load ? 1 : 0});
  }

  void move(int32_t kind, double now, double amount, const Moving& moving) {
    const auto number = static_cast<size_t>(links_.start(kind, now, amount));
    if (moving_.size() <= number) moving_.resize(number + 1);
    moving_[number] = moving;
    count_bytes(kind, amount);
    note_rates(now);
  }

  void count_bytes(int32_t kind, double amount) {
    for (const LinkBytes& load : fold_.kinds[static_cast<size_t>(kind)].loads)
      link_bytes_[static_cast<size_t>(load.link)] += amount * load.bytes;
    const auto& channels = fold_.kinds[static_cast<size_t>(kind)].channel_bytes;
    for (size_t channel = 0; channel < channels.size(); ++channel) rates_[channel].bytes += amount * channels[channel];
  }

  void end(Moving moving, double now) {
    switch (moving.of) {
      case Moving::Of::kMeeting: return end_meeting(moving.a, now);
      case Moving::Of::kMessage: return end_message(moving.a, now);
      case Moving::Of::kJob: {
        const auto c = static_cast<size_t>(moving.a);
        auto& jobs = states_[c].jobs[moving.b != 0 ? 0 : 1];
        const State::Job job = jobs.front();
        jobs.pop_front();
        note_beside(c, Activity::kStreaming, job.begin, now, job.step);
        if (!jobs.empty()) begin_job(c, moving.b != 0, now);
        return end_step(c, job.step, now);
      }
    }
  }

  void end_message(int32_t number, double now) {
    const Message& message = messages_[static_cast<size_t>(number)];
    for (size_t side = 0; side < 2; ++side) {
      const auto c = static_cast<size_t>(message.of[side]);
      note_beside(c, Activity::kExchange, message.begin, now, message.step[side]);
      end_step(c, message.step[side], now);
    }
  }

  /// What a step of a device started has ended.
  void end_step(size_t c, int32_t step, double now) {
    State& state = states_[c];
    state.ended[static_cast<size_t>(step)] = 1;
    if (state.waits_for != step) return;
    state.waits_for = -1;
    const bool streams = transfer_of(c, step).peer < 0;
    (streams ? state.time.streaming : state.time.waiting) += now - state.since;
    note_work(c, streams ? Activity::kStreaming : Activity::kWait, state.since, now, label_of(c, step));
    wake(c, now);
  }

  void wait_for(size_t c, int32_t step) {
    State& state = states_[c];
    state.waits_for = step;
    state.since = state.now;
  }

  int32_t class_of(int32_t device) const { return fold_.class_of[static_cast<size_t>(device)]; }

  // Timelines --------------------------------------------------------------------------------------------------------

  void note_work(size_t c, Activity activity, double begin, double end, int32_t label) {
    if (options_.timelines && end > begin) timelines_[c].work.push_back({begin, end, activity, label});
  }
  void note_parts(size_t c, const StageCode::Segment& code, const StageCode::Item& item) {
    if (!options_.timelines) return;
    double at = states_[c].now;
    for (int32_t p = item.first_part; p < item.first_part + item.parts; ++p) {
      const StageCode::Part& part = code.parts[static_cast<size_t>(p)];
      note_work(c, Activity::kCompute, at, at + part.seconds, part.label);
      at += part.seconds;
    }
  }
  void note_run(size_t c, const Segment& segment, const ProgramStep& step) {
    if (!options_.timelines) return;
    const State& state = states_[c];
    const std::string micro = step.micro < 0 ? "" : ", micro-batch " + std::to_string(step.micro);
    timelines_[c].runs.push_back(
        {state.run_began, state.now, Activity::kCompute, labels_.number(segment.name + micro)});
  }
  void note_beside(size_t c, Activity activity, double begin, double end, int32_t step) {
    if (!options_.timelines) return;
    const Kind kind = states_[c].exe->train().steps[static_cast<size_t>(step)].kind;
    const char* verb = kind == Kind::kSend      ? "send "
                       : kind == Kind::kReceive ? "receive "
                       : kind == Kind::kLoad    ? "load "
                                                : "store ";
    const int32_t label = labels_.number(verb + transfer_of(c, step).name);
    (activity == Activity::kStreaming ? timelines_[c].streams : timelines_[c].messages)
        .push_back({begin, end, activity, label});
  }
  void note_rates(double now) {
    if (!options_.timelines) return;
    for (size_t channel = 0; channel < rates_.size(); ++channel) {
      double rate = 0;
      for (const int kind : links_.active())
        rate +=
            links_.rates()[static_cast<size_t>(kind)] * fold_.kinds[static_cast<size_t>(kind)].channel_bytes[channel];
      auto& rates = rates_[channel].rates;
      if (!rates.empty() && rates.back().at == now) {
        rates.back().rate = rate;
      } else if (rates.empty() ? rate > 0 : rates.back().rate != rate) {
        rates.push_back({now, rate});
      }
    }
  }

  // Outcome ----------------------------------------------------------------------------------------------------------

  [[noreturn]] void stuck(size_t c) const {
    const State& state = states_[c];
    throw Error({.what = "devices wait for each other for ever",
                 .where = "stage " + std::to_string(fold_.classes[c].stage),
                 .found = state.next < state.exe->train().steps.size()
                              ? state.exe->text_of(state.exe->train().steps[state.next])
                              : "a transfer that does not end",
                 .remedy = "Compile the layout again; if it stays so, it is a fault of Ramet"},
                ErrorKind::kFailure);
  }

  Simulation outcome() {
    Simulation result;
    result.devices = moves_.devices();
    result.events = events_;
    for (size_t c = 0; c < states_.size(); ++c) {
      if (!states_[c].finished) stuck(c);
      result.seconds = std::max(result.seconds, states_[c].now);
    }
    result.stages.resize(executables_.size());
    double waiting = 0, at_peak = 0;
    for (size_t c = 0; c < states_.size(); ++c) {
      State& state = states_[c];
      state.time.waiting += result.seconds - state.now;
      note_work(c, Activity::kWait, state.now, result.seconds, end_label_);
      state.time.work.finish(state.known);
      waiting += state.time.waiting * fold_.classes[c].devices;
      at_peak += state.at_peak * fold_.classes[c].devices;
      add_mean(
          result.stages[static_cast<size_t>(fold_.classes[c].stage)], state.time,
          static_cast<double>(fold_.classes[c].devices) * static_cast<double>(executables_.size()) / result.devices);
    }
    if (result.seconds > 0) {
      result.bubble = waiting / (result.seconds * result.devices);
      result.share_of_peak = at_peak / (result.seconds * result.devices);
    }
    for (size_t channel = 0; channel < rates_.size(); ++channel) {
      const Channel& link = moves_.channels()[channel];
      ChannelTraffic& traffic = rates_[channel];
      traffic.name = link.name;
      traffic.links = link.links;
      traffic.bandwidth = link.bandwidth;
    }
    for (size_t link = 0; link < link_bytes_.size(); ++link) {
      double& busiest = rates_[static_cast<size_t>(moves_.channel_of()[link])].busiest;
      busiest = std::max(busiest, link_bytes_[link]);
    }
    result.channels = std::move(rates_);
    for (size_t d = 0; d < fold_.class_of.size(); ++d)
      timelines_[static_cast<size_t>(fold_.class_of[d])].devices.push_back(static_cast<int32_t>(d));
    result.timelines = std::move(timelines_);
    result.labels = labels_.take();
    return result;
  }

  static void add_mean(StageTime& mean, const StageTime& time, double share) {
    mean.work.seconds += share * time.work.seconds;
    mean.work.micro += share * time.work.micro;
    mean.work.update += share * time.work.update;
    mean.work.derive += share * time.work.derive;
    mean.work.lanes += share * time.work.lanes;
    mean.work.measured_share += share * time.work.measured_share;
    mean.exchanging += share * time.exchanging;
    mean.streaming += share * time.streaming;
    mean.waiting += share * time.waiting;
  }

  std::span<const Executable> executables_;
  const SimulationOptions options_;
  Moves moves_;
  DeviceClasses fold_;
  SharedLinks links_;
  std::optional<SharedLinks> processors_;
  double jitter_;
  Labels labels_;
  const int32_t lanes_label_ = labels_.number("lanes"), agreement_label_ = labels_.number("all devices agree"),
                end_label_ = labels_.number("end of the step"), processor_label_ = labels_.number("a processor");
  std::vector<StageCode> codes_;
  std::vector<State> states_;
  std::vector<Meeting> meetings_;  // by kind
  Meeting agreed_;
  std::map<Way, std::vector<int32_t>> ways_;
  std::deque<Message> messages_;
  std::vector<Moving> moving_;    // by number of the move
  std::vector<int32_t> working_;  // by number of the work: class
  std::map<size_t, double> maxima_;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready_;
  std::vector<double> link_bytes_;
  std::vector<ChannelTraffic> rates_;
  std::vector<DeviceTimeline> timelines_;
  int64_t events_ = 0;
};

}  // namespace

const char* name_of(Activity activity) {
  constexpr std::array<const char*, kActivities> names = {"compute", "exchange", "streaming", "wait"};
  return names[static_cast<size_t>(activity)];
}

Simulation simulate(std::span<const Executable> stages, const Machine& machine, const SimulationOptions& options) {
  return Run(stages, machine, options).run();
}

}  // namespace ramet::sim
