#pragma once

#include "arrays.h"
#include "ramet/graph_net.h"

namespace ramet_python {

/// A ramet.graphs.GraphSet of one type of nodes and one of edges, copied.
ramet::GraphSet graph_set_of(nb::handle graphs);

}  // namespace ramet_python
