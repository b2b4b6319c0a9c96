#include "ramet/program/match.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "ramet/base/error.h"
#include "ramet/layout/stage_update.h"
#include "ramet/ops/collective.h"

namespace ramet::program {
namespace {

using Kind = ProgramStep::Kind;

[[noreturn]] void mismatch(const std::string& what, const std::string& where, const std::string& found,
                           const std::string& expected) {
  throw Error({.what = what,
               .where = where,
               .found = found,
               .expected = expected,
               .remedy = "Compile the layout again; if it stays so, it is a fault of Ramet"},
              ErrorKind::kFailure);
}

/// A collective between stages.
struct StageCollective {
  std::string name;
  CollectiveForm form;
  std::string text() const {
    return name + " (" + form.input.text() + ", " + form.kind + ", groups of " + std::to_string(form.parts) +
           " stages at distance " + std::to_string(form.stride) + ")";
  }
  bool operator==(const StageCollective& other) const {
    return name == other.name && form.exchange == other.form.exchange && form.parts == other.form.parts &&
           form.stride == other.form.stride && form.kind == other.form.kind && form.input == other.form.input &&
           form.output == other.form.output && form.outer == other.form.outer;
  }
};

/// Runs one program of all stages together, step by step.
class Rendezvous {
 public:
  Rendezvous(std::span<const Executable> executables, size_t program)
      : executables_(executables),
        program_(program),
        name_(executables[0].programs[program].name),
        stages_(executables.size()) {
    for (size_t s = 0; s < stages_.size(); ++s)
      for (const Segment& segment : executables[s].segments)
        stages_[s].collectives.push_back(collectives_of(executables[s], segment));
  }

  void run() {
    compare_messages();
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < stages_.size(); ++s)
        while (advance(s)) moved = true;
    }
    for (size_t s = 0; s < stages_.size(); ++s)
      if (!ended(s)) stuck(s);
  }

  /// Supersteps of the program, after `run`.
  int32_t length() const {
    int32_t most = 0;
    for (const StageState& stage : stages_) most = std::max(most, stage.clock);
    return most;
  }

  /// Superstep of each step of a stage, after `run`.
  std::vector<int32_t> supersteps(size_t stage) const {
    const auto& steps = steps_of(stage);
    std::vector<int32_t> numbers(steps.size());
    // What prepares a run belongs to it; what follows from it too.
    int32_t next = stages_[stage].clock > 0 ? stages_[stage].clock - 1 : 0;
    size_t run = stages_[stage].run_superstep.size();
    for (size_t i = steps.size(); i-- > 0;) {
      if (steps[i].kind == Kind::kRun) next = stages_[stage].run_superstep[--run];
      const bool follows =
          steps[i].kind == Kind::kSend || steps[i].kind == Kind::kStore || steps[i].kind == Kind::kCombine;
      numbers[i] = follows && run > 0 ? stages_[stage].run_superstep[run - 1] : next;
    }
    return numbers;
  }

 private:
  struct StageState {
    size_t next = 0, collective = 0;  ///< step, and collective between stages within its run
    int32_t clock = 0, current = -1;  ///< superstep of the next run; of the run at hand
    std::vector<int32_t> run_superstep;
    std::vector<std::vector<StageCollective>> collectives;  ///< by segment
  };
  using Way = std::tuple<int, int, int32_t>;  ///< from, to, tag
  struct Messages {
    int64_t sent = 0, received = 0;
    std::vector<int32_t> carried;  ///< superstep after which each is there
  };

  static std::vector<StageCollective> collectives_of(const Executable& exe, const Segment& segment) {
    std::vector<StageCollective> found;
    for (const Instruction* instruction : stage_collectives(exe, segment)) {
      const NodeSignature& node = exe.calls[static_cast<size_t>(instruction->call)].node;
      found.push_back({node.op->name + " '" + instruction->name + "'", collective_form(node)});
    }
    return found;
  }

  const std::vector<ProgramStep>& steps_of(size_t stage) const { return executables_[stage].programs[program_].steps; }
  bool ended(size_t stage) const { return stages_[stage].next == steps_of(stage).size(); }
  std::string label(size_t stage) const { return "stage " + std::to_string(stage); }
  const Transfer& transfer_of(size_t stage, const ProgramStep& step) const {
    return executables_[stage].transfers[static_cast<size_t>(step.subject)];
  }

  Way way_of(size_t stage, const ProgramStep& step) const {
    const Transfer& transfer = transfer_of(stage, step);
    const int here = static_cast<int>(stage);
    return step.kind == Kind::kSend ? Way(here, transfer.peer, transfer.tag) : Way(transfer.peer, here, transfer.tag);
  }

  std::string text_of(size_t stage, const ProgramStep& step) const {
    const Transfer& transfer = transfer_of(stage, step);
    return "'" + transfer.name + "' " + transfer.type.text() +
           (step.micro < 0 ? "" : " of micro-batch " + std::to_string(step.micro));
  }

  /// The k-th send of a way and its k-th receive must be of the same thing.
  void compare_messages() {
    std::map<Way, std::vector<std::string>> sends, receives;
    for (size_t s = 0; s < stages_.size(); ++s)
      for (const ProgramStep& step : steps_of(s)) {
        if (step.kind == Kind::kSend) sends[way_of(s, step)].push_back(text_of(s, step));
        if (step.kind == Kind::kReceive) receives[way_of(s, step)].push_back(text_of(s, step));
      }
    for (const auto& [way, unused] : receives) sends[way];
    for (const auto& [way, sent] : sends) {
      const auto& [from, to, tag] = way;
      const auto& received = receives[way];
      for (size_t k = 0; k < std::max(sent.size(), received.size()); ++k) {
        const std::string a = k < sent.size() ? sent[k] : "nothing more",
                          b = k < received.size() ? received[k] : "nothing more";
        if (a != b)
          mismatch("what one stage sends is not what another receives",
                   "program '" + name_ + "', message " + std::to_string(k) + " from stage " + std::to_string(from) +
                       " to stage " + std::to_string(to),
                   "stage " + std::to_string(from) + " sends " + a, "stage " + std::to_string(to) + " receives " + b);
      }
    }
  }

  /// Does the next step of a stage if it can be done now.
  bool advance(size_t stage) {
    StageState& state = stages_[stage];
    if (ended(stage)) return false;
    const ProgramStep& step = steps_of(stage)[state.next];
    switch (step.kind) {
      case Kind::kRun:
        if (!run_segment(stage, step)) return false;
        break;
      case Kind::kSend: {
        Messages& messages = messages_[way_of(stage, step)];
        number_of_[{stage, state.next}] = messages.sent++;
        messages.carried.push_back(state.clock);
        break;
      }
      case Kind::kReceive: number_of_[{stage, state.next}] = messages_[way_of(stage, step)].received++; break;
      case Kind::kWait:
        if (!has_ended(stage, step)) return false;
        break;
      default: break;
    }
    ++state.next;
    return true;
  }

  bool has_ended(size_t stage, const ProgramStep& wait) {
    const ProgramStep& started = steps_of(stage)[static_cast<size_t>(wait.subject)];
    if (started.kind != Kind::kSend && started.kind != Kind::kReceive) return true;
    const Messages& messages = messages_[way_of(stage, started)];
    const int64_t number = number_of_.at({stage, static_cast<size_t>(wait.subject)});
    if (started.kind == Kind::kSend) return messages.received > number;
    if (messages.sent <= number) return false;
    stages_[stage].clock = std::max(stages_[stage].clock, messages.carried[static_cast<size_t>(number)]);
    return true;
  }

  bool run_segment(size_t stage, const ProgramStep& step) {
    StageState& state = stages_[stage];
    if (state.current < 0) state.current = state.clock;
    const auto& collectives = state.collectives[static_cast<size_t>(step.subject)];
    while (state.collective < collectives.size())
      if (!meet(stage, collectives[state.collective])) return false;
    state.run_superstep.push_back(state.current);
    state.clock = state.current + 1;
    state.current = -1;
    state.collective = 0;
    return true;
  }

  /// The collective that a stage waits in, or null.
  const StageCollective* waiting_in(size_t stage) const {
    const StageState& state = stages_[stage];
    if (ended(stage) || state.current < 0) return nullptr;
    const ProgramStep& step = steps_of(stage)[state.next];
    if (step.kind != Kind::kRun) return nullptr;
    const auto& collectives = state.collectives[static_cast<size_t>(step.subject)];
    return state.collective < collectives.size() ? &collectives[state.collective] : nullptr;
  }

  bool meet(size_t stage, const StageCollective& collective) {
    const Mesh& mesh = executables_[stage].mesh;
    if (collective.form.parts > mesh.p || mesh.p % (collective.form.parts * collective.form.stride) != 0)
      mismatch("a collective between stages has members that do not exist", label(stage), collective.text(),
               "groups among " + std::to_string(mesh.p) + " stages");
    const auto parts = static_cast<size_t>(collective.form.parts), stride = static_cast<size_t>(collective.form.stride);
    const size_t base = stage - stage / stride % parts * stride;
    std::vector<size_t> members(parts);
    for (size_t k = 0; k < parts; ++k) members[k] = base + k * stride;
    int32_t superstep = 0;
    for (size_t member : members) {
      const StageCollective* other = waiting_in(member);
      if (!other) return false;
      if (!(*other == collective))
        mismatch("stages meet in different collectives", "program '" + name_ + "'",
                 label(stage) + " in " + collective.text(), label(member) + " in " + other->text());
      superstep = std::max(superstep, stages_[member].current);
    }
    for (size_t member : members) {
      stages_[member].current = superstep;
      ++stages_[member].collective;
    }
    return true;
  }

  [[noreturn]] void stuck(size_t stage) const {
    const auto waits = [&](size_t s) {
      if (ended(s)) return label(s) + " has come to its end";
      const ProgramStep& step = steps_of(s)[stages_[s].next];
      if (const StageCollective* collective = waiting_in(s)) return label(s) + " waits in " + collective->text();
      const ProgramStep& started = steps_of(s)[static_cast<size_t>(step.subject)];
      const Transfer& transfer = transfer_of(s, started);
      return label(s) + " waits for stage " + std::to_string(transfer.peer) + " to " +
             (started.kind == Kind::kSend ? "receive " : "send ") + text_of(s, started);
    };
    std::string others;
    for (size_t s = 0; s < stages_.size(); ++s)
      if (s != stage) others += (others.empty() ? "" : "; ") + waits(s);
    mismatch("stages wait for each other for ever", "program '" + name_ + "'", waits(stage),
             "all to come to their ends, but " + (others.empty() ? "there is no other" : others));
  }

  std::span<const Executable> executables_;
  const size_t program_;
  const std::string name_;
  std::vector<StageState> stages_;
  std::map<Way, Messages> messages_;
  std::map<std::pair<size_t, size_t>, int64_t> number_of_;  // of the message that a step started
};

}  // namespace

std::vector<const Instruction*> stage_collectives(const Executable& exe, const Segment& segment) {
  std::vector<const Instruction*> found;
  for (const Instruction& instruction : segment.instructions) {
    if (instruction.call < 0) continue;
    const NodeSignature& node = exe.calls[static_cast<size_t>(instruction.call)].node;
    if (layout::meets_stages(*node.op, node.attributes)) found.push_back(&instruction);
  }
  return found;
}

namespace {

std::string programs_of(const Executable& exe) {
  std::string text;
  for (const Program& program : exe.programs)
    text += (text.empty() ? "" : "; ") + program.name + ", " + text_of(program.when) + ", " +
            std::to_string(program.width) + " at a time";
  return text;
}

}  // namespace

void verify_match(std::span<const Executable> executables) {
  for (size_t s = 0; s < executables.size(); ++s)
    if (executables[s].stage != static_cast<int32_t>(s) || !(executables[s].mesh == executables[0].mesh) ||
        executables[s].mesh.p != static_cast<int>(executables.size()))
      mismatch("these are not the stages of one layout", "stage " + std::to_string(s),
               std::to_string(executables.size()) + " executables", std::to_string(executables[s].mesh.p));
  for (const Executable& exe : executables)
    if (!std::equal(exe.programs.begin(), exe.programs.end(), executables[0].programs.begin(),
                    executables[0].programs.end(), [](const Program& a, const Program& b) {
                      return a.name == b.name && a.when == b.when && a.width == b.width &&
                             a.writes_states == b.writes_states && a.prepares == b.prepares &&
                             a.reads_data == b.reads_data;
                    }))
      mismatch("stages do not have the same programs", "stage " + std::to_string(exe.stage), programs_of(exe),
               programs_of(executables[0]));
  for (size_t program = 0; program < executables[0].programs.size(); ++program) Rendezvous(executables, program).run();
}

namespace {

/// The most of a stage's sends to each other stage that are started and not waited for, and of its receives, by
/// (kind, the other stage).
std::map<std::pair<Kind, int>, int64_t> most_started(const Executable& exe) {
  std::map<std::pair<Kind, int>, int64_t> now, most;
  const auto way_of = [&](const ProgramStep& step) {
    return std::pair(step.kind, exe.transfers[static_cast<size_t>(step.subject)].peer);
  };
  for (const Program& program : exe.programs)
    for (const ProgramStep& step : program.steps) {
      if (step.kind == Kind::kSend || step.kind == Kind::kReceive) {
        const int64_t started = ++now[way_of(step)];
        most[way_of(step)] = std::max(most[way_of(step)], started);
      } else if (step.kind == Kind::kWait) {
        const ProgramStep& ended = program.steps[static_cast<size_t>(step.subject)];
        if (ended.kind == Kind::kSend || ended.kind == Kind::kReceive) --now[way_of(ended)];
      }
    }
  return most;
}

}  // namespace

int64_t messages_under_way(std::span<const Executable> executables) {
  std::map<std::pair<int, int>, int64_t> ways;  // from, to
  for (size_t s = 0; s < executables.size(); ++s)
    for (const auto& [way, count] : most_started(executables[s])) {
      const auto& [kind, peer] = way;
      const int here = static_cast<int>(s);
      ways[kind == Kind::kSend ? std::pair(here, peer) : std::pair(peer, here)] += count;
    }
  int64_t most = 0;
  for (const auto& [way, count] : ways) most = std::max(most, count);
  return most;
}

void number_supersteps(std::span<Executable> executables) {
  for (size_t program = 0; program < executables[0].programs.size(); ++program) {
    Rendezvous rendezvous(executables, program);
    rendezvous.run();
    for (size_t s = 0; s < executables.size(); ++s) {
      Program& own = executables[s].programs[program];
      own.supersteps = rendezvous.length();
      const std::vector<int32_t> numbers = rendezvous.supersteps(s);
      for (size_t i = 0; i < numbers.size(); ++i) own.steps[i].superstep = numbers[i];
    }
  }
}

void verify_guards(std::span<const Executable> executables) {
  std::map<std::string, std::set<int32_t>> stages;
  for (const Executable& exe : executables)
    for (const Segment& segment : exe.segments)
      for (const Binding& result : segment.results)
        if (result.guard && segment.kind == PieceKind::kUpdate) stages[result.name].insert(exe.stage);
  for (const auto& [name, found] : stages)
    if (found.size() != executables.size())
      throw Error(
          {.what = "a guard of the update is not known to every pipeline stage, so that they cannot end a step "
                   "together",
           .where = "'" + name + "'",
           .found = "on " + std::to_string(found.size()) + " of " + std::to_string(executables.size()) + " stages",
           .remedy = "Guard a sum over all weights, as the norm of the gradients, or let the micro graph give "
                     "it"});
}

}  // namespace ramet::program
