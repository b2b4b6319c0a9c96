#pragma once

#include "ramet/base/error.h"
#include "ramet/error_types.h"

namespace ramet {

using v0::DoesNotFit;
using v0::FormatError;
using v0::ShapeError;
using v0::UnsupportedOp;

/// Throws an error with these parts, of the type and the kind of `error`.
[[noreturn]] void throw_alike(const Error& error, ErrorParts parts);

}  // namespace ramet
