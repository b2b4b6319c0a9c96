#include "ramet/program/stage.h"

#include <algorithm>
#include <map>
#include <set>

#include "ramet/base/error.h"
#include "ramet/ir/part_of.h"
#include "ramet/program/executable.h"

namespace ramet::program {
namespace {

bool is_empty(const Graph& graph) { return graph.nodes().empty() && graph.outputs().empty(); }

}  // namespace

Stage single_stage(StepGraph step) {
  Stage stage;
  stage.lanes = step.lanes;
  stage.micro_batches_per_lane = step.micro_batches_per_lane;
  for (int64_t micro = 0; micro < step.micro_batches(); ++micro) stage.row.push_back({PieceKind::kForward, 0, micro});
  for (const StepProgram& program : step.programs)
    stage.programs.push_back({.name = program.name,
                              .when = program.when,
                              .writes_states = program.writes_states(),
                              .prepares = step.writes_sources(program),
                              .reads_data = program.reads_data()});
  for (StateTensor& state : step.states) {
    Sharding whole;
    whole.logical = state.type;
    stage.states.push_back({std::move(state), std::move(whole), HomeMemory::kDevice});
  }
  stage.pieces.push_back({std::move(step.micro), PieceKind::kForward, 0});
  stage.guards = std::move(step.guards);
  for (auto& [graph, kind] :
       {std::pair{&step.update, PieceKind::kUpdate}, std::pair{&step.derive, PieceKind::kPrepare}})
    if (!is_empty(*graph)) stage.pieces.push_back({std::move(*graph), kind, 0});
  for (size_t i = 0; i < step.programs.size(); ++i)
    if (Graph& graph = step.programs[i].graph; !is_empty(graph))
      stage.pieces.push_back({.graph = std::move(graph), .kind = PieceKind::kProgram, .program = static_cast<int>(i)});
  return stage;
}

namespace {

Stage stage_of(const DeviceGraphs& graphs, int index, std::vector<double>& starts,
               const std::vector<double>& all_starts) {
  const StageGraphs& from = graphs.stages[static_cast<size_t>(index)];
  Stage stage;
  stage.mesh = graphs.mesh;
  stage.index = index;
  stage.phased = graphs.layout.phases > 1;
  stage.lanes = graphs.lanes;
  stage.micro_batches_per_lane = graphs.micro_batches_per_lane;
  stage.states = from.states;
  stage.programs = graphs.programs;
  stage.guards = graphs.guards;
  for (const Piece& piece : from.pieces)
    if (!is_empty(piece.graph)) stage.pieces.push_back(piece);
  for (size_t i = 0; i < graphs.boundaries.size(); ++i) {
    const Boundary& boundary = graphs.boundaries[i];
    const bool reads = std::find(boundary.readers.begin(), boundary.readers.end(), index) != boundary.readers.end();
    if (boundary.stage == index || reads) stage.boundaries.push_back({boundary, static_cast<int32_t>(i), {}, {}});
  }
  std::set<std::pair<PieceKind, int>> known;
  for (const Piece& piece : stage.pieces) known.emplace(piece.kind, piece.part);
  const auto& entries = graphs.table.entries[static_cast<size_t>(index)];
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!known.count({piece_of(entries[i].pass), entries[i].part})) continue;
    stage.row.push_back({piece_of(entries[i].pass), entries[i].part, entries[i].micro});
    starts.push_back(all_starts[i]);
  }
  return stage;
}

/// When messages between stages are made, and when there is room for them.
class MessageTimes {
 public:
  MessageTimes(const DeviceGraphs& graphs, std::vector<Stage>& stages, const std::vector<std::vector<double>>& starts,
               const PassTimes& times)
      : stages_(stages),
        starts_(starts),
        times_(times),
        micro_batches_(graphs.lanes * graphs.micro_batches_per_lane),
        made_(graphs.boundaries.size()),
        read_(stages.size()) {}

  void run() {
    for (size_t s = 0; s < stages_.size(); ++s) find_runs(s);
    for (size_t s = 0; s < stages_.size(); ++s)
      for (StageBoundary& boundary : stages_[s].boundaries)
        if (boundary.boundary.stage != static_cast<int>(s)) set_arrivals(s, boundary);
    for (Stage& stage : stages_)
      for (StageBoundary& boundary : stage.boundaries)
        if (boundary.boundary.stage == stage.index) set_departures(boundary);
  }

 private:
  double seconds_of(const StageRun& run) const {
    const Pass pass = run.kind == PieceKind::kForward    ? Pass::kForward
                      : run.kind == PieceKind::kBackward ? Pass::kBackward
                                                         : Pass::kWeightGradient;
    return times_.of({pass, run.part, run.micro});
  }

  /// When each boundary of each micro-batch is made, and which run of a stage reads it first.
  void find_runs(size_t s) {
    const Stage& stage = stages_[s];
    std::map<std::string, int32_t> tags;
    for (const StageBoundary& boundary : stage.boundaries) tags[boundary.boundary.name] = boundary.tag;
    std::map<std::pair<PieceKind, int>, std::pair<std::vector<int32_t>, std::vector<int32_t>>> of_piece;  // made, read
    for (const Piece& piece : stage.pieces) {
      auto& [made, read] = of_piece[{piece.kind, piece.part}];
      for (const GraphOutput& output : piece.graph.outputs())
        if (output.role == OutputRole::kBoundary) made.push_back(tags.at(output.name));
      for (const GraphInput& input : piece.graph.inputs())
        if (input.role == InputRole::kBoundary) read.push_back(tags.at(piece.graph.value(input.value).name));
    }
    for (size_t i = 0; i < stage.row.size(); ++i) {
      const StageRun& run = stage.row[i];
      const auto& [made, read] = of_piece[{run.kind, run.part}];
      for (int32_t tag : made) {
        auto& times = made_[static_cast<size_t>(tag)];
        times.resize(static_cast<size_t>(micro_batches_), 0);
        times[static_cast<size_t>(run.micro)] = starts_[s][i] + seconds_of(run);
      }
      for (int32_t tag : read) {
        auto& first = read_[s][tag];
        first.resize(static_cast<size_t>(micro_batches_), -1);
        if (first[static_cast<size_t>(run.micro)] < 0) first[static_cast<size_t>(run.micro)] = static_cast<int32_t>(i);
      }
    }
  }

  void set_arrivals(size_t s, StageBoundary& boundary) {
    const auto& made = made_[static_cast<size_t>(boundary.tag)];
    const auto first = read_[s].find(boundary.tag);
    if (made.empty() || first == read_[s].end()) return;
    const auto& starts = starts_[s];
    boundary.arrives = first->second;
    auto& room = room_[boundary.tag];
    room.resize(made.size(), 0);
    for (size_t micro = 0; micro < made.size(); ++micro) {
      int32_t& run = boundary.arrives[micro];
      if (run < 0) continue;
      const auto after = std::lower_bound(starts.begin(), starts.end(), made[micro]) - starts.begin();
      // A run earlier than it is read, so that it travels while that one works.
      run = std::max(0, std::min(static_cast<int32_t>(after), run - 1));
      // There is room as soon as the run before has ended.
      const auto before = static_cast<size_t>(run) - 1;
      const double ready = run == 0 ? 0 : starts[before] + seconds_of(stages_[s].row[before]);
      room[micro] = std::max(room[micro], ready);
    }
  }

  void set_departures(StageBoundary& boundary) {
    const auto room = room_.find(boundary.tag);
    if (room == room_.end()) return;
    const auto& starts = starts_[static_cast<size_t>(boundary.boundary.stage)];
    for (double ready : room->second)
      boundary.leaves.push_back(
          static_cast<int32_t>(std::lower_bound(starts.begin(), starts.end(), ready) - starts.begin()) - 1);
  }

  std::vector<Stage>& stages_;
  const std::vector<std::vector<double>>& starts_;  // of each run of each row
  const PassTimes& times_;
  const int64_t micro_batches_;
  std::vector<std::vector<double>> made_;                      // by tag and micro-batch
  std::vector<std::map<int32_t, std::vector<int32_t>>> read_;  // by stage, tag and micro-batch
  std::map<int32_t, std::vector<double>> room_;                // by tag and micro-batch, where all readers have it
};

}  // namespace

std::vector<Stage> stages_of(const DeviceGraphs& graphs) {
  const PassTimes times =
      graphs.times.of_part.empty() ? unit_times(graphs.table.parts(), graphs.table.split_backward) : graphs.times;
  const ScheduleOutcome outcome = outcome_of(graphs.table, times);
  std::vector<Stage> stages;
  std::vector<std::vector<double>> starts(graphs.stages.size());
  for (size_t s = 0; s < graphs.stages.size(); ++s)
    stages.push_back(stage_of(graphs, static_cast<int>(s), starts[s], outcome.starts[s]));
  MessageTimes(graphs, stages, starts, times).run();
  return stages;
}

namespace {

class PrepareSplitter {
 public:
  explicit PrepareSplitter(Stage& stage) : stage_(stage) {
    for (size_t i = 0; i < stage.pieces.size(); ++i)
      if (stage.pieces[i].kind == PieceKind::kPrepare)
        for (const GraphOutput& output : stage.pieces[i].graph.outputs()) maker_[output.name] = i;
  }

  void run() {
    std::vector<Piece> pieces;
    for (Piece& piece : stage_.pieces)
      if (piece.kind != PieceKind::kPrepare) pieces.push_back(piece);
    const size_t readers = pieces.size();
    stage_.prepared_by.assign(readers, {});
    for (size_t reader = 0; reader < readers; ++reader) {
      wanted_.clear();
      want_inputs_of(pieces[reader].graph);
      for (const auto& [maker, states] : wanted_) {
        Graph part = part_of(stage_.pieces[maker].graph, states);
        part.set_name(part.name() + " for " + pieces[reader].graph.name());
        stage_.prepared_by[reader].push_back(static_cast<int32_t>(pieces.size()));
        pieces.push_back({.graph = std::move(part), .kind = PieceKind::kPrepare, .part = stage_.pieces[maker].part});
      }
    }
    stage_.pieces = std::move(pieces);
  }

 private:
  void want_inputs_of(const Graph& graph) {
    for (const GraphInput& input : graph.inputs()) {
      const std::string& name = graph.value(input.value).name;
      const auto maker = maker_.find(name);
      if (input.role != InputRole::kState || maker == maker_.end() || !wanted_[maker->second].insert(name).second)
        continue;
      want_inputs_of(part_of(stage_.pieces[maker->second].graph, {name}));
    }
  }

  Stage& stage_;
  std::map<std::string, size_t> maker_;             // piece by the state that it makes
  std::map<size_t, std::set<std::string>> wanted_;  // states of each maker
};

class TimelineBuilder {
 public:
  explicit TimelineBuilder(const Stage& stage) : stage_(stage) {
    for (size_t i = 0; i < stage.pieces.size(); ++i)
      if (stage.pieces[i].kind != PieceKind::kPrepare && stage.pieces[i].kind != PieceKind::kProgram)
        pieces_[{stage.pieces[i].kind, stage.pieces[i].part}] = static_cast<int32_t>(i);
  }

  Timeline run() {
    train();
    for (int32_t piece : pieces_of(PieceKind::kUpdate)) {
      add_region({piece});
      add_run(piece, -1);
    }
    if (!stage_.phased) add_prepare();
    timeline_.train_runs = static_cast<int32_t>(timeline_.runs.size());
    for (size_t program = 0; program < stage_.programs.size(); ++program) add_program(static_cast<int>(program));
    return std::move(timeline_);
  }

 private:
  std::vector<int32_t> pieces_of(PieceKind kind, int program = -1) const {
    std::vector<int32_t> found;
    for (size_t i = 0; i < stage_.pieces.size(); ++i)
      if (stage_.pieces[i].kind == kind && stage_.pieces[i].program == program)
        found.push_back(static_cast<int32_t>(i));
    const auto order = [&](int32_t id) {
      const Piece& piece = stage_.pieces[static_cast<size_t>(id)];
      return piece.kind == PieceKind::kProgram ? piece.place : piece.part;
    };
    std::stable_sort(found.begin(), found.end(), [&](int32_t a, int32_t b) { return order(a) < order(b); });
    return found;
  }

  int32_t piece_of_run(const StageRun& run) const {
    const auto piece = pieces_.find({run.kind, run.part});
    if (piece == pieces_.end())
      internal_error("make_timeline", "the table runs " + std::string(name_of(run.kind)) + " " +
                                          std::to_string(run.part) + ", which is no piece of the stage");
    return piece->second;
  }

  void train() {
    const auto& row = stage_.row;
    std::map<std::pair<PieceKind, int>, size_t> last;  // run of each piece
    for (size_t i = 0; i < row.size(); ++i) last[{row[i].kind, row[i].part}] = i;
    for (size_t begin = 0, end = 0; begin < row.size(); begin = end) {
      // With phases a region ends where no piece has begun that goes on.
      end = stage_.phased ? begin + 1 : row.size();
      std::vector<int32_t> readers;
      for (size_t i = begin; i < end; ++i) {
        end = std::max(end, last.at({row[i].kind, row[i].part}) + 1);
        if (const int32_t piece = piece_of_run(row[i]);
            std::find(readers.begin(), readers.end(), piece) == readers.end())
          readers.push_back(piece);
      }
      add_region(readers);
      for (size_t i = begin; i < end; ++i) add_run(piece_of_run(row[i]), static_cast<int32_t>(row[i].micro));
    }
  }

  void add_prepare() {
    const auto pieces = pieces_of(PieceKind::kPrepare);
    if (pieces.empty()) return;
    add_region({});
    for (int32_t piece : pieces) add_run(piece, -1);
  }

  /// Each piece for all micro-batches at hand, one piece after another.
  void add_program(int index) {
    const DeviceProgram& program = stage_.programs[static_cast<size_t>(index)];
    const bool together = !stage_.phased && program.reads_data;
    bool open = false;
    for (int32_t piece : pieces_of(PieceKind::kProgram, index)) {
      if (!open || !together) add_region({piece}, kFirstProgram + index);
      open = true;
      for (int32_t micro = 0; micro < program.width; ++micro) add_run(piece, program.reads_data ? micro : -1);
    }
  }

  /// Opens a region; with phases, what derives the states of its pieces runs at its start.
  void add_region(const std::vector<int32_t>& readers, int32_t program = 0) {
    timeline_.regions.emplace_back().program = program;
    timeline_.regions.back().first_run = static_cast<int32_t>(timeline_.runs.size());
    here_.clear();
    if (!stage_.phased) return;
    std::set<std::string> made;
    for (int32_t reader : readers)
      for (int32_t maker : stage_.prepared_by[static_cast<size_t>(reader)]) {
        // Two readers of one region may want the same: it is made once.
        bool fresh = false;
        for (const GraphOutput& output : stage_.pieces[static_cast<size_t>(maker)].graph.outputs())
          fresh |= made.insert(output.name).second;
        if (fresh) add_run(maker, -1);
      }
  }

  void add_run(int32_t piece, int32_t micro) {
    Region& region = timeline_.regions.back();
    const auto number = static_cast<int32_t>(timeline_.regions.size()) - 1;
    const auto [segment, fresh] = here_.emplace(piece, static_cast<int32_t>(timeline_.segments.size()));
    if (fresh) {
      timeline_.segments.push_back({piece, number});
      region.segments.push_back(segment->second);
    }
    timeline_.runs.push_back({segment->second, micro, number});
    ++region.runs;
  }

  const Stage& stage_;
  Timeline timeline_;
  std::map<std::pair<PieceKind, int>, int32_t> pieces_;
  std::map<int32_t, int32_t> here_;  // segment of a piece in the region at hand
};

}  // namespace

std::pair<int32_t, int32_t> Timeline::regions_of(int32_t program) const {
  std::pair<int32_t, int32_t> range(0, 0);
  for (size_t i = 0; i < regions.size(); ++i) {
    if (regions[i].program != program) continue;
    const auto region = static_cast<int32_t>(i);
    if (range.second == 0) range.first = region;
    range.second = region + 1;
  }
  return range;
}

std::pair<int32_t, int32_t> Timeline::runs_of(int32_t program) const {
  const auto [first, last] = regions_of(program);
  if (first == last) return {0, 0};
  const Region &begin = regions[static_cast<size_t>(first)], &end = regions[static_cast<size_t>(last) - 1];
  return {begin.first_run, end.first_run + end.runs};
}

void split_prepare(Stage& stage) { PrepareSplitter(stage).run(); }

Timeline make_timeline(const Stage& stage) { return TimelineBuilder(stage).run(); }

}  // namespace ramet::program
