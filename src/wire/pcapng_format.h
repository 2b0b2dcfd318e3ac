// The constants of the pcapng format that reader and writer share: block types, section marks and option
// codes (IETF draft-ietf-opsawg-pcapng, sections 4.1 to 4.4, 4.6, 4.7 and 3.5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rrdma::wire {

inline constexpr std::uint32_t kSectionBlock = 0x0a0d0d0a;  // reads the same in both byte orders
inline constexpr std::uint32_t kInterfaceBlock = 1;
inline constexpr std::uint32_t kSimplePacketBlock = 3;
inline constexpr std::uint32_t kStatisticsBlock = 5;
inline constexpr std::uint32_t kEnhancedPacketBlock = 6;
// A journal entry in systemd's export format, lines of NAME=VALUE. It records an event without a packet.
inline constexpr std::uint32_t kJournalBlock = 9;
inline constexpr std::uint32_t kByteOrderMark = 0x1a2b3c4d;
inline constexpr std::size_t kBlockFrameOctets = 12;  // type, length, and the length again
inline constexpr std::size_t kSectionBodyOctets = 16;
inline constexpr std::uint16_t kPcapngMajor = 1;

inline constexpr std::string_view kJournalTime = "__REALTIME_TIMESTAMP";  // microseconds since 1970
inline constexpr std::string_view kJournalText = "MESSAGE";
inline constexpr std::string_view kJournalFacts = "RRDMA_FACTS";  // the numbers behind the text

// A packet's comment that names the program of its destination: "QP 0x000011 belongs to rping, process 12".
inline constexpr std::string_view kOwnerComment = "QP 0x";
// Another one: a GPU held the payload.
inline constexpr std::string_view kDeviceMemoryComment = "payload from device memory";
// A note that names a method of rrdma::rpc, of which packets contain the hash: "rpc method store.Store/Get".
inline constexpr std::string_view kMethodNote = "rpc method ";

inline constexpr std::uint16_t kOptionEnd = 0;
inline constexpr std::uint16_t kOptionComment = 1;
inline constexpr std::uint16_t kOptionInterfaceName = 2;
inline constexpr std::uint16_t kOptionPacketFlags = 2;  // the same number in a packet block: epb_flags
inline constexpr std::uint16_t kOptionApplication = 4;
inline constexpr std::uint16_t kOptionTimeResolution = 9;
inline constexpr std::uint16_t kOptionTimeOffset = 14;
// In a statistics block, 64 bits each: isb_ifrecv, isb_ifdrop.
inline constexpr std::uint16_t kOptionSeen = 4;
inline constexpr std::uint16_t kOptionLeftOut = 5;

// The direction of a packet relative to the capturing host: the lowest two bits of epb_flags.
enum class PacketDirection : std::uint8_t { kUnknown = 0, kInbound = 1, kOutbound = 2 };

}  // namespace rrdma::wire
