#include "kernel/regions.h"

#include <cerrno>

namespace rrdma::kernel {
namespace {

constexpr std::uint32_t kWritingRights =
    objects::kLocalWrite | objects::kRemoteWrite | objects::kRemoteAtomic | objects::kWindowBind;
constexpr std::uint32_t kKnownRights = objects::kLocalWrite | objects::kRemoteWrite | objects::kRemoteRead |
                                       objects::kRemoteAtomic | objects::kWindowBind;

void* as_pointer(std::uint64_t place) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(place)); }

}  // namespace

objects::ProtectionDomain& Regions::domain(std::uint32_t handle) {
  std::unique_ptr<Domain>& domain = domains_[handle];
  if (domain == nullptr) {
    domain = std::make_unique<Domain>();
    domain->domain.handle = handle;
  }
  return domain->domain;
}

void Regions::end_domain(std::uint32_t handle) {
  const auto found = domains_.find(handle);
  if (found == domains_.end()) return;
  if (found->second->grants != nullptr && table_.deregister(*found->second->grants))
    found->second->grants = nullptr;
  if (found->second->domain.users == 0) domains_.erase(found);
}

std::uint32_t Regions::grant_key(std::uint32_t handle) {
  (void)domain(handle);
  Domain& of = *domains_[handle];
  if (of.grants == nullptr) {
    const auto region = table_.register_region({.pd = &of.domain,
                                                .host = as_pointer(RRDMA_GRANT_BASE),
                                                .length = RRDMA_GRANT_BASE,
                                                .address = RRDMA_GRANT_BASE,
                                                .access = objects::kLocalWrite,
                                                .kind = kind_});
    if (!region) return 0;
    of.grants = *region;
  }
  return of.grants->key;
}

int Regions::add(std::uint32_t handle, const rrdma_register& form, std::uint32_t& key) {
  if (regions_.contains(handle)) return -EEXIST;
  const bool writable = (form.access & kWritingRights) != 0;
  Mapping memory = channel_.map(RRDMA_REGION_PAGE(handle), std::size_t{form.pages} * kPageOctets, writable);
  if (!memory) return -errno;
  const auto region = table_.register_region({.pd = &domain(form.pd),
                                              .host = memory.data() + form.first_offset,
                                              .length = form.length,
                                              .address = form.address,
                                              .access = form.access & kKnownRights});
  if (!region) return region.error() == objects::MemoryError::kTooManyKeys ? -ENOMEM : -EINVAL;
  key = (*region)->key;
  regions_[handle] = {.memory = std::move(memory), .region = *region, .fast = false};
  return 0;
}

int Regions::add_fast(std::uint32_t handle, const rrdma_register& form, std::uint32_t& key) {
  if (regions_.contains(handle)) return -EEXIST;
  const auto region = table_.register_region(
      {.pd = &domain(form.pd),
       .host = as_pointer(RRDMA_FAST_BASE | std::uint64_t{handle} << RRDMA_FAST_OFFSET_BITS),
       .length = 0,
       .access = 0,
       .kind = kind_});
  if (!region) return -ENOMEM;
  (*region)->renewable = true;
  key = (*region)->key;
  regions_[handle] = {.memory = {}, .region = *region, .fast = true};
  return 0;
}

bool Regions::fill_renewal(const RxeSend& from, objects::SendEntry& to) const {
  const auto& form = from.registration;
  const auto found = regions_.find(form.region);
  if (found == regions_.end() || !found->second.fast) return false;
  to.opcode = objects::SendOpcode::kRenewRegion;
  to.rkey = {form.key};
  to.remote_address =
      (RRDMA_FAST_BASE | std::uint64_t{form.region} << RRDMA_FAST_OFFSET_BITS) + form.address % kPageOctets;
  to.bind = {nullptr, found->second.region, form.address, form.length, form.access & kKnownRights};
  return true;
}

int Regions::remove(std::uint32_t handle) {
  const auto found = regions_.find(handle);
  if (found == regions_.end()) return -ENOENT;
  // The kernel takes the pages back in any case.
  table_.revoke(found->second.region->key);
  if (!table_.deregister(*found->second.region)) return -EBUSY;
  regions_.erase(found);
  return 0;
}

int Regions::add_window(std::uint32_t handle, const rrdma_window& form, std::uint32_t& key) {
  if (windows_.contains(handle)) return -EEXIST;
  const auto window = table_.allocate_window(
      domain(form.pd), form.type == 1 ? objects::WindowType::kType1 : objects::WindowType::kType2);
  if (!window) return -ENOMEM;
  windows_[handle] = *window;
  key = (*window)->key;
  return 0;
}

int Regions::remove_window(std::uint32_t handle) {
  const auto found = windows_.find(handle);
  if (found == windows_.end()) return -ENOENT;
  table_.free_window(*found->second);
  windows_.erase(found);
  return 0;
}

}  // namespace rrdma::kernel
