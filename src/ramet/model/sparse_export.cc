// Sparse weights as files of index triples.
#include <algorithm>
#include <cstring>

#include "ramet/model/hugging_face.h"
#include "ramet/model/sparsify.h"
#include "ramet/weights/safetensors.h"

#include "ramet/sparse.h"

namespace ramet::model {
namespace {

struct FileTensor {
  std::string name;
  TensorType type;
  std::vector<std::byte> bytes;
};

template <typename T>
FileTensor tensor_of(std::string name, DType dtype, Shape shape, std::span<const T> numbers) {
  FileTensor tensor{std::move(name), {dtype, std::move(shape)}, std::vector<std::byte>(numbers.size_bytes())};
  if (!numbers.empty()) std::memcpy(tensor.bytes.data(), numbers.data(), numbers.size_bytes());
  return tensor;
}

v0::BsrMatrix bsr_of(const SparseWeight& weight, const ReadBytes& read) {
  const SparseGrid& grid = weight.grid;
  v0::SparseCells cells{.cells_down = grid.cells_down,
                        .cells_across = grid.cells_across,
                        .cell_rows = grid.cell_rows,
                        .cell_columns = grid.cell_columns,
                        .block = {grid.block_rows, grid.block_columns},
                        .slots = grid.slots,
                        .index = std::vector<int32_t>(static_cast<size_t>(grid.cells() * grid.slots)),
                        .values = std::vector<float>(static_cast<size_t>(grid.stored_elements()))};
  read(weight.index.name, std::as_writable_bytes(std::span(cells.index)));
  read(weight.values.name, std::as_writable_bytes(std::span(cells.values)));
  // Unused slots, whose number is -1, are the last of each cell, and every cell has as many.
  const auto slots = static_cast<size_t>(grid.slots), elements = static_cast<size_t>(grid.block_elements());
  size_t used = 0;
  while (used < slots && cells.index[used] >= 0) ++used;
  for (size_t cell = 0; used < slots && cell < static_cast<size_t>(grid.cells()); ++cell) {
    std::copy_n(cells.index.data() + cell * slots, used, cells.index.data() + cell * used);
    std::copy_n(cells.values.data() + cell * slots * elements, used * elements,
                cells.values.data() + cell * used * elements);
  }
  cells.slots = static_cast<int64_t>(used);
  cells.index.resize(static_cast<size_t>(grid.cells()) * used);
  cells.values.resize(cells.index.size() * elements);
  return v0::SparseMatrix::from(cells).bsr();
}

/// The triple of each part of the weight, and its shape.
void append_triples(const SparseWeight& weight, const ReadBytes& read, std::vector<FileTensor>& tensors) {
  const v0::BsrMatrix matrix = bsr_of(weight, read);
  const int64_t lines = std::ssize(matrix.first) - 1, elements = matrix.block.rows * matrix.block.columns;
  std::vector<std::string> names = file_names(weight.name);
  if (lines % std::ssize(names) != 0) names = {weight.name};
  const int64_t each = lines / std::ssize(names);
  for (int64_t part = 0; part < std::ssize(names); ++part) {
    const std::string& name = names[static_cast<size_t>(part)];
    const auto first = matrix.first.begin() + part * each;
    const int64_t begin = *first, count = first[each] - begin;
    std::vector<int64_t> starts(first, first + each + 1);
    for (int64_t& start : starts) start -= begin;
    const std::span columns = std::span(matrix.column).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
    const std::span values =
        std::span(matrix.values).subspan(static_cast<size_t>(begin * elements), static_cast<size_t>(count * elements));
    const Shape shape = elements == 1 ? Shape{count} : Shape{count, matrix.block.rows, matrix.block.columns};
    const int64_t size[] = {each * matrix.block.rows, matrix.columns};
    tensors.push_back(tensor_of<int64_t>(name + ".crow_indices", DType::kI64, {each + 1}, starts));
    tensors.push_back(tensor_of<int64_t>(name + ".col_indices", DType::kI64, {count}, columns));
    tensors.push_back(tensor_of<float>(name + ".values", DType::kF32, shape, values));
    tensors.push_back(tensor_of<int64_t>(name + ".shape", DType::kI64, {2}, size));
  }
}

}  // namespace

void export_sparse_weights(const std::filesystem::path& path, const Model& model, const ReadBytes& read) {
  std::map<std::string, SparseWeight> sparse;  // by the name of the values
  for (SparseWeight& weight : sparse_weights(model)) sparse[weight.values.name] = std::move(weight);
  std::vector<FileTensor> tensors;
  for (const StateTensor& state : model.published()) {
    if (const auto found = sparse.find(state.name); found != sparse.end()) {
      append_triples(found->second, read, tensors);
      continue;
    }
    std::vector<std::byte> bytes(static_cast<size_t>(state.type.bytes()));
    read(state.name, bytes);
    const std::vector<std::string> names = file_names(state.name);
    std::vector<int64_t> dims = state.unpadded().shape.dims();
    if (names.size() > 1) dims[0] /= std::ssize(names);
    const TensorType type{state.unpadded().dtype, Shape(dims)};
    for (size_t part = 0; part < names.size(); ++part)
      tensors.push_back(tensor_of<std::byte>(
          names[part], type.dtype, type.shape,
          std::span(bytes).subspan(part * static_cast<size_t>(type.bytes()), static_cast<size_t>(type.bytes()))));
  }
  std::vector<SafetensorsSpec> specs;
  for (const FileTensor& tensor : tensors) specs.push_back({tensor.name, tensor.type});
  SafetensorsWriter writer(path, specs, {{"format", "pt"}});
  for (const FileTensor& tensor : tensors) writer.write(tensor.bytes.data(), tensor.bytes.size());
  writer.close();
}

}  // namespace ramet::model
