// Exports an analysis as a trace for ui.perfetto.dev, in its native format (the protobuf messages Trace,
// TracePacket, TrackDescriptor and TrackEvent of Perfetto). An address becomes a process, a queue pair a
// track, a work request a slice from its first packet to its response, and a packet two instants joined by a
// flow. Concurrent requests use separate tracks, because slices of one track must nest.
//
// The encoder here has about sixty lines; libprotobuf would add a schema compiler, a large schema and a
// shared library.
#pragma once

#include <string>

#include "inspect/analysis.h"

namespace rrdma::tools {

[[nodiscard]] std::string perfetto_trace(const Analysis& analysis);

}  // namespace rrdma::tools
