#include "builder.h"

NB_MODULE(_ramet, m) {
  using namespace ramet_python;
  nb::set_leak_warnings(false);  // cycles through functions of Python live until the process ends
  m.attr("__version__") = ramet::version();
  bind_errors(m);
  bind_tensor(m);
  bind_ops(m);
  bind_builder(m);
  bind_sparse(m);
  bind_options(m);
  bind_knowledge(m);
  bind_graph_net(m);
  bind_data(m);
  bind_graphs(m);
  bind_log(m);
  bind_memory(m);
  bind_training(m);
  bind_knowledge_runs(m);
  bind_graph_net_runs(m);
  bind_import(m);
}
