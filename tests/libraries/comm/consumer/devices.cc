// A program on plain verbs: prints the names of the devices.
#include <infiniband/verbs.h>

#include <cstdio>

int main() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) std::puts(ibv_get_device_name(list[i]));
  ibv_free_device_list(list);
}
