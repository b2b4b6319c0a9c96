#pragma once

#include <stdexcept>
#include <string>

#include "ramet/version.h"

namespace ramet::v0 {

/// The five parts of an error message. The message leaves out empty parts.
struct ErrorParts {
  std::string what{};      ///< what is wrong, in one clause: "unknown key"
  std::string where{};     ///< file and line, node of the graph or name of the tensor: "bert.toml:12 train.stepz"
  std::string found{};     ///< the offending value
  std::string expected{};  ///< what would be valid
  std::string remedy{};    ///< what the user can do
};

/// The exit status of a command that ends with the error.
enum class ErrorKind {
  kUsage,   ///< exit status 2: wrong use or invalid input
  kFailure  ///< exit status 1: a run failed
};

/// The only exception that Ramet throws on purpose. `what()` joins the parts:
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
