#pragma once

#include "ramet/base/house.h"

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/front/importer.h"
#include "ramet/front/known_values.h"
#include "ramet/front/onnx_call.h"

namespace ramet::front {

/// What the nodes of a graph or of a function see: their values, those of the graphs around, the versions of operator
/// sets, and attributes that a call gave the function.
struct OnnxScope {
  const OnnxScope* outer = nullptr;
  const OnnxVersions* versions = nullptr;
  const std::vector<OnnxAttribute>* attributes = nullptr;  ///< of a function's call; null in a graph
  std::map<std::string, OnnxValue, std::less<>> values{};
  std::set<std::string, std::less<>> refused{};
  int depth = 0;

  const OnnxValue* find(std::string_view name) const;
  bool is_refused(std::string_view name) const;
};

/// Translates the nodes of a model to nodes of a graph.
class OnnxImporter {
 public:
  struct Options {
    /// What becomes of random numbers: nodes draw them (training), pass on their input (evaluation), or are refused.
    enum class Random : uint8_t { kDraw, kLeaveOut, kRefuse };
    Random random = Random::kRefuse;
    int64_t seed = 0;
    std::filesystem::path folder{};  ///< of external data
    std::string source = "model";    ///< for messages
    int64_t most_nodes = 200'000;    ///< of the graph that is made
  };
  OnnxImporter(const OnnxModel& model, Graph& graph, Options options);

  /// Gives a value of the outermost graph: an input or an initializer.
  void give(const std::string& name, OnnxValue value);
  /// The parts of nodes, by their scopes.
  void set_parts(std::map<std::string, Part, std::less<>> parts) { parts_ = std::move(parts); }
  /// The scope that a node's name has: "encoder.layer.0" of "/encoder/layer.0/MatMul"; "" of other names.
  static std::string scope_of(const OnnxNode& node);
  /// Translates all nodes that can be translated.
  void run();
  /// A value of the outermost graph; an empty one where its node was refused.
  OnnxValue value(const std::string& name) const;

  const std::vector<Refusal>& refusals() const { return refusals_; }
  /// Inputs of the graph whose values refused nodes had to know.
  const std::set<std::string>& needed() const { return needed_; }

  GraphBuilder& build() { return build_; }
  const Options& options() const { return options_; }
  const OnnxModel& model() const { return model_; }
  KnownValues& known_values() { return known_; }
  /// The elements of a value that no input decides. Notes the inputs that decide others.
  const TensorData* known(Tensor tensor);
  /// The graph's scalar input i64[2], and a name for random numbers that no other node has.
  Tensor counter();
  std::string random_name(const OnnxNode& node);

  /// Translates a graph within `outer` for these inputs and returns its outputs. Throws Error where a node is refused.
  std::vector<OnnxValue> run_inner(const OnnxGraph& graph, const OnnxScope& outer,
                                   const std::vector<OnnxValue>& inputs);
  HostTensor read(const OnnxTensor& tensor) const;

 private:
  void run_nodes(const std::vector<OnnxNode>& nodes, OnnxScope& scope, bool collect);
  std::vector<OnnxValue> translate(const OnnxNode& node, const OnnxScope& scope);
  /// An op of Ramet that a file of Ramet's own has as a function.
  std::vector<OnnxValue> restore(const OnnxNode& node, const OnnxScope& scope);
  std::vector<OnnxValue> call(const OnnxFunction& function, const OnnxNode& node, const OnnxScope& scope);
  const OnnxFunction* find_function(const OnnxNode& node) const;
  void refuse(const OnnxNode& node, const Error& error);

  const OnnxModel& model_;
  GraphBuilder build_;
  Options options_;
  KnownValues known_;
  OnnxScope scope_{};
  std::vector<Refusal> refusals_{};
  std::set<std::string> needed_{};
  std::map<std::string, int> random_names_{};
  std::map<std::string, Part, std::less<>> parts_{};
};

}  // namespace ramet::front
