#pragma once

#include "ramet/base/house.h"

#include "ramet/graphs.h"
#include "ramet/graphs/graph_set.h"

namespace ramet::api {

/// The lists as tables without fields; Error for lists that contradict each other.
graphs::GraphTables tables_of(const v0::GraphLists& lists);

}  // namespace ramet::api
