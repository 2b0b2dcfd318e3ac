// The memory beside a refused access: which region the key names or lies nearest to the address, and by how
// much the access misses it. Fills ExplainFacts and forms that part of the sentence.
#pragma once

#include <string>

#include "host/explain_facts.h"
#include "objects/memory.h"
#include "transport/qp/failed_request.h"

namespace rrdma::nic {

// REQUIRES: the lock of a lane.
void add_memory(const objects::MemoryTable& memory, const objects::ProtectionDomain& pd,
                const transport::FailedRequest& failed, host::ExplainFacts& facts);

// "; bytes [+65500, +65600) run 64 bytes past the end of MR 0x000012ab (65536 bytes at 0x7f0000001000)";
// empty if nothing is known.
[[nodiscard]] std::string memory_text(const host::ExplainFacts& facts);

// The rights as their flags: "LOCAL_WRITE | REMOTE_READ"; "none" for 0.
[[nodiscard]] std::string rights_text(std::uint32_t access);
// The right that the refused request of a peer needs; 0 if it needs none.
[[nodiscard]] std::uint32_t right_needed(const host::ExplainFacts& facts);

}  // namespace rrdma::nic
