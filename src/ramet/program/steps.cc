#include "ramet/program/steps.h"

namespace ramet {
namespace {

using Kind = ProgramStep::Kind;

class ProgramMaker {
 public:
  ProgramMaker(Executable& exe, const RegionPlan& plan)
      : exe_(exe), plan_(plan), lane_slot_(lane_slot_of(exe.lanes)), combines_(lane_combines(exe.lanes)) {}

  void run() {
    for (const Region& region : plan_.regions)
      for (const Region::Run& run : region.runs) add_run(region.evaluation ? exe_.evaluate : exe_.train, run);
    for (size_t i = 0; i < exe_.segments.size(); ++i)
      if (exe_.segments[i].kind == PieceKind::kPrepare) add_run(exe_.prepare, {static_cast<int32_t>(i), -1});
  }

 private:
  void add_run(std::vector<ProgramStep>& program, const Region::Run& run) {
    const Segment& segment = exe_.segments[static_cast<size_t>(run.segment)];
    const int32_t superstep = program.empty() ? 0 : program.back().superstep + 1;
    const bool sums = !segment.accumulators.empty() && run.micro >= 0;
    const int64_t lane = run.micro / exe_.micro_batches_per_lane, within = run.micro % exe_.micro_batches_per_lane;
    const int32_t slot = sums ? lane_slot_[static_cast<size_t>(lane)] : 0;
    if (sums && within == 0) program.push_back({Kind::kZero, run.segment, -1, slot, 0, superstep});
    program.push_back({Kind::kRun, run.segment, run.micro, slot, 0, superstep});
    if (sums && within + 1 == exe_.micro_batches_per_lane)
      for (const auto& [into, from] : combines_[static_cast<size_t>(lane)]) program.push_back({Kind::kCombine, run.segment, -1, into, from, superstep});
  }

  Executable& exe_;
  const RegionPlan& plan_;
  const std::vector<int> lane_slot_;
  const std::vector<std::vector<std::pair<int, int>>> combines_;
};

}  // namespace

void make_programs(Executable& executable, const RegionPlan& plan) { ProgramMaker(executable, plan).run(); }

}  // namespace ramet
