/* A program whose libraries look for devices early (early.c), and which then finds one itself. */
#include <dirent.h>
#include <stdio.h>

int early_user(void);

int main(void) {
  DIR* folder = opendir("/sys/class/infiniband/rrdma0");
  if (folder == NULL) {
    fprintf(stderr, "rrdma0 is not there\n");
    return 1;
  }
  closedir(folder);
  return early_user();
}
