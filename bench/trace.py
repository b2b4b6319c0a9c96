"""Reads a trace of `ramet simulate --trace` with Perfetto's own schema (packages `perfetto` and `protobuf`: scripts/setup.sh --peers).

    build/ramet simulate examples/gpt3-175b.toml --machine ipu-pod256 --trace step.pftrace
    .venv/bin/python bench/trace.py step.pftrace

Counts tracks, slices and counters. Ends with status 1 where the schema does not know a field, an event is on a track that was not
described, a slice ends before it begins or never, or time runs backwards on a track.
"""

import collections
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    trace = schema.Trace()
    trace.ParseFromString(data)
    known = schema.Trace()
    known.CopyFrom(trace)
    known.DiscardUnknownFields()
    tracks, names, begun, last = {}, set(), collections.defaultdict(list), {}
    seen, wrong = collections.Counter(), collections.Counter({"unknown fields": int(known.ByteSize() != trace.ByteSize())})
    for packet in trace.packet:
        names.update(entry.iid for entry in packet.interned_data.event_names)
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            wrong["tracks without their parent"] += packet.track_descriptor.parent_uuid not in (0, *tracks)
        if not packet.HasField("track_event"):
            continue
        event, at = packet.track_event, packet.timestamp
        track = event.track_uuid
        wrong["events on unknown tracks"] += track not in tracks
        wrong["time that runs backwards"] += at < last.get(track, 0)
        last[track] = at
        if event.type == event.TYPE_SLICE_BEGIN:
            seen["slices"] += 1
            wrong["slices without a name"] += not event.name and event.name_iid not in names
            begun[track].append(at)
        elif event.type == event.TYPE_SLICE_END:
            wrong["ends without a begin"] += not begun[track]
            begun[track][-1:] = []
        elif event.type == event.TYPE_COUNTER:
            seen["values of counters"] += 1
    wrong["slices that do not end"] = sum(map(len, begun.values()))
    print(f"{len(data)} bytes, {len(trace.packet)} packets, {len(tracks)} tracks, " + ", ".join(f"{n} {what}" for what, n in seen.items()))
    for what, count in wrong.items():
        if count:
            print(f"wrong: {count} {what}")
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
