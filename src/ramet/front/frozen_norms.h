#pragma once

#include "ramet/base/house.h"

#include <string>

#include "ramet/model/model.h"

namespace ramet::front {

/// What to tell of batch norms that keep fixed statistics while the model trains: one line, "" where there are none, or
/// where the model has no loss.
std::string frozen_norms_remark(const model::Model& model);

}  // namespace ramet::front
