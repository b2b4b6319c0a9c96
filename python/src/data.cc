#include "data.h"

#include <nanobind/stl/filesystem.h>
#include <cstring>

#include "builder.h"
#include "graph_net.h"

namespace ramet_python {
namespace {

/// Samples that a function of Python's computes; threads of the engine call it.
class PySource final : public ramet::Source {
 public:
  PySource(nb::callable fill, int64_t samples, std::string identity)
      : fill_(std::move(fill)), samples_(samples), identity_(std::move(identity)) {}
  ~PySource() override {
    const nb::gil_scoped_acquire held;
    fill_.reset();
  }

  void fill(int64_t first, int64_t count, std::span<const ramet::Place> places) const override {
    const nb::gil_scoped_acquire held;
    const FillingScope filling;
    try {
      const nb::object made = fill_(first, count);
      if (!nb::isinstance<nb::dict>(made)) refuse("no dictionary of arrays by name", first);
      const auto arrays = nb::cast<nb::dict>(made);
      for (const ramet::Place& place : places) {
        if (!arrays.contains(place.name.c_str())) refuse("a dictionary without '" + place.name + "'", first);
        copy(place, arrays[place.name.c_str()]);
      }
    } catch (nb::python_error& error) {
      // The engine passes errors from thread to thread, and Python's belong to a thread that holds the interpreter.
      std::string text = error.what();
      while (!text.empty() && text.back() == '\n') text.pop_back();
      throw ramet::Error({.what = "the source of samples failed: " + text, .where = where_of(first)},
                         ramet::ErrorKind::kFailure);
    }
  }
  int64_t samples() const override { return samples_; }
  std::string identity() const override { return identity_; }

 private:
  static std::string where_of(int64_t first) { return "samples from number " + std::to_string(first); }
  [[noreturn]] static void refuse(const std::string& found, int64_t first) {
    throw ramet::Error({.what = "a source gave no samples",
                        .where = where_of(first),
                        .found = found,
                        .expected = "a dictionary with an array for each input of the model"});
  }
  static void copy(const ramet::Place& place, nb::handle array) {
    Feeds feeds;
    feeds.add(place.name, array, place.type.dtype);
    const ramet::ArrayView& view = feeds.views()[0].second;
    const ramet::TensorType type{view.dtype(), feeds.shapes()[0]};
    if (type != place.type)
      throw ramet::ShapeError({.what = "a source gave other samples than the model reads",
                               .where = "'" + place.name + "'",
                               .found = type.text(),
                               .expected = place.type.text()});
    std::memcpy(place.data, view.data(), static_cast<size_t>(view.bytes()));
  }

  nb::object fill_;
  const int64_t samples_;
  const std::string identity_;
};

}  // namespace

void bind_data(nb::module_& m) {
  nb::class_<PyData>(m, "Data", "Samples for training or evaluation, epoch after epoch.")
      .def_static(
          "arrays",
          [](const nb::dict& arrays, bool shuffle, uint64_t seed, double held_out) {
            auto kept = std::make_shared<const Feeds>(arrays, nullptr);
            return PyData{ramet::Data::arrays(kept->views(), {.shuffle = shuffle, .seed = seed, .held_out = held_out}),
                          kept};
          },
          "arrays"_a, nb::kw_only(), "shuffle"_a = true, "seed"_a = uint64_t(0), "held_out"_a = 0.0,
          "Arrays in memory: for each input of the model, all of its samples. Arrays that lie row-major are not "
          "copied, "
          "and must not change while they are used.")
      .def_static(
          "file",
          [](const std::filesystem::path& path, bool shuffle, uint64_t seed, double held_out) {
            return PyData{ramet::Data::file(path.string(), {.shuffle = shuffle, .seed = seed, .held_out = held_out}),
                          nullptr};
          },
          "path"_a, nb::kw_only(), "shuffle"_a = true, "seed"_a = uint64_t(0), "held_out"_a = 0.0,
          "Arrays of a file (.npy, .npz, .safetensors) or of a folder of .npy files.")
      .def_static(
          "source",
          [](nb::callable fill, int64_t samples, const std::string& identity) {
            return PyData{ramet::Data::source(std::make_shared<const PySource>(std::move(fill), samples, identity)),
                          nullptr};
          },
          "fill"_a, nb::kw_only(), "samples"_a = int64_t(0), "identity"_a = "",
          "Samples that a function computes: fill(first, count) returns a dictionary with an array of `count` samples "
          "for "
          "each input. Sample i must be a pure function of i. `samples`: number in an epoch; 0: there are no epochs. "
          "`identity`: text that identifies the data for checkpoints.")
      .def_static(
          "triples",
          [](const ramet::KnowledgeOptions& options, nb::object triples, nb::object known) {
            return PyData{
                ramet::Data::triples(options, numbers_of<int32_t>(triples, "triples"),
                                     known.is_none() ? std::vector<int32_t>{} : numbers_of<int32_t>(known, "known")),
                nullptr};
          },
          "options"_a, "triples"_a, "known"_a = nb::none(),
          "Triples [triples, 3] of head, relation and tail, to train the knowledge_model of the same options on. The "
          "library draws the wrong answers. `known`: further triples that are true.")
      .def_static(
          "graphs",
          [](const ramet::GraphNetOptions& options, nb::object graphs) {
            return PyData{ramet::Data::graphs(options, graph_set_of(graphs)), nullptr};
          },
          "options"_a, "graphs"_a,
          "The batches that the graph_net of the same options and the same ramet.graphs.GraphSet reads: a sample is a "
          "pack. `held_out` gives those of the part that the options hold out.")
      .def(
          "held_out", [](const PyData& self) { return PyData{self.data.held_out(), self.kept}; },
          "The samples that `held_out` of `arrays` or `file` holds out.");
}

}  // namespace ramet_python
