#pragma once

#include <memory>
#include <span>
#include <string>

#include "ramet/array.h"

namespace ramet::v0 {

/// The memory that a source fills for one input: a row-major tensor [samples, ...].
struct Place {
  std::string name;  ///< of the input
  TensorType type;   ///< [count, ...] for `count` samples
  std::byte* data = nullptr;

  /// The elements as T; throws Error when `type` has another element type.
  template <typename T>
  std::span<T> as() const {
    if (dtype_of<T>() != type.dtype) throw Error({.what = "numbers of another type", .found = type.text()});
    return {reinterpret_cast<T*>(data), static_cast<size_t>(type.elements())};
  }
};

/// Samples that the user's program computes. Sample i is a pure function of i: several threads may ask for any samples,
/// in any order and more than once.
class RAMET_API Source {
 public:
  virtual ~Source();
  /// Writes all elements of samples [first, first + count) to `places`, one place for each input of the model. An
  /// exception ends the step that needs the samples. That step changes no weight.
  virtual void fill(int64_t first, int64_t count, std::span<const Place> places) const = 0;
  /// Number of samples in an epoch; 0: the source has no epochs.
  virtual int64_t samples() const { return 0; }
  /// Text that identifies the data. A checkpoint keeps its hash, and does not resume on data of another identity.
  virtual std::string identity() const { return ""; }
};

struct ArrayOptions {
  bool shuffle = true;  ///< whether every epoch has a new order
  uint64_t seed = 0;    ///< of the shuffled order
  double held_out = 0;  ///< share of the samples, in [0, 1), that training leaves out and Data::held_out() gives
};

struct KnowledgeOptions;  // ramet/knowledge.h
struct GraphNetOptions;   // ramet/graph_net.h
class GraphSet;

/// Samples for training or evaluation, epoch after epoch. Cheap to copy. Training's constructor checks them against the
/// model, and throws Error where names, types or shapes differ.
class RAMET_API Data {
 public:
  /// No samples.
  Data() = default;
  /// Arrays in the caller's memory: for each input of the model, all of its samples one after another. The memory must
  /// stay valid as long as the data is used.
  static Data arrays(const NamedViews& arrays, const ArrayOptions& options = {});
  /// Arrays of a file (.npy, .npz, .safetensors) or of a folder of .npy files. Each has the name of an input, and its
  /// first dimension is samples. Files are mapped; only compressed entries of .npz files are read into memory.
  static Data file(const std::string& path, const ArrayOptions& options = {});
  /// Samples of a source; throws Error when it is null.
  static Data source(std::shared_ptr<const Source> source);
  /// Triples to train the knowledge_model of the same options on (ramet/knowledge.h): i32 [triples, 3] of head,
  /// relation and tail. The library draws the negatives. `known`: further triples that count as true. Both are copied.
  /// Throws Error for numbers that are no entity or relation.
  static Data triples(const KnowledgeOptions& options, const ArrayView& triples, const ArrayView& known = ArrayView());
  /// The batches of graphs that the graph_net of the same options and graphs reads (ramet/graph_net.h): a sample is a
  /// pack. held_out() gives those of the part GraphNetOptions::held_out. Throws Error as graph_net does.
  static Data graphs(const GraphNetOptions& options, const GraphSet& graphs);
  /// The samples that ArrayOptions::held_out holds out, in a fixed order. Where it is 0, and of a Source, there are
  /// none: the constructor of Training then throws Error.
  Data held_out() const;

  bool empty() const { return contents_ == nullptr; }
  struct RAMET_PRIVATE Contents;
  const std::shared_ptr<const Contents>& contents() const { return contents_; }  ///< for the library

 private:
  explicit Data(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  std::shared_ptr<const Contents> contents_;
};

}  // namespace ramet::v0
