// XRC domains. Only one process can share a domain here: opening an XRCD for the same file again returns the
// same domain.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/stat.h>

#include <mutex>
#include <vector>

#include "host/explain.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/operations.h"

namespace rrdma::verbs {
namespace {

// Domains that have a file. Guarded by its mutex.
struct SharedDomains {
  std::mutex mutex;
  std::vector<XrcDomain*> list;
};

SharedDomains& shared_domains() {
  static auto* const domains = new SharedDomains;
  return *domains;
}

XrcDomain* make_domain(ibv_context* context) {
  auto* domain = new XrcDomain{};
  domain->context = context;
  Place("ibv_open_xrcd", ObjectKind::kXrcDomain, context).settle<ibv_xrcd>(domain);
  return domain;
}

ibv_xrcd* open_shared(ibv_context* context, const ibv_xrcd_init_attr& attr) {
  constexpr const char* kCall = "ibv_open_xrcd";
  struct stat file {};
  if (fstat(attr.fd, &file) != 0) {
    host::fail(EINVAL, kCall, "fd is not an open file; -1 means a domain of this program alone.");
    return nullptr;
  }
  SharedDomains& shared = shared_domains();
  std::lock_guard lock(shared.mutex);
  for (XrcDomain* known : shared.list) {
    if (known->context != context || known->device != file.st_dev || known->inode != file.st_ino) continue;
    if ((attr.oflags & O_EXCL) != 0) {
      host::fail(EINVAL, kCall, "O_EXCL was given and the domain of that file exists.");
      return nullptr;
    }
    ++known->opens;
    return known;
  }
  if ((attr.oflags & O_CREAT) == 0) {
    host::fail(EAGAIN, kCall, "there is no domain for that file yet; pass O_CREAT in oflags to make it.");
    return nullptr;
  }
  XrcDomain* domain = make_domain(context);
  domain->fd = attr.fd;
  domain->device = file.st_dev;
  domain->inode = file.st_ino;
  shared.list.push_back(domain);
  return domain;
}

}  // namespace

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr) {
  if (inject("ibv_open_xrcd", context) != 0) return nullptr;
  constexpr const char* kCall = "ibv_open_xrcd";
  constexpr std::uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (attr->comp_mask != kNeeded) {
    host::fail(EINVAL, kCall, "comp_mask must be IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS.");
    return nullptr;
  }
  if (attr->fd != -1) return open_shared(context, *attr);
  if ((attr->oflags & O_CREAT) == 0) {
    host::fail(EINVAL, kCall, "without a file, oflags must contain O_CREAT.");
    return nullptr;
  }
  return make_domain(context);
}

int close_xrcd(ibv_xrcd* abi) {
  if (const int error = refuse_unless_live("ibv_close_xrcd", abi, validity_of(abi)); error != 0) return error;
  XrcDomain& domain = own(abi);
  if (own(abi->context).forked()) return refuse_forked("ibv_close_xrcd");
  SharedDomains& shared = shared_domains();
  std::lock_guard lock(shared.mutex);
  if (domain.opens > 1) {
    --domain.opens;
    return 0;
  }
  {
    std::lock_guard lane(own(abi->context).lanes->first().mutex());
    if (domain.users != 0)
      return host::fail(EBUSY, "ibv_close_xrcd", "QPs or shared receive queues of the domain still exist.");
  }
  std::erase(shared.list, &domain);
  bury(domain, abi);
  return 0;
}

}  // namespace rrdma::verbs
