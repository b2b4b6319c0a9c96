#include "ramet/program/stage.h"

#include <algorithm>
#include <map>

#include "ramet/base/error.h"

namespace ramet {

Stage single_stage(StepGraph step) {
  Stage stage;
  stage.lanes = step.lanes;
  stage.micro_batches_per_lane = step.micro_batches_per_lane;
  for (int64_t micro = 0; micro < step.micro_batches(); ++micro) stage.row.push_back({PieceKind::kForward, 0, micro});
  stage.states = std::move(step.states);
  stage.pieces.push_back({std::move(step.micro), PieceKind::kForward, 0});
  for (auto& [graph, kind] : {std::pair{&step.update, PieceKind::kUpdate}, std::pair{&step.derive, PieceKind::kPrepare}, std::pair{&step.evaluate, PieceKind::kEvaluate}})
    if (!graph->nodes().empty() || !graph->outputs().empty()) stage.pieces.push_back({std::move(*graph), kind, 0});
  return stage;
}

namespace {

class RegionPlanner {
 public:
  explicit RegionPlanner(const Stage& stage) : stage_(stage) {}

  RegionPlan run() {
    train();
    for (int32_t piece : pieces_of(PieceKind::kUpdate)) {
      add_region(false);
      add_run(piece, -1);
    }
    add_all(PieceKind::kPrepare, false);
    add_all(PieceKind::kEvaluate, true);
    return std::move(plan_);
  }

 private:
  std::vector<int32_t> pieces_of(PieceKind kind) const {
    std::vector<int32_t> found;
    for (size_t i = 0; i < stage_.pieces.size(); ++i)
      if (stage_.pieces[i].kind == kind) found.push_back(static_cast<int32_t>(i));
    std::stable_sort(found.begin(), found.end(), [&](int32_t a, int32_t b) {
      return stage_.pieces[static_cast<size_t>(a)].chunk < stage_.pieces[static_cast<size_t>(b)].chunk;
    });
    return found;
  }

  void train() {
    if (stage_.row.empty()) return;
    add_region(false);
    for (const StageRun& entry : stage_.row) add_run(find(entry), static_cast<int32_t>(entry.micro));
  }

  int32_t find(const StageRun& entry) const {
    for (size_t i = 0; i < stage_.pieces.size(); ++i)
      if (stage_.pieces[i].kind == entry.kind && stage_.pieces[i].chunk == entry.chunk) return static_cast<int32_t>(i);
    internal_error("plan_regions", "the table runs " + std::string(name_of(entry.kind)) + " " + std::to_string(entry.chunk) + ", which is no piece of the stage");
  }

  void add_all(PieceKind kind, bool evaluation) {
    const auto pieces = pieces_of(kind);
    if (pieces.empty()) return;
    add_region(evaluation);
    for (int32_t piece : pieces) add_run(piece, -1);
  }

  void add_region(bool evaluation) {
    plan_.regions.emplace_back().evaluation = evaluation;
    here_.clear();
  }

  void add_run(int32_t piece, int32_t micro) {
    Region& region = plan_.regions.back();
    const auto [segment, fresh] = here_.emplace(piece, static_cast<int32_t>(plan_.segments.size()));
    if (fresh) {
      plan_.segments.push_back({piece, static_cast<int32_t>(plan_.regions.size()) - 1});
      region.segments.push_back(segment->second);
    }
    region.runs.push_back({segment->second, micro});
  }

  const Stage& stage_;
  RegionPlan plan_;
  std::map<int32_t, int32_t> here_;  // segment of a piece in the region at hand
};

}  // namespace

RegionPlan plan_regions(const Stage& stage) { return RegionPlanner(stage).run(); }

}  // namespace ramet
