// Shared by the programs of these tests: checked steps, and opening a device by its name.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

[[noreturn]] inline void give_up(const char* step) {
  std::perror(step);
  std::exit(1);
}

template <typename T>
T* must(T* made, const char* step) {
  if (made == nullptr) give_up(step);
  return made;
}
inline void must(int error, const char* step) {
  if (error == 0) return;
  errno = error;
  give_up(step);
}

inline ibv_context* open_device(const char* name) {
  ibv_device** list = must(ibv_get_device_list(nullptr), "ibv_get_device_list");
  ibv_context* context = nullptr;
  for (ibv_device** device = list; *device != nullptr; ++device) {
    if (std::strcmp(name, ibv_get_device_name(*device)) == 0) context = ibv_open_device(*device);
  }
  ibv_free_device_list(list);
  return must(context, "no such device");
}
