#include "ramet/transform/attach_programs.h"

#include <algorithm>

#include "ramet/base/error.h"

namespace ramet::transform {
namespace {

void attach(const StepProgram& program, Graph& micro) {
  GraphCopier copier(program.graph, micro);
  for (const GraphInput& input : program.graph.inputs()) {
    const Value& value = program.graph.value(input.value);
    ValueId known = micro.find_input(value.name);
    if (known == kNoValue) known = micro.add_input(value.name, value.type, input.role);
    if (micro.type(known) != value.type)
      throw Error({.what = "micro and a program of every micro-batch read an input of one name with two types",
                   .where = "program '" + program.name + "', '" + value.name + "'",
                   .found = value.type.text(),
                   .expected = micro.type(known).text()});
    copier.map(input.value, known);
  }
  for (NodeId id = 0; id < static_cast<NodeId>(program.graph.nodes().size()); ++id) copier.copy_node(id);
  copier.copy_outputs();
}

}  // namespace

StepGraph attach_programs(StepGraph step) {
  for (const StepProgram& program : step.programs)
    if (program.when.kind == When::Kind::kMicroBatch) attach(program, step.micro);
  std::erase_if(step.programs, [](const StepProgram& program) { return program.when.kind == When::Kind::kMicroBatch; });
  return step;
}

}  // namespace ramet::transform
