/* What runpath_caller.c looks for. */
int rrdma_runpath_answer(void);
int rrdma_runpath_answer(void) { return 42; }
