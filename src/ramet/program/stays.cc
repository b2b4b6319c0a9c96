#include "ramet/program/stays.h"

#include <algorithm>
#include <set>

#include "ramet/base/error.h"

namespace ramet::program {

const StateStay& Stays::state(const std::string& name, int32_t region) const {
  const auto found = of_state.find(name);
  if (found != of_state.end())
    for (int32_t id : found->second) {
      const StateStay& stay = states[static_cast<size_t>(id)];
      if (stay.first_use <= region && region <= stay.last_use) return stay;
    }
  internal_error("find_stays", "state '" + name + "' is not in device memory where it is used");
}

const BoundaryStay& Stays::boundary(const std::string& name, int32_t segment) const {
  const auto found = of_boundary.find({name, segment});
  if (found == of_boundary.end())
    internal_error("find_stays", "boundary '" + name + "' is not in device memory where it is used");
  return boundaries[static_cast<size_t>(found->second)];
}

namespace {

class StayFinder {
 public:
  StayFinder(const Stage& stage, const Timeline& timeline) : stage_(stage), timeline_(timeline) {}

  Stays run() {
    find_uses();
    for (size_t i = 0; i < stage_.states.size(); ++i) add_state(static_cast<int32_t>(i));
    result_.streaming_slots.assign(stage_.boundaries.size(), 0);
    for (size_t i = 0; i < stage_.boundaries.size(); ++i) add_boundary(static_cast<int32_t>(i));
    return std::move(result_);
  }

 private:
  struct Use {
    bool read = false, written = false, summed = false;
  };
  using Uses = std::map<int32_t, Use>;  // by region

  const Graph& graph_of(size_t segment) const {
    return stage_.pieces[static_cast<size_t>(timeline_.segments[segment].piece)].graph;
  }
  PieceKind kind_of(int32_t segment) const {
    return stage_.pieces[static_cast<size_t>(timeline_.segments[static_cast<size_t>(segment)].piece)].kind;
  }
  int32_t region_of(int32_t run) const { return timeline_.runs[static_cast<size_t>(run)].region; }
  int32_t program_of(int32_t region) const { return timeline_.regions[static_cast<size_t>(region)].program; }

  void find_uses() {
    std::map<std::string, int32_t> states, boundaries;
    for (size_t i = 0; i < stage_.states.size(); ++i) states[stage_.states[i].tensor.name] = static_cast<int32_t>(i);
    for (size_t i = 0; i < stage_.boundaries.size(); ++i)
      boundaries[stage_.boundaries[i].boundary.name] = static_cast<int32_t>(i);
    uses_.resize(stage_.states.size());
    writers_.assign(stage_.boundaries.size(), -1);
    readers_.resize(stage_.boundaries.size());
    for (size_t id = 0; id < timeline_.segments.size(); ++id) {
      const int32_t region = timeline_.segments[id].region;
      const auto segment = static_cast<int32_t>(id);
      const Graph& graph = graph_of(id);
      for (const GraphInput& input : graph.inputs()) {
        const std::string& name = graph.value(input.value).name;
        if (input.role == InputRole::kState) {
          const int32_t state = at(states, name);
          uses_[static_cast<size_t>(state)][region].read = true;
          // In a pipeline other micro-batches come between this piece and the one that sums.
          if (is(state, StateKind::kAccumulator) && kind_of(segment) != PieceKind::kUpdate && !graph.find_output(name))
            internal_error("find_stays", "'" + graph.name() + "' reads '" + name + "' but does not sum into it");
        }
        if (input.role == InputRole::kBoundary) readers_[static_cast<size_t>(at(boundaries, name))].push_back(segment);
      }
      const bool sums = kind_of(segment) != PieceKind::kUpdate;
      for (const GraphOutput& output : graph.outputs()) {
        if (output.role == OutputRole::kState) {
          const int32_t state = at(states, output.name);
          Use& use = uses_[static_cast<size_t>(state)][region];
          use.written = true;
          if (sums && is(state, StateKind::kAccumulator)) use.summed = true;
        }
        if (output.role == OutputRole::kBoundary) {
          int32_t& writer = writers_[static_cast<size_t>(at(boundaries, output.name))];
          if (writer >= 0) internal_error("find_stays", "boundary '" + output.name + "' is written in two places");
          writer = segment;
        }
      }
    }
    // Rows number the runs of the table; what derives states runs between them.
    for (size_t run = 0; run < timeline_.runs.size() && static_cast<int32_t>(run) < timeline_.train_runs; ++run)
      if (const PieceKind kind = kind_of(timeline_.runs[run].segment);
          kind != PieceKind::kPrepare && kind != PieceKind::kUpdate)
        run_of_row_.push_back(static_cast<int32_t>(run));
    runs_of_.resize(timeline_.segments.size());
    for (size_t run = 0; run < timeline_.runs.size(); ++run)
      runs_of_[static_cast<size_t>(timeline_.runs[run].segment)].push_back(static_cast<int32_t>(run));
  }

  int32_t at(const std::map<std::string, int32_t>& known, const std::string& name) const {
    const auto found = known.find(name);
    if (found == known.end())
      internal_error("find_stays",
                     "'" + name + "' is neither a state nor a boundary of stage " + std::to_string(stage_.index));
    return found->second;
  }
  bool is(int32_t state, StateKind kind) const { return stage_.states[static_cast<size_t>(state)].tensor.kind == kind; }

  // States.

  void add_state(int32_t state) {
    const Uses& uses = uses_[static_cast<size_t>(state)];
    const bool streams =
        stage_.states[static_cast<size_t>(state)].home == HomeMemory::kStreaming && !is(state, StateKind::kDerived);
    if (is(state, StateKind::kAccumulator)) return add_accumulator(state, uses, streams);
    if (is(state, StateKind::kDerived) && stage_.phased) {
      for (const auto& [region, use] : uses)
        add({.state = state, .first_use = region, .last_use = region, .first = region, .last = region, .buffers = {}});
      return;
    }
    const auto last = static_cast<int32_t>(timeline_.regions.size()) - 1;
    if (!streams) {
      add({.state = state, .first_use = 0, .last_use = last, .first = 0, .last = last, .buffers = {}});
      return;
    }
    bool fresh = true;
    for (const auto& [region, use] : uses) {
      // A state that would leave and come back during one region stays.
      StateStay* before = fresh ? nullptr : &result_.states.back();
      if (before && region - before->last_use <= 2 && program_of(region) == program_of(before->last_use))
        before->last_use = region;
      else
        add({.state = state, .first_use = region, .last_use = region, .loaded = true, .buffers = {}});
      result_.states.back().stored |= use.written;
      fresh = false;
    }
    for (int32_t id : result_.of_state[stage_.states[static_cast<size_t>(state)].tensor.name])
      set_life(result_.states[static_cast<size_t>(id)]);
  }

  /// An accumulator is summed in one region and used in later ones; between them it may be in streaming memory. One
  /// that nothing sums into is zeroed in the first region.
  void add_accumulator(int32_t state, const Uses& uses, bool streams) {
    int32_t first = 0, summed = 0;
    for (const auto& [region, use] : uses)
      if (use.summed) first = summed = region;
    std::vector<StateStay> stays = {
        {.state = state, .first_use = first, .last_use = summed, .summed = true, .buffers = {}}};
    for (const auto& [region, use] : uses) {
      if (region <= summed) continue;
      if (!streams || region - stays.back().last_use <= 2)
        stays.back().last_use = region;
      else
        stays.push_back({.state = state, .first_use = region, .last_use = region, .loaded = true, .buffers = {}});
    }
    stays[0].stored = stays.size() > 1;
    for (StateStay& stay : stays) {
      set_life(stay);
      add(std::move(stay));
    }
  }

  void set_life(StateStay& stay) const {
    stay.first = stay.first_use;
    stay.last = stay.last_use;
    if (!stage_.ahead) return;
    const auto [begin, end] = timeline_.regions_of(program_of(stay.first_use));
    if (stay.loaded) stay.first = std::max(begin, stay.first_use - 1);
    if (stay.stored) stay.last = std::min(end - 1, stay.last_use + 1);
  }

  void add(StateStay stay) {
    result_.of_state[stage_.states[static_cast<size_t>(stay.state)].tensor.name].push_back(
        static_cast<int32_t>(result_.states.size()));
    result_.states.push_back(std::move(stay));
  }

  // Boundaries.

  struct Reads {
    int32_t first = INT32_MAX, last = -1;
    void add(int32_t run) { first = std::min(first, run), last = std::max(last, run); }
  };

  /// Readers that find a boundary that streams in one ring.
  std::pair<int32_t, int32_t> group_of(int32_t segment) const {
    return stage_.phased || kind_of(segment) == PieceKind::kUpdate
               ? std::pair(timeline_.segments[static_cast<size_t>(segment)].region, 0)
               : std::pair(0, static_cast<int32_t>(kind_of(segment)));
  }

  void add_boundary(int32_t id) {
    const Boundary& boundary = stage_.boundaries[static_cast<size_t>(id)].boundary;
    const int32_t writer = writers_[static_cast<size_t>(id)];
    const auto& readers = readers_[static_cast<size_t>(id)];
    if (writer < 0 && readers.empty()) return;
    const bool streams = boundary.home == HomeMemory::kStreaming;
    const auto first_run = [&](int32_t segment) { return runs_of_[static_cast<size_t>(segment)].front(); };
    const int32_t origin_segment =
        writer >= 0 ? writer : *std::min_element(readers.begin(), readers.end(), [&](int32_t a, int32_t b) {
          return first_run(a) < first_run(b);
        });
    std::map<std::pair<int32_t, int32_t>, std::vector<int32_t>> groups;
    const bool spilled = streams && writer < 0 && comes_early(id, readers);
    const auto origin_group = streams && !spilled ? group_of(origin_segment) : std::pair(-1, -1);
    groups[origin_group];
    for (int32_t reader : readers) groups[streams ? group_of(reader) : origin_group].push_back(reader);

    BoundaryStay origin{
        .boundary = id, .received = writer < 0, .stored = groups.size() > 1, .sent = {}, .instances = {}};
    if (writer >= 0)
      for (int reader : boundary.readers)
        if (reader != stage_.index) origin.sent.push_back(reader);
    spilled ? fill_spilled(origin, readers) : fill_origin(origin, writer, groups[origin_group]);
    std::map<int32_t, int32_t> left;  // last run before which an instance may not yet come back, by micro-batch
    for (const auto& instance : origin.instances)
      left[instance.micro] = instance.written >= 0 ? instance.written : instance.first_read;
    if (writer >= 0) result_.of_boundary[{boundary.name, writer}] = static_cast<int32_t>(result_.boundaries.size());
    add(std::move(origin), groups[origin_group]);
    std::map<int32_t, BoundaryStay::Instance> streaming;
    for (const auto& [group, members] : groups) {
      if (group == origin_group) continue;
      BoundaryStay stay{.boundary = id, .loaded = true, .sent = {}, .instances = {}};
      for (const auto& [micro, reads] : reads_of(members)) {
        const int32_t begin = std::max({left.at(micro) + 1, reads.first - 1, program_begin(reads.first)});
        stay.instances.push_back({micro, begin, -1, reads.first, reads.last});
        auto& whole = streaming.try_emplace(micro, BoundaryStay::Instance{micro, left.at(micro), -1, -1, reads.last})
                          .first->second;
        whole.last = std::max(whole.last, reads.last);
      }
      add(std::move(stay), members);
    }
    std::vector<BoundaryStay::Instance> waiting;
    for (const auto& [micro, instance] : streaming) waiting.push_back(instance);
    if (!waiting.empty()) result_.streaming_slots[static_cast<size_t>(id)] = slots_of(waiting);
  }

  /// Whether a received value waits long for its reader, as a value from the last stage waits for the next phase.
  bool comes_early(int32_t boundary, const std::vector<int32_t>& readers) const {
    constexpr int32_t kLong = 4;  // runs: one to come in, one to be stored, one to come back
    const auto& arrives = stage_.boundaries[static_cast<size_t>(boundary)].arrives;
    if (!stage_.phased || arrives.empty()) return false;
    const auto reads = reads_of(readers);
    return std::all_of(reads.begin(), reads.end(), [&](const auto& read) {
      if (read.first < 0 || read.second.first >= timeline_.train_runs) return false;
      const int32_t arrival = run_of_row_[static_cast<size_t>(arrives[static_cast<size_t>(read.first)])];
      return read.second.first - arrival >= kLong;
    });
  }

  /// Received while the run after its arrival works, then stored.
  void fill_spilled(BoundaryStay& origin, const std::vector<int32_t>& readers) {
    const StageBoundary& known = stage_.boundaries[static_cast<size_t>(origin.boundary)];
    for (const auto& [micro, read] : reads_of(readers)) {
      const int32_t begin = run_of_row_[static_cast<size_t>(known.arrives[static_cast<size_t>(micro)])];
      origin.instances.push_back({micro, begin, -1, begin + 1, begin + 2});
    }
  }

  int32_t program_begin(int32_t run) const { return timeline_.runs_of(program_of(region_of(run))).first; }
  int32_t program_last(int32_t run) const { return timeline_.runs_of(program_of(region_of(run))).second - 1; }

  std::map<int32_t, Reads> reads_of(const std::vector<int32_t>& readers) const {
    std::map<int32_t, Reads> reads;
    for (int32_t reader : readers)
      for (int32_t run : runs_of_[static_cast<size_t>(reader)])
        reads[timeline_.runs[static_cast<size_t>(run)].micro].add(run);
    return reads;
  }

  void fill_origin(BoundaryStay& origin, int32_t writer, const std::vector<int32_t>& readers) {
    const auto reads = reads_of(readers);
    const std::string& name = stage_.boundaries[static_cast<size_t>(origin.boundary)].boundary.name;
    const StageBoundary& known = stage_.boundaries[static_cast<size_t>(origin.boundary)];
    const auto linger = [&](int32_t run) { return std::min(run + 1, program_last(run)); };
    const auto in_row = [&](const std::vector<int32_t>& rows, int32_t micro) {
      return micro < 0 || rows.empty() ? -1 : rows[static_cast<size_t>(micro)];
    };
    if (writer < 0) {
      for (const auto& [micro, read] : reads) {
        const int32_t row = in_row(known.arrives, micro);
        const int32_t begin =
            std::max(row < 0 ? read.first - 1 : std::min(run_of_row_[static_cast<size_t>(row)], read.first),
                     program_begin(read.first));
        origin.instances.push_back(
            {micro, begin, -1, read.first, origin.stored ? std::max(read.last, linger(read.first)) : read.last});
      }
      return;
    }
    for (int32_t run : runs_of_[static_cast<size_t>(writer)]) {
      const int32_t micro = timeline_.runs[static_cast<size_t>(run)].micro;
      BoundaryStay::Instance instance{micro, run, run, -1, run};
      if (const auto read = reads.find(micro); read != reads.end()) {
        if (read->second.first <= run)
          internal_error("find_stays", "boundary '" + name + "' is read before it is written");
        instance.first_read = read->second.first;
        instance.last = read->second.last;
      }
      if (origin.stored || !origin.sent.empty()) instance.last = std::max(instance.last, linger(run));
      if (const int32_t row = in_row(known.leaves, micro); row >= 0 && !origin.sent.empty())
        instance.last = std::max(instance.last, run_of_row_[static_cast<size_t>(row)]);
      origin.instances.push_back(instance);
    }
    std::sort(origin.instances.begin(), origin.instances.end(),
              [](const auto& a, const auto& b) { return a.micro < b.micro; });
  }

  void add(BoundaryStay stay, const std::vector<int32_t>& readers) {
    stay.slots = slots_of(stay.instances);
    stay.first = INT32_MAX;
    stay.last = 0;
    for (const auto& instance : stay.instances) {
      stay.first = std::min(stay.first, region_of(instance.begin));
      stay.last = std::max(stay.last, region_of(instance.last));
    }
    for (int32_t reader : readers)
      result_.of_boundary[{stage_.boundaries[static_cast<size_t>(stay.boundary)].boundary.name, reader}] =
          static_cast<int32_t>(result_.boundaries.size());
    result_.boundaries.push_back(std::move(stay));
  }

  /// The smallest ring in which instances that are live together have different slots.
  static int32_t slots_of(const std::vector<BoundaryStay::Instance>& instances) {
    int32_t slots = 1;
    const bool ordered = std::is_sorted(instances.begin(), instances.end(),
                                        [](const auto& a, const auto& b) { return a.begin < b.begin; });
    for (size_t i = 0; i < instances.size(); ++i)
      for (size_t j = i + 1; j < instances.size(); ++j) {
        if (instances[j].begin <= instances[i].last && instances[i].begin <= instances[j].last)
          slots = std::max(slots, instances[j].micro - instances[i].micro + 1);
        else if (ordered)
          break;
      }
    return slots;
  }

  const Stage& stage_;
  const Timeline& timeline_;
  Stays result_;
  std::vector<Uses> uses_;                     // by state
  std::vector<int32_t> writers_;               // by boundary: a segment, or -1
  std::vector<std::vector<int32_t>> readers_;  // by boundary: segments
  std::vector<std::vector<int32_t>> runs_of_;  // by segment
  std::vector<int32_t> run_of_row_;            // number of each run of the row
};

}  // namespace

Stays find_stays(const Stage& stage, const Timeline& timeline) { return StayFinder(stage, timeline).run(); }

}  // namespace ramet::program
