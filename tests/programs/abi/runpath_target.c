/* The library that runpath_caller.c opens. */
int rrdma_runpath_answer(void);
int rrdma_runpath_answer(void) { return 42; }
