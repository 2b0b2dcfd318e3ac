/* A program that is not linked against libibverbs and loads it as NCCL does: by dlopen and dlvsym. Exits
 * with 0 if it finds, opens and queries the device rrdma0 that way.
 *
 *     door LIBRARY_NAME [local|global|deepbind]
 *
 * If the name contains librdmacm, it exits with 0 if it can create and destroy an event channel. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static void* library;

static void* find(const char* name, const char* version) {
  void* function = dlvsym(library, name, version);
  if (function == NULL) fprintf(stderr, "%s@%s: %s\n", name, version, dlerror());
  return function;
}

static int mode_of(const char* word) {
  if (strcmp(word, "global") == 0) return RTLD_GLOBAL;
  return strcmp(word, "deepbind") == 0 ? RTLD_LOCAL | RTLD_DEEPBIND : RTLD_LOCAL;
}

static int try_event_channel(void) {
  void* (*create)(void) = dlsym(library, "rdma_create_event_channel");
  void (*destroy)(void*) = dlsym(library, "rdma_destroy_event_channel");
  if (create == NULL || destroy == NULL) return 1;
  void* channel = create();
  if (channel == NULL) {
    perror("rdma_create_event_channel");
    return 1;
  }
  destroy(channel);
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  library = dlopen(argv[1], RTLD_NOW | mode_of(argc == 3 ? argv[2] : "local"));
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  if (strstr(argv[1], "librdmacm") != NULL) return try_event_channel();
  struct ibv_device** (*list_devices)(int*) = find("ibv_get_device_list", "IBVERBS_1.1");
  void (*free_list)(struct ibv_device**) = find("ibv_free_device_list", "IBVERBS_1.1");
  const char* (*name_of)(struct ibv_device*) = find("ibv_get_device_name", "IBVERBS_1.1");
  struct ibv_context* (*open_device)(struct ibv_device*) = find("ibv_open_device", "IBVERBS_1.1");
  int (*close_device)(struct ibv_context*) = find("ibv_close_device", "IBVERBS_1.1");
  int (*query)(struct ibv_context*, struct ibv_device_attr*) = find("ibv_query_device", "IBVERBS_1.1");
  const char* (*event_name)(enum ibv_event_type) = find("ibv_event_type_str", "IBVERBS_1.1");
  if (!list_devices || !free_list || !name_of || !open_device || !close_device || !query || !event_name)
    return 1;

  int count = 0;
  struct ibv_device** list = list_devices(&count);
  struct ibv_device* found = NULL;
  for (int i = 0; list != NULL && list[i] != NULL; ++i) {
    if (strcmp(name_of(list[i]), "rrdma0") == 0) found = list[i];
  }
  if (found == NULL) {
    fprintf(stderr, "rrdma0 is not among %d devices\n", count);
    return 1;
  }
  struct ibv_context* context = open_device(found);
  struct ibv_device_attr attr;
  if (context == NULL || query(context, &attr) != 0 || attr.phys_port_cnt != 1) {
    fprintf(stderr, "rrdma0 cannot be opened and queried\n");
    return 1;
  }
  close_device(context);
  free_list(list);
  /* A function that only the real library implements must resolve, too. */
  return strlen(event_name(IBV_EVENT_PORT_ACTIVE)) > 0 ? 0 : 1;
}
