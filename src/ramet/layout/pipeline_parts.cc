#include "ramet/layout/pipeline_parts.h"

#include <algorithm>
#include <limits>
#include <map>

#include "ramet/base/error.h"

namespace ramet::layout {
namespace {

constexpr int kFree = -1;

class PartMapper {
 public:
  PartMapper(const Graph& graph, const LayerOrder& layers, const std::vector<int>& part_of_layer, int parts,
             const std::vector<Chain>& chains)
      : graph_(graph),
        part_of_layer_(part_of_layer),
        parts_(parts),
        chains_(chains),
        uses_(graph.uses()),
        count_(graph.nodes().size()) {
    for (const Node& node : graph.nodes()) layer_.push_back(layers.index_of(node.part));
    map_.part.assign(count_, kFree);
    map_.backward.assign(count_, false);
    map_.anywhere.assign(count_, false);
    always_forward_.assign(count_, false);
    fixed_.assign(count_, kFree);
    reads_data_.assign(count_, false);
    for (const GraphInput& input : graph.inputs())
      if (input.role == InputRole::kData)
        for (NodeId user : uses_[static_cast<size_t>(input.value)]) reads_data_[static_cast<size_t>(user)] = true;
    for (size_t n = 0; n < count_; ++n)
      each_producer(n, [&](size_t producer) { reads_data_[n] = reads_data_[n] || reads_data_[producer]; });
    for (const Chain& chain : chains)
      for (NodeId id : {chain.read, chain.write})
        if (id != kNoNode) always_forward_[static_cast<size_t>(id)] = true;
  }

  PartMap run() {
    find_backward();
    place_forward();
    if (!chains_.empty()) {
      // What follows from an old value is not before it.
      place_chains();
      map_.part = fixed_;
      place_forward();
    }
    place_backward();
    place_free(true);
    for (size_t n = 0; n < count_; ++n) map_.part[n] = std::max(map_.part[n], 0);
    check();
    return std::move(map_);
  }

 private:
  const Node& node(size_t n) const { return graph_.node(static_cast<NodeId>(n)); }

  template <typename Visit>
  void each_producer(size_t n, const Visit& visit) const {
    for (ValueId input : node(n).inputs)
      if (const NodeId producer = graph_.value(input).producer; producer != kNoNode)
        visit(static_cast<size_t>(producer));
  }
  template <typename Visit>
  void each_user(size_t n, const Visit& visit) const {
    for (ValueId output : node(n).outputs)
      for (NodeId user : uses_[static_cast<size_t>(output)]) visit(static_cast<size_t>(user));
  }

  int part_of(size_t n) const {
    return layer_[n] >= 0 && static_cast<size_t>(layer_[n]) < part_of_layer_.size()
               ? part_of_layer_[static_cast<size_t>(layer_[n])]
               : kFree;
  }
  bool is_last_layer(size_t n) const {
    return !part_of_layer_.empty() && layer_[n] == static_cast<int>(part_of_layer_.size()) - 1;
  }

  void find_backward() {
    for (size_t n = 0; n < count_; ++n) {
      map_.anywhere[n] = node(n).inputs.empty();
      map_.backward[n] = node(n).pass == NodePass::kBackward || node(n).pass == NodePass::kRecompute;
      // What a micro-batch changes must be read where it is changed: micro-batches overlap.
      for (ValueId input : node(n).inputs)
        if (graph_.value(input).producer == kNoNode) {
          const GraphOutput* changed = graph_.find_output(graph_.value(input).name);
          if (changed && changed->role == OutputRole::kState && !always_forward_[n]) map_.backward[n] = true;
        }
      each_producer(n, [&](size_t producer) {
        if (map_.backward[producer] && !map_.anywhere[producer]) map_.backward[n] = true;
      });
    }
  }

  void place_forward() {
    std::vector<bool> after_layers(count_, false);
    for (size_t n = 0; n < count_; ++n) {
      if (map_.backward[n] || map_.anywhere[n]) continue;
      int most = kFree;
      bool after = is_last_layer(n);
      each_producer(n, [&](size_t producer) {
        if (map_.anywhere[producer]) return;
        most = std::max(most, map_.part[producer]);
        after = after || after_layers[producer];
      });
      after_layers[n] = after;
      const int own = fixed_[n] != kFree ? fixed_[n] : part_of(n);
      map_.part[n] = own != kFree ? own : after ? parts_ - 1 : most;
    }
    place_free(false);
  }

  /// The parts of forward nodes outside of the layers, by their serial numbers; of nodes that share one, the last.
  std::map<int32_t, int> parts_of_forward() const {
    std::map<int32_t, int> parts;
    for (size_t n = 0; n < count_; ++n) {
      if (map_.backward[n] || map_.anywhere[n] || map_.part[n] == kFree || layer_[n] >= 0) continue;
      if (node(n).serial == 0) continue;
      int& part = parts.emplace(node(n).serial, map_.part[n]).first->second;
      part = std::max(part, map_.part[n]);
    }
    return parts;
  }

  /// The gradient of a layer's node belongs to the layer, that of any other goes where the node is, or further on when
  /// it comes from there only, as through layers that pass it on unchanged.
  void place_backward() {
    const std::map<int32_t, int> parts = parts_of_forward();
    for (size_t n = 0; n < count_; ++n) {
      if (!map_.backward[n] || map_.anywhere[n]) continue;
      int least = std::numeric_limits<int>::max(), forward = kFree;
      each_producer(n, [&](size_t producer) {
        if (map_.anywhere[producer]) return;
        if (map_.backward[producer] && map_.part[producer] != kFree) least = std::min(least, map_.part[producer]);
        if (!map_.backward[producer]) forward = std::max(forward, map_.part[producer]);
      });
      const auto gradient_of = parts.find(node(n).forward_of);
      const int own = part_of(n), of_forward = gradient_of == parts.end() ? kFree : gradient_of->second;
      map_.part[n] = own != kFree                               ? own
                     : of_forward != kFree                      ? std::min(of_forward, least)
                     : least != std::numeric_limits<int>::max() ? least
                                                                : forward;
    }
  }

  /// What depends on no placed node: forward, it goes with the first part that reads it, or, where it depends on data
  /// before the first layer, to part 0 even where that has no layers; else, and what only the backward pass reads, with
  /// the last.
  void place_free(bool backward_too) {
    for (size_t n = count_; n-- > 0;) {
      if (map_.part[n] != kFree || map_.anywhere[n]) continue;
      int first = std::numeric_limits<int>::max(), last = kFree;
      bool read = false, read_forward = false;
      each_user(n, [&](size_t user) {
        read = true;
        read_forward = read_forward || !map_.backward[user];
        if (map_.part[user] == kFree) return;
        if (!map_.backward[user]) first = std::min(first, map_.part[user]);
        last = std::max(last, map_.part[user]);
      });
      if (!map_.backward[n] && first != std::numeric_limits<int>::max())
        map_.part[n] = reads_data_[n] && !part_of_layer_.empty() && first == part_of_layer_.front() ? 0 : first;
      else if (backward_too && last != kFree)
        map_.part[n] = last, map_.backward[n] = !always_forward_[n];
      // Where the model is not cut no user has a part either.
      else if (backward_too && read && !read_forward)
        map_.backward[n] = !always_forward_[n];
    }
  }

  /// A chained or kept state is read where it is written, in the forward pass, which runs micro-batches in order.
  void place_chains() {
    const auto refuse = [](const Chain& chain, const std::string& what, const std::string& found) {
      throw Error({.what = "a layout would break the chain from one run of a graph to the next: " + what,
                   .where = "state '" + chain.state + "'",
                   .found = found,
                   .expected = "read and written in the forward pass of one part of the model",
                   .remedy = "Use p=1 and phases=1, or read and write the state in one layer"});
    };
    for (const Chain& chain : chains_) {
      if (chain.read == kNoNode || chain.write == kNoNode) continue;
      const auto read = static_cast<size_t>(chain.read), write = static_cast<size_t>(chain.write);
      if (map_.backward[write]) refuse(chain, "it is written by the backward pass", "");
      each_producer(write, [&](size_t maker) {
        if (!map_.anywhere[maker]) map_.part[write] = map_.part[maker];
      });
      const int last = std::max(map_.part[write], 0);
      if (map_.part[read] != kFree && map_.part[read] < last)
        refuse(chain, "its parts run micro-batches at different times",
               "read in part " + std::to_string(map_.part[read]) + ", written in part " + std::to_string(last));
      fixed_[read] = fixed_[write] = last;
    }
  }

  void check() const {
    for (size_t n = 0; n < count_; ++n)
      each_producer(n, [&](size_t producer) {
        if (map_.anywhere[producer]) return;
        const bool against = map_.backward[n] ? map_.backward[producer] && map_.part[producer] < map_.part[n]
                                              : map_.backward[producer] || map_.part[producer] > map_.part[n];
        if (against)
          throw Error({.what = "the model cannot be cut in a pipeline here: a value would flow against it",
                       .where = graph_.text_of(static_cast<NodeId>(n)),
                       .found = "it reads '" + node(producer).name + "' of part " +
                                std::to_string(map_.part[producer]) + " in part " + std::to_string(map_.part[n]),
                       .remedy = "Number the model's parts (PartScope) in the order in which data flows through them, "
                                 "or use p=1 and phases=1"});
      });
  }

  const Graph& graph_;
  const std::vector<int>& part_of_layer_;
  const int parts_;
  std::vector<int> layer_;  // of each node
  const std::vector<Chain>& chains_;
  const std::vector<std::vector<NodeId>> uses_;
  const size_t count_;
  std::vector<bool> always_forward_;  // what reads and writes chained states
  std::vector<int> fixed_;            // the part of the nodes that read and write them
  std::vector<bool> reads_data_;      // what depends on a micro-batch's data
  PartMap map_;
};

[[noreturn]] void refuse_layers(const std::string& found, const std::string& expected, const std::string& remedy = "") {
  throw Error({.what = "the layers do not make these parts",
               .where = "layout layers",
               .found = found,
               .expected = expected,
               .remedy = remedy});
}

}  // namespace

std::vector<int> parts_of_layers(const Layout& layout, const std::vector<double>& cost, double before, double after) {
  const size_t layers = cost.size(), parts = static_cast<size_t>(layout.layer_parts());
  if (layers == 0)
    refuse_layers(
        "a model that declares no layers to be cut at", std::to_string(parts) + " or more",
        "Build each layer inside a PartScope(builder, \"encoder\", i), or write part \"encoder\" i behind its "
        "nodes in the text form; or use p=1 and phases=1");
  if (layers < parts)
    refuse_layers(std::to_string(layers) + " layers",
                  std::to_string(parts) + " or more: p x phases x interleave parts");
  std::vector<size_t> counts;
  if (!layout.layers.empty()) {
    size_t sum = 0;
    for (int64_t count : layout.layers) counts.push_back(static_cast<size_t>(count)), sum += counts.back();
    if (counts.size() != parts || sum != layers)
      refuse_layers(std::to_string(counts.size()) + " parts of " + std::to_string(sum) + " layers in all",
                    std::to_string(parts) + " parts of " + std::to_string(layers));
  } else {
    // best[k][n]: least possible cost of the costliest of k parts that hold the first n layers.
    const double none = std::numeric_limits<double>::infinity();
    std::vector<double> sums(layers + 1, 0);
    for (size_t i = 0; i < layers; ++i) sums[i + 1] = sums[i] + cost[i];
    const bool own_head = layout.model_parts() > layout.layer_parts();
    std::vector<std::vector<double>> best(parts + 1, std::vector<double>(layers + 1, none));
    std::vector<std::vector<size_t>> cut(parts + 1, std::vector<size_t>(layers + 1, 0));
    best[0][0] = 0;
    for (size_t k = 1; k <= parts; ++k)
      for (size_t n = k; n <= layers; ++n)
        for (size_t from = k - 1; from < n; ++from) {
          double part = sums[n] - sums[from];
          if (k == 1) part += before + (own_head ? after : 0);
          if (k == parts && !own_head) part += after;
          const double worst = std::max(best[k - 1][from], part);
          if (worst < best[k][n]) best[k][n] = worst, cut[k][n] = from;
        }
    counts.assign(parts, 0);
    for (size_t k = parts, n = layers; k > 0; n = cut[k][n], --k) counts[k - 1] = n - cut[k][n];
  }
  std::vector<int> part;
  for (size_t k = 0; k < parts; ++k) part.insert(part.end(), counts[k], static_cast<int>(k));
  return part;
}

double work_of(const Cost& cost) {
  return std::max(cost.flops, kFlopsPerByte * static_cast<double>(cost.bytes_read + cost.bytes_written));
}

LayerCosts layer_costs(const Graph& micro, const LayerOrder& layers) {
  LayerCosts costs;
  costs.layers.assign(static_cast<size_t>(layers.size()), 0);
  const int last = static_cast<int>(costs.layers.size()) - 1;
  std::vector<bool> after(micro.nodes().size(), false), backward(micro.nodes().size(), false);
  for (NodeId id = 0; id < static_cast<NodeId>(micro.nodes().size()); ++id) {
    const auto at = static_cast<size_t>(id);
    const Node& node = micro.node(id);
    const double work = work_of(node.op->cost(micro.signature(id)));
    const int layer = layers.index_of(node.part);
    // What reads a gradient, as the sums over micro-batches do, belongs to the backward pass.
    backward[at] = node.pass == NodePass::kBackward;
    bool behind = layer >= 0 && layer == last;
    for (ValueId input : node.inputs)
      if (const NodeId producer = micro.value(input).producer; producer != kNoNode) {
        backward[at] = backward[at] || backward[static_cast<size_t>(producer)];
        behind = behind || after[static_cast<size_t>(producer)];
      }
    behind = behind && !backward[at];
    after[at] = behind;
    if (layer >= 0)
      costs.layers[static_cast<size_t>(layer)] += work;
    else if (!backward[at])
      (behind ? costs.after : costs.before) += 3 * work;  // backward is twice the forward pass
  }
  return costs;
}

Graph hold_chains(const Graph& graph, const std::set<std::string>& states, std::vector<Chain>& chains) {
  if (states.empty()) return graph;
  Graph result(graph.name());
  GraphCopier copier(graph, result);
  copier.copy_inputs();
  const OpDef& view = OpRegistry::instance().get("reshape");
  const auto same = [&](ValueId value, const std::string& name) {
    return result.add_node(view, {value}, {{"shape", result.type(value).shape.dims()}}, name);
  };
  for (const std::string& name : states) {
    Chain chain{name};
    const ValueId input = graph.find_input(name);
    if (input != kNoValue) {
      chain.read = same(copier[input], name + "/before");
      copier.map(input, result.node(chain.read).outputs[0]);
    }
    chains.push_back(chain);
  }
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) copier.copy_node(id);
  for (const GraphOutput& output : graph.outputs()) {
    const auto chain =
        std::find_if(chains.begin(), chains.end(), [&](const Chain& c) { return c.state == output.name; });
    ValueId value = copier[output.value];
    if (output.role == OutputRole::kState && chain != chains.end()) {
      chain->write = same(value, output.name + "/after");
      value = result.node(chain->write).outputs[0];
    }
    result.add_output(output.name, value, output.role);
  }
  return result;
}

PartMap map_parts(const Graph& graph, const LayerOrder& layers, const std::vector<int>& part_of_layer, int parts,
                  const std::vector<Chain>& chains) {
  return PartMapper(graph, layers, part_of_layer, parts, chains).run();
}

}  // namespace ramet::layout
