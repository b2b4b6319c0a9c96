#pragma once

#include "ramet/layout/schedule_table.h"

namespace ramet::layout {

/// Whether a table's order can run to its end, however long its passes take.
bool can_run(const ScheduleTable& table);

/// Fills a table whose parts no known order covers: the faster of a periodic schedule, in which every micro-batch
/// follows the one before at the pace of the busiest stage, and of runs in which a free stage takes a backward pass
/// that is ready, or else a forward pass while it holds few enough micro-batches, or else a weight gradient.
ScheduleTable search_schedule(const ScheduleTable& table, const PassTimes& times);

}  // namespace ramet::layout
