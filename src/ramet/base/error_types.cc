#include "ramet/base/error_types.h"

#include <utility>

namespace ramet {
namespace {

template <typename Type>
void throw_if(const Error& error, ErrorParts& parts) {
  if (dynamic_cast<const Type*>(&error)) throw Type(std::move(parts), error.kind());
}

}  // namespace

void throw_alike(const Error& error, ErrorParts parts) {
  throw_if<UnsupportedOp>(error, parts);
  throw_if<DoesNotFit>(error, parts);
  throw_if<ShapeError>(error, parts);
  throw_if<FormatError>(error, parts);
  throw Error(std::move(parts), error.kind());
}

}  // namespace ramet
