#include "ramet/program/match.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "ramet/program/compile.h"
#include "support/chain.h"
#include "support/fault.h"

namespace ramet::tests {
namespace {

using Kind = ProgramStep::Kind;

const Backend& backend() {
  static const Backend made = toy::make_backend();
  return made;
}

toy::Chain chain_of(const std::string& layout, int64_t micro_batches = 4) {
  toy::Chain chain;
  chain.layout = parse_layout(layout);
  chain.layers_per_part = 1;
  chain.micro_batches_per_lane = micro_batches;
  return chain;
}

std::vector<Executable> compiled(const std::string& layout) {
  return compile_layout(chain_of(layout).cut(), backend());
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
}

TEST(Match, EveryScheduleFitsAndNumbersItsSupersteps) {
  for (const char* layout :
       {"p=2", "p=4 schedule=gpipe", "p=4", "p=3 schedule=zero-bubble", "p=2 schedule=interleaved:3", "p=4 phases=2"}) {
    SCOPED_TRACE(layout);
    const std::vector<Executable> executables = compiled(layout);
    verify_match(executables);
    // What a run reads was made in an earlier superstep, wherever.
    std::map<std::pair<int32_t, int32_t>, int32_t> sent;  // by tag and micro-batch
    for (const Executable& exe : executables)
      for (const ProgramStep& step : exe.train().steps)
        if (step.kind == Kind::kSend)
          sent[{exe.transfers[static_cast<size_t>(step.subject)].tag, step.micro}] = step.superstep;
    for (const Executable& exe : executables) {
      EXPECT_EQ(exe.train().supersteps, executables[0].train().supersteps);
      int32_t before = -1;
      std::vector<int32_t> came;
      for (size_t i = 0; i < exe.train().steps.size(); ++i) {
        const ProgramStep& step = exe.train().steps[i];
        EXPECT_LT(step.superstep, exe.train().supersteps);
        if (step.kind == Kind::kWait && exe.train().steps[static_cast<size_t>(step.subject)].kind == Kind::kReceive) {
          const ProgramStep& receive = exe.train().steps[static_cast<size_t>(step.subject)];
          came.push_back(sent.at({exe.transfers[static_cast<size_t>(receive.subject)].tag, receive.micro}));
        }
        if (step.kind != Kind::kRun) continue;
        EXPECT_GT(step.superstep, before);
        before = step.superstep;
        for (int32_t superstep : came) EXPECT_GT(step.superstep, superstep);
        came.clear();
      }
    }
  }
}

/// The most that a side has started and not waited for, over the ways of a program, found by running it.
int64_t most_open(const Executable& exe, Kind kind, int peer) {
  int64_t most = 0;
  for (const Program& program : exe.programs) {
    std::set<size_t> open;
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const ProgramStep& step = program.steps[i];
      if (step.kind == kind && exe.transfers[static_cast<size_t>(step.subject)].peer == peer) open.insert(i);
      if (step.kind == Kind::kWait) open.erase(static_cast<size_t>(step.subject));
      most = std::max(most, static_cast<int64_t>(open.size()));
    }
  }
  return most;
}

TEST(Match, CountsTheMessagesThatATransportMustHold) {
  EXPECT_EQ(messages_under_way(compiled("p=1")), 0);
  for (const char* layout : {"p=2", "p=2 schedule=gpipe", "p=4", "p=2 schedule=interleaved:3", "p=4 phases=2"}) {
    SCOPED_TRACE(layout);
    const std::vector<Executable> executables = compiled(layout);
    int64_t most = 0;
    for (size_t from = 0; from < executables.size(); ++from)
      for (size_t to = 0; to < executables.size(); ++to)
        if (from != to)
          most = std::max(most, most_open(executables[from], Kind::kSend, static_cast<int>(to)) +
                                    most_open(executables[to], Kind::kReceive, static_cast<int>(from)));
    EXPECT_GE(most, 2);
    EXPECT_EQ(messages_under_way(executables), most);
  }
}

TEST(Match, FindsWhatIsSentAndNotReceived) {
  for (const Kind kind : {Kind::kSend, Kind::kReceive}) {
    std::vector<Executable> executables = compiled("p=3");
    // The second such step of stage 1 becomes harmless; those who wait for it wait for another.
    auto& train = executables[1].train().steps;
    int seen = 0;
    for (size_t i = 0; i < train.size(); ++i)
      if (train[i].kind == kind && ++seen == 2) {
        train[i] = {Kind::kZero, 0, -1, 0, 0, 0};
        for (ProgramStep& step : train)
          if (step.kind == Kind::kWait && step.subject == static_cast<int32_t>(i)) step = {Kind::kZero, 0, -1, 0, 0, 0};
      }
    const std::string fault = fault_of([&] { verify_match(executables); });
    expect_part(fault, "what one stage sends is not what another receives");
    expect_part(fault, kind == Kind::kSend ? "message 1 from stage 1 to stage " : "message 1 from stage ");
    expect_part(fault, " sends 'act");
    expect_part(fault, " receives 'act");
  }
}

TEST(Match, FindsOtherTypesAndOtherOrders) {
  std::vector<Executable> types = compiled("p=2");
  for (Transfer& transfer : types[0].transfers) transfer.type.dtype = DType::kI32;
  expect_part(fault_of([&] { verify_match(types); }),
              "sends 'act0' i32[96] of micro-batch 0; expected stage 1 receives 'act0' f32[96] of micro-batch 0");
  std::vector<Executable> order = compiled("p=2");
  std::vector<size_t> sends;
  for (size_t i = 0; i < order[0].train().steps.size(); ++i)
    if (order[0].train().steps[i].kind == Kind::kSend && order[0].train().steps[i].micro >= 0) sends.push_back(i);
  std::swap(order[0].train().steps[sends[1]].micro, order[0].train().steps[sends[2]].micro);
  expect_part(
      fault_of([&] { verify_match(order); }),
      "stage 0 sends 'act0' f32[96] of micro-batch 2; expected stage 1 receives 'act0' f32[96] of micro-batch 1");
}

TEST(Match, FindsStagesThatWaitForEachOther) {
  std::vector<Executable> executables = compiled("p=2 schedule=gpipe");
  // Stage 0 asks for the first gradient before it has sent anything.
  auto& train = executables[0].train().steps;
  const auto receive =
      std::find_if(train.begin(), train.end(), [](const ProgramStep& step) { return step.kind == Kind::kReceive; });
  const auto at = static_cast<int32_t>(receive - train.begin());
  ProgramStep moved = *receive;
  *receive = {Kind::kZero, 0, -1, 0, 0, 0};
  for (ProgramStep& step : train)
    if (step.kind == Kind::kWait) step.subject = step.subject == at ? 0 : step.subject + 2;
  train.insert(train.begin(), {moved, {Kind::kWait, 0, -1, 0, 0, 0}});
  const std::string fault = fault_of([&] { verify_match(executables); });
  expect_part(fault,
              "program 'train': stages wait for each other for ever; found stage 0 waits for stage 1 to send 'back1' "
              "f32[96] of micro-batch 0");
  expect_part(fault, "stage 1 waits for stage 0 to send 'act0' f32[96] of micro-batch 0");
}

TEST(Match, FindsStagesInDifferentCollectives) {
  std::vector<Executable> executables = compiled("p=2");
  for (Call& call : executables[1].calls)
    if (call.node.op->name == "all_reduce" && call.node.attributes.get_int("axis") == 0)
      call.node.attributes.set("kind", std::string("max"));
  expect_part(fault_of([&] { verify_match(executables); }), "stages meet in different collectives");
  std::vector<Executable> missing = compiled("p=2");
  std::erase_if(missing[1].train().steps, [&](const ProgramStep& step) {
    return step.kind == Kind::kRun && missing[1].segments[static_cast<size_t>(step.subject)].name == "update 0";
  });
  for (ProgramStep& step : missing[1].train().steps)
    if (step.kind == Kind::kWait) step = {Kind::kZero, 0, -1, 0, 0, 0};
  expect_part(fault_of([&] { verify_match(missing); }), "waits in all_reduce 'meet'");
}

/// A table of the same runs in a random order that keeps, on each stage, the order of micro-batches within a part's
/// pass and forward before backward.
void shuffle(ScheduleTable& table, std::mt19937& random) {
  for (auto& row : table.entries) {
    std::vector<ScheduleEntry> rest = row, mixed;
    while (!rest.empty()) {
      std::vector<size_t> ready;
      for (size_t i = 0; i < rest.size(); ++i) {
        const bool waits = std::any_of(rest.begin(), rest.end(), [&](const ScheduleEntry& other) {
          const bool same = other.part == rest[i].part;
          return same && ((other.pass == rest[i].pass && other.micro < rest[i].micro) ||
                          (other.micro == rest[i].micro && other.pass < rest[i].pass));
        });
        if (!waits) ready.push_back(i);
      }
      const size_t next = ready[random() % ready.size()];
      mixed.push_back(rest[next]);
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(next));
    }
    row = mixed;
  }
}

TEST(Match, RandomTablesAreRefusedWhereTheyWouldWaitForEver) {
  std::mt19937 random(7);
  int taken = 0, refused = 0;
  for (int i = 0; i < 150; ++i) {
    const char* layouts[] = {"p=2", "p=3", "p=2 schedule=interleaved:2", "p=2 schedule=zero-bubble"};
    DeviceGraphs graphs = chain_of(layouts[i % 4], 2 + i % 3).cut();
    shuffle(graphs.table, random);
    bool runs = true;
    try {
      outcome_of(graphs.table, unit_times(graphs.table.parts(), graphs.table.split_backward));
    } catch (const Error&) {
      runs = false;
    }
    const std::string fault = fault_of([&] { compile_layout(graphs, backend()); });
    EXPECT_EQ(fault.empty(), runs) << fault;
    ++(runs ? taken : refused);
  }
  EXPECT_GT(taken, 10);
  EXPECT_GT(refused, 10);
}

TEST(Match, RandomDamageIsFound) {
  std::mt19937 random(11);
  const std::vector<Executable> whole = compiled("p=3");
  int found = 0;
  for (int i = 0; i < 300; ++i) {
    std::vector<Executable> damaged = whole;
    auto& train = damaged[random() % 3].train().steps;
    std::vector<size_t> messages;
    for (size_t k = 0; k < train.size(); ++k)
      if (train[k].kind == Kind::kSend || train[k].kind == Kind::kReceive) messages.push_back(k);
    ProgramStep& step = train[messages[random() % messages.size()]];
    const ProgramStep before = step;
    if (random() % 2)
      step.micro = static_cast<int32_t>(random() % 4);
    else
      step.subject = train[messages[random() % messages.size()]].subject;
    const bool changed = step.micro != before.micro || step.subject != before.subject;
    const bool same_way = step.kind == before.kind;
    const std::string fault = fault_of([&] { verify_match(damaged); });
    EXPECT_EQ(changed && same_way, !fault.empty());
    found += !fault.empty();
  }
  EXPECT_GT(found, 100);
}

}  // namespace
}  // namespace ramet::tests
