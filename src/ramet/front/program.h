#pragma once

#include "ramet/base/house.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::front {

/// An argument of a recorded call: nothing, a bool, a number, a text, a tensor by its name, or a list of arguments.
/// Element types are texts ("f32", "bool", "complex64"), as are memory formats ("contiguous", "channels_last",
/// "preserve"), layouts ("strided") and devices ("cpu"). A number that the program computes itself is a tensor whose
/// type is not known.
struct TracedArgument {
  enum class Kind : uint8_t { kNone, kBool, kInt, kFloat, kText, kTensor, kList };
  Kind kind = Kind::kNone;
  bool flag = false;
  int64_t integer = 0;
  double number = 0;
  std::string text{};  ///< a text, or the name of a tensor
  std::vector<TracedArgument> list{};

  bool given() const { return kind != Kind::kNone; }
};

/// One call of a traced program, as torch.export records it: an operator, its arguments by the names of the operator's
/// schema, and the names of the tensors that it gives.
struct TracedCall {
  std::string op;                                                   ///< "aten.conv2d"
  std::string overload;                                             ///< "default"
  std::vector<std::pair<std::string, TracedArgument>> arguments{};  ///< in the order of the call; defaults are left out
  std::vector<std::string> outputs{};  ///< names of tensors, lists of tensors flattened; "" for an output that is none
  std::string module{};                ///< path of the module that made the call: "encoder.layer.3.attention"
  std::string origin{};                ///< the user's line: "model.py:88 in forward"; "" where it is not known

  const TracedArgument* find(std::string_view name) const;
};

/// Visits the names of all tensors of an argument, or of all arguments of a call; those in lists too.
void each_tensor_of(const TracedArgument& argument, const std::function<void(const std::string&)>& visit);
void each_tensor_of(const TracedCall& call, const std::function<void(const std::string&)>& visit);

/// What a tensor that enters a program is.
struct TracedInput {
  enum class Kind : uint8_t { kParameter, kBuffer, kConstant, kUser };
  Kind kind = Kind::kUser;
  std::string value;  ///< name of the tensor in the program
  std::string
      target;  ///< name in the module's state_dict ("layers.0.weight"), or of the constant; of user inputs `value`
};

/// What a tensor that leaves a program is.
struct TracedOutput {
  enum class Kind : uint8_t { kUser, kBufferMutation };
  Kind kind = Kind::kUser;
  std::string value;   ///< name of the tensor
  std::string target;  ///< of a mutation: name of the buffer
};

/// A traced program, in a form that does not depend on the file it was read from. Shapes are fixed, and no call has
/// side effects.
struct TracedProgram {
  std::map<std::string, TensorType, std::less<>> types{};  ///< of tensors, by name
  /// Tensors without a type, and why: "its shape [s0, 4] is not fixed".
  std::map<std::string, std::string, std::less<>> untyped{};
  /// Tensors of complex64, whose type has f32 and a last extent of 2 more: real and imaginary parts.
  std::set<std::string, std::less<>> complex{};
  std::vector<TracedInput> inputs{};    ///< in the order of the call
  std::vector<TracedCall> calls{};      ///< in an order in which values are made before their use
  std::vector<TracedOutput> outputs{};  ///< a user output that is no tensor has no `value`
  /// Classes of modules by their paths: {"encoder.layer.3", "transformers.models.bert.modeling_bert.BertLayer"}.
  std::map<std::string, std::string, std::less<>> modules{};
};

}  // namespace ramet::front
