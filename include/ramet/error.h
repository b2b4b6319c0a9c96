#pragma once

#include <stdexcept>
#include <string>

#include "ramet/version.h"

namespace ramet::v0 {

/// What a user needs to know of a fault, in five parts. Empty parts are left out of the message.
struct ErrorParts {
  std::string what{};      ///< what was wrong, one clause: "unknown key"
  std::string where{};     ///< file and line, node of the graph, name of the tensor: "bert.toml:12 train.stepz"
  std::string found{};     ///< the offending value
  std::string expected{};  ///< what would have been right
  std::string remedy{};    ///< what to do
};

/// How a command must end when an error reaches it.
enum class ErrorKind {
  kUsage,   ///< wrong use or bad input: exit status 2
  kFailure  ///< a run that failed: exit status 1
};

/// The only exception that Ramet throws on purpose. `what()` is the parts joined:
/// "WHERE: WHAT; found X; expected Y. REMEDY".
class RAMET_API Error : public std::runtime_error {
 public:
  explicit Error(ErrorParts parts, ErrorKind kind = ErrorKind::kUsage);
  const ErrorParts& parts() const { return parts_; }
  ErrorKind kind() const { return kind_; }

 private:
  ErrorParts parts_;
  ErrorKind kind_;
};

}  // namespace ramet::v0
