#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ramet/base/hash.h"
#include "ramet/data/images.h"
#include "ramet/train/alert_options.h"
#include "ramet/train/train_options.h"

namespace ramet::recipe {

/// All that decides the numbers of a training run. Read from TOML; the table `recipe_keys()` documents
/// every field. A field that is not set takes the value that `complete_recipe` finds for it.
struct Recipe {
  std::string name;
  std::string layout = "p=1";  ///< canonical text (layout/layout.h); decides no bit

  struct Model {
    std::string kind = "bert", preset;
    std::optional<int64_t> layers, hidden, heads, intermediate, vocabulary_size, pad_vocabulary, max_positions;
    std::optional<int64_t> types;
    std::optional<double> dropout, attention_dropout, epsilon;
    std::string activation, init_from, file;
    bool tied = false, carry = false;
    // Of networks for images (model/vision.h).
    std::string blocks, stem;
    std::optional<int64_t> width, patch, head_size, classes;
    std::optional<double> drop_path, head_dropout;
    double momentum = 0.1;
    // Of networks for graphs (model/graph_net.h).
    struct {
      int64_t layers = 2, hidden = 16, heads = 8;
      double dropout = 0.5, attention_dropout = 0;
      std::string readout = "sum", loss = "squared";
      double diagonal = 0, cutoff = 10;
      int64_t gaussians = 50, filter_points = 0, position_size = 8;
      double drop_path = 0, node_noise = 0, edge_noise = 0, noise_weight = 0.1;
      std::string input_masks;
    } graph;
    // Of embeddings of knowledge graphs (model/knowledge.h).
    struct {
      int64_t width = 128, norm = 1, pad = 1, shards = 1;
      std::string loss = "log-sigmoid";
      double margin = 0, temperature = 0, penalty = 0, deviation = 0.1;
    } knowledge;
    // Of networks along the paths of a knowledge graph (model/path_net.h).
    struct {
      int64_t layers = 6;
      std::string message = "distmult", aggregate = "pna";
    } paths;
    // Of embeddings of nodes by random walks (model/node2vec.h).
    struct {
      int64_t width = 128;
    } walks;
    // Of temporal graph networks (model/tgn.h).
    struct {
      int64_t memory = 100, time = 100, embedding = 100, heads = 2;
      double dropout = 0.1;
    } tgn;
  } model;

  struct Data {
    std::string kind = "synthetic", corpus, train, held_out;
    int64_t sequence_length = 128;
    double masking_probability = 0.15;
    bool whole_word = false;
    std::optional<int64_t> max_predictions;
    bool next_sentence = true;
    double short_sequences = 0.1;
    int64_t variants = 10;
    bool shuffle = true;
    int64_t prefetch = 2;
    std::string packing = "none";
    int64_t packing_depth = 3;
    double held_out_share = 0;
    // Of images (data/images.h).
    std::string folder = "/usr/share/datasets/fashion-mnist", channels_at = "auto", mean = "0.5", deviation = "0.5";
    std::optional<int64_t> channels, height, width;
    Augmentation augment;
    // Of graphs (graphs/graph_source.h).
    struct {
      std::string set, features = "node.x", label = "node.y", split, train = "train", held_out = "validation";
      std::string batch = "count:1", oversize = "refuse", edge_features, positions, columns;
      std::string distances, tasks;
      double factor = 1;
      int64_t hops = 0;
    } graphs;
    // Of knowledge graphs (graphs/triples.h).
    struct {
      std::string set, split = "edge.split", train = "train", held_out = "validation", sides = "both", known = "train";
      std::string ranked_set;
      int64_t group = 1, negatives = 0, ranked = 0;
      bool reciprocal = false;
      bool subsampling = false;
    } triples;
    // Of random walks (graphs/walks.h).
    struct {
      std::string set;
      int64_t length = 20, context = 10, per_node = 10, group = 128, negatives = 1;
      double p = 1, q = 1;
    } walks;
    // Of events (graphs/events.h).
    struct {
      std::string set, split = "edge.split", held_out = "validation", negatives = "random";
      int64_t batch = 200, recent = 10;
    } events;
    bool packs() const { return packing != "none"; }
  } data;

  /// Fine-tuning (text/task.h). `head`, `classes` and `choices` are found from the data.
  struct Task {
    std::string kind, data, train, dev, test, tokenizer;
    std::string text, pair, label, id, labels;
    int64_t stride = 128, max_query = 64, max_answer = 30, n_best = 20, limit_train = 0, limit_dev = 0;
    double null_threshold = 0, epochs = 3, warmup = 0;
    std::optional<double> dropout;
    std::string teacher;  ///< folder of a run or of a published model (recipe/teacher.h)
    std::optional<double> teacher_weight, teacher_temperature;
    std::string head;
    std::optional<int64_t> classes, choices;
    /// Whether the texts to train on have a teacher's answers beside their labels.
    bool has_teacher() const { return !teacher.empty() && teacher_weight != 0; }
  } task;
  bool is_task() const { return !task.kind.empty(); }

  /// Block-sparse weights (model/sparsify.h).
  struct Sparse {
    std::string weights;  ///< patterns of names, with spaces between them
    double density = 0.1;
    int64_t block = 1, cells = 1, cells_t2 = 1;
    std::string distribution = "uniform", pattern = "random";
    std::string densities;  ///< NAME=DENSITY with spaces between them
    // Patterns that change (model/evolve.h).
    int64_t every = 0;
    double prune_ratio = 0.5, until = 1, ramp_from = 0.25, ramp_until = 0.75;
    std::string prune_schedule = "cosine", score = "l1", regrow = "random", age = "auto";
    bool regrow_pruned = false;
    std::optional<double> first_density;
  } sparse;

  TrainOptions train;
  double label_smoothing = 0;  ///< of the labels of images
  double system_every = 5;     ///< seconds between samples of what the system does (track/system_metrics.h); 0: none

  struct Track {
    AlertOptions alerts;
  } track;

  /// Where each key was set, as "bert.toml:12" or "--set"; keys that were not are absent.
  std::map<std::string, std::string> places;

  /// "bert.toml:12 train.lanes", or "train.lanes" for a default: the `where` of an error.
  std::string where(const std::string& key) const;
};

/// Where a key's value lives.
using RecipeField = std::variant<bool*, int64_t*, double*, std::string*, std::optional<int64_t>*,
                                 std::optional<double>*, NumberOrAuto*, std::vector<GroupOptions>*>;

class RecipeKind;

/// One key of a recipe: all that parsing, checking, printing and `ramet recipe --help` need to know.
struct RecipeKey {
  enum class Kind { kPlain, kPath, kLayout };
  std::string name;  ///< "train.optimizer.beta1"
  /// Key behind which this one stands in print and in the recipe's hash; "": behind the one before it in its table.
  std::string after{};
  std::string doc;
  RecipeField (*field)(Recipe&);
  double low = 0, high = 0;            ///< of numbers, inclusive; none when both are 0
  std::vector<std::string> choices{};  ///< of texts; empty: any
  Kind kind = Kind::kPlain;
  bool decides = true;                ///< whether it decides bits: only others may change on resume
  std::string otherwise{};            ///< the meaning of an unset value, for the documentation
  const RecipeKind* owner = nullptr;  ///< set by `recipe_keys`: null for keys that several kinds share
  bool quiet = false;                 ///< not hashed at its default, as checkpoints are older than the key
  bool of_text = false;               ///< of models of text alone (RecipeKind::reads_text)
  bool of_arrays = false;             ///< of models that read arrays alone (RecipeKind::reads_arrays)
  bool of_presets = false;            ///< of models with sizes by name alone (RecipeKind::has_presets)
};
/// The keys of all tables: those that every recipe has, those that models of text share, and those of each kind
/// (recipe/kinds.h).
const std::vector<RecipeKey>& recipe_keys();

/// The key of this name; null where there is none.
const RecipeKey* find_recipe_key(const std::string& name);
/// Whether there are keys of the names "NAME.*".
bool is_recipe_table(const std::string& name);
/// Throws the Error of a name that is no key, with the nearest one that is.
[[noreturn]] void refuse_unknown_key(const std::string& name, const std::string& place);

/// One value of a key that takes no list.
using RecipeValue = std::variant<bool, int64_t, double, std::string>;
/// The value as the key's field holds it: a whole number as a number where the key takes any, a path made absolute from
/// `folder`, a layout in its canonical text. Throws Error (`place` and the key) for what the key does not take.
RecipeValue checked_value(const RecipeKey& key, const RecipeValue& value, const std::string& place,
                          const std::filesystem::path& folder);
/// The value as TOML.
std::string toml_of(const RecipeValue& value);
/// "train.steps=100", as `settings` of a recipe take it.
std::string setting_of(const std::string& key, const RecipeValue& value);

/// Parses a recipe and applies `settings` ("a.b=c", in order, after the file), then checks types, ranges and what keys
/// mean together. Relative paths are taken from `folder` in the text and from the working directory in settings.
/// Throws Error with FILE:LINE and the key; an unknown key names the nearest known one.
Recipe parse_recipe(std::string_view text, const std::string& source, const std::filesystem::path& folder,
                    std::span<const std::string> settings = {});
Recipe load_recipe(const std::filesystem::path& path, std::span<const std::string> settings = {});
/// The run that a folder is, or is a checkpoint of; empty where it is neither.
std::filesystem::path run_of(const std::filesystem::path& folder);
/// Changes keys of a recipe that is being resumed: Error for those that decide bits.
void change_resumed_recipe(Recipe& recipe, std::span<const std::string> settings);

/// Sets the recipe's layout as `--layout` gives it: a text, or the name of a TOML file (layout/layout.h).
void set_layout(Recipe& recipe, const std::string& text_or_file);
/// Where the layout was set, as the `source` of its errors.
std::string layout_source(const Recipe& recipe);

/// Every set key as TOML, in the order of the table; parses back to an equal recipe.
std::string print_recipe(const Recipe& recipe);
/// Over the keys that decide bits. Equal hashes (and an equal corpus) promise equal runs.
Hash recipe_hash(const Recipe& recipe);
/// Documentation of every key; `prefix` limits it to a table, as "train.optimizer".
std::string recipe_help(const std::string& prefix = "");

}  // namespace ramet::recipe
