// The counter page that `rrdma stat` reads, written by a hostile process: a page made by the library,
// overwritten with bytes of the input, and changed again between two reads.
#include <linux/memfd.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/assert.h"
#include "control/process_page.h"
#include "cost.h"
#include "input.h"

namespace rrdma::process_page_fuzz {

using namespace rrdma::control;

class HostilePage {
 public:
  HostilePage() {
    const auto page = ProcessPage::create();
    RRDMA_ASSERT(page.ok());
    size_ = static_cast<std::size_t>(::lseek(page->fd(), 0, SEEK_END));
    fd_ = OwnedFd(raw::memfd_create("rrdma-process", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    RRDMA_ASSERT(raw::ftruncate(fd_.get(), static_cast<std::int64_t>(size_)) == 0);
    RRDMA_ASSERT(raw::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    base_ =
        static_cast<std::uint8_t*>(::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
    RRDMA_ASSERT(::pread(page->fd(), base_, kHead, 0) == static_cast<ssize_t>(kHead));
    std::copy_n(base_, kHead, pristine_);
  }

  // Overwrites runs of bytes: two bytes of position, one of length.
  void scribble(fuzz::Input& input, int runs) {
    for (; runs > 0 && !input.empty(); --runs) {
      const std::size_t at = std::size_t{input.word()} * 4 % kHead;
      const Octets octets = input.take(input.octet());
      std::copy_n(octets.begin(), std::min(octets.size(), kHead - at), base_ + at);
    }
  }
  void look() const {
    const auto view = ProcessPageView::open(fd_.get());
    if (!view) return;
    for (const NamedCounter& counter : view->counters()) {
      RRDMA_ASSERT(counter.name.size() <= kCounterNameMax);
      RRDMA_ASSERT(
          std::all_of(counter.name.begin(), counter.name.end(), [](char c) { return c > ' ' && c < 0x7f; }));
    }
    RRDMA_ASSERT(view->devices().size() <= kPageDeviceCapacity);
    for (const DeviceSnapshot& device : view->devices()) {
      RRDMA_ASSERT(device.name.size() <= kDeviceNameMax);
      RRDMA_ASSERT(device.counters.size() <= kPagePartCapacity);
    }
    RRDMA_ASSERT(view->queue_pairs().size() <= kPageQpCapacity);
    RRDMA_ASSERT(view->last_answers(Instant{}, seconds(2), 8).size() <= 8);
  }
  void restore() { std::copy_n(pristine_, kHead, base_); }

 private:
  static constexpr std::size_t kHead = 32768;  // the header, all counters and devices, and the first QPs
  OwnedFd fd_;
  std::size_t size_ = 0;
  std::uint8_t* base_ = nullptr;
  std::uint8_t pristine_[kHead];
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto* const page = new HostilePage;
  const fuzz::Cost cost;
  fuzz::Input input({data, size});
  page->scribble(input, 8);
  page->look();
  page->scribble(input, 1 << 20);
  page->look();
  page->restore();
  return 0;
}

}  // namespace rrdma::process_page_fuzz
