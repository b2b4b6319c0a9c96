#include "ramet/layout/partition.h"

#include <algorithm>
#include <set>

#include "ramet/base/error.h"
#include "ramet/ir/builder.h"
#include "ramet/ir/part_of.h"
#include "ramet/layout/deal_clusters.h"
#include "ramet/layout/pieces.h"
#include "ramet/layout/pipeline_parts.h"
#include "ramet/layout/spread_graph.h"
#include "ramet/layout/stage_update.h"
#include "ramet/transform/hoist.h"

namespace ramet::layout {
namespace {

/// The graph with some nodes taken apart (OpDef::apart).
Graph take_apart(const Graph& graph, const std::set<NodeId>& nodes) {
  Graph result(graph.name());
  GraphBuilder build(result);
  GraphCopier copier(graph, result);
  copier.copy_inputs();
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    if (!nodes.count(id)) {
      copier.copy_node(id);
      continue;
    }
    const Node& node = graph.node(id);
    const NodeSignature signature = graph.signature(id);
    std::vector<Tensor> inputs;
    for (ValueId input : node.inputs) inputs.push_back(build.tensor(copier[input]));
    InfoScope scope(build, node);
    SimplifyContext context{build, signature, inputs};
    const Tensor whole = node.op->apart(context);
    if (!whole.valid())
      copier.copy_node(id);
    else
      copier.map(node.outputs[0], whole.id);
  }
  copier.copy_outputs();
  return result;
}

class Partitioner {
 public:
  Partitioner(const StepGraph& step, const Layout& layout, const ActivationChoices& choices)
      : step_(step), layout_(layout), choices_(choices), mesh_(layout.mesh()) {
    into_.layout = layout;
    into_.mesh = mesh_;
    into_.lanes = step.lanes / layout.r;
    into_.micro_batches_per_lane = step.micro_batches_per_lane;
    into_.guards = step.guards;
    into_.stages.resize(static_cast<size_t>(layout.p));
    if (layout.g > 1) deal_ = deal_clusters(graph_with_parts(), layout);
  }

  DeviceGraphs run() {
    check_replicas();
    const LayerOrder layers(graph_with_parts());
    const LayerCosts costs = layer_costs(graph_with_parts(), layers);
    find_stages(costs);
    derive_where_read(layers);
    gather_sharded_weights();
    spread_states();
    const Graph derive = spread(step_.derive, spreads_).graph;
    const SpreadResult micro = spread_micro(step_.micro);
    std::vector<SpreadResult> programs;
    for (const StepProgram& program : step_.programs)
      programs.push_back(program.reads_data() ? spread_micro(program.graph) : spread_update(program.graph));
    const SpreadResult update = spread_update(step_.update);
    cut_model(layers, micro);
    for (size_t i = 0; i < programs.size(); ++i) {
      add_program(step_.programs[i]);
      if (step_.programs[i].reads_data()) cut_program(layers, programs[i], static_cast<int>(i));
    }
    cut_derive(derive);
    owner_ = cut_update(update, -1);
    for (size_t i = 0; i < programs.size(); ++i)
      if (!step_.programs[i].reads_data()) owner_ = cut_update(programs[i], static_cast<int>(i));
    place_states();
    return std::move(into_);
  }

 private:
  /// The graph whose nodes name the model's parts: the micro-batch's or, without training, that of the first program
  /// that reads data.
  const Graph& graph_with_parts() const {
    if (!step_.micro.nodes().empty()) return step_.micro;
    for (const StepProgram& program : step_.programs)
      if (program.reads_data()) return program.graph;
    return step_.micro;
  }

  void check_replicas() const {
    for (const StateTensor& state : step_.states)
      if (state.kind == StateKind::kChained && layout_.r > 1)
        throw Error({.what = "replicas would break the chain from one micro-batch to the next",
                     .where = "layout r, chained state '" + state.name + "'",
                     .found = std::to_string(layout_.r) + " replicas",
                     .expected = "r=1",
                     .remedy = "Cut the model instead: t, p, phases and offload keep the chain"});
  }

  int rts_of(StateKind kind) const {
    const auto& rts = layout_.rts;
    const int parts = kind == StateKind::kWeight        ? rts.weights
                      : kind == StateKind::kOptimizer   ? rts.optimizer
                      : kind == StateKind::kAccumulator ? std::max(rts.optimizer, rts.grads)
                                                        : 0;
    return std::max(parts, 1);
  }

  /// Weights that replicas share are gathered once, by `derive`: what reads them elsewhere reads that.
  void gather_sharded_weights() {
    if (rts_of(StateKind::kWeight) == 1) return;
    std::set<std::string> gathered;
    const auto rewrite = [&](const Graph& graph) {
      Graph result(graph.name());
      GraphCopier copier(graph, result);
      for (const GraphInput& input : graph.inputs()) {
        const Value& value = graph.value(input.value);
        if (input.role != InputRole::kState || step_.state(value.name).kind != StateKind::kWeight) {
          copier.copy_input(input);
          continue;
        }
        gathered.insert(value.name);
        copier.map(input.value, result.add_input("gathered." + value.name, value.type, input.role));
      }
      for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) copier.copy_node(id);
      copier.copy_outputs();
      return result;
    };
    for (Graph* graph : graphs_of_data()) *graph = rewrite(*graph);
    for (const std::string& name : gathered) {
      const StateTensor weight = step_.state(name);
      ValueId input = step_.derive.find_input(name);
      if (input == kNoValue) input = step_.derive.add_input(name, weight.type, InputRole::kState);
      step_.derive.add_output("gathered." + name, input, OutputRole::kState);
      StateTensor state{"gathered." + name, weight.type, StateKind::kDerived, {}, ""};
      state.of = weight.weight();
      state.role = "gathered";
      step_.states.push_back(std::move(state));
    }
  }

  void spread_states() {
    for (const StateTensor& state : step_.states) {
      if (state.kind == StateKind::kDerived) continue;
      Spread spread;
      spread.cuts = cuts_of_state(state, mesh_, step_.axes);
      // Where clusters are dealt, every device has all weights but those that are cut into clusters themselves.
      if (!deal_.empty())
        std::erase_if(spread.cuts, [&](const Cut& cut) {
          return cut.axis == MeshAxis::kTensor1 && state.axes[static_cast<size_t>(cut.dim)].name != "clusters";
        });
      if (!deal_.empty() && !spread.cuts.empty() && !std::is_sorted(deal_.begin(), deal_.end()))
        throw Error({.what = "parts of a table lie on devices in order",
                     .where = "layout deal, state '" + state.name + "'",
                     .found = "'" + layout_.deal + "'",
                     .expected = "order"});
      if (state.type.shape.rank() > 0) spread.flat_parts = rts_of(step_.placed_as(state));
      if (state.kind == StateKind::kAccumulator && mesh_.r > 1) spread.partial = bit_of(MeshAxis::kReplica);
      spreads_[state.name] = spread;
    }
  }

  SpreadResult spread(Graph graph, StateSpreads& spreads, bool sequence = false) const {
    for (int round = 0; round < 4; ++round) {
      StateSpreads trial = spreads;
      SpreadResult result = SpreadGraph(graph, mesh_, trial, sequence, deal_).run();
      if (result.to_take_apart.empty()) {
        spreads = std::move(trial);
        return result;
      }
      graph = take_apart(graph, result.to_take_apart);
    }
    // Operands that still could not be cut stay gathered.
    return SpreadGraph(graph, mesh_, spreads, sequence, deal_).run();
  }

  /// In a micro-batch each replica has an accumulator of its own.
  SpreadResult spread_micro(const Graph& graph) const {
    StateSpreads spreads = spreads_;
    for (const StateTensor& state : step_.states)
      if (state.kind == StateKind::kAccumulator) spreads[state.name].flat_parts = 1, spreads[state.name].partial = 0;
    return spread(graph, spreads, layout_.sequence);
  }

  SpreadResult spread_update(const Graph& graph) const {
    StateSpreads spreads = spreads_;
    return spread(graph, spreads);
  }

  std::set<std::string> names_of(const std::set<StateKind>& kinds) const {
    std::set<std::string> names;
    for (const StateTensor& state : step_.states)
      if (kinds.count(state.kind)) names.insert(state.name);
    return names;
  }

  void find_stages(const LayerCosts& costs) {
    for (int part = 0; part < layout_.model_parts(); ++part) into_.stage_of_part.push_back(layout_.stage_of(part));
    into_.parts = layout_.model_parts();
    if (into_.parts > 1) into_.part_of_layer = parts_of_layers(layout_, costs.layers, costs.before, costs.after);
  }

  /// The graphs of micro-batches: of training, and of programs that read data.
  std::vector<Graph*> graphs_of_data() {
    std::vector<Graph*> graphs{&step_.micro};
    for (StepProgram& program : step_.programs)
      if (program.reads_data()) graphs.push_back(&program.graph);
    return graphs;
  }

  /// The weights that `derive` makes a state from.
  std::set<std::string> sources_of(const std::string& derived) const {
    const Graph made = part_of(step_.derive, {derived});
    const std::set<std::string> constants = names_of({StateKind::kConstant});
    std::set<std::string> sources;
    for (const GraphInput& input : made.inputs())
      if (const std::string& name = made.value(input.value).name; !constants.contains(name))
        sources.insert(home_name(name));
    return sources;
  }

  /// What `derive` makes of several weights, of which nodes of several stages read one, no stage can make: its readers
  /// make it themselves, of the weights that come to them through the pipeline.
  void derive_where_read(const LayerOrder& layers) {
    if (layout_.p == 1) return;
    std::map<std::string, std::set<std::string>> sources;  // of derived states
    for (const GraphOutput& output : step_.derive.outputs()) sources[output.name] = sources_of(output.name);
    if (std::none_of(sources.begin(), sources.end(), [](const auto& derived) { return derived.second.size() > 1; }))
      return;
    std::map<std::string, std::set<int>> stages;  // of weights
    for (const Graph* graph_of_data : graphs_of_data()) {
      std::vector<Chain> chains;
      const Graph graph = hold_chains(*graph_of_data, names_of({StateKind::kChained, StateKind::kKept}), chains);
      const PartMap map = map_parts(graph, layers, into_.part_of_layer, into_.parts, chains);
      const std::set<ValueId> states = states_of(graph);
      for (size_t n = 0; n < graph.nodes().size(); ++n)
        for (ValueId input : graph.nodes()[n].inputs) {
          if (map.anywhere[n] || !states.contains(input)) continue;
          const std::string& name = graph.value(input).name;
          const int stage = into_.stage_of_part[static_cast<size_t>(map.part[n])];
          const auto derived = sources.find(name);
          if (derived == sources.end()) stages[home_name(name)].insert(stage);
          if (derived != sources.end())
            for (const std::string& source : derived->second) stages[source].insert(stage);
        }
    }
    std::set<std::string> wanted, kept;
    for (const auto& [name, made_of] : sources) {
      const bool several = std::any_of(made_of.begin(), made_of.end(),
                                       [&](const std::string& source) { return stages[source].size() > 1; });
      (made_of.size() > 1 && several ? wanted : kept).insert(name);
    }
    if (wanted.empty()) return;
    for (Graph* graph : graphs_of_data()) *graph = unhoist(*graph, step_.derive, wanted);
    step_.derive = part_of(step_.derive, kept);
    std::erase_if(step_.states, [&](const StateTensor& state) { return wanted.contains(state.name); });
  }

  void cut_model(const LayerOrder& layers, const SpreadResult& micro) {
    auto [graph, map, chains] = place(micro.graph, layers, names_of({StateKind::kChained}));
    const bool split = layout_.schedule == PipelineSchedule::kZeroBubble && layout_.p > 1;
    std::vector<bool> stays;
    for (const LayerActivations& layer : choices_) stays.push_back(!layer.stream);
    homes_ = homes_of(graph, map, {});
    PieceCutter{.stage_of_part = into_.stage_of_part,
                .layers = &layers,
                .split_backward = split,
                .stream = layout_.offload.activations,
                .stays = std::move(stays),
                .parts_per_phase = layout_.phases > 1 ? layout_.p : 0,
                .results = micro.results,
                .feeds = micro.feeds,
                .homes = homes_}
        .cut(graph, map, into_);
    into_.times = pass_times();
    into_.table = make_schedule(layout_, into_.lanes * into_.micro_batches_per_lane, &into_.times);
    if (!chains.empty()) check_order(chains[0].state);
  }

  struct Placed {
    Graph graph;
    PartMap map;
    std::vector<Chain> chains;
  };

  /// The graph with its held states and each node's part. A state that nodes of several stages read, as an embedding
  /// that encoder and decoder share, is held too: one stage owns the state, and the others get its value through the
  /// pipeline and send back their parts of its gradient.
  Placed place(const Graph& graph, const LayerOrder& layers, const std::set<std::string>& held) const {
    Placed placed;
    placed.graph = hold_chains(graph, held, placed.chains);
    placed.map = map_parts(placed.graph, layers, into_.part_of_layer, into_.parts, placed.chains);
    if (layout_.p == 1) return placed;
    std::set<std::string> names = states_of_several_stages(placed.graph, placed.map);
    if (names.empty()) return placed;
    names.insert(held.begin(), held.end());
    placed.chains.clear();
    placed.graph = hold_chains(graph, names, placed.chains);
    std::erase_if(placed.chains, [&](const Chain& chain) { return !held.contains(chain.state); });
    placed.map = map_parts(placed.graph, layers, into_.part_of_layer, into_.parts, placed.chains);
    std::erase_if(names, [&](const std::string& name) { return held.contains(name); });
    gather_at_owners(placed, names);
    return placed;
  }

  /// A weight's copies are one thing here: they are made where the weight is.
  const std::string& home_name(const std::string& state) const {
    const std::string& weight = step_.state(state).weight();
    return weight.empty() ? state : weight;
  }

  static std::set<ValueId> states_of(const Graph& graph) {
    std::set<ValueId> states;
    for (const GraphInput& input : graph.inputs())
      if (input.role == InputRole::kState) states.insert(input.value);
    return states;
  }

  /// Copies of a held weight are read in its first part, and its gradients are added up there.
  void gather_at_owners(Placed& placed, const std::set<std::string>& held) const {
    const Graph& graph = placed.graph;
    const std::set<ValueId> states = states_of(graph);
    std::map<std::string, int> owner;  // the part of each weight
    const auto each_held = [&](const auto& visit) {
      for (size_t n = 0; n < graph.nodes().size(); ++n)
        for (ValueId input : graph.nodes()[n].inputs)
          if (states.contains(input) && held.contains(graph.value(input).name))
            visit(home_name(graph.value(input).name), n);
    };
    each_held([&](const std::string& home, size_t n) {
      int& first = owner.emplace(home, placed.map.part[n]).first->second;
      first = std::min(first, placed.map.part[n]);
    });
    // In the forward pass, even where backward passes alone read them: these go from the last stage to the first.
    each_held([&](const std::string& home, size_t n) {
      placed.map.part[n] = owner.at(home), placed.map.backward[n] = false;
    });
    std::vector<bool> moved(graph.nodes().size(), false);
    for (size_t n = 0; n < graph.nodes().size(); ++n) {
      if (!placed.map.backward[n]) continue;
      const auto move = [&](int to) { moved[n] = true, placed.map.part[n] = std::min(placed.map.part[n], to); };
      for (ValueId input : graph.nodes()[n].inputs) {
        const Value& value = graph.value(input);
        if (value.producer != kNoNode) {
          const auto producer = static_cast<size_t>(value.producer);
          if (moved[producer]) move(placed.map.part[producer]);
        } else if (states.contains(input) && graph.find_output(value.name)) {
          if (const auto found = owner.find(home_name(value.name)); found != owner.end()) move(found->second);
        }
      }
    }
  }

  /// The states that nodes on several stages read and that the graph does not change, with the copies of a weight. A
  /// weight's users are the nodes that add to its gradients, too: where a weight is widened once for all its readers,
  /// one node alone reads it.
  std::set<std::string> states_of_several_stages(const Graph& graph, const PartMap& map) const {
    const std::set<std::string> constants = names_of({StateKind::kConstant});
    const std::set<ValueId> states = states_of(graph);
    std::map<std::string, std::set<int>> stages;
    std::set<std::string> read, found;
    for (size_t n = 0; n < graph.nodes().size(); ++n)
      for (ValueId input : graph.nodes()[n].inputs) {
        const std::string& name = graph.value(input).name;
        if (map.anywhere[n] || !states.contains(input) || constants.contains(name)) continue;
        const bool changed = graph.find_output(name) != nullptr;
        if (changed && step_.state(name).kind != StateKind::kAccumulator) continue;
        if (!changed) read.insert(name);
        stages[home_name(name)].insert(into_.stage_of_part[static_cast<size_t>(map.part[n])]);
      }
    for (const std::string& name : read)
      if (stages.at(home_name(name)).size() > 1) found.insert(name);
    return found;
  }

  /// The first part whose nodes read each state, or what `derive` makes of it; of states that the graph does not read,
  /// that in `known`.
  std::map<std::string, int> homes_of(const Graph& graph, const PartMap& map, std::map<std::string, int> known) const {
    std::map<std::string, int> homes;
    const auto read = [&](const std::string& name, int part) {
      const auto [at, fresh] = homes.emplace(name, part);
      if (!fresh) at->second = std::min(at->second, part);
    };
    for (size_t n = 0; n < graph.nodes().size(); ++n)
      for (ValueId input : graph.nodes()[n].inputs)
        if (!map.anywhere[n] && graph.value(input).producer == kNoNode) read(graph.value(input).name, map.part[n]);
    for (const GraphOutput& output : step_.derive.outputs())
      if (const auto home = homes.find(output.name); home != homes.end()) {
        const Graph made = part_of(step_.derive, {output.name});
        for (const GraphInput& input : made.inputs()) read(made.value(input.value).name, home->second);
      }
    homes.merge(known);
    return homes;
  }

  /// Every part's forward passes take the micro-batches in order.
  void check_order(const std::string& chained) const {
    for (const auto& row : into_.table.entries) {
      std::map<int, int64_t> last;
      for (const auto& entry : row) {
        if (entry.pass != Pass::kForward) continue;
        const auto [at, fresh] = last.emplace(entry.part, entry.micro);
        if (!fresh && entry.micro != at->second + 1)
          throw Error({.what = "a schedule would break the chain from one micro-batch to the next",
                       .where = "layout schedule, chained state '" + chained + "'",
                       .found = "micro-batch " + std::to_string(entry.micro) + " after " + std::to_string(at->second),
                       .expected = "forward passes in order"});
        at->second = entry.micro;
      }
    }
  }

  void add_program(const StepProgram& program) {
    DeviceProgram made{.name = program.name, .when = program.when};
    made.writes_states = program.writes_states();
    made.prepares = step_.writes_sources(program);
    made.reads_data = program.reads_data();
    // Where a stage has several parts of the model, all stages have work only when as many micro-batches as stages are
    // under way. Otherwise two are enough: one travels while a stage works on the other.
    if (program.when.kind == When::Kind::kRequest && made.reads_data && !made.writes_states && layout_.p > 1)
      made.width = into_.parts > layout_.p ? layout_.p : 2;
    into_.programs.push_back(std::move(made));
  }

  std::string prefix_of(int program) const {
    return "program/" + into_.programs[static_cast<size_t>(program)].name + "/";
  }

  /// A program that reads data is cut as the model is: its parts in the order of the forward pass, then, where it has a
  /// backward pass, in reverse.
  void cut_program(const LayerOrder& layers, const SpreadResult& program, int index) {
    auto [graph, map, chains] = place(program.graph, layers, names_of({StateKind::kChained, StateKind::kKept}));
    const int last = 2 * into_.parts - 1;
    std::vector<int> stage_of_place = into_.stage_of_part;
    if (std::find(map.backward.begin(), map.backward.end(), true) != map.backward.end())
      stage_of_place.insert(stage_of_place.end(), into_.stage_of_part.rbegin(), into_.stage_of_part.rend());
    for (size_t n = 0; n < map.part.size(); ++n)
      if (map.backward[n] && !map.anywhere[n]) map.part[n] = last - map.part[n];
    map.backward.assign(map.part.size(), false);
    PieceCutter{.stage_of_part = stage_of_place,
                .kind = PieceKind::kProgram,
                .prefix = prefix_of(index),
                .program = index,
                .results = program.results,
                .feeds = program.feeds,
                .homes = homes_of(graph, map, homes_)}
        .cut(graph, map, into_);
    for (StageGraphs& stage : into_.stages)
      for (Piece& piece : stage.pieces)
        if (piece.program == index && piece.part >= into_.parts) piece.part = last - piece.part;
  }

  /// In forward passes of an average stage.
  PassTimes pass_times() const {
    std::vector<std::array<double, kPassCount>> work(static_cast<size_t>(into_.parts), {0, 0, 0});
    double forward = 0;
    for (const StageGraphs& stage : into_.stages)
      for (const Piece& piece : stage.pieces) {
        const std::optional<Pass> pass = pass_of(piece.kind);
        if (!pass) continue;
        double sum = 0;
        for (NodeId id = 0; id < static_cast<NodeId>(piece.graph.nodes().size()); ++id)
          sum += work_of(piece.graph.node(id).op->cost(piece.graph.signature(id)));
        work[static_cast<size_t>(piece.part)][static_cast<size_t>(*pass)] += sum;
        if (*pass == Pass::kForward) forward += sum;
      }
    constexpr double kLeast = 1e-3;  // a pass takes some time
    const double unit = std::max(forward, 1.0) / layout_.p;
    for (auto& passes : work)
      for (double& time : passes) time = std::max(time / unit, kLeast);
    return {.of_part = std::move(work), .transfer = 0};
  }

  /// States by the (stage, part) of the pieces that read or write them; the first part where there are several.
  std::map<std::string, std::map<int, int>> states_of_pieces() const {
    std::map<std::string, std::map<int, int>> found;
    for (size_t stage = 0; stage < into_.stages.size(); ++stage)
      for (const Piece& piece : into_.stages[stage].pieces) {
        const auto note = [&](const std::string& name) {
          const auto [at, fresh] = found[name].emplace(static_cast<int>(stage), piece.part);
          if (!fresh) at->second = std::min(at->second, piece.part);
        };
        for (const GraphInput& input : piece.graph.inputs())
          if (input.role == InputRole::kState) note(piece.graph.value(input.value).name);
        for (const GraphOutput& output : piece.graph.outputs())
          if (output.role == OutputRole::kState) note(output.name);
      }
    return found;
  }

  void cut_derive(const Graph& derive) {
    const auto users = states_of_pieces();
    for (size_t stage = 0; stage < into_.stages.size(); ++stage)
      for (int part = 0; part < into_.parts; ++part) {
        std::set<std::string> wanted;
        for (const GraphOutput& output : derive.outputs())
          if (is_read(users, output.name, static_cast<int>(stage), part)) wanted.insert(output.name);
        if (wanted.empty()) continue;
        Graph graph = part_of(derive, wanted);
        graph.set_name("prepare" + std::to_string(part));
        for (const GraphInput& input : graph.inputs())
          own(graph.value(input.value).name, static_cast<int>(stage), part);
        into_.stages[stage].pieces.push_back({std::move(graph), PieceKind::kPrepare, part});
      }
    for (const auto& [name, stages] : users)
      if (step_.state(name).kind != StateKind::kDerived)
        for (const auto& [stage, part] : stages) own(name, stage, part);
  }

  /// Whether part `part` is the one on its stage that prepares the state: each that reads it where parts take turns
  /// in memory (phases), else the first.
  bool is_read(const std::map<std::string, std::map<int, int>>& users, const std::string& name, int stage,
               int part) const {
    const auto found = users.find(name);
    if (found == users.end() || !found->second.count(stage)) return false;
    if (layout_.phases == 1) return found->second.at(stage) == part;
    for (const Piece& piece : into_.stages[static_cast<size_t>(stage)].pieces)
      if (piece.part == part && piece.kind != PieceKind::kPrepare && piece.graph.find_input(name) != kNoValue)
        return true;
    return false;
  }

  void own(const std::string& name, int stage, int part) {
    if (step_.state(name).kind == StateKind::kConstant) return;
    const auto [at, fresh] = owner_.emplace(name, stage);
    if (!fresh && at->second != stage)
      throw Error(
          {.what = "a state is used on two pipeline stages",
           .where = "'" + name + "'",
           .found = "stages " + std::to_string(at->second) + " and " + std::to_string(stage),
           .remedy = "Where the loss head alone is the second use, set head=first; else use p=1 with r, t or phases"});
    const auto [group, first] = part_.emplace(name, part);
    if (!first) group->second = std::min(group->second, part);
  }

  /// The update (`program` -1), or a program that reads no data; the stage of every state.
  std::map<std::string, int> cut_update(const SpreadResult& update, int program) {
    for (const std::string& name : names_of({StateKind::kConstant})) owner_[name] = kEveryStage;
    const StageUpdates updates(update.graph, mesh_, owner_);
    const PieceKind kind = program < 0 ? PieceKind::kUpdate : PieceKind::kProgram;
    for (int stage = 0; stage < layout_.p; ++stage) {
      const Graph graph = updates.of_stage(stage);
      int groups = 1;
      const std::map<std::string, int> group = group_states(graph, stage, groups);
      if (groups == 1) {
        Piece piece{.graph = graph, .kind = kind, .program = program};
        for (const GraphOutput& output : graph.outputs())
          if (const auto part = update.results.find(output.name);
              part != update.results.end() && output.role == OutputRole::kResult)
            piece.results.insert(*part);
        into_.stages[static_cast<size_t>(stage)].pieces.push_back(std::move(piece));
        continue;
      }
      PartMap map;
      map.part = update_parts(graph, group, groups);
      for (const Node& node : graph.nodes()) map.anywhere.push_back(node.inputs.empty());
      map.backward.assign(graph.nodes().size(), false);
      int parts = 2 * groups + 1;
      for (const int place : map.part) parts = std::max(parts, place + 1);
      const std::vector<int> stage_of_part(static_cast<size_t>(parts), stage);
      PieceCutter{.stage_of_part = stage_of_part,
                  .stream = program < 0 && layout_.offload.grads,
                  .kind = kind,
                  .prefix = (program < 0 ? "update" : prefix_of(program)) + std::to_string(stage) + ".",
                  .program = program,
                  .results = update.results}
          .cut(graph, map, into_);
    }
    return updates.owners();
  }

  /// Groups of weights and accumulators that are updated together: all at once where all is in device memory, a part's
  /// where parts take turns; where states are streamed, about an eighth of a stage's, and never much more than
  /// kGroupBytes: two groups are in device memory at a time, one at work and one that comes or goes.
  std::map<std::string, int> group_states(const Graph& update, int stage, int& groups) const {
    const bool streams = layout_.offload.optimizer || layout_.offload.grads || layout_.offload.weights;
    std::map<std::string, int> group;
    groups = 1;
    if (!streams && layout_.phases == 1) return group;
    int last_part = -1;
    int64_t bytes = 0;
    groups = 0;
    std::vector<std::pair<int, std::string>> order;  // by part, then in the states' order
    for (const StateTensor& state : step_.states)
      if (state.kind == StateKind::kWeight && !state.low_half && update.find_input(state.name) != kNoValue &&
          owner_.count(state.name) && owner_.at(state.name) == stage)
        order.emplace_back(part_.count(state.name) ? part_.at(state.name) : 0, state.name);
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const auto bytes_of = [&](const std::string& name) { return update.type(update.find_input(name)).bytes(); };
    int64_t all = 0;
    for (const auto& [part, name] : order) all += bytes_of(name);
    const int64_t most = streams ? std::min(kGroupBytes, all / kGroups) : kGroupBytes;
    for (const auto& [part, name] : order) {
      const int64_t own = bytes_of(name);
      if (groups == 0 || (layout_.phases > 1 && part != last_part) || (bytes > 0 && bytes + own > most))
        ++groups, bytes = 0;
      bytes += own;
      last_part = part;
      group[name] = groups - 1;
    }
    // Low halves go with their weight, accumulators with the weight whose update reads them.
    for (const StateTensor& state : step_.states) {
      if (!state.low_half && state.kind != StateKind::kAccumulator) continue;
      if (const auto known = group.find(state.of); known != group.end()) group[state.name] = known->second;
    }
    return group;
  }

  void place_states() {
    for (StateTensor state : step_.states) {
      const auto owner = owner_.find(state.name);
      const Spread& spread = spreads_.at(state.name);
      LocalState local;
      local.sharding = {state.type, spread.cuts, state.kind == StateKind::kAccumulator ? 1 : spread.flat_parts,
                        spread.flat_stride};
      local.tensor = state;
      local.tensor.type = local.sharding.local();
      const bool constant = state.kind == StateKind::kConstant;
      const auto& offload = layout_.offload;
      const StateKind kind = step_.placed_as(state);
      const bool streams = (kind == StateKind::kOptimizer && offload.optimizer) ||
                           ((kind == StateKind::kWeight || constant) && offload.weights) ||
                           (kind == StateKind::kAccumulator && offload.grads);
      local.home = streams ? HomeMemory::kStreaming : HomeMemory::kDevice;
      if (state.kind != StateKind::kDerived && !constant) {
        into_.stages[static_cast<size_t>(owner == owner_.end() ? 0 : owner->second)].states.push_back(std::move(local));
        continue;
      }
      for (StageGraphs& stage : into_.stages)
        if (std::any_of(stage.pieces.begin(), stage.pieces.end(), [&](const Piece& piece) {
              return constant ? piece.graph.find_input(state.name) != kNoValue
                              : piece.graph.find_output(state.name) != nullptr;
            }))
          stage.states.push_back(local);
    }
  }

  static constexpr int64_t kGroupBytes = int64_t{64} << 20;
  static constexpr int64_t kGroups = 8;

  StepGraph step_;
  const Layout layout_;
  const ActivationChoices& choices_;
  const Mesh mesh_;
  std::vector<int64_t> deal_;  // clusters in the order of the devices; empty where none are dealt
  DeviceGraphs into_;
  StateSpreads spreads_;
  std::map<std::string, int> owner_, part_;  // stage and first part of each state
  std::map<std::string, int> homes_;         // part of each state that the micro graph reads
};

}  // namespace

std::vector<Cut> cuts_of_state(const StateTensor& state, const Mesh& mesh, const TensorAxes& axes) {
  std::vector<Cut> cuts;
  std::set<MeshAxis> used;
  for (size_t dim = 0; dim < state.axes.size(); ++dim) {
    const auto known = axes.find(state.axes[dim].name);
    if (known == axes.end()) continue;
    const MeshAxis axis = known->second == 1 ? MeshAxis::kTensor1 : MeshAxis::kTensor2;
    const int64_t parts = mesh.extent(axis), blocks = state.axes[dim].blocks;
    const bool falls_apart = parts > 1 && state.type.shape[static_cast<int>(dim)] % (blocks * parts) == 0;
    if (falls_apart && used.insert(axis).second) cuts.push_back({static_cast<int>(dim), axis, parts, blocks, 1});
  }
  return cuts;
}

DeviceGraphs partition(const StepGraph& step, const Layout& layout, const ActivationChoices& choices) {
  return Partitioner(step, layout, choices).run();
}

}  // namespace ramet::layout
