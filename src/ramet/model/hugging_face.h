#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ramet/transform/step_graph.h"

namespace ramet {

/// Reads weights from a safetensors file with Hugging Face's names (BertForPreTraining, GPT2LMHeadModel, with or
/// without their "bert." / "transformer." prefix; old "gamma"/"beta" names too) and hands each of the model's weights,
/// f32, to `write`. f16 and bf16 files are widened. Query, key and value, three tensors there, are one here. A tied
/// decoder and stored attention masks are skipped. Names in Ramet's own form are taken as they are. Throws Error that
/// lists missing tensors, tensors nobody wants, and shapes that differ; nothing is written then.
void import_weights(const std::filesystem::path& path, const std::vector<StateTensor>& weights,
                    const std::function<void(const std::string& name, std::span<const std::byte> bytes)>& write);

/// Writes the weights as one safetensors file with Hugging Face's names. `read` fills a buffer with a weight's f32
/// bytes.
void export_weights(const std::filesystem::path& path, const std::vector<StateTensor>& weights,
                    const std::function<void(const std::string& name, std::span<std::byte> bytes)>& read);

}  // namespace ramet
