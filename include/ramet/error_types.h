#pragma once

#include "ramet/error.h"

namespace ramet::v0 {

// Errors that programs treat each in their own way. All others are plain Errors.

/// A model has ops or options that Ramet does not have.
class RAMET_API UnsupportedOp : public Error {
 public:
  using Error::Error;
};

/// A program needs more memory than there is. It is refused before it runs.
class RAMET_API DoesNotFit : public Error {
 public:
  using Error::Error;
};

/// Shapes or element types that do not fit each other.
class RAMET_API ShapeError : public Error {
 public:
  using Error::Error;
};

/// A file that is not what its format demands.
class RAMET_API FormatError : public Error {
 public:
  using Error::Error;
};

}  // namespace ramet::v0
