#pragma once

#include "ramet/base/house.h"

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/front/known_values.h"
#include "ramet/front/program.h"
#include "ramet/front/translation.h"
#include "ramet/model/model.h"

namespace ramet::front {

/// A parameter, a buffer or a constant of a module, with its values.
struct ModuleTensor {
  std::string name;  ///< in the module's state_dict
  TensorData data{};
  std::string storage{};  ///< tensors of one storage are one tensor; "": of its own
  bool trained = true;    ///< of a parameter: requires_grad
  /// In place of `data`, of a parameter of f32 with the type `later`: see FillFunction (transform/filled_state.h).
  std::function<void(int64_t first, std::span<float> to)> fill{};
  TensorType later{};

  const TensorType& type() const { return fill ? later : data.type(); }
  /// Its values, which are read now where they were not.
  TensorData values() const;
};

/// A traced module: see v0::TorchModule.
struct TracedModule {
  std::string name = "module";
  std::optional<TracedProgram> training{}, evaluation{};  ///< one of them at least
  std::vector<ModuleTensor> tensors{};
  std::vector<std::string> outputs{};
  std::string loss{}, loss_items{};
  bool predicts = true;
  std::vector<std::pair<std::string, std::vector<LogicalAxis>>> axes{};
  std::vector<std::string> parts{};
  uint64_t seed = 0;
};

/// A model that was made of a traced module.
struct ImportedModel {
  model::Model model;
  int64_t micro_batch = 1;  ///< samples
};

/// Makes a model of a traced module. Throws Error for a module that contradicts itself, and one that lists everything
/// that is not supported.
ImportedModel import_module(TracedModule module);

/// What one call or one property of a program could not be translated for. `place`: the user's line, or the module.
struct Refusal {
  std::string op, place, why, remedy;
};
/// Throws the Error that lists refusals of the module `name`, or of what else `kind` says it is.
[[noreturn]] void throw_refusals(const std::string& name, const std::vector<Refusal>& refusals,
                                 const std::string& kind = "module");

/// What the value of an input is in the graph.
struct InputValue {
  enum class From : uint8_t {
    kState,     ///< the state `name` of type `type`
    kConstant,  ///< `data`, carried by the graph
    kData       ///< the data input `name`
  };
  From from = From::kData;
  std::string name{};
  TensorType type{};
  TensorData data{};
  std::vector<std::string> axes{};  ///< of data
};

/// How a mutated buffer changes: what a micro-batch contributes to it.
struct BufferFold {
  std::string by;
  double momentum = 0;
  std::string value{};                 ///< name of the value in the program; "": `number`
  double number = 0;                   ///< of the buffer's shape
  std::set<const TracedCall*> skip{};  ///< calls of the change that need no translation
};
/// The changes of buffers that are recognised from their calls: sums, averages and copies (front/buffers.cc).
std::map<std::string, BufferFold, std::less<>> recognise_folds(const TracedProgram& program);
/// Adds the changes of buffers that torch.export does not record: the running statistics of instance norms.
void record_statistics(TracedProgram& program);

/// Translates the calls of one program to nodes of a graph.
class Importer {
 public:
  struct Options {
    bool trains = false;  ///< the graph of training
    bool draws = false;   ///< of training, and of an evaluation that is traced as such: calls draw random numbers
    int64_t seed = 0;
    std::map<std::string, InputValue, std::less<>> inputs{};  ///< by the names of the program's values
    std::map<const TracedCall*, Part> parts{};                ///< of calls
    std::set<const TracedCall*> skip{};                       ///< calls that need no translation
    std::set<std::string> wanted{};                           ///< values that are read though no call reads them
  };
  Importer(const TracedProgram& program, Graph& graph, Options options);

  /// Translates all calls that can be translated.
  void run();
  /// Translates one call, whose nodes get these facts. Throws Error where it cannot be translated.
  void add(const TracedCall& call, NodeInfo info);
  /// Says what a value of the program is, before the calls that read it are translated.
  void give(const std::string& name, Tensor value) { values_[name] = value; }
  /// Says what a value of the graph holds.
  void know(ValueId value, TensorData data) { known_.set(value, std::move(data)); }
  const std::vector<Refusal>& refusals() const { return refusals_; }
  void refuse(Refusal refusal) { refusals_.push_back(std::move(refusal)); }

  GraphBuilder& build() { return build_; }
  const TracedProgram& program() const { return program_; }
  bool trains() const { return options_.trains; }
  bool draws() const { return options_.draws; }
  int64_t seed() const { return options_.seed; }

  /// A value of the program; an invalid tensor where it has none, because its call was refused.
  Tensor value(const std::string& name);
  const TensorType* type_of(const std::string& name) const;
  /// The type that a value has in the graph: f32 where torch has f64.
  static TensorType graph_type(TensorType recorded);
  bool reads(const std::string& name) const { return reads_.count(name) != 0; }
  bool is_complex(const std::string& name) const { return program_.complex.count(name) != 0; }
  /// The elements of a value that no input decides; null where some input does, or where they are too many.
  const TensorData* known(const std::string& name) { return known(value(name)); }
  const TensorData* known(Tensor tensor);
  Tensor counter();
  std::string random_name(const TracedCall& call);

  /// A fold that a translator declared: the state's name, and the value of a micro-batch.
  struct MadeFold {
    std::string by;
    double momentum = 0;
    Tensor value;
  };
  void fold_buffer(const TracedCall& call, const std::string& argument, size_t index, MadeFold fold);
  /// By the name of the buffer in the state_dict.
  const std::map<std::string, MadeFold>& folds() const { return folds_; }

 private:
  void translate(const TracedCall& call);
  void refuse_call(const TracedCall& call, const ErrorParts& parts);
  bool depends_on_refused(const TracedCall& call) const;
  void keep_outputs(const TracedCall& call, const std::vector<Tensor>& made);

  const TracedProgram& program_;
  GraphBuilder build_;
  Options options_;
  std::map<std::string, Tensor, std::less<>> values_{};
  std::set<std::string, std::less<>> reads_{}, refused_{};
  KnownValues known_;
  std::map<std::string, int> random_names_{};
  std::map<std::string, MadeFold> folds_{};
  std::vector<Refusal> refusals_{};
};

/// The parts of a module: modules that are parts, or one module whose every run is a part.
struct ModuleParts {
  std::map<std::string, Part, std::less<>> modules{};  ///< by path
  std::string repeated{};                              ///< path of the module that runs several times
  std::string first{};                                 ///< path of the module that each of its runs comes to first
  std::string stack{};                                 ///< of the runs
};
/// `patterns` name modules ("encoder.layer.*"). Without patterns, parts are the members of lists of modules of one
/// class (the first may be of another) that hold most of `sizes`, the elements of each parameter by its name; where
/// there is no such list, the runs of a module that holds most of them (front/parts.cc).
ModuleParts find_parts(const TracedProgram& program, const std::vector<std::string>& patterns,
                       const std::map<std::string, int64_t>& sizes);
/// The parts that the calls of a program belong to; others belong to none.
std::map<const TracedCall*, Part> parts_of_calls(const TracedProgram& program, const ModuleParts& parts);

}  // namespace ramet::front
