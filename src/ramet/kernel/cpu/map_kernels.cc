#include <algorithm>

#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/map.h"

namespace ramet::kernel {
namespace {

cpu::MapEvaluator evaluator_of(const NodeSignature& node, int threads) {
  const MapProgram program = map_program_of(node);
  const Shape space = map_space_of(node);
  std::optional<Position> position;
  if (program.draws()) position.emplace(node, space);
  return {program, space, node.inputs, node.outputs, threads, std::move(position)};
}

class MapKernel : public Kernel {
 public:
  MapKernel(const NodeSignature& node, int threads) : evaluator_(evaluator_of(node, threads)) {}
  void run(const KernelContext& context) const override {
    evaluator_.run(context.inputs, context.outputs, context.scratch, context.team);
  }

 private:
  cpu::MapEvaluator evaluator_;
};

std::string refuse(const NodeSignature& node) {
  std::vector<DType> inputs;
  for (const TensorType& type : node.inputs) inputs.push_back(type.dtype);
  for (const DType dtype : map_value_types(map_program_of(node), inputs, node.text()))
    if (dtype == DType::kF64) return "it computes in f32";
  for (const TensorType& type : node.outputs)
    if (type.dtype == DType::kF64) return "it computes in f32";
  return "";
}

}  // namespace

void add_cpu_map(Backend& backend) {
  for (const OpDef* op : OpRegistry::instance().all()) {
    if (op->name != "map" && op->map_op.empty()) continue;
    KernelEntry entry;
    entry.op = op->name;
    entry.name = "hwy";
    entry.any_type = true;
    entry.refuse = refuse;
    entry.make = [](const NodeSignature& node, int threads) -> std::unique_ptr<Kernel> {
      return std::make_unique<MapKernel>(node, threads);
    };
    entry.scratch = [](const NodeSignature& node, int threads) { return evaluator_of(node, threads).scratch_bytes(); };
    entry.may_alias = map_aliases;
    backend.add(std::move(entry));
  }
}

}  // namespace ramet::kernel
