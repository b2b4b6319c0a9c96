#pragma once

#include <string>
#include <vector>

#include "ramet/front/importer.h"

namespace ramet::front {

/// As import_module(module), with outputs of the module, no scalars, that a training step gives to its caller
/// (model/step_outputs.h).
ImportedModel import_module(TracedModule module, std::vector<std::string> step_outputs);

}  // namespace ramet::front
