/* Opens a library that only this program's RUNPATH leads to. The dlopen hook must not become the caller,
 * because the dynamic linker uses the caller's RUNPATH. */
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
  void* library = dlopen("librrdma_runpath_target.so", RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int (*answer)(void) = (int (*)(void))dlsym(library, "rrdma_runpath_answer");
  return answer != NULL && answer() == 42 ? 0 : 1;
}
