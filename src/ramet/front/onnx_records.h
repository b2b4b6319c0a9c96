#pragma once

#include "ramet/base/house.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ramet::front {

// The messages of an ONNX file (onnx.proto) as plain records. Bytes of tensors are views into the file.

/// A tensor as the file holds it. front/onnx_tensor.h makes a HostTensor of it.
struct OnnxTensor {
  std::string name{};
  int32_t type = 0;  ///< TensorProto.DataType
  std::vector<int64_t> dims{};
  std::optional<std::string_view> raw{};
  std::vector<float> floats{};
  std::string_view packed_floats{};  ///< the bytes of `floats`, where they stand together in the file
  std::vector<double> doubles{};
  std::vector<int64_t> integers{};  ///< int32_data, int64_data or uint64_data
  std::vector<std::string_view> strings{};
  bool external = false;
  std::vector<std::pair<std::string, std::string>> location{};  ///< of external data: keys and values
  std::string_view bytes{};                                     ///< the whole message, where the file has it
};

struct OnnxGraph;

/// AttributeProto.AttributeType
enum class OnnxAttributeKind : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14
};

struct OnnxAttribute {
  std::string name{}, refers_to{};  ///< `refers_to`: the attribute of the function that it stands for
  OnnxAttributeKind kind = OnnxAttributeKind::kUndefined;
  float number = 0;
  int64_t integer = 0;
  std::string_view text{};
  std::shared_ptr<const OnnxTensor> tensor{};
  std::shared_ptr<const OnnxGraph> graph{};
  std::vector<float> numbers{};
  std::vector<int64_t> integers{};
  std::vector<std::string_view> texts{};
};

struct OnnxNode {
  std::string op, domain, overload, name;
  std::vector<std::string> inputs{}, outputs{};
  std::vector<OnnxAttribute> attributes{};
  std::map<std::string, std::string, std::less<>> metadata{};

  const OnnxAttribute* find(std::string_view attribute) const;
  /// "Conv 'conv1'", for messages.
  std::string text() const;
};

/// The type that a file gives for a value.
struct OnnxValueInfo {
  enum class Kind : uint8_t { kTensor, kSequence, kOptional, kOther };
  /// One dimension: an extent, a name, or neither.
  struct Extent {
    std::optional<int64_t> extent{};
    std::string name{};
  };
  std::string name{};
  Kind kind = Kind::kTensor;
  int32_t type = 0;  ///< of a tensor, or of the innermost tensors
  bool has_shape = false;
  std::vector<Extent> shape{};
  Kind inner = Kind::kTensor;  ///< of an optional or a sequence: what it holds
};

struct OnnxGraph {
  std::string name{};
  std::vector<OnnxNode> nodes{};
  std::vector<OnnxTensor> initializers{};
  std::vector<OnnxValueInfo> inputs{}, outputs{}, values{};
  bool has_sparse = false;  ///< sparse initializers
};

/// Versions of operator sets by domain; "ai.onnx" is "".
using OnnxVersions = std::map<std::string, int64_t, std::less<>>;

struct OnnxFunction {
  std::string name, domain, overload;
  std::vector<std::string> inputs{}, outputs{};
  std::vector<std::string> attributes{};  ///< without a default
  std::vector<OnnxAttribute> defaults{};  ///< attributes with one
  std::vector<OnnxNode> nodes{};
  OnnxVersions versions{};
};

struct OnnxModel {
  int64_t ir_version = 0;
  std::string producer{};
  OnnxVersions versions{};
  OnnxGraph graph{};
  std::vector<OnnxFunction> functions{};
  bool has_training = false;  ///< training_info
  std::map<std::string, std::string, std::less<>> metadata{};
};

/// A value of a data set as a file: a TensorProto, a SequenceProto or an OptionalProto.
struct OnnxSequence {
  std::string name{};
  int32_t kind = 0;  ///< SequenceProto.DataType: 1 tensors, 3 sequences
  std::vector<OnnxTensor> tensors{};
  bool holds_others = false;  ///< sparse tensors, sequences, maps or optionals
};
struct OnnxOptional {
  std::string name{};
  int32_t kind = 0;  ///< OptionalProto.DataType: 0 nothing, 1 a tensor, 3 a sequence
  std::optional<OnnxTensor> tensor{};
  std::optional<OnnxSequence> sequence{};
};

/// Reads the messages of ONNX. `source` names the file in messages. Views point into `file`, which must outlive the
/// result. Throws FormatError for other files, damaged ones and ones beyond the limits of docs/onnx.md.
OnnxModel parse_onnx(std::string_view file, const std::string& source);
OnnxTensor parse_onnx_tensor(std::string_view file, const std::string& source);
OnnxSequence parse_onnx_sequence(std::string_view file, const std::string& source);
OnnxOptional parse_onnx_optional(std::string_view file, const std::string& source);

}  // namespace ramet::front
