/* A library that looks for devices while it is loaded, before libraries that it does not depend on are
 * initialized. Providers of libfabric do this. */
#include <dirent.h>
#include <stddef.h>

__attribute__((constructor)) static void look(void) {
  DIR* folder = opendir("/sys/class/infiniband");
  if (folder != NULL) closedir(folder);
}

int early(void);
int early(void) { return 0; }
