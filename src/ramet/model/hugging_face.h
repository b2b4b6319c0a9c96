#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ramet/transform/step_graph.h"

namespace ramet::model {

/// The differences between the tensors of a file and the weights of a model that matches it: heads may differ.
struct WeightMatch {
  /// Weights of the model's head, and running statistics, that the file lacks: they begin as a new model's.
  std::vector<std::string> drawn;
  std::vector<std::string> left_out;  ///< tensors of heads that the model does not have
  /// One sentence each, for a person; none when nothing differs.
  std::vector<std::string> remarks(const std::string& file) const;
};

/// Whether a weight belongs to the head of a task or to a pooler, which a pre-trained model may lack.
bool is_task_head(const std::string& weight);

/// Compares names and shapes of a file (weights/tensor_file.h says which) with a model's weights. Names are Hugging
/// Face's, of BERT, RoBERTa, DistilBERT and GPT-2, with or without the prefix of the encoder, and with the old "gamma"
/// and "beta"; query, key and value, three tensors there, are one here. A tied decoder and stored masks are passed
/// over, as counts of batches are; names in Ramet's own form are taken as they are. Networks for images have the names
/// of model/vision.h. Throws Error that lists missing tensors, surplus tensors, and
/// shapes that differ. Only heads may differ: a task's head (and a pooler) may be missing or of another shape, and the
/// file may have heads that the model lacks.
WeightMatch match_weights(const std::filesystem::path& path, const std::vector<StateTensor>& weights);

/// The same, and passes each weight (or running statistic) that the file has to `write`, as f32. When it throws,
/// nothing was written, unless the file is damaged in its middle.
WeightMatch import_weights(const std::filesystem::path& path, const std::vector<StateTensor>& weights,
                           const std::function<void(const std::string& name, std::span<const std::byte> bytes)>& write);

/// The names that files give a weight: one, or those of its parts, one below the other.
std::vector<std::string> file_names(const std::string& weight);

/// Writes the weights as one safetensors file with Hugging Face's names. `read` fills a buffer with a weight's f32
/// bytes.
void export_weights(const std::filesystem::path& path, const std::vector<StateTensor>& weights,
                    const std::function<void(const std::string& name, std::span<std::byte> bytes)>& read);

}  // namespace ramet::model
