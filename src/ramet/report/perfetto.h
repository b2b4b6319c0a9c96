#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ramet/sim/simulate.h"

namespace ramet::report {

/// A simulated step as a Perfetto trace (the bytes of a perfetto.protos.Trace), which ui.perfetto.dev and Chrome's
/// viewer open. A process is one device of those that do the same, its tracks are the runs of segments, its work layer
/// by layer, its messages, and its transfers to and from streaming memory; counters are the bytes a second of links and
/// memories. Times are nanoseconds from the beginning of the step. Needs timelines.
///
/// The fields written, by their numbers in perfetto/trace/*.proto:
///   Trace.packet 1
///   TracePacket: timestamp 8, trusted_packet_sequence_id 10, track_event 11, interned_data 12, sequence_flags 13
///     (1 states cleared, 2 states needed), track_descriptor 60
///   TrackDescriptor: uuid 1, name 2, process 3, parent_uuid 5, counter 8; ProcessDescriptor: pid 1, process_name 6;
///     CounterDescriptor: unit_name 6
///   TrackEvent: type 9 (1 begin, 2 end, 4 counter), name_iid 10, track_uuid 11, category_iids 3, double_counter_value
///   44 InternedData: event_categories 1, event_names 2; of each: iid 1, name 2
std::string perfetto_trace(const Simulation& simulation);

/// "0 to 7, 64 to 71": runs of device numbers, the first few where there are many.
std::string devices_text(const std::vector<int32_t>& devices);

}  // namespace ramet::report
