// Element-wise ops and maps: CUDA text of the program (print_map.h), compiled when the kernel is made.

#include <algorithm>
#include <optional>

#include "ramet/base/error.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/cuda/device/map_arguments.h"
#include "ramet/kernel/cuda/element_place.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"
#include "ramet/ops/position.h"
#include "ramet/ops/random_bits.h"
#include "ramet/ops/reduce_order.h"

namespace ramet::kernel::cuda {
namespace {

using Reduce = MapProgram::Reduce;
using ramet_device::LargeMap;
using ramet_device::PlacedMap;
using ramet_device::SmallMap;

// --- plans ---

MapPlan plan_of(const NodeSignature& node, const std::optional<Position>& position) {
  MapPlan plan;
  plan.program = map_program_of(node);
  plan.space = MapSpace(plan.program, map_space_of(node), node.inputs);
  for (const TensorType& type : node.inputs) plan.inputs.push_back(type.dtype);
  for (const TensorType& type : node.outputs) plan.outputs.push_back(type.dtype);
  plan.types = map_value_types(plan.program, plan.inputs, node.text());
  const int64_t most = position ? std::max(plan.space.elements, position->local().elements()) : plan.space.elements;
  plan.small = most < (int64_t{1} << 31);
  if (position) {
    plan.placed = !position->whole();
    plan.blocks_of_draws = keeps_blocks(*position);
  }
  return plan;
}

std::optional<Position> position_of(const NodeSignature& node) {
  if (!map_program_of(node).draws()) return {};
  return Position(node, map_space_of(node));
}

/// What a struct of arguments has room for.
template <class Arguments>
bool fits(const MapPlan& plan) {
  const auto room = [](const auto& array) { return std::size(array); };
  constexpr Arguments* kNone = nullptr;
  return plan.inputs.size() <= room(kNone->inputs) && plan.outputs.size() <= room(kNone->outputs) &&
         plan.space.extents.size() <= room(kNone->extents) &&
         map_immediates(plan.program).size() <= room(kNone->immediates) &&
         map_draws(plan.program).size() <= room(kNone->draws);
}

std::string refuse(const NodeSignature& node) {
  const std::optional<Position> position = position_of(node);
  const MapPlan plan = plan_of(node, position);
  const auto is_f64 = [](DType type) { return type == DType::kF64; };
  if (std::any_of(plan.types.begin(), plan.types.end(), is_f64) ||
      std::any_of(plan.outputs.begin(), plan.outputs.end(), is_f64))
    return "it computes in f32";
  if (plan.placed) {
    if (std::string why = refuse_place(*position); !why.empty()) return why;
    return fits<PlacedMap>(plan) ? "" : "it has more operands than a launch takes";
  }
  return fits<LargeMap>(plan) ? "" : "it has more operands than a launch takes";
}

template <class Arguments>
void fill_draws(const MapPlan& plan, int64_t elements, Arguments* arguments) {
  size_t at = 0;
  for (const MapProgram::Step* step : map_draws(plan.program)) {
    const RandomStream stream(step->seed, RandomPurpose::kDropout, 0, step->tensor);
    arguments->draws[at++] = {stream.key()[0],
                              stream.key()[1],
                              stream.tensor(),
                              dropout_threshold(step->parameter),
                              dropout_scale(step->parameter),
                              elements};
  }
}

/// Tiles of columns in a row of a map with sums over rows.
int64_t column_tiles(const MapPlan& plan) {
  const int columns = plan.tile_columns();
  return (plan.space.columns + columns - 1) / columns;
}

/// All but the operands.
template <class Arguments>
Arguments arguments_of(const MapPlan& plan, const std::optional<Position>& position) {
  Arguments arguments{};
  const MapSpace& space = plan.space;
  arguments.elements = space.elements, arguments.rows = space.rows, arguments.columns = space.columns;
  for (size_t axis = 0; axis < space.extents.size(); ++axis)
    arguments.extents[axis] = ramet_device::divider_of(space.extents[axis]);
  for (size_t i = 0; i < space.inputs.size(); ++i)
    std::copy(space.inputs[i].strides.begin(), space.inputs[i].strides.end(), arguments.strides[i]);
  const std::vector<float> immediates = map_immediates(plan.program);
  std::copy(immediates.begin(), immediates.end(), arguments.immediates);
  if (space.sums_rows) arguments.tiles = ramet_device::divider_of(column_tiles(plan));
  if (position) fill_draws(plan, position->logical_elements(), &arguments);
  if constexpr (std::is_same_v<Arguments, PlacedMap>) arguments.place = place_of(*position);
  return arguments;
}

// --- kernels ---

int64_t row_blocks(const MapSpace& space) { return (space.rows + kReduceRows - 1) / kReduceRows; }

std::vector<size_t> row_sums(const MapPlan& plan) {
  std::vector<size_t> outputs;
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    if (plan.program.outputs[i].reduce == Reduce::kSumRows) outputs.push_back(i);
  return outputs;
}

/// The struct of arguments that a plan's kernels take.
const char* arguments_name(const MapPlan& plan) {
  if (plan.placed) return "PlacedMap";
  return fits<SmallMap>(plan) ? "SmallMap" : "LargeMap";
}

CudaSource pass_source(const MapPlan& plan, MapPlan::Pass pass) {
  return {"map.cu", plan.text(pass, arguments_name(plan)), {}};
}
CudaSource sums_source(const MapPlan& plan, size_t output) {
  return cuda_device_source("map_sums.cu", {"RAMET_OUTPUT=" + storage_of(plan.outputs[output])});
}

template <class Arguments>
class MapKernel : public CudaKernel {
 public:
  MapKernel(MapPlan plan, const std::optional<Position>& position)
      : plan_(std::move(plan)), arguments_(arguments_of<Arguments>(plan_, position)) {
    if (plan_.space.elements == 0) return;
    for (const MapPlan::Pass pass : plan_.passes())
      passes_.push_back({pass, load_cuda_function(pass_source(plan_, pass), "map")});
    for (const size_t output : row_sums(plan_))
      sums_.push_back(load_cuda_function(sums_source(plan_, output), "map_sum_rows"));
  }

  void launch(CudaStream& stream, const KernelOperands& operands) const override {
    if (plan_.space.elements == 0) return fill_sums(stream, operands);
    Arguments arguments = arguments_;
    std::copy(operands.inputs.begin(), operands.inputs.end(), arguments.inputs);
    std::copy(operands.outputs.begin(), operands.outputs.end(), arguments.outputs);
    arguments.sums = static_cast<float*>(operands.scratch);
    for (const auto& [pass, function] : passes_) stream.launch(function, grid_of(pass), arguments);
    const std::vector<size_t> outputs = row_sums(plan_);
    for (size_t i = 0; i < outputs.size(); ++i) join_rows(stream, operands, i, outputs[i]);
  }

 private:
  CudaGrid grid_of(MapPlan::Pass pass) const {
    constexpr int64_t kThreads = 256;  // of a block, as grid_for has them
    const MapSpace& space = plan_.space;
    if (pass == MapPlan::Pass::kLast) return grid_for(space.rows * kReduceLanes);
    const int64_t pack = plan_.pack(pass);
    if (pass == MapPlan::Pass::kRows) return grid_for(row_blocks(space) * column_tiles(plan_) * kThreads);
    return grid_for((space.elements + pack - 1) / pack);
  }

  void join_rows(CudaStream& stream, const KernelOperands& operands, size_t index, size_t output) const {
    const int64_t blocks = row_blocks(plan_.space), columns = plan_.space.columns;
    constexpr int64_t kColumns = 32;  // of a block of map_sums.cu
    const ramet_device::MapSumsArguments arguments{
        static_cast<const float*>(operands.scratch) + static_cast<int64_t>(index) * blocks * columns,
        operands.outputs[output], blocks, columns};
    stream.launch(sums_[index], {.x = (columns + kColumns - 1) / kColumns}, arguments);
  }

  /// Sums of nothing.
  void fill_sums(CudaStream& stream, const KernelOperands& operands) const {
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const Reduce reduce = plan_.program.outputs[i].reduce;
      const int64_t count = reduce == Reduce::kSumRows ? plan_.space.columns : plan_.space.rows;
      if (reduce != Reduce::kNone && count > 0)
        stream.fill(operands.outputs[i], 0, count * static_cast<int64_t>(size_of(plan_.outputs[i])));
    }
  }

  MapPlan plan_;
  Arguments arguments_;
  std::vector<std::pair<MapPlan::Pass, CudaFunction>> passes_;
  std::vector<CudaFunction> sums_;  ///< of the outputs that are summed over rows
};

std::unique_ptr<CudaKernel> make(const NodeSignature& node) {
  const std::optional<Position> position = position_of(node);
  MapPlan plan = plan_of(node, position);
  if (plan.placed) return std::make_unique<MapKernel<PlacedMap>>(std::move(plan), position);
  if (fits<SmallMap>(plan)) return std::make_unique<MapKernel<SmallMap>>(std::move(plan), position);
  return std::make_unique<MapKernel<LargeMap>>(std::move(plan), position);
}

int64_t scratch(const NodeSignature& node) {
  const MapPlan plan = plan_of(node, {});
  return static_cast<int64_t>(row_sums(plan).size() * sizeof(float)) * row_blocks(plan.space) * plan.space.columns;
}

}  // namespace

std::vector<CudaSource> map_sources(const NodeSignature& node) {
  const MapPlan plan = plan_of(node, position_of(node));
  std::vector<CudaSource> sources;
  for (const MapPlan::Pass pass : plan.passes()) sources.push_back(pass_source(plan, pass));
  for (const size_t output : row_sums(plan)) sources.push_back(sums_source(plan, output));
  return sources;
}

void add_cuda_map(Backend& backend) {
  for (const OpDef* op : OpRegistry::instance().all()) {
    if (op->name != "map" && op->map_op.empty()) continue;
    CardKernel kernel;
    kernel.op = op->name;
    kernel.any_type = true;
    kernel.refuse = refuse;
    kernel.make = make;
    kernel.scratch = scratch;
    kernel.may_alias = map_aliases;
    add_card(backend, std::move(kernel));
  }
}

}  // namespace ramet::kernel::cuda
