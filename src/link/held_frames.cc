#include "link/held_frames.h"

#include <algorithm>

#include "base/assert.h"
#include "base/guarded_copy.h"

namespace rrdma::link {

using objects::Frame;

void copy_frame(const Frame& from, Frame& to) {
  to.path = from.path;
  to.header_octets = from.header_octets;
  to.pad = from.pad;
  to.span_count = from.span_count;
  to.corrupt_bit = from.corrupt_bit;
  to.faults = from.faults;
  to.fault_rule = from.fault_rule;
  to.payload_octets = from.payload_octets;
  to.header = from.header;
  std::copy_n(from.spans.begin(), from.span_count, to.spans.begin());
}

HeldFrames::HeldFrames(std::size_t capacity)
    : slots_(capacity), payloads_(new std::uint8_t[capacity * kHeldPayloadOctetsMax]) {
  free_.reserve(capacity);
  for (std::size_t i = capacity; i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
}

HeldFrames::Held HeldFrames::hold(const Frame& frame) {
  if (frame.payload_octets > kHeldPayloadOctetsMax) return {Verdict::kTooLong};
  if (free_.empty()) return {Verdict::kFull};
  const std::uint32_t index = free_.back();
  Slot& slot = slots_[index];
  std::uint8_t* const payload = payloads_.get() + index * kHeldPayloadOctetsMax;
  std::size_t copied = 0;
  for (std::size_t i = 0; i < frame.span_count; ++i) {
    const objects::PayloadSpan& span = frame.spans[i];
    RRDMA_ASSERT(copied + span.length <= frame.payload_octets);
    if (span.length != 0 && !guarded_copy(payload + copied, span.data, span.length))
      return {Verdict::kUnreadable};
    copied += span.length;
  }
  free_.pop_back();
  slot.path = *frame.path;
  slot.frame.clear();
  slot.frame.path = &slot.path;
  slot.frame.header_octets = frame.header_octets;
  slot.frame.header = frame.header;
  slot.frame.pad = frame.pad;
  slot.frame.corrupt_bit = frame.corrupt_bit;
  slot.frame.faults = frame.faults;
  slot.frame.fault_rule = frame.fault_rule;
  if (copied != 0) slot.frame.add_span(payload, copied);
  return {Verdict::kHeld, &slot.frame};
}

void HeldFrames::release(Frame* frame) {
  // The frame is the first member of its slot.
  const auto index = reinterpret_cast<const Slot*>(frame) - slots_.data();
  RRDMA_ASSERT(index >= 0 && static_cast<std::size_t>(index) < slots_.size() && free_.size() < slots_.size());
  free_.push_back(static_cast<std::uint32_t>(index));
}

}  // namespace rrdma::link
