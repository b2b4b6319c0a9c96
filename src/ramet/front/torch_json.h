#pragma once

#include "ramet/base/house.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "ramet/front/program.h"

namespace ramet::front {

/// The major version of the format that torch.export writes and this importer reads.
inline constexpr int kTorchSchemaMajor = 8;

/// Reads the text of a program as torch.export writes it (models/model.json of a .pt2 file). `source` names the text in
/// messages. Throws Error for a text of another version or one that contradicts the format.
TracedProgram read_torch_program(std::string_view text, const std::string& source);
/// The same of a text that was parsed.
TracedProgram read_torch_program(const nlohmann::json& root, const std::string& source);

}  // namespace ramet::front
