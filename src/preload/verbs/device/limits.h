// The limits of one device, for ibv_query_device and for the checks of the create calls. Each is the capacity
// of a lower layer, or a bound that keeps one program from taking all memory.
#pragma once

#include <cstdint>

#include "objects/completion_queue.h"
#include "objects/frame.h"
#include "objects/memory.h"
#include "objects/work_queue.h"
#include "transport/qp/attributes.h"

namespace rrdma::verbs {

inline constexpr int kQpMax = 65000;
inline constexpr std::uint32_t kQueueDepthMax = 16384;
inline constexpr std::uint32_t kSgeMax = objects::kSgeMax;
inline constexpr std::uint32_t kInlineMax = objects::kInlineMax;
inline constexpr int kCqMax = 65000;
inline constexpr std::uint32_t kCqeMax = objects::CompletionQueue::kEntriesMax - 1;
inline constexpr int kKeysMax = objects::MemoryTable::kKeysMax / 2;  // of regions, and of windows
inline constexpr int kPdMax = 65000;
inline constexpr int kSrqMax = 65000;
inline constexpr int kAhMax = 1 << 20;
inline constexpr int kMulticastGroupsMax = 4096;
inline constexpr std::uint64_t kDeviceMemoryMax = 1u << 20;
inline constexpr std::uint16_t kCqModerationCountMax = 0xffff;
inline constexpr std::uint32_t kVendorId = 0x025252;  // a locally administered OUI: there is no vendor
inline constexpr std::uint32_t kVendorPart = 1;
inline constexpr std::uint8_t kPort = 1;  // the only one

}  // namespace rrdma::verbs
