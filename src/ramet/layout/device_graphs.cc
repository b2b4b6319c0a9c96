#include "ramet/layout/device_graphs.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ramet/base/error.h"
#include "ramet/ir/text.h"
#include "ramet/layout/halo_plan.h"

namespace ramet::layout {
namespace {

[[noreturn]] void fail(const std::string& after, const std::string& where, const std::string& what,
                       const std::string& found = "", const std::string& expected = "") {
  throw Error({.what = "partitioned step is not valid after " + after + ": " + what,
               .where = where,
               .found = found,
               .expected = expected},
              ErrorKind::kFailure);
}

std::string name_of(const Piece& piece, size_t stage) {
  return "stage " + std::to_string(stage) + ", " +
         (piece.kind == PieceKind::kProgram ? "'" + piece.graph.name() + "'"
                                            : std::string(name_of(piece.kind)) + " " + std::to_string(piece.part));
}

class DeviceVerifier {
 public:
  DeviceVerifier(const DeviceGraphs& graphs, const std::string& after) : graphs_(graphs), after_(after) {}

  void run() {
    for (const Boundary& boundary : graphs_.boundaries)
      if (!boundaries_.emplace(boundary.name, &boundary).second)
        fail(after_, boundary.name, "a second boundary of that name");
    for (size_t stage = 0; stage < graphs_.stages.size(); ++stage) {
      const StageGraphs& on = graphs_.stages[stage];
      std::map<std::string, TensorType> states;
      for (const LocalState& state : on.states) {
        if (!states.emplace(state.tensor.name, state.tensor.type).second)
          fail(after_, state.tensor.name, "a second state of that name on stage " + std::to_string(stage));
        if (state.tensor.type != state.sharding.local())
          fail(after_, state.tensor.name, "a state's type is not that of its sharding", state.tensor.type.text(),
               state.sharding.text());
      }
      std::set<std::tuple<PieceKind, int, int, int>> keys;
      for (const Piece& piece : on.pieces) {
        if (!keys.emplace(piece.kind, piece.part, piece.program, piece.place).second)
          fail(after_, name_of(piece, stage), "a second piece of that kind and part");
        if ((piece.kind == PieceKind::kProgram) !=
            (piece.program >= 0 && static_cast<size_t>(piece.program) < graphs_.programs.size()))
          fail(after_, name_of(piece, stage), "a piece of a program that does not exist");
        verify(piece.graph, after_);
        verify_halos(piece.graph, after_);
        check(piece, stage, states);
      }
    }
    // Micro-batches overlap: what one changes may be read only where it is changed.
    for (const auto& [state, writer] : micro_writers_)
      for (const std::string& reader : micro_readers_[state])
        if (reader != writer) fail(after_, reader, "reads state '" + state + "' that another piece changes", writer);
    // A graph reads what a state was before the graph changed it.
    for (const auto& [key, writer] : program_writers_)
      for (const auto& [place, reader] : program_readers_[key])
        if (place > writer.first)
          throw Error(
              {.what = "a program reads a state in one part of the model and writes it in another",
               .where = "program '" + graphs_.programs[static_cast<size_t>(key.first)].name + "'",
               .found = "'" + key.second + "', read in " + reader + " after it is written in " + writer.second,
               .remedy = "Keep what reads and writes a state in one part of the model, or use p=1 and phases=1"});
    for (const Boundary& boundary : graphs_.boundaries)
      if (!written_.count(boundary.name)) fail(after_, boundary.name, "a boundary that no piece writes");
  }

 private:
  void check(const Piece& piece, size_t stage, const std::map<std::string, TensorType>& states) {
    const std::string where = name_of(piece, stage);
    const auto check_state = [&](const std::string& name, const TensorType& type) {
      const auto known = states.find(name);
      if (known == states.end()) fail(after_, where, "a state that the stage does not hold", "'" + name + "'");
      if (known->second != type)
        fail(after_, where, "state '" + name + "' has another type here", type.text(), known->second.text());
    };
    const auto boundary_of = [&](const std::string& name, const TensorType& type) -> const Boundary& {
      const auto known = boundaries_.find(name);
      if (known == boundaries_.end()) fail(after_, where, "an unknown boundary", "'" + name + "'");
      if (known->second->type != type)
        fail(after_, where, "boundary '" + name + "' has another type here", type.text(), known->second->type.text());
      return *known->second;
    };
    for (const GraphInput& input : piece.graph.inputs()) {
      const Value& value = piece.graph.value(input.value);
      if (input.role == InputRole::kState) check_state(value.name, value.type);
      if (input.role != InputRole::kBoundary) continue;
      const Boundary& boundary = boundary_of(value.name, value.type);
      if (std::find(boundary.readers.begin(), boundary.readers.end(), static_cast<int>(stage)) ==
          boundary.readers.end())
        fail(after_, where, "reads boundary '" + value.name + "' of which it is no reader");
    }
    const bool of_micro_batch =
        piece.kind != PieceKind::kPrepare && piece.kind != PieceKind::kUpdate && piece.kind != PieceKind::kProgram;
    for (const GraphInput& input : piece.graph.inputs())
      if (input.role == InputRole::kState) {
        const std::string& name = piece.graph.value(input.value).name;
        if (of_micro_batch) micro_readers_[name].push_back(where);
        if (piece.program >= 0) program_readers_[{piece.program, name}].emplace_back(piece.place, where);
      }
    for (const GraphOutput& output : piece.graph.outputs()) {
      if (output.role == OutputRole::kState) check_state(output.name, piece.graph.type(output.value));
      if (of_micro_batch && output.role == OutputRole::kState) micro_writers_[output.name] = where;
      if (piece.program >= 0 && output.role == OutputRole::kState)
        program_writers_[{piece.program, output.name}] = {piece.place, where};
      if (output.role != OutputRole::kBoundary) continue;
      if (boundary_of(output.name, piece.graph.type(output.value)).stage != static_cast<int>(stage))
        fail(after_, where, "writes boundary '" + output.name + "' of another stage");
      if (!written_.insert(output.name).second) fail(after_, where, "boundary '" + output.name + "' is written twice");
    }
  }

  const DeviceGraphs& graphs_;
  const std::string& after_;
  std::map<std::string, const Boundary*> boundaries_;
  std::set<std::string> written_;
  std::map<std::string, std::vector<std::string>> micro_readers_;  // pieces of training that read a state
  std::map<std::string, std::string> micro_writers_;               // the one that changes it
  // The same of programs, with the pieces' places.
  std::map<std::pair<int, std::string>, std::vector<std::pair<int, std::string>>> program_readers_;
  std::map<std::pair<int, std::string>, std::pair<int, std::string>> program_writers_;
};

}  // namespace

PieceKind piece_of(Pass pass) {
  return pass == Pass::kForward    ? PieceKind::kForward
         : pass == Pass::kBackward ? PieceKind::kBackward
                                   : PieceKind::kWeightGradient;
}

std::optional<Pass> pass_of(PieceKind kind) {
  for (const Pass pass : {Pass::kForward, Pass::kBackward, Pass::kWeightGradient})
    if (piece_of(pass) == kind) return pass;
  return std::nullopt;
}

void verify(const DeviceGraphs& graphs, const std::string& after) { DeviceVerifier(graphs, after).run(); }

std::string print(const DeviceGraphs& graphs) {
  std::string text = "layout " + print_layout(graphs.layout) + "\n";
  for (const Boundary& boundary : graphs.boundaries) {
    text += "boundary " + ir::text_of(Attribute(boundary.name)) + " : " + boundary.type.text() + " stage " +
            std::to_string(boundary.stage) + " ->";
    for (int reader : boundary.readers) text += " " + std::to_string(reader);
    text += boundary.home == HomeMemory::kStreaming ? " streaming\n" : "\n";
  }
  for (const DeviceProgram& program : graphs.programs)
    text += "program " + ir::text_of(Attribute(program.name)) + " " + text_of(program.when) + " width " +
            std::to_string(program.width) + "\n";
  for (size_t stage = 0; stage < graphs.stages.size(); ++stage) {
    text += "stage " + std::to_string(stage) + "\n";
    for (const LocalState& state : graphs.stages[stage].states)
      text += "state " + ir::text_of(Attribute(state.tensor.name)) + " : " + state.tensor.type.text() + " " +
              std::string(name_of(state.tensor.kind)) + " of " + state.sharding.text() +
              (state.home == HomeMemory::kStreaming ? " streaming\n" : "\n");
    for (const Piece& piece : graphs.stages[stage].pieces) text += print(piece.graph);
  }
  return text;
}

}  // namespace ramet::layout
