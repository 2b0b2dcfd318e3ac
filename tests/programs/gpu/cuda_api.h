// The part of the CUDA driver API that the programs of this folder call, loaded at run time. It works with
// NVIDIA's libcuda and with the stub beside it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpu {

using Address = unsigned long long;
using Context = struct ContextRecord*;

struct Cuda {
  int (*init)(unsigned);
  int (*device)(int*, int);
  int (*retain)(Context*, int);
  int (*reset)(int);
  int (*set_current)(Context);
  int (*current)(Context*);
  int (*create_context)(Context*, unsigned, int);
  int (*destroy_context)(Context);
  int (*synchronize)();
  int (*allocate)(Address*, std::size_t);
  int (*allocate_managed)(Address*, std::size_t, unsigned);
  int (*allocate_async)(Address*, std::size_t, void*);
  int (*free)(Address);
  int (*to_device)(Address, const void*, std::size_t);
  int (*to_host)(void*, Address, std::size_t);
  int (*export_range)(void*, Address, std::size_t, int, unsigned long long);
  int (*allocate_host)(void**, std::size_t, unsigned);
  int (*create)(Address*, std::size_t, const void*, unsigned long long);
  int (*reserve)(Address*, std::size_t, std::size_t, Address, unsigned long long);
  int (*map)(Address, std::size_t, std::size_t, Address, unsigned long long);
  int (*unmap)(Address, std::size_t);
  int (*set_access)(Address, std::size_t, const void*, std::size_t);
  int (*release)(Address);

  // Null without a libcuda or without a device.
  static const Cuda* open();
};

}  // namespace gpu
