/* Opens a library that only the RUNPATH of this program leads to: a hook of dlopen must not be seen as the
   caller. */
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
