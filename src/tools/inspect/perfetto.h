// An analysis as a trace for ui.perfetto.dev, in its native format (protobuf messages Trace, TracePacket, TrackDescriptor,
// TrackEvent of the Perfetto project): an address is a process, a queue pair a track, a work request a slice from its first
// packet to its answer, a packet two instants that a flow joins. Requests that are under way at the same time
// stand on tracks below each other, because slices of one track must nest.
//
// The few fields are written by an encoder of our own: libprotobuf would bring a compiler for the schema, a large
// schema and a shared library for what are sixty lines here.
#pragma once

#include <string>

#include "tools/inspect/analysis.h"

namespace rrdma::tools {

[[nodiscard]] std::string perfetto_trace(const Analysis& analysis);

}  // namespace rrdma::tools
