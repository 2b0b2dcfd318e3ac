/* A library that looks for devices when it is loaded, before the libraries that nothing of its own depends on are ready:
   providers of libfabric have such. */
#include <dirent.h>
#include <stddef.h>

__attribute__((constructor)) static void look(void) {
  DIR* folder = opendir("/sys/class/infiniband");
  if (folder != NULL) closedir(folder);
}

int early(void);
int early(void) { return 0; }
