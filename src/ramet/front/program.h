#pragma once

#include "ramet/base/house.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ramet/ir/op.h"

namespace ramet::front {

/// An argument of a recorded call: nothing, a bool, a number, a text, a tensor by its name, or a list of arguments.
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
  std::string op;        ///< "aten.conv2d"
  std::string overload;  ///< "default"
  std::vector<std::pair<std::string, TracedArgument>> arguments{};  ///< in the order of the call; defaults are left out
  std::vector<std::string> outputs{};  ///< names of tensors, lists of tensors flattened; "" for an output that is none
  std::string module{};                ///< path of the module that made the call: "encoder.layer.3.attention"
  std::string origin{};                ///< the user's line: "model.py:88 in forward"; "" where it is not known

  const TracedArgument* find(std::string_view name) const;
};

/// What a tensor that enters a program is.
struct TracedInput {
  enum class Kind : uint8_t { kParameter, kBuffer, kConstant, kUser };
  Kind kind = Kind::kUser;
  std::string value;   ///< name of the tensor in the program
  std::string target;  ///< name in the module's state_dict ("layers.0.weight"), or of the constant; of user inputs `value`
};

/// What a tensor that leaves a program is.
struct TracedOutput {
  enum class Kind : uint8_t { kUser, kBufferMutation };
  Kind kind = Kind::kUser;
  std::string value;   ///< name of the tensor
  std::string target;  ///< of a mutation: name of the buffer
};

/// A traced program in neutral form, whoever wrote it. Shapes are fixed; every call is free of side effects.
struct TracedProgram {
  std::map<std::string, TensorType, std::less<>> types{};  ///< of every tensor, by name
  std::vector<TracedInput> inputs{};                      ///< in the order of the call
  std::vector<TracedCall> calls{};                           ///< in an order in which values are made before their use
  std::vector<TracedOutput> outputs{};
};

}  // namespace ramet::front
