#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ramet/layout/mesh.h"
#include "ramet/transform/recompute.h"

namespace ramet::layout {

/// In which order a pipeline's stages take micro-batches (schedule_table.h).
enum class PipelineSchedule : uint8_t {
  kGpipe,        ///< all forward, then all backward (Huang et al. 2019)
  kOneFOneB,     ///< one forward, one backward in turn (Narayanan et al. 2019)
  kInterleaved,  ///< the same with several parts of the model a device (Narayanan et al. 2021)
  kZeroBubble    ///< weight gradients fill the gaps: ZB-H1 (Qi et al. 2023)
};

/// All that decides place and time of a training step, and not one bit of its result. `parse_layout`
/// reads it, `layout_help` documents every key, `validate` checks it against a model and a recipe.
struct Layout {
  int p = 1, t1 = 1, t2 = 1, r = 1;
  int g = 1;                   ///< devices among which the clusters of one graph are dealt, along axis t1 of the mesh
  std::string deal = "order";  ///< which clusters each of them gets (deal_clusters.h)

  /// Among how many replicas each kind of tensor is split (RTS), in consecutive groups; 0 and 1: every replica holds
  /// all.
  struct Sharding {
    int weights = 0, grads = 0, optimizer = 0;
  } rts;

  int phases = 1;                             ///< parts of a stage, one of which is in device memory at a time
  std::optional<RecomputeOptions> recompute;  ///< absent: as the recipe's train.recompute says

  /// What lives in streaming memory between its uses.
  struct Offload {
    bool weights = false, grads = false, optimizer = false, activations = false;
    /// Of tables of which a step reads some rows, with their optimizer states: all but these rows (train/row_window.h).
    /// The compiler knows nothing of it: a device's program has a table of so many rows as a step reads.
    bool rows = false;
    /// Whether programs load and store.
    bool any() const { return weights || grads || optimizer || activations; }
  } offload;

  PipelineSchedule schedule = PipelineSchedule::kOneFOneB;
  int interleave = 1;           ///< parts of the model a device, of schedule kInterleaved
  bool sequence = false;        ///< sequence parallelism: what lies between the cut products is cut by tokens over t1
  std::vector<int64_t> layers;  ///< of every part of the model, in the model's order; empty: cut by cost
  /// Which stage holds the loss head. The first stage holds the embeddings, whose table the head often shares. kAuto:
  /// the first stage when they share it, else the last; the recipe's preparation decides, and until then kAuto counts
  /// as the last.
  enum class Head : uint8_t { kAuto, kLast, kFirst } head = Head::kAuto;
  int64_t device_memory = 0;      ///< bytes each device may plan with; 0: no limit
  std::string streaming = "ram";  ///< streaming memory: "ram", or a folder for files
  int threads = 0;                ///< of each device; 0: an equal share of the process' processors
  int per_process = 0;            ///< devices of each MPI rank; 0: spread evenly

  Mesh mesh() const { return {.p = p, .r = r, .t1 = t1 * g, .t2 = t2}; }
  int devices() const { return p * r * t1 * g * t2; }
  /// Parts that each stage holds of the model's layers: phases or interleaved parts.
  int parts_per_stage() const { return phases * interleave; }
  /// Parts into which the model's layers are cut; part c lies on stage c % p.
  int layer_parts() const { return p * parts_per_stage(); }
  /// The same and the loss head, where it is a part of its own: with head=first it follows all layers, on stage 0.
  int model_parts() const { return layer_parts() + (head == Head::kFirst && p > 1 ? 1 : 0); }
  int stage_of(int part) const { return part % p; }
  bool streams_to_files() const { return streaming != "ram"; }
  /// Whether one device does everything, with all in its memory.
  bool is_single() const { return devices() == 1 && phases == 1 && !offload.any(); }
};

/// One key of a layout and its value, as text or TOML gave it.
struct LayoutSetting {
  std::string key, value;
  std::string where;  ///< "--layout p", "bert.toml:12 layout.p"
};

/// "p=2 t=2x1 r=2 rts=weights,optimizer:4 phases=4 recompute=layer offload=optimizer,activations schedule=1f1b": keys
/// in any order, separated by white space; a value with white space stands in double quotes. An empty text means one
/// device. Throws Error (`where`: `source` and the key) that names the values a key takes. Whether the layout fits a
/// model is checked by `validate`.
Layout parse_layout(std::string_view text, const std::string& source = "--layout");
Layout parse_layout(std::span<const LayoutSetting> settings);
/// The same keys as TOML, at the top or in a table [layout]; `t`, `rts`, `offload` and `layers` may be lists too.
Layout parse_layout_toml(std::string_view text, const std::string& source);
/// What `--layout` takes: the text, or the name of a TOML file (one that ends in .toml). A relative folder of streaming
/// files is taken from the file's folder, or the working directory.
Layout load_layout(const std::string& text_or_file);

/// The layout with one key changed, and all else as it was written.
Layout change_layout(const Layout& layout, const LayoutSetting& change);

/// Canonical text: every key that is not at its default, in the order of the documentation; "p=1" when none. Parses
/// back to an equal layout.
std::string print_layout(const Layout& layout);
/// Documentation of every key.
std::string layout_help();
std::string_view name_of(PipelineSchedule schedule);

/// Facts that a layout must fit: sizes of the model, the recipe and the machine. 0: not known, not checked.
struct LayoutFacts {
  int64_t lanes = 1, chunks = 1;  ///< of the recipe; with fast bits each micro-batch is a lane, and chunks do not count
  bool exact = true;              ///< train.bits: "fast" drops the rules of trees
  int64_t micro_batches = 0;      ///< of a step, over all replicas
  int64_t clusters = 0;           ///< of the graph that the model reads in parts
  int64_t tokens = 0;             ///< of a sample: the sequence's length
  int64_t layers = 0, heads = 0, hidden = 0, intermediate = 0, vocabulary = 0;
  /// Work of the forward pass of a layer, on average, and of the loss head, in one unit; 0: not known, all parts alike.
  double layer_work = 0, head_work = 0;
  int64_t processors = 0, memory = 0;  ///< of one process: threads, bytes
};

/// Throws Error when the layout cannot run, naming the contradiction and numbers that would work. Returns remarks about
/// choices that run but could be better, one a line of text.
std::vector<std::string> validate(const Layout& layout, const LayoutFacts& facts,
                                  const std::string& source = "--layout");

}  // namespace ramet::layout
