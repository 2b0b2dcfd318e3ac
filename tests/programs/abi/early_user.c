/* A library between the program and the library that is initialized first. */
int early(void);
int early_user(void);
int early_user(void) { return early(); }
