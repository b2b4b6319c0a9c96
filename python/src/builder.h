#pragma once

#include <memory>

#include "arguments.h"

namespace ramet_python {

/// A builder of Python's. It outlives what it builds: afterwards every call is an Error.
class PyBuilder {
 public:
  virtual ~PyBuilder() = default;
  /// Throws Error when the builder is gone.
  virtual ramet::Builder& get() = 0;
};

class PyModelBuilder : public PyBuilder {
 public:
  explicit PyModelBuilder(const std::string& name) : builder_(name) {}
  ramet::ModelBuilder& get() override { return builder_; }

 private:
  ramet::ModelBuilder builder_;
};

class PyProgramBuilder : public PyBuilder {
 public:
  explicit PyProgramBuilder(ramet::ProgramBuilder& builder) : builder_(&builder) {}
  ramet::ProgramBuilder& get() override;
  void close() { builder_ = nullptr; }

 private:
  ramet::ProgramBuilder* builder_;
};

/// A meaning of a dimension: a name, or a name and a number of blocks.
using AxisArgument = std::variant<std::string, std::pair<std::string, int64_t>>;
ramet::WeightAxis axis_of(const AxisArgument& given);

void bind_tensor(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_builder(nb::module_& m);
void bind_sparse(nb::module_& m);
void bind_errors(nb::module_& m);
void bind_options(nb::module_& m);
void bind_data(nb::module_& m);
void bind_graphs(nb::module_& m);
void bind_knowledge(nb::module_& m);
void bind_knowledge_runs(nb::module_& m);
void bind_graph_net(nb::module_& m);
void bind_graph_net_runs(nb::module_& m);
void bind_training(nb::module_& m);
void bind_import(nb::module_& m);
void bind_log(nb::module_& m);
void bind_memory(nb::module_& m);

}  // namespace ramet_python
