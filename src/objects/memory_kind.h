// MemoryKind: memory that the CPU cannot touch, such as a GPU's, and how bytes get there and back. Ordinary
// memory has no kind: the engine reads and writes it itself. One implementation for each kind lives above
// this folder and is handed in through MemoryTable::add_kind(); objects/staging.h is its only user on the
// data path.
//
// An address of such memory is a number. Nothing below an implementation may dereference it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "objects/atomic_call.h"
#include "objects/far_memory.h"

namespace rrdma::objects {

// A queue of copies between one kind of memory and ordinary memory. Copies take effect in the order in which
// they began. Threads: one at a time (the owner of the lane), not always the same one.
class CopyLine {
 public:
  using Mark = std::uint64_t;

  virtual ~CopyLine() = default;
  // Tells the line the buffers that it will copy from and to, so that it can prepare them. A line that takes
  // long to undo this keeps the buffers until then.
  virtual void prepare(const std::shared_ptr<std::uint8_t[]>& buffers, std::size_t octets) = 0;
  // Begin a copy. `near` must stay as it is until the copy has ended. False: the memory cannot be reached
  // (any more), and nothing was begun.
  [[nodiscard]] virtual bool begin_read(std::uint8_t* near, std::uint64_t away, std::size_t octets) = 0;
  [[nodiscard]] virtual bool begin_write(std::uint64_t away, const std::uint8_t* near,
                                         std::size_t octets) = 0;
  // Names the copies that began so far.
  [[nodiscard]] virtual Mark mark() = 0;
  // Waits until the copies before the mark have ended. False: one of them failed.
  [[nodiscard]] virtual bool wait(Mark mark) = 0;
  // True: every copy fails from now on. The kind may open another line, for other memory.
  [[nodiscard]] virtual bool is_broken() const { return false; }
};

class MemoryKind {
 public:
  virtual ~MemoryKind() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Null: the memory cannot be reached (any more).
  [[nodiscard]] virtual std::unique_ptr<CopyLine> open_line() = 0;
  // Executes the operation on the word at `call.target`, atomically with respect to all other calls. False:
  // the word cannot be reached. Any thread.
  [[nodiscard]] virtual bool run_atomic(AtomicCall& call) = 0;
  // True if these bytes belong to the memory that was registered, and not to other memory that has its
  // address now. Any lane.
  [[nodiscard]] virtual bool holds(std::uint64_t, std::uint64_t) const { return true; }
  // Lets peers on this host copy from and to the memory by themselves. Null: the memory cannot be exported.
  [[nodiscard]] virtual std::unique_ptr<FarExport> export_memory(std::uint64_t, std::uint64_t) {
    return nullptr;
  }
};

}  // namespace rrdma::objects
