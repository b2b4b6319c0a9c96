#include "ramet/program/steps.h"

#include <algorithm>
#include <map>

#include "ramet/base/error.h"

namespace ramet::program {
namespace {

using Kind = ProgramStep::Kind;

/// What must happen around each run.
struct Around {
  struct Event {
    int32_t stay = 0, instance = 0;
  };
  std::vector<Event> come, read, write;  ///< before it: instances that are received or loaded, read, written
};

class ProgramMaker {
 public:
  ProgramMaker(Executable& exe, const Stage& stage, const Timeline& timeline, const Stays& stays)
      : exe_(exe),
        stage_(stage),
        timeline_(timeline),
        stays_(stays),
        lane_slot_(lane_slot_of(exe.lanes)),
        combines_(lane_combines(exe.lanes)),
        around_(timeline.runs.size()) {}

  void run() {
    add_transfers();
    for (size_t s = 0; s < stays_.boundaries.size(); ++s)
      for (size_t i = 0; i < stays_.boundaries[s].instances.size(); ++i) {
        const auto& instance = stays_.boundaries[s].instances[i];
        const Around::Event event{static_cast<int32_t>(s), static_cast<int32_t>(i)};
        if (instance.written >= 0)
          at(instance.written).write.push_back(event);
        else
          at(instance.begin).come.push_back(event);
        if (instance.first_read >= 0) at(instance.first_read).read.push_back(event);
      }
    for (const DeviceProgram& program : stage_.programs)
      exe_.programs.push_back({.name = program.name,
                               .when = program.when,
                               .width = static_cast<int32_t>(program.width),
                               .writes_states = program.writes_states,
                               .prepares = program.prepares,
                               .reads_data = program.reads_data});
    for (size_t program = 0; program < exe_.programs.size(); ++program)
      if (program != kPrepare) make(static_cast<int32_t>(program));
    make_prepare();
  }

 private:
  struct BoundaryWays {
    int32_t receive = -1, load = -1, store = -1;
    std::vector<int32_t> send;
  };
  struct StateWays {
    int32_t load = -1, store = -1;
  };

  Around& at(int32_t run) { return around_[static_cast<size_t>(run)]; }

  // Transfers.

  int32_t add_transfer(Transfer transfer) {
    exe_.transfers.push_back(std::move(transfer));
    return static_cast<int32_t>(exe_.transfers.size()) - 1;
  }

  void add_transfers() {
    std::map<std::string, int32_t> place;
    for (size_t i = 0; i < exe_.states.size(); ++i) place[exe_.states[i].tensor.name] = static_cast<int32_t>(i);
    for (const StateStay& stay : stays_.states) {
      StateWays& ways = state_ways_.emplace_back();
      if (!stay.loaded && !stay.stored) continue;
      const StateTensor& tensor = stage_.states[static_cast<size_t>(stay.state)].tensor;
      const int32_t state = place.at(tensor.name);
      const int32_t way = add_transfer({.name = tensor.name,
                                        .type = tensor.type,
                                        .buffer = stay.buffers[0],
                                        .streaming = exe_.states[static_cast<size_t>(state)].home,
                                        .state = state});
      ways.load = stay.loaded ? way : -1;
      ways.store = stay.stored ? way : -1;
    }
    std::vector<BufferId> streaming(stage_.boundaries.size(), kNoBuffer);
    for (size_t i = 0; i < streaming.size(); ++i) {
      if (stays_.streaming_slots[i] == 0) continue;
      const Boundary& boundary = stage_.boundaries[i].boundary;
      Buffer buffer{.name = boundary.name, .kind = BufferClass::kStash, .bytes = boundary.type.bytes()};
      buffer.slots = stays_.streaming_slots[i];
      buffer.first = INT32_MAX;
      streaming[i] = static_cast<BufferId>(exe_.streaming.size());
      exe_.streaming.push_back(std::move(buffer));
    }
    for (const BoundaryStay& stay : stays_.boundaries) {
      const StageBoundary& boundary = stage_.boundaries[static_cast<size_t>(stay.boundary)];
      BoundaryWays& ways = boundary_ways_.emplace_back();
      Transfer transfer{
          .name = boundary.boundary.name, .type = boundary.boundary.type, .buffer = stay.buffer, .tag = boundary.tag};
      for (int peer : stay.sent) transfer.peer = peer, ways.send.push_back(add_transfer(transfer));
      transfer.peer = boundary.boundary.stage;
      if (stay.received) ways.receive = add_transfer(transfer);
      const BufferId home = streaming[static_cast<size_t>(stay.boundary)];
      transfer.peer = -1;
      transfer.tag = 0;
      transfer.streaming = home;
      if (!stay.loaded && !stay.stored) continue;
      (stay.loaded ? ways.load : ways.store) = add_transfer(transfer);
      Buffer& waits = exe_.streaming[static_cast<size_t>(home)];
      waits.first = std::min(waits.first, exe_.buffers[static_cast<size_t>(stay.buffer)].first);
      waits.last = std::max(waits.last, exe_.buffers[static_cast<size_t>(stay.buffer)].last);
    }
  }

  // Programs.

  void make(int32_t program) {
    program_ = &exe_.programs[static_cast<size_t>(program)].steps;
    superstep_ = 0;
    pending_.clear();
    stored_.clear();
    const auto regions = static_cast<int32_t>(timeline_.regions.size());
    for (int32_t region = 0; region < regions; ++region) {
      if (timeline_.regions[static_cast<size_t>(region)].program != program) continue;
      begin_region(region);
      const Region& here = timeline_.regions[static_cast<size_t>(region)];
      for (int32_t run = here.first_run; run < here.first_run + here.runs; ++run) add_run(run);
      end_region(region);
    }
    for (auto& [key, steps] : pending_) wait_for(steps);
    exe_.programs[static_cast<size_t>(program)].supersteps = superstep_;
  }

  void begin_region(int32_t region) {
    for (size_t s = 0; s < stays_.states.size(); ++s)
      if (stays_.states[s].loaded && stays_.states[s].first == region)
        start(Kind::kLoad, state_ways_[s].load, -1, {true, static_cast<int32_t>(s), 0});
    for (size_t s = 0; s < stays_.states.size(); ++s)
      if (stays_.states[s].loaded && stays_.states[s].first_use == region) wait({true, static_cast<int32_t>(s), 0});
  }

  void end_region(int32_t region) {
    for (size_t s = 0; s < stays_.states.size(); ++s)
      if (stays_.states[s].stored && stays_.states[s].last_use == region)
        start(Kind::kStore, state_ways_[s].store, -1, {true, static_cast<int32_t>(s), 0});
    for (size_t s = 0; s < stays_.states.size(); ++s)
      if (stays_.states[s].stored && stays_.states[s].last == region) wait({true, static_cast<int32_t>(s), 0});
    for (size_t s = 0; s < stays_.boundaries.size(); ++s)
      if (stays_.boundaries[s].last == region)
        for (int32_t slot = 0; slot < stays_.boundaries[s].slots; ++slot) wait({false, static_cast<int32_t>(s), slot});
  }

  /// Something that is under way in a stay, by slot.
  struct Place {
    bool state = false;
    int32_t stay = 0, slot = 0;
    auto operator<=>(const Place&) const = default;
  };

  int32_t start(Kind kind, int32_t transfer, int32_t micro, const Place& place) {
    pending_[place].push_back(static_cast<int32_t>(program_->size()));
    program_->push_back({kind, transfer, micro, 0, 0, superstep_});
    return static_cast<int32_t>(program_->size()) - 1;
  }

  void wait(const Place& place) {
    const auto known = pending_.find(place);
    if (known == pending_.end()) return;
    wait_for(known->second);
    pending_.erase(known);
  }

  void wait_for(std::vector<int32_t>& steps) {
    for (int32_t step : steps) program_->push_back({Kind::kWait, step, -1, 0, 0, superstep_});
    steps.clear();
  }

  Place place_of(const Around::Event& event) const {
    const BoundaryStay& stay = stays_.boundaries[static_cast<size_t>(event.stay)];
    const int32_t micro = stay.instances[static_cast<size_t>(event.instance)].micro;
    return {false, event.stay, micro < 0 ? 0 : micro % stay.slots};
  }

  void come(const Around::Event& event) {
    const BoundaryStay& stay = stays_.boundaries[static_cast<size_t>(event.stay)];
    const BoundaryWays& ways = boundary_ways_[static_cast<size_t>(event.stay)];
    const int32_t micro = stay.instances[static_cast<size_t>(event.instance)].micro;
    const Place place = place_of(event);
    wait(place);
    if (stay.received) return void(start(Kind::kReceive, ways.receive, micro, place));
    // A value can be loaded only after its store has ended, which may be under way.
    if (const auto left = stored_.find({stay.boundary, micro}); left != stored_.end()) wait(left->second);
    start(Kind::kLoad, ways.load, micro, place);
  }

  void add_run(int32_t number) {
    const Timeline::Run& run = timeline_.runs[static_cast<size_t>(number)];
    const Around& around = at(number);
    for (const auto& event : around.come) come(event);
    for (const auto& event : around.read) {
      const BoundaryStay& stay = stays_.boundaries[static_cast<size_t>(event.stay)];
      if (!stay.received && !stay.loaded) continue;
      wait(place_of(event));
      if (stay.received) store(event);
    }
    for (const auto& event : around.write) wait(place_of(event));
    add_segment(run);
    for (const auto& event : around.write) {
      const BoundaryStay& stay = stays_.boundaries[static_cast<size_t>(event.stay)];
      for (int32_t way : boundary_ways_[static_cast<size_t>(event.stay)].send)
        start(Kind::kSend, way, stay.instances[static_cast<size_t>(event.instance)].micro, place_of(event));
      store(event);
    }
    ++superstep_;
  }

  void store(const Around::Event& event) {
    const BoundaryStay& stay = stays_.boundaries[static_cast<size_t>(event.stay)];
    if (!stay.stored) return;
    const int32_t micro = stay.instances[static_cast<size_t>(event.instance)].micro;
    start(Kind::kStore, boundary_ways_[static_cast<size_t>(event.stay)].store, micro, place_of(event));
    stored_[{stay.boundary, micro}] = place_of(event);
  }

  void add_segment(const Timeline::Run& run) {
    const Segment& segment = exe_.segments[static_cast<size_t>(run.segment)];
    const bool sums = !segment.accumulators.empty() && run.micro >= 0;
    const int64_t lane = run.micro / exe_.micro_batches_per_lane, within = run.micro % exe_.micro_batches_per_lane;
    const int32_t slot = sums ? lane_slot_[static_cast<size_t>(lane)] : 0;
    if (sums && within == 0) program_->push_back({Kind::kZero, run.segment, -1, slot, 0, superstep_});
    program_->push_back({Kind::kRun, run.segment, run.micro, slot, 0, superstep_});
    if (sums && within + 1 == exe_.micro_batches_per_lane)
      for (const auto& [into, from] : combines_[static_cast<size_t>(lane)])
        program_->push_back({Kind::kCombine, run.segment, -1, into, from, superstep_});
  }

  /// Without phases: what derives states, by itself; the weights that stream come first. With phases there is nothing
  /// to do.
  void make_prepare() {
    if (stage_.phased) return;
    program_ = &exe_.prepare().steps;
    superstep_ = 0;
    pending_.clear();
    for (size_t r = 0; r < timeline_.regions.size(); ++r) {
      const Region& region = timeline_.regions[r];
      const auto number = static_cast<int32_t>(r);
      if (region.segments.empty() || exe_.segments[static_cast<size_t>(region.segments[0])].kind != PieceKind::kPrepare)
        continue;
      for (size_t s = 0; s < stays_.states.size(); ++s)
        if (const StateStay& stay = stays_.states[s];
            stay.loaded && stay.first_use <= number && number <= stay.last_use)
          start(Kind::kLoad, state_ways_[s].load, -1, {true, static_cast<int32_t>(s), 0});
      for (auto& [place, steps] : pending_) wait_for(steps);
      pending_.clear();
      for (int32_t segment : region.segments) {
        program_->push_back({Kind::kRun, segment, -1, 0, 0, superstep_});
        ++superstep_;
      }
    }
    exe_.prepare().supersteps = superstep_;
  }

  Executable& exe_;
  const Stage& stage_;
  const Timeline& timeline_;
  const Stays& stays_;
  const std::vector<int> lane_slot_;
  const std::vector<std::vector<std::pair<int, int>>> combines_;
  std::vector<Around> around_;               // by run
  std::vector<StateWays> state_ways_;        // by stay
  std::vector<BoundaryWays> boundary_ways_;  // by stay
  // Of the program at hand.
  std::vector<ProgramStep>* program_ = nullptr;
  int32_t superstep_ = 0;
  std::map<Place, std::vector<int32_t>> pending_;        // steps that were started and not waited for
  std::map<std::pair<int32_t, int32_t>, Place> stored_;  // by boundary and micro-batch
};

}  // namespace

void make_programs(Executable& executable, const Stage& stage, const Timeline& timeline, const Stays& stays) {
  ProgramMaker(executable, stage, timeline, stays).run();
}

}  // namespace ramet::program
