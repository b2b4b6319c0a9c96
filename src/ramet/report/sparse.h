#pragma once

#include <string>

#include "ramet/model/model.h"

namespace ramet::report {

/// Of the model's sparse weights, a line for all of them and one for each kind of them: density, cells, blocks and
/// slots. "" where there are none.
std::string sparse_text(const model::Model& model);
/// The same as a list of JSON objects, one a weight: "[]" where there are none.
std::string sparse_json(const model::Model& model);

}  // namespace ramet::report
